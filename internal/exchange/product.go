package exchange

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
)

// Product is the software of a server that showed it: over IRC in its banner or capabilities, over HTTP in its header or page. "" is
// unknown. The words of a refusal on IRC show nothing: servers copy them from each other. XMPP servers show theirs only to users who are
// logged in.
type Product string

// The products that advice is about.
const (
	UnrealIRCd Product = "UnrealIRCd"
	InspIRCd   Product = "InspIRCd"
	NgIRCd     Product = "ngIRCd"
	Ergo       Product = "Ergo"
	Solanum    Product = "Solanum"
	Prosody    Product = "Prosody"
	Atheme     Product = "Atheme"
)

// ProductOf returns the product that an HTTP answer shows. Prosody names itself nowhere, but its pages of errors have a style of their
// own, its metrics its name, and it alone sends a challenge in the header Authorization. A proxy replaces Server, so the page counts first.
func ProductOf(header http.Header, body []byte) Product {
	server := header.Get("Server")
	switch {
	case bytes.Contains(body, []byte("p.extra{font-size:large;font-family:courier}")), bytes.Contains(body, []byte("# TYPE prosody_")),
		header.Get("Authorization") != "":
		return Prosody
	case strings.HasPrefix(server, "Atheme/"):
		return Atheme
	case strings.HasPrefix(server, "UnrealIRCd"):
		return UnrealIRCd
	}
	return ""
}

// IfFrom returns the advice if the answer shows that product, else "".
func (a *Answer) IfFrom(p Product, advice string) string {
	if ProductOf(a.Header, a.Body) != p {
		return ""
	}
	return advice
}

// exemptions say how each product exempts an address. TARGETS.md explains them.
var exemptions = map[Product]string{
	UnrealIRCd: "UnrealIRCd allows 3 connections of one address in 60 s by default: " +
		"exempt the exporter's address with except ban { mask IP; type { connect-flood; } } (it needs the type)",
	InspIRCd: `InspIRCd's connectban may allow 10 connections of one address in an hour: exempt the exporter's address with <connect ` +
		`allow="IP" parent="main" useconnectban="no">, and with <exception host="*@IP" reason="exporter"> from bans that are in force`,
	NgIRCd: "ngIRCd limits the connections of one address at the same time: raise MaxConnectionsIP in its section [Limits]; " +
		"it exempts no address",
	Ergo:    "exempt the exporter's address with server.ip-limits.exempted in Ergo's configuration",
	Solanum: `exempt the exporter's address with exempt { ip = "IP"; }; in Solanum's configuration`,
}

// LimitHint says what to do about a server that limits or bans this address. It names a product only if p is known.
func LimitHint(p Product) string {
	hint, ok := exemptions[p]
	if !ok {
		hint = "the server limits how often one address may connect or fail to log in, or bans it: exempt the exporter's address there; " +
			"TARGETS.md has the syntax of several servers under Connection limits"
	}
	return hint + ". Check that nothing else behind that address connects, such as a second exporter"
}

// ircProducts match the capabilities and version strings of products.
var ircProducts = []struct {
	product Product
	shown   *regexp.Regexp
}{
	{UnrealIRCd, regexp.MustCompile(`(?i)\bunrealircd\.org/|\bunreal(ircd)?-?[0-9]`)},
	{InspIRCd, regexp.MustCompile(`(?i)\binspircd\.org/|\binspircd-?[0-9]`)},
	{NgIRCd, regexp.MustCompile(`(?i)\bngircd-[0-9]`)},
	{Ergo, regexp.MustCompile(`(?i)\b(ergo\.chat|oragono\.io)/|\b(ergo|oragono)-v?[0-9]`)},
	{Solanum, regexp.MustCompile(`(?i)\bsolanum\.chat/|\bsolanum-[0-9]`)},
}

// inspIRCdNote tells people what connectban does before it bans anybody. The module is optional, so it only may.
const inspIRCdNote = "the IRC server is InspIRCd, whose module connectban may allow an address 10 connections an hour, " +
	"and then ban it for 6 hours: targets there without a schedule share 6 an hour, so an outage may be noticed only after 10 minutes " +
	"for each of them. Exempt the exporter's address by <connect ... useconnectban=\"no\">, and set schedule"

// inspIRCdPerHour is how many connections an hour InspIRCd may allow.
const inspIRCdPerHour = 10

// RecogniseIRCServer notes which product answers if a line shows it: its capabilities (CAP LS), or its version after the login.
func (r *Record) RecogniseIRCServer(command, params string) {
	switch command {
	case "CAP", "002", "004", "351":
		for _, p := range ircProducts {
			if !p.shown.MatchString(params) {
				continue
			}
			if r.Product = p.product; r.Product == InspIRCd {
				r.ConnectionsPerHour = inspIRCdPerHour
				r.NoteOnce(inspIRCdNote)
			}
		}
	}
}

// RecogniseIRCLines calls RecogniseIRCServer for each line.
func (r *Record) RecogniseIRCLines(lines string) {
	for line := range strings.Lines(lines) {
		r.RecogniseIRCServer(splitIRC(line))
	}
}
