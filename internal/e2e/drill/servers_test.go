//go:build realservers

package drill

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// ofTarget are the labels of an alert about a target.
func ofTarget(target string) map[string]string { return of("target", target) }

// ofDown are the labels of an alert on a target that is down, and named after its kind.
func ofDown(target string) map[string]string { return of("target", target, "kind", target) }

// bothOf are the warning and the worse alert on targets that are down.
func bothOf(targets ...string) []notice {
	var both []notice
	for _, target := range targets {
		both = append(both, notice{"TargetDown", "warning", ofDown(target)}, notice{"TargetDown", "critical", ofDown(target)})
	}
	return both
}

// drillServers is about real servers that are gone, or hang, or have lost a part.
func (r *rig) drillServers(t *testing.T) {
	t.Helper()
	prosody := realstack.StartProsody(t, realstack.ProsodyOptions{Modules: []string{"measure_chatstack"}})
	atheme := realstack.StartAtheme(t)
	s := r.open(t, "servers", fmt.Sprintf(`
  - {kind: xmpp_status, url: %[1]s/status}
  - {kind: xmpp_metrics, url: %[1]s/metrics}
  - {kind: irc_services, url: %[2]s}
`, prosody.URL(), atheme.URL()), nil)
	bridge := s.connect(prosody)
	s.try(fault{
		name:   "Atheme stopped",
		cause:  atheme.Stop,
		repair: atheme.Start,
		shown:  down("irc_services"),
		want:   []notice{{"TargetDown", "warning", ofDown("irc_services")}},
	})
	s.try(fault{
		name:   "XMPP server hung",
		cause:  prosody.Hang,
		repair: prosody.Resume,
		shown:  down("xmpp_status"),
		want:   bothOf("xmpp_status", "xmpp_metrics"),
	})
	s.try(fault{
		name:  "bridge disconnected",
		shown: is(0, "chatstack_xmpp_component_connected", "host", realstack.ComponentHost),
		cause: func() {
			if err := bridge.Drop(); err != nil {
				t.Fatal(err)
			}
		},
		repair: func() { bridge = s.connect(prosody) },
		want:   []notice{{"XMPPComponentDisconnected", "critical", of("target", "xmpp_status", "of", realstack.ComponentHost)}},
	})
}

// drillLogins is about logins that fail at a real XMPP server.
func (r *rig) drillLogins(t *testing.T) {
	t.Helper()
	counting := realstack.ProsodyOptions{Modules: []string{"measure_chatstack"}}
	prosody := realstack.StartProsody(t, counting)
	s := r.open(t, "logins", "  - {kind: xmpp_metrics, url: "+prosody.URL()+"/metrics}\n", nil)
	const missing, family = "XMPPAuthSourceMissing", "xmpp_c2s_auth_failure_total"
	s.try(fault{
		name:   "nothing counts logins",
		shown:  is(0, "chatstack_xmpp_family_available", "family", family),
		cause:  func() { prosody.Reconfigure(realstack.ProsodyOptions{}) },
		repair: func() { prosody.Reconfigure(counting) },
		want:   []notice{{missing, "warning", ofTarget("xmpp_metrics")}},
	})
	warning, critical := notice{"XMPPAuthFailureRate", "warning", of()}, notice{"XMPPAuthFailureRate", "critical", of()}
	before := 0.0
	for _, f := range []struct {
		perMinute int
		want      []notice
	}{{12, []notice{warning}}, {60, []notice{warning, critical}}} {
		var stop func()
		s.try(fault{
			name: fmt.Sprintf("%d failed logins a minute", f.perMinute),
			want: f.want,
			cause: func() {
				stop = s.failLogins(prosody, time.Minute/time.Duration(f.perMinute))
			},
			repair: func() { stop(); before = s.page().Sum(family) },
			shown:  func(p page) bool { return p.Sum(family) > before },
		})
	}
}

