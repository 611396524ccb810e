// Package pacing decides when the exporter may ask a server again that refuses or limits it. It does no I/O, and the time is an argument.
package pacing

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Credential identifies a credential and the server that checks it. The zero Credential is none.
type Credential struct {
	// Server is the address that the credential is sent to.
	Server string
	// Account identifies the account and its secret; it must not reveal the secret.
	Account string
	// Login says that the server counts failed logins of an address and may ban it: SASL or PASS, not HTTP.
	Login bool
}

const (
	// firstWait follows the second refusal in a row. For logins it doubles up to maxWait: ejabberd forgets a failed login only 60 to
	// 70 minutes after the last one, so one an hour still leads to a ban.
	firstWait = 5 * time.Minute
	maxWait   = 90 * time.Minute
	// memory is how long servers remember a failed login, maxRefused how many of them an address may have until the exporter waits.
	memory     = 70 * time.Minute
	maxRefused = 8
	// maxAsked is the same limit for probes that somebody asks for.
	maxAsked = 14
	// maxAttempt bounds the time that one attempt keeps others of its account waiting.
	maxAttempt = 2 * time.Minute
	// forgetAfter is when an account is forgotten that is not tried any more.
	forgetAfter = 24 * time.Hour
)

// Logins has the clocks of all credentials: targets with the same account at the same server share one. It is safe for concurrent use.
type Logins struct {
	mu       sync.Mutex
	accounts map[Credential]*account
	refused  map[string][]time.Time // failed logins of the last memory, by server
}

// account is what is known of one credential.
type account struct {
	// refusals counts refusals in a row; attempts that overlap count once. refused says that the last attempt was refused, refusedAt when.
	refusals  int
	refused   bool
	refusedAt time.Time
	until     time.Time
	// trying is when an attempt of a refused account has begun; zero without one.
	trying time.Time
}

// NewLogins returns clocks without any failure.
func NewLogins() *Logins {
	return &Logins{accounts: map[Credential]*account{}, refused: map[string][]time.Time{}}
}

// Gate returns the gate of a credential; nil, which is always open, for the zero Credential or without l.
func (l *Logins) Gate(c Credential) *Gate {
	if l == nil || c == (Credential{}) {
		return nil
	}
	return &Gate{logins: l, credential: c}
}

// Resume ends all waits, after a reload of the configuration. The next refusal continues the back-off where it was.
func (l *Logins) Resume(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.accounts, func(_ Credential, a *account) bool { return now.Sub(a.refusedAt) > forgetAfter })
	for _, a := range l.accounts {
		a.resume()
	}
}

func (a *account) resume() { a.refused, a.until, a.trying = false, time.Time{}, time.Time{} }

// recent returns the failed logins at a server that it still remembers.
func (l *Logins) recent(server string, now time.Time) []time.Time {
	list := slices.DeleteFunc(l.refused[server], func(at time.Time) bool { return now.Sub(at) >= memory })
	l.refused[server] = list
	return list
}

// Gate says when a credential may be sent. A nil Gate is always open.
type Gate struct {
	logins     *Logins
	credential Credential
	// works says that the last attempt through this gate was accepted: it must not wait because the server refuses another one.
	works bool
}

// Until returns the end of the present or last wait; zero if there was none since the last success.
func (g *Gate) Until(now time.Time) time.Time {
	if g == nil {
		return time.Time{}
	}
	g.logins.mu.Lock()
	defer g.logins.mu.Unlock()
	return g.until(now)
}

func (g *Gate) until(now time.Time) time.Time {
	a := g.logins.accounts[g.credential]
	if a == nil || !a.refused || g.works {
		return time.Time{}
	}
	until := a.until
	if recent := g.logins.recent(g.credential.Server, now); g.credential.Login && len(recent) >= maxRefused {
		if free := recent[len(recent)-maxRefused].Add(memory); free.After(until) {
			until = free
		}
	}
	return until
}

// Begin reports whether the credential may be sent now. If so, End must follow. Of a refused account, one attempt runs at a time.
func (g *Gate) Begin(now time.Time) bool {
	if g == nil {
		return true
	}
	g.logins.mu.Lock()
	defer g.logins.mu.Unlock()
	a := g.logins.accounts[g.credential]
	if a == nil || !a.refused || g.works {
		return true
	}
	if g.until(now).After(now) || !a.trying.IsZero() && now.Sub(a.trying) < maxAttempt {
		return false
	}
	a.trying = now
	return true
}

// End records how an attempt ended; nil is a success. Unless the server refused the credential, an error says nothing about it.
func (g *Gate) End(began, now time.Time, err error) {
	if g == nil {
		return
	}
	l := g.logins
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[g.credential]
	refused := failure.RefusesCredential(err)
	if err == nil || refused {
		g.works = err == nil
	}
	if a == nil {
		if !refused {
			return
		}
		a = &account{}
		l.accounts[g.credential] = a
	}
	a.trying = time.Time{}
	switch {
	case err == nil:
		delete(l.accounts, g.credential)
	case refused:
		if began.After(a.refusedAt) {
			a.refusals++
		}
		a.refused, a.refusedAt = true, now
		if g.credential.Login {
			l.refused[g.credential.Server] = append(l.recent(g.credential.Server, now), now)
		}
		a.until = now.Add(g.credential.wait(a.refusals))
	}
}

// wait returns the time to wait after a number of refusals in a row.
func (c *Credential) wait(refusals int) time.Duration {
	switch {
	case refusals < 2:
		return 0
	case !c.Login:
		return firstWait
	}
	wait := firstWait
	for range refusals - 2 {
		wait = min(2*wait, maxWait)
	}
	return wait
}

// Reopen ends the wait, because somebody asks for a probe. It returns false if another failed login could get the address banned.
func (g *Gate) Reopen(now time.Time) bool {
	if g == nil {
		return true
	}
	g.logins.mu.Lock()
	defer g.logins.mu.Unlock()
	a := g.logins.accounts[g.credential]
	if a == nil {
		return true
	}
	if len(g.logins.recent(g.credential.Server, now)) >= maxAsked {
		return false
	}
	a.resume()
	return true
}
