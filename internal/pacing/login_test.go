package pacing

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// outcomeOf is how a server answers an account; "" is a success.
type outcomeOf func(account int, now time.Time) failure.Reason

// probing simulates targets that are probed each 30 s, each with one account at one server, and returns when a login was refused.
func probing(l *Logins, login bool, accounts []int, duration time.Duration, answer outcomeOf) (refused []time.Time) {
	for tick := time.Duration(0); tick < duration; tick += 30 * time.Second {
		for i, account := range accounts {
			now := start.Add(tick + time.Duration(i)*7*time.Second)
			g := l.Gate(Credential{Server: "xmpp chat", Account: fmt.Sprint(account), Login: login})
			if !g.Begin(now) {
				continue
			}
			ended, reason := now.Add(2*time.Second), answer(account, now)
			g.End(now, ended, errorOf(reason))
			if reason == failure.Unauthorized {
				refused = append(refused, ended)
			}
		}
	}
	return refused
}

// errorOf is a failure with a reason; nil for "".
func errorOf(reason failure.Reason) error {
	if reason == "" {
		return nil
	}
	return failure.Errorf(reason, "no")
}

// most returns the largest number of times within a window.
func most(times []time.Time, window time.Duration) (n int) {
	for i := range times {
		k := i
		for k < len(times) && times[k].Sub(times[i]) < window {
			k++
		}
		n = max(n, k-i)
	}
	return n
}

func refuseAll(int, time.Time) failure.Reason { return failure.Unauthorized }

func TestRefusedLoginWaitsTwiceAsLongEachTime(t *testing.T) {
	refused := probing(NewLogins(), true, []int{0}, 8*time.Hour, refuseAll)
	want := []time.Duration{
		30 * time.Second, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 40 * time.Minute, 80 * time.Minute,
		90 * time.Minute, 90 * time.Minute,
	}
	for i, wait := range want {
		if got := refused[i+1].Sub(refused[i]); got < wait || got > wait+time.Minute {
			t.Errorf("attempt %d came %s after the one before, want %s", i+2, got, wait)
		}
	}
}

func TestRefusedHTTPCredentialIsSentEveryFiveMinutes(t *testing.T) {
	refused := probing(NewLogins(), false, []int{0}, time.Hour, refuseAll)
	for i := 2; i < len(refused); i++ {
		if got := refused[i].Sub(refused[i-1]); got < 5*time.Minute || got > 6*time.Minute {
			t.Errorf("attempt %d came after %s", i+1, got)
		}
	}
	if n := len(refused); n < 11 || n > 13 {
		t.Errorf("%d attempts in an hour, want 12", n)
	}
}

// TestTargetsWithOneAccountShareOneClock counts a day of two targets with one wrong password.
func TestTargetsWithOneAccountShareOneClock(t *testing.T) {
	one := probing(NewLogins(), true, []int{0}, 24*time.Hour, refuseAll)
	two := probing(NewLogins(), true, []int{0, 0}, 24*time.Hour, refuseAll)
	if len(two) > len(one)+1 || len(two) > 22 {
		t.Errorf("%d logins of two targets in a day, %d of one", len(two), len(one))
	}
	if n := most(two, time.Hour); n >= 10 {
		t.Errorf("%d failed logins within an hour", n)
	}
}

// TestFailuresAtTheSameTimeCountOnce: a server that is just starting refuses all targets, which then try again at the next poll.
func TestFailuresAtTheSameTimeCountOnce(t *testing.T) {
	l := NewLogins()
	g := l.Gate(Credential{Server: "xmpp chat", Account: "a", Login: true})
	for range 3 {
		if !g.Begin(start) {
			t.Fatal("a first attempt must wait")
		}
	}
	for i := range 3 {
		g.End(start, start.Add(time.Duration(i+1)*time.Second), errorOf(failure.Unauthorized))
	}
	next := start.Add(30 * time.Second)
	if !g.Begin(next) {
		t.Error("the second attempt must wait")
	}
	if g.Begin(next) {
		t.Error("two attempts of a refused account run at the same time")
	}
}

