package poll

import (
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Reading is what is remembered of one reading, for people who look into a failure.
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
}

// History are the last readings of a target, newest first. Failures are kept apart, so that they are still there when
// somebody looks. It is a value: nobody changes one that was handed out.
type History struct {
	Last     []Reading
	Failures []Reading
}

// kept is how many readings, and how many failures, are remembered of a target.
const kept = 10

// with returns the history with one more reading.
func (h History) with(r Reading) History {
	h.Last = newest(r, h.Last)
	if !r.Up {
		h.Failures = newest(r, h.Failures)
	}
	return h
}

// slowest is how long the slowest of the last good readings took, but for a single one that was slower still: the others
// would all be made too early because of it.
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
	return append([]Reading{r}, rest[:min(len(rest), kept-1)]...)
}
