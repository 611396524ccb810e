package collectors

import (
	"time"

	"github.com/docker/docker/api/types/events"
)

// follower is how the exporter follows the engine's events. Tests shorten the times.
type follower struct {
	// answered makes Follow reopen the event stream at once.
	answered                 chan struct{}
	patience, quiet, lasting time.Duration // maxEventDelay, maxStreamSilence, healthyStreamAge
}

// eventStream is the state of the event stream.
type eventStream struct {
	open bool
	// known is true once the stream was open, or failed to open with err.
	known bool
	err   error
	// brief counts the streams in a row that ended soon.
	brief int
	// last is the time of the last event, or a second before the first answer of the engine.
	last time.Time
	// heard is a ring of the last eventsKept events; seen holds the same events.
	heard []eventKey
	count int
	seen  map[eventKey]bool
}

type eventKey struct {
	id     string
	action events.Action
	nano   int64
}

// repeated reports whether the event came before, and remembers it.
func (s *eventStream) repeated(e *events.Message) bool {
	if e.TimeNano == 0 {
		return false // no known engine leaves it out
	}
	key := eventKey{e.Actor.ID, e.Action, e.TimeNano}
	if s.seen[key] {
		return true
	}
	if s.seen == nil {
		s.seen, s.heard = map[eventKey]bool{}, make([]eventKey, eventsKept)
	}
	delete(s.seen, s.heard[s.count%eventsKept])
	s.heard[s.count%eventsKept] = key
	s.seen[key] = true
	s.count++
	s.last = time.Unix(0, e.TimeNano)
	return false
}

// eventsKept is how many events are remembered, so that none counts twice when the engine repeats its last 256.
const eventsKept = 512
