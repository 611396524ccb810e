package exchange

import "strings"

// inspIRCdNote tells people what InspIRCd's module connectban does, before it bans anybody. The module is optional, so it only may.
const inspIRCdNote = "the IRC server is InspIRCd, whose module connectban may allow an address 10 connections an hour, and then ban it for " +
	"6 hours: targets there without a schedule share 6 an hour. Exempt the exporter's address by <connect ... useconnectban=\"no\">, and set schedule"

// inspIRCdPerHour is how many connections an hour InspIRCd may allow.
const inspIRCdPerHour = 10

// RecogniseIRCServer notes which server answers if a line shows it: InspIRCd in its capabilities, or in its version after the login.
func (r *Record) RecogniseIRCServer(command, params string) {
	switch command {
	case "CAP":
		if !strings.Contains(params, " inspircd.org/") {
			return
		}
	case "002", "004":
		if !strings.Contains(params, " InspIRCd-") {
			return
		}
	default:
		return
	}
	r.ConnectionsPerHour = inspIRCdPerHour
	r.NoteOnce(inspIRCdNote)
}

// RecogniseIRCLines calls RecogniseIRCServer for each line.
func (r *Record) RecogniseIRCLines(lines string) {
	for line := range strings.Lines(lines) {
		r.RecogniseIRCServer(splitIRC(line))
	}
}
