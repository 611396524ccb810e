package poll

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/pacing"
)

// answering is a server that answers each probe with the same reason until that changes; "" is a success.
type answering struct {
	mu         sync.Mutex
	reason     failure.Reason
	retryAfter time.Duration
	perHour    int
	probes     []time.Time
}

func (a *answering) Collect(_ context.Context, b *collectors.Batch) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.probes = append(a.probes, time.Now())
	b.ConnectionsPerHour = a.perHour
	b.Gauge(plantsDesc, 1)
	if a.reason == "" {
		return nil
	}
	return &failure.Error{Reason: a.reason, Err: errors.New("no"), RetryAfter: a.retryAfter}
}

func (a *answering) answer(r failure.Reason) { a.mu.Lock(); defer a.mu.Unlock(); a.reason = r }

// count returns the number of probes since the last call.
func (a *answering) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.probes)
	a.probes = nil
	return n
}

// loggingIn is a target that logs in each 30 s.
func loggingIn(t *testing.T, name string, logins *pacing.Logins, a *answering) Target {
	t.Helper()
	return Target{
		Name:      name,
		Kind:      config.Row{Name: "xmpp_login"},
		Schedule:  every(t, "30s"),
		Timeout:   10 * time.Second,
		Collector: a,
		Pace:      Pace{Gate: logins.Gate(pacing.Credential{Server: "xmpp chat", Account: "check", Login: true})},
	}
}

// statusOf returns a target's status and facts.
func statusOf(p *Poller, name string) (Status, health.Target) {
	for _, t := range p.targets {
		if t.Name == name {
			s, _, facts := t.viewAll()
			return s, facts
		}
	}
	return Status{}, health.Target{}
}

func TestRefusedLoginIsTriedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answering
		a.answer(failure.Unauthorized)
		p, stop := start(t, io.Discard, loggingIn(t, "login", pacing.NewLogins(), &a))
		time.Sleep(10 * time.Second)
		if s, _ := statusOf(p, "login"); !s.RetryAt.IsZero() {
			t.Errorf("after the first failure, it waits until %s", s.RetryAt)
		}
		time.Sleep(50 * time.Second)
		if n := a.count(); n != 2 {
			t.Errorf("%d logins in the first minute, want 2", n)
		}
		s, _ := statusOf(p, "login")
		if wait := time.Until(s.RetryAt); wait < 4*time.Minute || wait > 5*time.Minute || s.RetryReason != failure.Unauthorized {
			t.Errorf("after the second failure, the next try is in %s because of %q", wait, s.RetryReason)
		}
		time.Sleep(59 * time.Minute)
		if n := a.count(); n != 3 {
			t.Errorf("%d logins in the rest of the hour, want 3: after 5, 10 and 20 minutes", n)
		}
		a.answer("")
		time.Sleep(90 * time.Minute)
		a.count()
		if s, _ := statusOf(p, "login"); !s.Up || !s.RetryAt.IsZero() {
			t.Errorf("after a success: up %t, next try %s", s.Up, s.RetryAt)
		}
		time.Sleep(10 * time.Minute)
		if n := a.count(); n != 20 {
			t.Errorf("%d logins in ten minutes after a success, want 20", n)
		}
		stop()
	})
}

// TestTargetThatWaitsIsNotOverdue holds for each reason to wait, over three hours.
func TestTargetThatWaitsIsNotOverdue(t *testing.T) {
	for name, a := range map[string]*answering{
		"unauthorized": {reason: failure.Unauthorized}, "throttled": {reason: failure.Throttled, retryAfter: time.Hour},
		"connections": {perHour: 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				target := loggingIn(t, "login", pacing.NewLogins(), a)
				target.Pace.Address = "irc:6697"
				p, stop := start(t, &log, target)
				time.Sleep(time.Minute)
				for range 3 * 60 {
					time.Sleep(time.Minute)
					if err := p.Alive(); err != nil {
						t.Fatal(err)
					}
					s, facts := statusOf(p, "login")
					if !s.Known || facts.Overdue || !facts.Read || !p.Ready() {
						t.Fatalf("%s after the last probe: known %t, overdue %t, ready %t",
							time.Since(s.LastAttempt), s.Known, facts.Overdue, p.Ready())
					}
					if want := name == "throttled"; facts.Throttled != want {
						t.Fatalf("throttled %t, want %t", facts.Throttled, want)
					}
					if want := name != "connections"; facts.RefusesUs != want {
						t.Fatalf("refuses the exporter: %t, want %t", facts.RefusesUs, want)
					}
				}
				success := "0"
				if name == "connections" {
					success = "1"
				}
				wantLines(t, textOf(p), `chatstack_probe_success{target="login"} `+success)
				stop()
				if strings.Contains(log.String(), "overdue") {
					t.Error(log.String())
				}
				if n := a.count(); n > 25 {
					t.Errorf("%d probes in three hours", n)
				}
			})
		})
	}
}

