package collectors

import (
	"slices"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/openmetrics"
)

func TestFailureServesNothingOfAnotherPage(t *testing.T) {
	b := &Batch{}
	b.Families(exposition.Family{Name: "hits"})
	b.Drops = Drops{openmetrics.Clash: 1}
	if len(b.Foreign(true)) != 1 || len(b.Dropped(true)) != 1 {
		t.Errorf("after a success: got families %v, dropped %v, want one of each", b.Foreign(true), b.Dropped(true))
	}
	if families, dropped := b.Foreign(false), b.Dropped(false); families != nil || dropped != nil {
		t.Errorf("after a failure: got families %v, dropped %v, want none", families, dropped)
	}
}

func TestSeriesLostBesideOtherTargetsAreClashes(t *testing.T) {
	drops := Drops{openmetrics.Clash: 1, openmetrics.Limit: 0, openmetrics.Malformed: 5}
	got := ownSeries(t, &Batch{Kept: Results{others: drops.Metrics("xmpp", 2)}}, "chatstack_upstream_dropped_series")
	want := []string{
		`chatstack_upstream_dropped_series{reason="clash",target="xmpp"} 3`,
		`chatstack_upstream_dropped_series{reason="limit",target="xmpp"} 0`,
		`chatstack_upstream_dropped_series{reason="malformed",target="xmpp"} 5`,
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPinnedCertificateNeedNotVerify has a reading that succeeds although no authority signed the certificate.
func TestPinnedCertificateNeedNotVerify(t *testing.T) {
	b := &Batch{Target: "pinned"}
	b.Certificate.Verified = new(false)
	for _, c := range b.Conditions(nil) {
		if c.Holds {
			t.Errorf("%s holds", c.Alert)
		}
	}
}

// TestImpossibleCountsCountNothing has a server that says it counted without an end, which no sum must take in.
func TestImpossibleCountsCountNothing(t *testing.T) {
	text := ""
	for host, v := range map[string]string{"a": "3", "b": "1e308", "c": "+Inf", "d": "NaN", "e": "-1"} {
		text += authFailures + `{host="` + host + `"} ` + v + "\n"
	}
	b := &Batch{}
	b.countFailedLogins(exposition.Lines([]byte(text)))
	conditions := b.Conditions(nil)
	if len(conditions) != 1 || len(conditions[0].Counts) != 1 {
		t.Errorf("got %+v, want one count", conditions)
	}
}
