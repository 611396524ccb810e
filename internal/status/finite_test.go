package status

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

func TestNoNumberBreaksTheReport(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e39, math.MaxFloat64} {
		w := begin(poll.Status{Target: "metrics", Kind: "xmpp_metrics"})
		w.status("metrics").Figures = []collectors.Figure{
			{Name: "sessions", Value: v, Chart: true},
			{Name: "memory", Value: v, Unit: "bytes"},
		}
		if _, err := json.Marshal(w.poll(0)); err != nil {
			t.Errorf("%g: %v", v, err)
		}
		h, ok := w.History("service/metrics/sessions")
		if _, err := json.Marshal(h); err != nil {
			t.Errorf("history with %g (known: %t): %v", v, ok, err)
		}
	}
}

func TestFiguresAreShownInTheirOrder(t *testing.T) {
	w := begin(poll.Status{Target: "irc", Kind: "irc_rpc"})
	w.status("irc").Figures = []collectors.Figure{{Name: "users", Value: 3, Chart: true}, {Name: "memory", Value: 2e9, Unit: "bytes"}}
	got := w.poll(0).service("irc")
	if len(got.Values) != 2 || got.Values[0].Text != "3" || got.Values[1].Value != 2e9 || got.Values[1].Text != "2.0 GB" {
		t.Errorf("got %+v", got.Values)
	}
	if !slices.Contains(got.Charts, "service/irc/users") || slices.Contains(got.Charts, "service/irc/memory") {
		t.Errorf("got the charts %q", got.Charts)
	}
}