// TestReadingsThatWereNotMadeDoNotCount: TargetUnstable counts failed readings.
func TestReadingsThatWereNotMadeDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answering{reason: failure.Unauthorized}
		p, stop := start(t, io.Discard, loggingIn(t, "login", pacing.NewLogins(), a))
		time.Sleep(time.Hour)
		if n, made := missed(p); int(n) != a.count()-1 {
			t.Errorf("%d failed readings count (interval %s)", n, made)
		}
		stop()
	})
}

func TestTargetsWithOneAccountWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logins, a, b := pacing.NewLogins(), &answering{reason: failure.Unauthorized}, &answering{reason: failure.Unauthorized}
		p, stop := start(t, io.Discard, loggingIn(t, "a", logins, a), loggingIn(t, "b", logins, b))
		time.Sleep(24 * time.Hour)
		if n := a.count() + b.count(); n < 15 || n > 24 {
			t.Errorf("%d logins in a day", n)
		}
		for _, name := range []string{"a", "b"} {
			if s, _ := statusOf(p, name); s.RetryAt.IsZero() {
				t.Errorf("%s does not wait", name)
			}
		}
		stop()
	})
}

func TestThrottledTargetIsProbedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answering{}
		target := halfMinutely(t, "irc", nil)
		target.Collector = a
		p, stop := start(t, io.Discard, target)
		time.Sleep(10 * time.Minute)
		a.count()
		a.answer(failure.Throttled)
		time.Sleep(time.Hour)
		if n := a.count(); n < 8 || n > 11 {
			t.Errorf("%d probes in an hour, want one after 1, 2, 4, 8 and then each 10 minutes", n)
		}
		if s, _ := statusOf(p, "irc"); s.RetryReason != failure.Throttled || time.Until(s.RetryAt) > 10*time.Minute {
			t.Errorf("waits until %s because of %q", s.RetryAt, s.RetryReason)
		}
		a.answer("")
		time.Sleep(11 * time.Minute)
		a.count()
		time.Sleep(10 * time.Minute)
		if n := a.count(); n != 20 {
			t.Errorf("%d probes in ten minutes after a success, want 20", n)
		}
		stop()
	})
}

// TestSlowedTargetThatFailsOtherwiseIsProbedOnceMore: a ban often looks like a closed connection.
func TestSlowedTargetThatFailsOtherwiseIsProbedOnceMore(t *testing.T) {
	for name, second := range map[string]failure.Reason{"served": "", "throttled again": failure.Throttled, "down": failure.Closed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &answering{}
				target := halfMinutely(t, "irc", nil)
				target.Collector = a
				p, stop := start(t, io.Discard, target)
				time.Sleep(time.Minute)
				a.answer(failure.Throttled)
				time.Sleep(time.Hour)
				a.answer(failure.Closed)
				a.count()
				for a.count() == 0 {
					time.Sleep(time.Second)
				}
				s, facts := statusOf(p, "irc")
				if s.Reason != failure.Throttled || !facts.Throttled || time.Until(s.RetryAt) > time.Minute {
					t.Errorf("after the first failure: %s, next probe %s", s.Reason, s.RetryAt)
				}
				a.answer(second)
				time.Sleep(61 * time.Second)
				if s, _ := statusOf(p, "irc"); a.count() != 1 && second != "" || s.Reason != second || s.Up != (second == "") {
					t.Errorf("after the second probe: %q, want %q", s.Reason, second)
				}
				stop()
			})
		})
	}
}

