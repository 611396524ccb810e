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
		for env, reason := range map[string]string{"": "it refuses connections", "staging": "it answers with an HTTP error"} {
			if want := "HTTP service (api) down: " + reason + "."; got[env] != want {
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
		const alarm = "Clients will soon refuse to connect to xmpp: its certificate expires on "
		const advice = "Once it has expired, clients refuse to connect. First look at the certificate's file: if it has been " +
			"renewed, reload the server; if not, renew it. The certificate is "
		in := func(hours int) string {
			return time.Unix(now, 0).UTC().Add(time.Duration(hours) * time.Hour).Format("2006-01-02 15:04 UTC, in ")
		}
		for env, want := range map[string]string{
			"": alarm + in(24) + "1d 0h 0m 0s. Less than 1d 2h 40m are left. " + advice + "one of its authorities'.",
			"staging": alarm + in(50) + "2d 2h 0m 0s. Less than 3 days are left. " + advice +
				"the one that the server sends, one of its authorities'.",
		} {
			if got[env] != want {
				t.Errorf("in the environment %q: %q, want %q", env, got[env], want)
			}
		}
	})
}
