package exchange

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

const (
	// maxIRCLine bounds one line: 8191 bytes of tags, 512 of the message.
	maxIRCLine = 8191 + 512
	// maxIRCLines is how many lines may come before the answer.
	maxIRCLines = 100
)

// AwaitIRCCapabilities reads lines until the answer to CAP LS. It skips notices and pings. A ban by 465 is complete only with the
// ERROR line after it; if that does not come, 465 counts.
func AwaitIRCCapabilities(r io.Reader) error {
	lines := bufio.NewReaderSize(r, maxIRCLine)
	var refused error
	for range maxIRCLines {
		raw, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return failure.Errorf(failure.TooLarge, "await the answer to CAP LS: a line of more than %d bytes", maxIRCLine)
		}
		line := strings.TrimRight(string(raw), "\r\n")
		command, params := splitIRC(line)
		if strings.EqualFold(command, "ERROR") && params != "" { // even without a line end
			return EndedByIRC(refused, strings.TrimPrefix(params, ":"))
		}
		if command == "465" {
			_, words, _ := strings.Cut(params, " :")
			refused = BannedByIRC(words)
		}
		if err != nil {
			return cmp.Or(refused, notIRC(raw, err))
		}
		if protocolOf(raw) == speaksHTTP || protocolOf(raw) == speaksXMPP {
			return notIRC(raw, nil)
		}
		if done, err := judgeIRC(line); done || err != nil {
			return err
		}
	}
	return failure.Errorf(failure.TooLarge, "await the answer to CAP LS: more than %d other lines", maxIRCLines)
}

// ircCommand is what a command of IRC looks like: a word or three digits.
var ircCommand = regexp.MustCompile(`^([A-Za-z]+|[0-9]{3})$`)

// judgeIRC reports whether a line is the answer to CAP LS.
func judgeIRC(line string) (done bool, err error) {
	command, params := splitIRC(line)
	switch {
	case line == "":
		return false, nil
	case !ircCommand.MatchString(command):
		return false, failure.Errorf(failure.Malformed, "await the answer to CAP LS: a line that is not IRC")
	case command == "CAP":
		fields := strings.Fields(params)
		return len(fields) >= 2 && fields[1] == "LS", nil
	case command == "421", command == "451":
		// An IRC server that does not know CAP is alive, too.
		return true, nil
	default:
		return false, nil
	}
}

// RefusedByIRC returns the failure of a connection that the server refuses or ends with these words, of an ERROR line or of 465.
func RefusedByIRC(words string) error {
	failed := failure.Errorf(failure.Mismatch, "the server refuses the connection: %s", failure.OneLine(words))
	if failure.LimitsAddress(words) {
		failed.Reason = failure.Throttled
		return failed.WithHint(LimitHint(""))
	}
	return failed.WithHint("the IRC server refuses the connection for the reason that it names: read its log")
}

// BannedByIRC returns the failure of a numeric 465, which means a ban whatever its words. Read on before using it: the ERROR line that
// follows says more.
func BannedByIRC(words string) error {
	return failure.Errorf(failure.Throttled, "the server bans this address: %s", failure.OneLine(words)).WithHint(LimitHint(""))
}

// EndedByIRC returns the failure of a connection that the server ends with the words of an ERROR line. banned is that of a numeric 465
// before it, nil if there was none.
func EndedByIRC(banned error, words string) error {
	if banned != nil && !failure.LimitsAddress(words) {
		return banned
	}
	return RefusedByIRC(words)
}

// splitIRC returns a line's command and parameters, without tags and source.
func splitIRC(line string) (command, params string) {
	for _, mark := range []string{"@", ":"} {
		if strings.HasPrefix(line, mark) {
			_, line, _ = strings.Cut(line, " ")
			line = strings.TrimLeft(line, " ")
		}
	}
	command, params, _ = strings.Cut(line, " ")
	return command, params
}

// notIRC is the failure of a server that speaks TLS and does not answer CAP LS in IRC. First is the beginning of its answer.
func notIRC(first []byte, err error) error {
	const port = "set address to the TLS port of the IRC server's clients, 6697 by default"
	switch protocolOf(first) {
	case speaksHTTP:
		return failure.Errorf(failure.Malformed, "await the answer to CAP LS: the server speaks HTTP").
			WithHint(port + "; this is the port of a web server or of the IRC server's RPC (8600)")
	case speaksXMPP:
		return failure.Errorf(failure.Malformed, "await the answer to CAP LS: the server speaks XMPP").
			WithHint(port + "; this is a port of an XMPP server")
	default:
		err = fmt.Errorf("await the answer to CAP LS: %w", err)
		reason := failure.ReasonOf(err)
		if len(first) > 0 || reason != failure.Closed && reason != failure.Timeout {
			return err
		}
		return failure.Errorf(reason, "%w", err).
			WithHint("TLS works, but no answer comes: if this is the port of the IRC server's RPC (8600) or of something else, " + port +
				"; else the server hangs or restarts: read its log")
	}
}