// TestTargetsOfALimitedServerShareItsConnections has three targets at one server, of which one has a schedule of its own.
func TestTargetsOfALimitedServerShareItsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		servers := [3]*answering{{perHour: 10}, {perHour: 10}, {perHour: 10}}
		var targets []Target
		for i, name := range []string{"a", "b", "scheduled"} {
			target := halfMinutely(t, name, nil)
			target.Collector = servers[i]
			if name != "scheduled" {
				target.Pace.Address = "irc:6697"
			}
			targets = append(targets, target)
		}
		p, stop := start(t, &log, targets...)
		time.Sleep(time.Second)
		for _, s := range servers {
			s.count()
		}
		for hour := range 5 {
			time.Sleep(time.Hour)
			if n := servers[0].count() + servers[1].count(); n < 5 || n > 7 {
				t.Errorf("hour %d: %d connections, want 6", hour, n)
			}
			if n := servers[2].count(); n != 120 {
				t.Errorf("hour %d: %d connections of the target with a schedule, want 120", hour, n)
			}
		}
		if s, facts := statusOf(p, "a"); s.RetryAt.IsZero() || s.RetryReason != "" || facts.Every != 20*time.Minute {
			t.Errorf("next probe %s because of %q, one in %s", s.RetryAt, s.RetryReason, facts.Every)
		}
		time.Sleep(11 * time.Minute)
		if err := p.Probe("a"); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if n := servers[0].count(); n != 1 {
			t.Errorf("%d probes on request, want 1", n)
		}
		stop()
		if n := strings.Count(log.String(), "may limit connections"); n != 1 {
			t.Errorf("the limit is logged %d times", n)
		}
	})
}

func TestReloadEndsTheWaitOfARefusedLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logins, a := pacing.NewLogins(), &answering{reason: failure.Unauthorized}
		target := loggingIn(t, "login", logins, a)
		p, stop := start(t, io.Discard, target)
		time.Sleep(20 * time.Minute)
		stop()
		a.count()
		logins.Resume(time.Now())
		target.Same = true
		p = newPoller(t, p, target)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.Run(ctx) })
		time.Sleep(time.Minute)
		if n := a.count(); n != 1 {
			t.Errorf("%d logins in the minute after a reload, want 1", n)
		}
		cancel()
		running.Wait()
	})
}

func TestSomebodyMayAskForAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answering{reason: failure.Unauthorized}
		p, stop := start(t, io.Discard, loggingIn(t, "login", pacing.NewLogins(), a))
		time.Sleep(2 * time.Minute)
		a.count()
		if err := p.Probe("nobody"); !errors.Is(err, ErrTargetUnknown) {
			t.Error(err)
		}
		must(t, p.Probe("login"))
		time.Sleep(time.Second)
		if n := a.count(); n != 1 {
			t.Errorf("%d probes after one was asked for", n)
		}
		if err := p.Probe("login"); !errors.Is(err, ErrTooSoon) || !strings.Contains(err.Error(), "try again in 29s") {
			t.Error(err)
		}
		asked := 0
		for range 70 {
			time.Sleep(time.Minute)
			if p.Probe("login") == nil {
				asked++
			}
		}
		if n := a.count(); n >= 20 || asked == 0 {
			t.Errorf("%d failed logins in 70 minutes in which somebody asks each minute", n)
		}
		stop()
	})
}

func TestProbeThatCouldHarmIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		a    *answering
		want string
	}{
		"throttled":   {&answering{reason: failure.Throttled}, "the server limits this address"},
		"connections": {&answering{perHour: 10}, "10 connections an hour"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				target := loggingIn(t, "login", nil, c.a)
				target.Pace.Address = "irc:6697"
				p, stop := start(t, io.Discard, target)
				time.Sleep(5 * time.Minute)
				if err := p.Probe("login"); !errors.Is(err, ErrTooSoon) || !strings.Contains(err.Error(), c.want) {
					t.Error(err)
				}
				stop()
			})
		})
	}
	t.Run("least interval", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var asked connections
			p, stop := start(t, io.Discard, asked.target(t, "30s", 0))
			time.Sleep(10 * time.Second)
			if err := p.Probe("irc"); !errors.Is(err, ErrTooSoon) {
				t.Error(err)
			}
			stop()
		})
	})
}

