package poll

import (
	"net/http"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
)

// TestOnlyFailuresAndTheNewestReadingKeepHeaders, and histories that were handed out never change.
func TestOnlyFailuresAndTheNewestReadingKeepHeaders(t *testing.T) {
	var h History
	for i := range maxHistory {
		before := h
		h = h.with(Reading{Up: i != 3, Exchanges: []*exchange.Exchange{{Request: "GET http://x/", Header: http.Header{"Server": {"x"}}}}})
		if i > 0 && (before.Last[0].Exchanges[0].Header == nil || before.Last[0].Exchanges[0] == h.Last[1].Exchanges[0] && h.Last[1].Up) {
			t.Fatalf("reading %d changed the history that was handed out", i)
		}
	}
	for i, r := range h.Last {
		if has, want := r.Exchanges[0].Header != nil, i == 0 || !r.Up; has != want || r.Exchanges[0].Request == "" {
			t.Errorf("reading %d: headers are kept: %t, want %t", i, has, want)
		}
	}
	if len(h.Failures) != 1 || h.Failures[0].Exchanges[0].Header == nil {
		t.Errorf("the failure has lost its headers: %+v", h.Failures)
	}
}