func TestWaitOfALoginEnds(t *testing.T) {
	now := start.Add(time.Hour)
	for name, end := range map[string]func(*Logins, *Gate){
		"with a success":         func(_ *Logins, g *Gate) { g.End(now, now, nil) },
		"with a reload":          func(l *Logins, _ *Gate) { l.Resume(now) },
		"when somebody asks":     func(_ *Logins, g *Gate) { g.Reopen(now) },
		"not with another fault": nil,
	} {
		l := NewLogins()
		probing(l, true, []int{0}, time.Hour, refuseAll)
		g := l.Gate(Credential{Server: "xmpp chat", Account: "0", Login: true})
		if g.Begin(now) {
			t.Fatal("it does not wait")
		}
		if end == nil {
			g.End(now, now, errorOf(failure.Timeout))
		} else {
			end(l, g)
		}
		if got := g.Begin(now); got != (end != nil) {
			t.Errorf("the wait has ended %s: %t", name, got)
		}
	}
}

func TestAnotherSecretHasAnotherClock(t *testing.T) {
	l := NewLogins()
	probing(l, true, []int{0}, time.Hour, refuseAll)
	if !l.Gate(Credential{Server: "xmpp chat", Account: "1", Login: true}).Begin(start.Add(time.Hour)) {
		t.Error("a new secret waits because of the old one")
	}
}

// TestNoAddressIsBanned lets servers answer at random, with several accounts of one address, reloads and people who ask for probes.
func TestNoAddressIsBanned(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // not for secrets
		accounts := make([]int, 1+r.IntN(4))
		for i := range accounts {
			accounts[i] = r.IntN(3)
		}
		wrong, fails := r.IntN(4), r.Float64()
		asks := seed%4 == 0
		l := NewLogins()
		refused := probing(l, true, accounts, 12*time.Hour, func(account int, now time.Time) failure.Reason {
			if asks && r.IntN(2) == 0 {
				l.Gate(Credential{Server: "xmpp chat", Account: fmt.Sprint(account), Login: true}).Reopen(now)
			}
			switch {
			case account == wrong || r.Float64() < fails:
				return failure.Unauthorized
			case r.IntN(10) == 0:
				return failure.Timeout
			}
			return ""
		})
		if n := most(refused, memory); n >= 20 {
			t.Errorf("seed %d: %d failed logins within %s", seed, n, memory)
		}
		if n := most(refused, time.Hour); !asks && n >= 10+len(accounts) {
			t.Errorf("seed %d: %d failed logins within an hour of %d targets", seed, n, len(accounts))
		}
	}
}

// TestLoginThatWasNotSentDoesNotCount: an IRC server without its services offers no login, and no server counts that as a failed one.
func TestLoginThatWasNotSentDoesNotCount(t *testing.T) {
	g := NewLogins().Gate(Credential{Server: "irc chat", Account: "a", Login: true})
	for i := range 100 {
		now := start.Add(time.Duration(i) * 30 * time.Second)
		if !g.Begin(now) {
			t.Fatalf("attempt %d must wait", i+1)
		}
		g.End(now, now, failure.Errorf(failure.Unauthorized, "the server offers no SASL").BeforeLogin())
	}
}

// TestRefusalOfAnotherPageHoldsNothingThatWorks has two pages of one server, of which one refuses the credential.
func TestRefusalOfAnotherPageHoldsNothingThatWorks(t *testing.T) {
	logins, now := NewLogins(), time.Unix(1e9, 0)
	web := Credential{Server: "panel:443", Account: "u"}
	bad, good := logins.Gate(web), logins.Gate(web)
	good.End(now, now, nil)
	for range 3 {
		now = now.Add(time.Second)
		bad.End(now, now, failure.Errorf(failure.Unauthorized, "no"))
	}
	if bad.Begin(now) {
		t.Error("the refused page does not wait")
	}
	if !good.Begin(now) || !good.Until(now).IsZero() {
		t.Error("the page that works waits for the refused one")
	}
}
