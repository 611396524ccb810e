package status

import (
	"encoding/json"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

func TestNoNumberBreaksTheReport(t *testing.T) {
	for _, v := range []string{"NaN", "+Inf", "-Inf", "1e39", "1.7e308"} {
		w := begin(poll.Status{Target: "metrics", Kind: "xmpp_metrics"})
		w.text["metrics"] = "xmpp_c2s_sessions{type=\"c2s\"} " + v + "\n" +
			"xmpp_c2s_sessions{type=\"c2s\",host=\"b\"} " + v + "\nxmpp_memory_usage_bytes " + v + "\n"
		if _, err := json.Marshal(w.poll(0)); err != nil {
			t.Errorf("%s: %v", v, err)
		}
		h, ok := w.History("service/metrics/sessions")
		if _, err := json.Marshal(h); err != nil {
			t.Errorf("history with %s (known: %t): %v", v, ok, err)
		}
	}
}
