package poll

import (
	"regexp"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Reading is the record of one reading, for people who investigate a failure.
type Reading struct {
	Time       time.Time
	Duration   time.Duration
	Up         bool
	Reason     failure.Reason
	Error      string
	Hint       string
	HTTPStatus int
	Series     int
	Notes      []string
	Exchanges  []*exchange.Exchange
	// Count is how many equal failures in a row this one stands for, First when the first of them was.
	Count int
	First time.Time
}

// localPort is the exporter's own port in an error of a connection; it differs each time.
var localPort = regexp.MustCompile(`:\d+->`)

// equals reports whether both readings failed in the same way.
func (r *Reading) equals(o *Reading) bool {
	if r.Up || o.Up || r.Reason != o.Reason || r.Hint != o.Hint || r.HTTPStatus != o.HTTPStatus || !slices.Equal(r.Notes, o.Notes) {
		return false
	}
	return localPort.ReplaceAllString(r.Error, "->") == localPort.ReplaceAllString(o.Error, "->")
}

// Collapse replaces equal failures in a row by the newest of them. The list must have the newest reading first.
func Collapse(readings []Reading) []Reading {
	var list []Reading
	for _, r := range readings {
		if r.Count == 0 {
			r.Count, r.First = 1, r.Time
		}
		if n := len(list); n > 0 && list[n-1].equals(&r) {
			list[n-1].Count += r.Count
			list[n-1].First = r.First
			continue
		}
		list = append(list, r)
	}
	return list
}

// History holds the last readings of a target, newest first. Failures have their own list, so that successes do not displace them; equal
// ones in a row are one entry, so that a long outage does not displace the others.
// It is a value: one that was handed out never changes.
type History struct {
	Last     []Reading
	Failures []Reading
}

// maxHistory is the number of readings, and of failures, to keep for a target.
const maxHistory = 10

// with returns the history with one more reading. Only failures and the newest reading keep the headers of answers, which take most of
// the memory.
func (h History) with(r Reading) History {
	h.Last = newest(r, h.Last)
	if len(h.Last) > 1 && h.Last[1].Up {
		h.Last[1].Exchanges = withoutHeaders(h.Last[1].Exchanges)
	}
	if !r.Up {
		failures := Collapse(append([]Reading{r}, h.Failures...))
		h.Failures = failures[:min(len(failures), maxHistory)]
	}
	return h
}

func withoutHeaders(exchanges []*exchange.Exchange) []*exchange.Exchange {
	bare := make([]*exchange.Exchange, len(exchanges))
	for i, e := range exchanges {
		b := *e
		b.Header = nil
		bare[i] = &b
	}
	return bare
}

// slowest returns how long the second slowest of the last good readings took. It ignores the slowest as an outlier, which would make
// all other readings start too early.
func (h History) slowest() time.Duration {
	var first, second time.Duration
	good := 0
	for i := range h.Last {
		if !h.Last[i].Up {
			continue
		}
		good++
		d := h.Last[i].Duration
		second = max(second, min(first, d))
		first = max(first, d)
	}
	if good == 1 {
		return first
	}
	return second
}

func newest(r Reading, rest []Reading) []Reading {
	return append([]Reading{r}, rest[:min(len(rest), maxHistory-1)]...)
}
