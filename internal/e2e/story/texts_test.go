package story

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/rules"
)

// TestTextsAreOfTheEnvironment has a target of the same name fail for another reason in each environment, one of which has no label.
func TestTextsAreOfTheEnvironment(t *testing.T) {
	sites := []exporterSpec{
		{name: "n", targets: true, containers: true},
		{
			name:       "s",
			env:        "staging",
			targets:    true,
			containers: true,
		},
	}
	play(t, sites, nil, func(w *world) {
		w.happen("n reaches nothing")
		w.happen("staging api fails")
		w.pass(4 * time.Minute)
		got := map[string]string{}
		for _, a := range w.prometheus.firing() {
			if a.Labels.Get("alertname") == "TargetDown" && a.Labels.Get("target") == "api" {
				got[a.Labels.Get("env")] = a.Annotations.Get("summary")
			}
		}
		for env, reason := range map[string]string{"": "refused", "staging": "http_status"} {
			if want := "Target api is down (" + reason + ")."; got[env] != want {
				t.Errorf("in the environment %q: %q, want %q", env, got[env], want)
			}
		}
	})
}

// TestCertificateAlertTellsItsSource has certificates of one endpoint end at different times in two environments.
func TestCertificateAlertTellsItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(10 * time.Hour)
		p := newServer(t, func(context.Context, string, ...*rules.Alert) {})
		now := time.Now().Unix()
		page := func(leaf, chain, file int64, limit string) []byte {
			b := bytes.NewBufferString(limit)
			for source, hours := range map[string]int64{"leaf": leaf, "verified_chain": chain, "file": file} {
				fmt.Fprintf(b, "chatstack_tls_certificate_not_after_timestamp_seconds{endpoint=\"xmpp\",source=%q} %d\n",
					source, now+hours*3600)
			}
			b.WriteString("# EOF\n")
			return b.Bytes()
		}
		p.scrape(t,
			"n", page(48, 24, 48, "chatstack_tls_certificate_expiry_limit_seconds{endpoint=\"xmpp\",severity=\"critical\"} 96000\n"), nil)
		p.scrape(t, "s", page(50, 50, 2000, ""), map[string]string{"env": "staging"}) // an older exporter
		p.evaluate(t)
		got := map[string]string{}
		for _, a := range p.firing() {
			if a.Labels.Get("alertname") == "TLSCertificateExpiry" && a.Labels.Get("severity") == "critical" {
				got[a.Labels.Get("env")] = a.Annotations.Get("summary") + " " + a.Annotations.Get("description")
			}
		}
		const advice = "Once it has expired, clients refuse to connect. If its file is new, reload the server; if not, renew it. "
		for env, want := range map[string]string{
			"": "The certificate of xmpp expires in 1d 0h 0m 0s. Renew it now. Less than 1d 2h 40m are left. " + advice +
				"Seen in: verified_chain.",
			"staging": "The certificate of xmpp expires in 2d 2h 0m 0s. Renew it now. Less than 3 days are left. " + advice +
				"Seen in: leaf, verified_chain.",
		} {
			if got[env] != want {
				t.Errorf("in the environment %q: %q, want %q", env, got[env], want)
			}
		}
	})
}
