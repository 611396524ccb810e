package collectors

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
)

// IRCTLS is the block of the port that the IRC server's clients connect to with TLS.
type IRCTLS struct {
	config.Target     `yaml:",inline"`
	Endpoint          `yaml:",inline"` // with port 6697 where it has none
	config.Connection `yaml:",inline"`
	config.TLS        `yaml:",inline"`
}

// ircTLSPort is where clients connect to an IRC server with TLS.
const ircTLSPort = "6697"

// Environ implements config.Settings. No variable of the stack contains the address.
func (s *IRCTLS) Environ(e *config.Env) { e.TLS("IRC_TLS", &s.TLS) }

// Check implements config.Settings.
func (s *IRCTLS) Check(r *config.Report) {
	exchange.CheckAddress(r, s.Address, ircTLSPort)
	s.CheckConnection(r)
	s.TLS.Check(r)
}

// ircInterval stays below the 3 connections per address in 60 s that a stock UnrealIRCd allows.
const ircInterval = 30 * time.Second

// connectDuty is to connect to an IRC server, which counts connections by address.
var connectDuty = &config.Duty{
	Infinitive:     "connect to the IRC server's TLS port, which limits connections per address",
	ThirdPerson:    "checks the IRC server's TLS port",
	AdviceForOther: "set pair: other here",
	AdviceForAll:   "set pair: other in all but one, unless they reach the IRC server from different addresses",
}

// Warnings implements config.Settings.
func (s *IRCTLS) Warnings() []string {
	warnings := s.TLS.Warnings()
	schedule, err := config.ParseSchedule(s.Schedule)
	if err != nil {
		return warnings
	}
	next := schedule.Next(time.Now())
	if gap := schedule.Next(next).Sub(next); gap < ircInterval && !IsLoopback(s.Address) {
		warnings = append(warnings,
			fmt.Sprintf("schedule connects every %s, but a stock UnrealIRCd allows 3 connections per address in 60 s; "+
				"exempt the exporter's address there, or write at least %q", gap, "@every "+ircInterval.String()))
	}
	return warnings
}

// IsLoopback reports whether an address is loopback, which IRC servers do not throttle.
func IsLoopback(address string) bool {
	host := config.HostOf(address)
	ip := net.ParseIP(host)
	return exchange.SameHost(host, "localhost") || ip != nil && ip.IsLoopback()
}

// ircTLS asks the IRC server for its capabilities, the cheapest real answer, and leaves. It never becomes a user, but the
// server counts the connection and throttles addresses that connect too often.
type ircTLS struct {
	server  exchange.TLSServer
	product productMemory
}

func newIRCTLS(s *IRCTLS, _ Deps) (Collector, error) {
	return &ircTLS{server: exchange.TLSServer{
		Address:    exchange.WithPort(s.Address, ircTLSPort),
		Connection: s.Connection,
		IRC:        true,
		Trust:      s.TLS,
	}}, nil
}

// Collect implements Collector.
func (c *ircTLS) Collect(ctx context.Context, b *Batch) error {
	return c.product.advise(b, c.ask(ctx, b))
}

func (c *ircTLS) ask(ctx context.Context, b *Batch) error {
	return c.server.Converse(ctx, &b.Record, func(conn *tls.Conn) error {
		// The client speaks first.
		if _, err := io.WriteString(conn, "CAP LS 302\r\n"); err != nil {
			return fmt.Errorf("send CAP LS: %w", err)
		}
		var answer strings.Builder
		err := exchange.AwaitIRCCapabilities(io.TeeReader(conn, &answer))
		b.RecogniseIRCLines(answer.String())
		if err != nil {
			return err
		}
		// The answer is here: a failed QUIT does not matter.
		io.WriteString(conn, "QUIT\r\n") //nolint:errcheck // see above
		return nil
	})
}