// failLogins has clients fail to log in, on both virtual hosts in turn, until the returned function is called.
func (s *site) failLogins(p *realstack.Prosody, every time.Duration) (stop func()) {
	done := make(chan struct{})
	var clients sync.WaitGroup
	clients.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := 0; ; i++ {
			if err := s.failLogin(p, []string{realstack.XMPPDomain, realstack.OtherDomain}[i%2]); err != nil {
				s.t.Errorf("fail to log in: %v", err)
			}
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	return func() { close(done); clients.Wait() }
}

func (s *site) failLogin(p *realstack.Prosody, domain string) error {
	c, err := p.Dial(s.t.Context(), domain)
	if err != nil {
		return err
	}
	refused := c.Login(realstack.Plain, realstack.XMPPUser, "wrong")
	if _, ok := errors.AsType[realstack.SASLError](refused); !ok {
		err = fmt.Errorf("log in with a wrong password: %w", refused)
	}
	return errors.Join(err, c.Close())
}

// drillCertificates is about a real proxy's certificate.
func (r *rig) drillCertificates(t *testing.T) {
	t.Helper()
	const day = 24 * time.Hour
	authority := realstack.NewAuthorityUntil(t, time.Now().Add(365*day))
	nginx := realstack.StartNginx(t, "http://"+free(t))
	issue := func(by *realstack.Authority, left time.Duration) {
		nginx.Renew(by.IssueUntil(time.Now().Add(left), realstack.XMPPDomain, "127.0.0.1"))
	}
	load := func(by *realstack.Authority, left time.Duration) func() {
		return func() { issue(by, left); nginx.Reload() }
	}
	nginx.Authority = authority
	good := load(authority, 60*day)
	good()
	s := r.open(t, "certificates", fmt.Sprintf(`
  - {kind: xmpp_proxy, url: %s/health, ca_file: %s, certificate_file: %s}
`, nginx.URL(), authority.File, nginx.CertificateFile()), nil)
	endpoint := of("endpoint", "xmpp_proxy", "target", "xmpp_proxy")
	warning, critical := notice{"TLSCertificateExpiry", "warning", endpoint}, notice{"TLSCertificateExpiry", "critical", endpoint}
	left := func(limit time.Duration) func(page) bool {
		return below(float64(time.Now().Add(limit).Unix()), "chatstack_tls_certificate_not_after_timestamp_seconds",
			"endpoint", "xmpp_proxy", "source", "leaf")
	}
	stale := is(0, "chatstack_tls_certificate_matches_file", "endpoint", "xmpp_proxy")
	s.try(fault{
		name:   "certificate ends in 10 days",
		cause:  load(authority, 10*day),
		repair: good,
		shown:  left(11 * day),
		want:   []notice{warning},
	})
	s.try(fault{
		name:   "certificate ends in 1 day",
		cause:  load(authority, day),
		repair: good,
		shown:  left(2 * day),
		want:   []notice{critical},
		may:    []notice{warning},
	})
	// A proxy that no client can use is down, too. Its certificate explains that.
	s.try(fault{
		name:   "certificate has ended",
		cause:  load(authority, -day),
		repair: good,
		shown:  left(0),
		want:   []notice{critical},
		may:    []notice{warning},
	})
	s.try(fault{
		name:   "certificate of another authority",
		repair: good,
		cause:  load(realstack.NewAuthorityUntil(t, time.Now().Add(365*day)), 60*day),
		shown:  is(0, "chatstack_tls_certificate_verified", "endpoint", "xmpp_proxy"),
		want: []notice{
			{"TLSChainInvalid", "warning", ofTarget("xmpp_proxy")},
			{"TargetDown", "critical", ofDown("xmpp_proxy")},
		},
	})
	s.try(fault{
		name:   "certificate renewed and not loaded",
		cause:  func() { issue(authority, 60*day) },
		repair: nginx.Reload,
		shown:  stale,
		want:   []notice{{"TLSServedNotRenewed", "warning", ofTarget("xmpp_proxy")}},
	})
	s.try(fault{
		name:   "certificate renewed and not loaded, 1 day before its end",
		repair: nginx.Reload,
		shown:  stale,
		cause: func() {
			load(authority, day)()
			s.await("the old certificate", func() bool {
				p := s.page()
				return left(2*day)(p) && !stale(p)
			})
			issue(authority, 60*day)
		},
		want:  []notice{critical, {"TLSServedNotRenewed", "critical", ofTarget("xmpp_proxy")}},
		may:   []notice{warning, {"TLSServedNotRenewed", "warning", ofTarget("xmpp_proxy")}},
		pages: 2, // the first is of the old certificate
	})
	s.try(fault{
		name:   "nginx stopped",
		cause:  nginx.Stop,
		repair: nginx.Start,
		shown:  down("xmpp_proxy"),
		want:   slices.Clone(bothOf("xmpp_proxy")),
	})
}

// drillChain is about a real proxy whose certificate is by an intermediate authority.
func (r *rig) drillChain(t *testing.T) {
	t.Helper()
	const day = 24 * time.Hour
	authority := realstack.NewAuthorityUntil(t, time.Now().Add(365*day))
	nginx := realstack.StartNginx(t, "http://"+free(t))
	nginx.Authority = authority
	intermediate := authority.BelowUntil(time.Now().Add(300 * day))
	show := func(by *realstack.Authority, whole bool) func() {
		return func() {
			certificate, key := by.IssueUntil(time.Now().Add(60*day), realstack.XMPPDomain, "127.0.0.1")
			if whole {
				certificate = append(certificate, by.Certificate()...)
			}
			nginx.Renew(certificate, key)
			nginx.Reload()
		}
	}
	good := show(intermediate, true)
	good()
	s := r.open(t, "chain", fmt.Sprintf("  - {kind: xmpp_proxy, url: %s/health, ca_file: %s}\n", nginx.URL(), authority.File), nil)
	endpoint := of("endpoint", "xmpp_proxy", "target", "xmpp_proxy")
	s.try(fault{
		name:   "intermediate certificate ends in 10 days, its leaf in 60",
		repair: good,
		cause:  show(authority.BelowUntil(time.Now().Add(10*day)), true),
		shown: below(float64(time.Now().Add(11*day).Unix()), "chatstack_tls_certificate_not_after_timestamp_seconds",
			"endpoint", "xmpp_proxy", "source", "verified_chain"),
		want: []notice{{"TLSCertificateExpiry", "warning", endpoint}},
	})
	s.try(fault{
		name:   "intermediate certificate left out",
		repair: good,
		cause:  show(intermediate, false),
		shown:  is(0, "chatstack_tls_certificate_verified", "endpoint", "xmpp_proxy"),
		want: []notice{
			{"TLSChainInvalid", "warning", ofTarget("xmpp_proxy")},
			{"TargetDown", "critical", ofDown("xmpp_proxy")},
		},
		may: []notice{{"TargetDown", "warning", ofDown("xmpp_proxy")}},
	})
}

// drillBrownOut is about a real proxy that hangs for three seconds in four and a half: it is never down for long.
func (r *rig) drillBrownOut(t *testing.T) {
	t.Helper()
	const year = 365 * 24 * time.Hour
	nginx := realstack.StartNginx(t, "http://"+free(t))
	nginx.Authority = realstack.NewAuthorityUntil(t, time.Now().Add(year))
	nginx.Renew(nginx.Authority.IssueUntil(time.Now().Add(year), realstack.XMPPDomain, "127.0.0.1"))
	nginx.Reload()
	s := r.open(t,
		"brown-out", fmt.Sprintf("  - {kind: http, name: proxy, url: %s/health, ca_file: %s}\n", nginx.URL(), nginx.Authority.File), nil)
	s.patience = 8 * time.Minute // it is over when the last 5 minutes are good
	stop := make(chan struct{})
	var hanging sync.WaitGroup
	repair := sync.OnceFunc(func() { close(stop); hanging.Wait() })
	t.Cleanup(repair)
	s.try(fault{
		name:   "nginx hangs for 3 s in 4.5",
		repair: repair,
		shown:  above(10, "chatstack_probe_failures_total", "target", "proxy", "reason", "timeout"),
		cause:  func() { hanging.Go(func() { nginx.Flicker(3*time.Second, 1500*time.Millisecond, stop) }) },
		want:   []notice{{"TargetUnstable", "warning", ofTarget("proxy")}, {"TargetUnstable", "critical", ofTarget("proxy")}},
	})
}
