package collectors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// TCP is the block of anything that listens on a TCP port.
type TCP struct {
	config.Target     `yaml:",inline"`
	Endpoint          `yaml:",inline"`
	config.Connection `yaml:",inline"`
	// Send is sent after connecting, if set.
	Send string `yaml:"send"`
	// Expect is a regular expression that the answer must match. By default, an accepted connection is enough.
	Expect string `yaml:"expect"`
}

// Warnings implements config.Settings.
func (s *TCP) Warnings() []string { return nil }

// Check implements config.Settings.
func (s *TCP) Check(r *config.Report) {
	exchange.CheckAddress(r, s.Address, "")
	s.CheckConnection(r)
	checkPattern(r, "expect", s.Expect)
}

// tcp connects, sends a text if configured, and matches the answer.
type tcp struct {
	*TCP
	expect *regexp.Regexp // nil for any answer
}

func newTCP(s *TCP, _ Deps) (Collector, error) {
	expect, err := pattern(s.Expect)
	return &tcp{s, expect}, err
}

// Collect implements Collector.
func (c *tcp) Collect(ctx context.Context, b *Batch) error {
	ctx, timing := b.Begin(ctx, "connect to "+c.Address)
	err := c.converse(ctx, timing)
	timing.End("end", err)
	return err
}

func (c *tcp) converse(ctx context.Context, timing *exchange.Timing) error {
	conn, err := exchange.Dial(ctx, c.Connection, "tcp", c.Address)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.Address, err)
	}
	defer conn.Close()                                      //nolint:errcheck // the answer is already read
	stop := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck,gosec // wakes the reader
	defer stop()
	heard := exchange.Hear(conn)
	spoken := net.Conn(heard)
	if c.expect == nil {
		spoken = conn // nothing is read, so a failed write is the failure
	}
	if c.Send != "" {
		if _, err := io.WriteString(spoken, c.Send); err != nil {
			return fmt.Errorf("write to %s: %w", c.Address, exchange.PreferContextError(ctx, err))
		}
	}
	if c.expect == nil {
		return nil
	}
	err = c.hear(ctx, heard, timing)
	if err != nil && heard.Refusal() != nil {
		return failure.Errorf(failure.Throttled, "read from %s: the server limits or bans this address", c.Address).
			WithHint(exchange.LimitHint(""))
	}
	return exchange.WithHeader(err, heard, c.Connection)
}

// maxHeard bounds how many bytes are read until they match.
const maxHeard = 16 << 10

// hear reads until the bytes match or the deadline passes.
func (c *tcp) hear(ctx context.Context, conn net.Conn, timing *exchange.Timing) error {
	heard := make([]byte, 0, maxHeard)
	for len(heard) < maxHeard {
		n, err := conn.Read(heard[len(heard):maxHeard])
		if n > 0 && len(heard) == 0 {
			timing.Phase("first_byte")
		}
		heard = heard[:len(heard)+n]
		if c.expect.Match(heard) {
			return nil
		}
		if err != nil && len(heard) == 0 {
			return fmt.Errorf("read from %s: %w", c.Address, exchange.PreferContextError(ctx, err))
		}
		if err != nil {
			if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return ctx.Err()
			}
			break
		}
	}
	return failure.Errorf(failure.Mismatch, "read from %s: nothing in %s matches expect", c.Address, wording.Count(len(heard), "byte")).
		WithHint("something answers there, but not what expect describes: another service may have the port")
}
