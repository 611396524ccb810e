package collectors

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// IRCTLS is the block of the port that the IRC server's clients connect to with TLS.
type IRCTLS struct {
	config.Target `yaml:",inline"`
	// Address is host:port; port 6697 where it has none.
	Address    string `yaml:"address"`
	config.TLS `yaml:",inline"`
}

func newIRCTLSSettings() *IRCTLS { return &IRCTLS{} }

// ircTLSPort is where clients connect to an IRC server with TLS.
const ircTLSPort = "6697"

// Environ implements config.Settings. No variable of the stack names the address: the host of another service's would
// be a guess.
func (s *IRCTLS) Environ(e *config.Env) { e.TLS("IRC_TLS", &s.TLS) }

// Configured implements config.Settings.
func (s *IRCTLS) Configured() bool { return s.Address != "" }

// Check implements config.Settings.
func (s *IRCTLS) Check(r *config.Report) {
	checkAddress(r, s.Address, ircTLSPort)
	s.TLS.Check(r)
}

// ircTLSInterval is what leaves room below the 3 connections in 60 s that a stock UnrealIRCd lets an address make.
const ircTLSInterval = 30 * time.Second

// LeastInterval implements config.Sparing.
func (s *IRCTLS) LeastInterval() time.Duration { return ircTLSInterval }

// Warnings implements config.Warner.
func (s *IRCTLS) Warnings() []string {
	warnings := s.TLS.Warnings()
	schedule, err := config.ParseSchedule(s.Schedule)
	if err != nil {
		return warnings
	}
	next := schedule.Next(time.Now())
	if gap := schedule.Next(next).Sub(next); gap < ircTLSInterval && !isLoopback(s.Address) {
		warnings = append(warnings, fmt.Sprintf("schedule asks every %s, but a stock UnrealIRCd lets one address connect 3 times in 60 s; "+
			"exempt the exporter's address there, or write at least %q", gap, "@every "+ircTLSInterval.String()))
	}
	return warnings
}

// isLoopback reports whether an address is this machine's own, which IRC servers do not throttle.
func isLoopback(address string) bool {
	host := hostOf(address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ircTLS asks the IRC server for its capabilities, the cheapest real answer, and leaves. It does not register, so it is
// no user; but the server counts the connection, and throttles addresses that connect too often.
type ircTLS struct {
	server tlsServer
	// throttled is when the server last said that it throttles this address; zero since it answered otherwise.
	throttled time.Time
}

// LeastInterval implements Sparing.
func (c *ircTLS) LeastInterval() time.Duration { return ircTLSInterval }

func newIRCTLS(s *IRCTLS, _ Deps) (Collector, error) {
	return &ircTLS{server: tlsServer{address: withPort(s.Address, ircTLSPort), trust: s.TLS}}, nil
}

// Collect implements Collector.
func (c *ircTLS) Collect(ctx context.Context, b *Batch) error {
	err := c.ask(ctx, b)
	switch {
	case err != nil && failure.ReasonOf(err) == failure.Throttled:
		c.throttled = time.Now()
	case err != nil && failure.ReasonOf(err) == failure.Closed && !c.throttled.IsZero() && time.Since(c.throttled) < throttleMemory:
		// A server that throttles resets some connections before its reason arrives.
		return failure.Errorf(failure.Throttled, "the server throttled this address shortly before: %w", err).WithHint(throttleHint)
	default:
		c.throttled = time.Time{}
	}
	return err
}

func (c *ircTLS) ask(ctx context.Context, b *Batch) error {
	return c.server.session(ctx, b, func(conn *tls.Conn) error {
		// The server is silent until it is spoken to.
		if _, err := io.WriteString(conn, "CAP LS 302\r\n"); err != nil {
			return fmt.Errorf("send CAP LS: %w", err)
		}
		if err := awaitCapabilities(conn); err != nil {
			return err
		}
		// The answer came, so nothing that happens to the goodbye matters.
		io.WriteString(conn, "QUIT\r\n") //nolint:errcheck // see above
		return nil
	})
}

const (
	// throttleMemory is for how long after a throttled connection a reset counts as throttled, too: longer than the minute
	// for which a server counts connections.
	throttleMemory = 90 * time.Second
	throttleHint   = "the IRC server limits how often one address may connect (UnrealIRCd: 3 times in 60 s). " +
		"In its configuration, exempt the exporter's address: except ban { mask IP; type { connect-flood; } } (it needs the type). " +
		"Check that nothing else behind that address connects, such as a second exporter"
)

const (
	// maxIRCLine bounds one line: 8191 bytes of tags, 512 of the message.
	maxIRCLine = 8191 + 512
	// maxIRCLines is how many lines may come before the answer.
	maxIRCLines = 100
)

// awaitCapabilities reads lines until the answer to CAP LS; notices and pings before it are nothing to answer.
func awaitCapabilities(r io.Reader) error {
	lines := bufio.NewReaderSize(r, maxIRCLine)
	for range maxIRCLines {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return failure.Errorf(failure.TooLarge, "await the answer to CAP LS: a line of more than %d bytes", maxIRCLine)
		}
		if err != nil {
			return notIRC(line, err)
		}
		if protocolOf(line) == speaksHTTP || protocolOf(line) == speaksXMPP {
			return notIRC(line, nil)
		}
		if done, err := judgeIRC(strings.TrimRight(string(line), "\r\n")); done || err != nil {
			return err
		}
	}
	return failure.Errorf(failure.TooLarge, "await the answer to CAP LS: more than %d other lines", maxIRCLines)
}

// ircCommand is what a command of IRC looks like: a word or three digits.
var ircCommand = regexp.MustCompile(`^([A-Za-z]+|[0-9]{3})$`)

// judgeIRC reports whether a line is the answer.
func judgeIRC(line string) (done bool, err error) {
	command, params := splitIRC(line)
	switch {
	case line == "":
		return false, nil
	case !ircCommand.MatchString(command):
		return false, failure.Errorf(failure.Malformed, "await the answer to CAP LS: a line that is not IRC")
	case strings.EqualFold(command, "ERROR"):
		return false, refusedByIRC(strings.TrimPrefix(params, ":"))
	case command == "CAP":
		fields := strings.Fields(params)
		return len(fields) >= 2 && fields[1] == "LS", nil
	case command == "421", command == "451":
		// A server without capabilities that says so is a server that lives.
		return true, nil
	default:
		return false, nil
	}
}

// throttling is how IRC servers say that an address connects too often.
var throttling = regexp.MustCompile(`(?i)throttled|reconnect(ing)? too fast`)

// refusedByIRC is the failure of a connection that the server ends with an ERROR line.
func refusedByIRC(cause string) error {
	reason, hint := failure.Mismatch, "the IRC server bans this address or has too many connections from it: exempt the exporter's address by except ban, or raise maxperip of its allow block"
	if throttling.MatchString(cause) {
		reason, hint = failure.Throttled, throttleHint
	}
	return failure.Errorf(reason, "the server refuses the connection: %s", failure.OneLine(cause)).WithHint(hint)
}

// splitIRC takes tags and source off a line.
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
