package collectors

import (
	"time"

	"github.com/docker/docker/api/types/events"
)

// follower is how the engine's events are followed. Tests shorten the times.
type follower struct {
	// answered has Follow try again at once to open the stream of events.
	answered                 chan struct{}
	patience, quiet, lasting time.Duration // deafAfter, quietAfter, lastingStream
}

// eventStream is what is known of the stream of events.
type eventStream struct {
	open bool
	// known says that the stream was open once, or could not be opened for err.
	known bool
	err   error
	// brief counts the streams in a row that ended soon.
	brief int
	// last is the stamp of the last event; before the first, a moment before the engine was first asked.
	last time.Time
	// heard are the last events, each at its number modulo eventsKept; seen are the same.
	heard []eventKey
	count int
	seen  map[eventKey]bool
}

type eventKey struct {
	id     string
	action events.Action
	nano   int64
}

// repeated reports whether the event was heard before, and remembers it.
func (s *eventStream) repeated(e *events.Message) bool {
	if e.TimeNano == 0 {
		return false // no engine that is known leaves it out
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

// eventsKept is how many events are remembered, so that none counts twice when the engine repeats them. It keeps 256.
const eventsKept = 512
