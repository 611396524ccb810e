package collectors

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// relayed is a relay check of a simulated stack.
type relayed struct {
	t     *testing.T
	stack *simstack.Stack
	relay *relayProbe
	batch *Batch
}

func relaySettings(stack *simstack.Stack) *Relay {
	s := newRelaySettings()
	s.Name, s.Deadline = "bridge", config.Duration(500*time.Millisecond)
	s.IRC.Address, s.IRC.User, s.IRC.Password, s.IRC.Channel, s.IRC.CAFile = stack.IRCAddress(), simstack.RelayUser, config.NewSecret(simstack.RelayPassword), simstack.RelayChannel, stack.CAFile()
	s.XMPP.Address, s.XMPP.User, s.XMPP.Password = stack.XMPPClientAddress(), simstack.RelayUser+"@"+simstack.XMPPDomain, config.NewSecret(simstack.RelayPassword)
	s.XMPP.Room, s.XMPP.CAFile = simstack.RelayRoom, stack.CAFile()
	return s
}

func startRelayed(t *testing.T) *relayed {
	t.Helper()
	stack, err := simstack.Start(simstack.Options{Slow: 600 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stack.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := newRelay(relaySettings(stack), Deps{Log: slog.New(slog.DiscardHandler), State: &memory{}})
	if err != nil {
		t.Fatal(err)
	}
	r := &relayed{t: t, stack: stack, relay: c.(*relayProbe)}
	for _, s := range r.relay.sides {
		s.keeper.Retry = backoff.NewConstantBackOff(300 * time.Millisecond)
	}
	ctx, stop := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { r.relay.Follow(ctx, func() {}) })
	t.Cleanup(func() { stop(); following.Wait() })
	return r
}

// probe runs one probe and returns the reason of its failure, "" for none.
func (r *relayed) probe() failure.Reason {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	r.batch = &Batch{Target: "bridge"}
	if err := r.relay.Collect(ctx, r.batch); err != nil {
		return failure.ReasonOf(err)
	}
	return ""
}

// well probes until the messages arrive.
func (r *relayed) well() {
	r.t.Helper()
	for range 100 {
		if r.probe() == "" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.t.Fatalf("messages do not cross again: %v", r.batch.Notes)
}

func (r *relayed) fault(name string, on bool) {
	r.t.Helper()
	if err := r.stack.Switch("bridge", name, on); err != nil {
		r.t.Fatal(err)
	}
}

// outcomes are those of one way, such as "delivered 2, lost 1".
func (r *relayed) outcomes(from string) string {
	r.relay.mu.Lock()
	defer r.relay.mu.Unlock()
	var list []string
	for _, w := range r.relay.ways {
		for _, outcome := range relayOutcomes {
			if n := w.outcomes[outcome]; w.from.name == from && n > 0 {
				list = append(list, fmt.Sprintf("%s %d", outcome, n))
			}
		}
	}
	return strings.Join(list, ", ")
}

// TestRelayTellsWhatTheBridgeDoes switches each fault on for two probes, and off for two.
func TestRelayTellsWhatTheBridgeDoes(t *testing.T) {
	for _, tt := range []struct {
		fault       string
		reason      failure.Reason // of each probe
		at          string         // for both ways, "" if messages arrive
		irc, xmpp   string         // outcomes after all
		alsoOneSide bool           // only messages from IRC fail
	}{
		{"frozen", failure.NotDelivered, atBridge, "delivered 3, late 1, lost 1", "delivered 3, late 1, lost 1", false},
		{"only_to_irc", failure.NotDelivered, atBridge, "delivered 3, lost 2", "delivered 5", true},
		{"only_to_xmpp", failure.NotDelivered, "", "delivered 5", "delivered 3, lost 2", false},
		{"late", failure.NotDelivered, atBridge, "delivered 3, late 2", "delivered 3, late 2", false},
		{"changes_text", "", "", "delivered 5", "delivered 5", false},
		{"twice", "", "", "delivered 5", "delivered 5", false},
		{"history", "", "", "delivered 5", "delivered 5", false},
		{"throttled", failure.Throttled, sideIRC, "delivered 3, not_sent 2", "delivered 3, not_sent 2", false},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			t.Parallel()
			r := startRelayed(t)
			r.well()
			r.fault(tt.fault, true)
			for range 2 {
				if got := r.probe(); got != tt.reason {
					t.Errorf("reason %q, want %q; %v", got, tt.reason, r.batch.Notes)
				}
				if tt.fault == "late" {
					time.Sleep(300 * time.Millisecond)
				}
			}
			if got := r.relay.ways[0].brokenAt; got != tt.at {
				t.Errorf("broken at %q, want %q", got, tt.at)
			}
			if got := r.relay.ways[1].brokenAt; tt.alsoOneSide && got != "" {
				t.Errorf("the other way is broken at %q, want that it works", got)
			}
			r.fault(tt.fault, false)
			time.Sleep(300 * time.Millisecond)
			for range 2 {
				if got := r.probe(); got != "" {
					t.Errorf("afterwards: reason %q; %v", got, r.batch.Notes)
				}
			}
			if got := r.outcomes(sideIRC); got != tt.irc {
				t.Errorf("from IRC: %s, want %s", got, tt.irc)
			}
			if got := r.outcomes(sideXMPP); got != tt.xmpp {
				t.Errorf("from XMPP: %s, want %s", got, tt.xmpp)
			}
			if got, want := len(r.stack.RelayMessages()), r.sent(); got != want {
				t.Errorf("the servers accepted %d messages, and %d are counted", got, want)
			}
		})
	}
}

// sent counts the messages whose outcome is decided, apart from those that were not sent.
func (r *relayed) sent() (n int) {
	for _, w := range r.relay.ways {
		n += int(w.outcomes[relayDelivered] + w.outcomes[relayLate] + w.outcomes[relayLost])
	}
	return n
}

// TestRelayCountsWhatIsLost loses each third message that the bridge gets.
func TestRelayCountsWhatIsLost(t *testing.T) {
	t.Parallel()
	r := startRelayed(t)
	r.well()
	r.fault("drops_third", true)
	for range 6 {
		r.probe()
	}
	r.fault("drops_third", false)
	r.well()
	if irc, xmpp := r.outcomes(sideIRC), r.outcomes(sideXMPP); irc != "delivered 6, lost 2" || xmpp != "delivered 6, lost 2" {
		t.Errorf("from IRC %s, from XMPP %s, want 6 delivered and 2 lost both ways", irc, xmpp)
	}
}

// TestRelayTellsWhyItCannotSpeak switches on faults that end the sessions.
func TestRelayTellsWhyItCannotSpeak(t *testing.T) {
	for fault, reasons := range map[string][]failure.Reason{
		"banned":         {failure.Forbidden},
		"destroyed":      {failure.Forbidden, failure.NotFound},
		"kicked":         {failure.Forbidden},
		"wrong_password": {failure.Unauthorized},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			r := startRelayed(t)
			r.well()
			r.fault(fault, true)
			if fault == "wrong_password" { // matters to the next session only
				r.fault("kicked", true)
			}
			seen, others := false, []failure.Reason(nil)
			for range 100 {
				got := r.probe()
				if seen = slices.Contains(reasons, got); seen {
					break
				}
				others = append(others, got)
				time.Sleep(20 * time.Millisecond)
			}
			if !seen {
				t.Errorf("no probe failed with any of %v: %v", reasons, others)
			}
			r.fault(fault, false)
			r.well()
		})
	}
}
