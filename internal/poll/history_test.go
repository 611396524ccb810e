package poll

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
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

func TestEqualFailuresInARowAreOneEntry(t *testing.T) {
	start := time.Date(2026, 3, 14, 3, 0, 0, 0, time.UTC)
	at := func(i int) time.Time { return start.Add(time.Duration(i) * time.Minute) }
	failed := func(i int, text string) Reading {
		return Reading{
			Time:      at(i),
			Reason:    failure.Closed,
			Error:     text,
			Exchanges: []*exchange.Exchange{{Request: text}},
		}
	}
	var h History
	h = h.with(failed(0, "status 503"))
	for i := 1; i <= 12; i++ {
		h = h.with(failed(i, fmt.Sprintf("read tcp 127.0.0.1:%d->127.0.0.1:5222: connection reset", 40000+i)))
	}
	handed := h
	h = h.with(Reading{Time: at(13), Up: true})
	h = h.with(failed(14, "read tcp 127.0.0.1:50000->127.0.0.1:5222: connection reset"))
	h = h.with(failed(15, "read tcp 127.0.0.1:50000->127.0.0.1:5223: connection reset"))
	for i, want := range []struct {
		count       int
		first, last time.Time
	}{{1, at(15), at(15)}, {13, at(1), at(14)}, {1, at(0), at(0)}} {
		if len(h.Failures) != 3 {
			t.Fatalf("got %d entries, want 3", len(h.Failures))
		}
		if got := h.Failures[i]; got.Count != want.count || !got.First.Equal(want.first) || !got.Time.Equal(want.last) {
			t.Errorf("entry %d: %d times from %s to %s, want %+v", i, got.Count, got.First, got.Time, want)
		}
	}
	if len(handed.Failures) != 2 || handed.Failures[0].Count != 12 {
		t.Errorf("a history that was handed out has changed: %+v", handed.Failures)
	}
	last := Collapse(h.Last)
	if got := []int{last[0].Count, last[1].Count, last[2].Count, last[3].Count}; !slices.Equal(got, []int{1, 1, 1, 7}) || len(last) != 4 {
		t.Errorf("the last probes are %d entries with the counts %v", len(last), got)
	}
	up := Collapse([]Reading{{Up: true}, {Up: true}})
	if len(up) != 2 {
		t.Error("successful probes are one entry, although their times differ")
	}
}