// TestTargetWithSessionsIsProbedWhileTheyWait: a relay's probe logs nobody in, and still says when its sessions do.
func TestTargetWithSessionsIsProbedWhileTheyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logins, a := pacing.NewLogins(), &answering{reason: failure.Unauthorized}
		gate := logins.Gate(pacing.Credential{Server: "irc chat", Account: "check", Login: true})
		target := halfMinutely(t, "relay", nil)
		target.Collector, target.Pace.Sessions = a, []*pacing.Gate{nil, gate}
		p, stop := start(t, io.Discard, target)
		for range 3 {
			time.Sleep(time.Second)
			gate.End(time.Now(), time.Now(), failure.Errorf(failure.Unauthorized, "no"))
		}
		time.Sleep(5 * time.Minute)
		if n := a.count(); n < 10 {
			t.Errorf("%d probes in five minutes, want 10", n)
		}
		if s, _ := statusOf(p, "relay"); s.RetryReason != failure.Unauthorized || time.Until(s.RetryAt) < 4*time.Minute {
			t.Errorf("its sessions log in at %s because of %q", s.RetryAt, s.RetryReason)
		}
		must(t, p.Probe("relay"))
		if !gate.Begin(time.Now()) {
			t.Error("the session still waits after somebody has asked for a probe")
		}
		stop()
	})
}

// TestSecondLookDoesNotWaitForASharedConnection: after a limit, one more connection decides whether the server is down.
func TestSecondLookDoesNotWaitForASharedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answering{perHour: 10}
		target := halfMinutely(t, "irc", nil)
		target.Collector, target.Pace.Address = a, "irc:6697"
		p, stop := start(t, io.Discard, target)
		time.Sleep(time.Minute)
		a.answer(failure.Throttled)
		time.Sleep(time.Hour)
		a.answer(failure.Closed)
		for a.count(); a.count() == 0; {
			time.Sleep(time.Second)
		}
		time.Sleep(61 * time.Second)
		if s, _ := statusOf(p, "irc"); a.count() != 1 || s.Reason != failure.Closed {
			t.Errorf("a minute after the first failure: %s", s.Reason)
		}
		stop()
	})
}

func TestOneReadingOfALimitingServerNeedsNoPoller(t *testing.T) {
	target := halfMinutely(t, "irc", nil)
	target.Collector, target.Pace.Address = &answering{perHour: 10}, "irc:6697"
	if s, _, _ := Once(t.Context(), target, slog.New(slog.DiscardHandler)); !s.Up {
		t.Errorf("the check of a server that limits connections says %s", s.Error)
	}
}

// TestOneBlipOfARarelyProbedTargetIsNoOutage has a target that is probed every 10 minutes, so that one lost packet would page.
func TestOneBlipOfARarelyProbedTargetIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answering{perHour: 10}
		target := halfMinutely(t, "irc", nil)
		target.Collector, target.Pace.Address = server, "irc:6697"
		p, stop := start(t, new(bytes.Buffer), target)
		defer stop()
		time.Sleep(time.Second)
		server.answer(failure.Refused)
		server.count()
		for server.count() == 0 {
			time.Sleep(time.Second)
		}
		if s, _ := statusOf(p, "irc"); !s.Up {
			t.Error("one failure is an outage")
		}
		time.Sleep(70 * time.Second)
		if n := server.count(); n != 1 {
			t.Errorf("%d probes in the minute after a failure, want 1", n)
		}
		if s, _ := statusOf(p, "irc"); s.Up {
			t.Error("two failures are no outage")
		}
	})
}

func TestSlowdownStaysWithItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for host, slowed := range map[string]bool{"same.test": true, "other.test": false} {
			target := halfMinutely(t, "web", nil)
			target.HostName = "same.test"
			target.Collector = &answering{reason: failure.Throttled, retryAfter: time.Hour}
			p, stop := start(t, new(bytes.Buffer), target)
			time.Sleep(time.Second)
			stop()
			target.HostName = host
			next, err := New([]Target{target}, prometheus.NewRegistry(), nil, slog.New(slog.DiscardHandler), p)
			must(t, err)
			if s, _ := statusOf(next, "web"); s.RetryAt.IsZero() == slowed {
				t.Errorf("%s: waits until %s, want a wait: %t", host, s.RetryAt, slowed)
			}
		}
	})
}
