package collectors

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// The outcomes of a message.
const (
	relayDelivered = "delivered"
	relayLate      = "late"
	relayLost      = "lost"
	relayNotSent   = "not_sent"
)

var relayOutcomes = []string{relayDelivered, relayLate, relayLost, relayNotSent}

// relayBuckets are the upper bounds of the histogram, in seconds. The defaults of deadline and slow are among them.
var relayBuckets = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}

const (
	// relayFailuresLimit is how many messages in a row must fail one way, and relaySilence how long none must have arrived, for the bridge
	// to count as not relaying.
	relayFailuresLimit = 3
	relaySilence       = 90 * time.Second
	// relayLifetime is how long a message may still arrive; then it is lost.
	relayLifetime = 10 * time.Minute
	// relayCopies is how often a message may be heard again before the check stops sending, until it was quiet for relayQuiet.
	relayCopies = 3
	relayQuiet  = time.Minute
)

// crossing is one way across the bridge, with the messages that may still arrive and the outcomes of all.
type crossing struct {
	from, to *relaySide
	*message // the last one

	messages  map[uint64]*message // of the last relayLifetime, by number
	began     time.Time           // when the first one was sent
	latest    *message            // the last that arrived, in the order of arrival; nil if none has
	checked   bool                // there was a check
	brokenAt  string              // "" if the last check succeeded
	failures  uint64              // in a row, at the bridge
	outage    bool                // BridgeNotRelaying has reported these failures
	untested  bool                // the last check shows nothing about the bridge, or its result is not known yet
	outcomes  map[string]uint64
	copies    uint64
	reported  [2]uint64 // copies at the last two reports, the older first
	delivery  delivery
	recent    []*message      // of the last hour, that had a chance to cross
	because   relayEvidence   // why the last check failed at the bridge
	lateTimes []time.Duration // how long late messages took that have arrived since the last check
}

// message is a message one way.
type message struct {
	number uint64
	sent   time.Time
	// accepted is when its own server had it, arrived when the other side did; zero before that.
	accepted, arrived time.Time
	// repeated is when it was last heard again, copies how often it was.
	repeated time.Time
	copies   int
	// refused is why its own server did not take it, swallowed why that server took it and passed it to nobody.
	refused, swallowed error
	// failed says that a check missed it, counted that its outcome is known, forgiven that the check's failure was only a delay.
	failed, counted, forgiven bool
	// twin is the message that the same check sent the other way.
	twin *message
}

// delivery is a histogram.
type delivery struct {
	buckets map[float64]uint64
	sum     float64
	count   uint64
}

func newCrossing(from, to *relaySide) *crossing {
	w := &crossing{
		from:     from,
		to:       to,
		message:  &message{},
		messages: map[uint64]*message{},
		outcomes: map[string]uint64{},
		delivery: delivery{buckets: map[float64]uint64{}},
	}
	for _, bound := range relayBuckets {
		w.delivery.buckets[bound] = 0
	}
	return w
}

// begin makes m the message that the check waits for.
func (w *crossing) begin(m *message) {
	if w.began.IsZero() {
		w.began = m.sent
	}
	w.message, w.messages[m.number] = m, m
}

// took is how long a message took that has arrived.
func (m *message) took() time.Duration { return m.arrived.Sub(m.sent) }

// count records the outcome of a message, once.
func (w *crossing) count(m *message, outcome string) {
	if !m.counted {
		m.counted = true
		w.outcomes[outcome]++
	}
}

// hear records that a side has heard a message.
func (w *crossing) hear(s *relaySide, number uint64, now time.Time) {
	m := w.messages[number]
	switch {
	case m == nil:
	case w.from == s && m.accepted.IsZero():
		m.accepted = now
	case w.to != s || !m.arrived.IsZero():
		w.copies++
		m.copies++
		m.repeated = now
	default:
		m.arrived, w.latest = now, m
		if m.counted { // its server had refused it
			return
		}
		w.delivery.observe(m.took())
		if !m.failed && m.took() <= s.relay.settings.Deadline.Std() {
			w.count(m, relayDelivered)
			return
		}
		w.count(m, relayLate)
		w.lateTimes = append(w.lateTimes, m.took())
	}
}

// refuse records that its own server did not take a message. That may be long after the check has given the message up.
func (w *crossing) refuse(number uint64, err error) {
	m := w.messages[number]
	if m == nil || m.counted || !m.accepted.IsZero() {
		return
	}
	if m.refused = err; m.failed {
		w.count(m, relayNotSent)
	}
}

// expire gives up messages that can no longer arrive, and forgets them unless their copies still do.
func (w *crossing) expire(now time.Time) {
	maps.DeleteFunc(w.messages, func(_ uint64, m *message) bool {
		if now.Sub(m.sent) < relayLifetime {
			return false
		}
		w.count(m, relayLost)
		return now.Sub(m.repeated) >= relayLifetime
	})
}

// repeats reports whether a copy was heard since the report before the last: one may come just after its check.
func (w *crossing) repeats() bool {
	before := w.reported[0]
	w.reported = [2]uint64{w.reported[1], w.copies}
	return w.copies > before
}

// comesBack is how often a message was heard again that bridges pass on for ever; 0 if there is none.
func (w *crossing) comesBack(now time.Time) (most int) {
	for _, m := range w.messages {
		if m.copies > relayCopies && now.Sub(m.repeated) < relayQuiet {
			most = max(most, m.copies)
		}
	}
	return most
}

func (d *delivery) observe(took time.Duration) {
	for bound := range d.buckets {
		if took.Seconds() <= bound {
			d.buckets[bound]++
		}
	}
	d.sum += took.Seconds()
	d.count++
}

// succeed records that a message has arrived before its deadline.
func (w *crossing) succeed() {
	w.forgetOutage()
	w.checked, w.untested, w.failures, w.outage, w.brokenAt, w.because = true, false, 0, false, "", relayEvidence{}
	w.remember()
}

// failAt records that a check has failed at that place.
func (w *crossing) failAt(at string) { w.checked, w.brokenAt, w.because = true, at, relayEvidence{} }

// failTested records that the bridge has failed, although both servers work.
func (w *crossing) failTested() {
	w.failAt(atBridge)
	w.untested = false
	w.failures++
}

// failUntested records that a server has failed, so that nothing is known of the bridge. Failures that are no alert yet do not count then.
func (w *crossing) failUntested(at string) {
	w.failAt(at)
	w.untested = true
	if !w.outage {
		w.failures = 0
	}
}

// stopped returns why the bridge did not get a message; nil if it did, as far as its server shows.
func (w *crossing) stopped() error {
	if !w.accepted.IsZero() || !w.arrived.IsZero() {
		return nil
	}
	return cmp.Or(w.refused, w.swallowed)
}

// stoppedAt is the place that stopped a message before the bridge had it: "" if none did.
func (w *crossing) stoppedAt() string { return w.from.placeOf(w.stopped()) }

// remember adds the last message, and drops what is older than an hour.
func (w *crossing) remember() {
	w.recent = append(w.recent, w.message)
	old := slices.IndexFunc(w.recent, func(m *message) bool { return w.sent.Sub(m.sent) < time.Hour })
	w.recent = slices.Delete(w.recent, 0, old)
}

// minRecent is how many messages an hour must have for the bridge to be judged by their share. steady is how many must arrive in a row
// for a bridge that lost most of them to relay again.
const (
	minRecent = 10
	steady    = 5
)

// forgetOutage removes the messages of an outage that BridgeNotRelaying has reported, since they do not make the bridge slow.
func (w *crossing) forgetOutage() {
	if !w.outage {
		return
	}
	for n, left := len(w.recent), w.failures; n > 0 && left > 0 && w.isSlow(w.recent[n-1]); n, left = n-1, left-1 {
		w.recent = w.recent[:n-1]
	}
}

// mostly reports whether at least half of the messages of the last hour are like that.
func (w *crossing) mostly(is func(*message) bool) bool {
	n := 0
	for _, m := range w.recent {
		if is(m) {
			n++
		}
	}
	return len(w.recent) >= minRecent && 2*n >= len(w.recent)
}

// isSlow reports whether a message took long; one that has not arrived did.
func (w *crossing) isSlow(m *message) bool {
	return isLost(m) || m.took() > w.from.relay.settings.Slow.Std()
}

// isLost reports whether a message that a check has missed has not arrived so far.
func isLost(m *message) bool { return m.arrived.IsZero() }

// silentSince is when a message last arrived, or when the first was sent.
func (w *crossing) silentSince() time.Time {
	if w.latest == nil {
		return w.began
	}
	return w.latest.arrived
}

// failsInARow reports whether the last messages have all missed their deadline.
func (w *crossing) failsInARow() bool { return w.failures >= relayFailuresLimit }

// notRelaying reports whether the bridge counts as down: the last messages failed and none arrives, or it loses most of them.
func (w *crossing) notRelaying(now time.Time) bool {
	return w.failsInARow() && now.Sub(w.silentSince()) >= relaySilence ||
		w.mostly(isLost) && slices.ContainsFunc(w.recent[len(w.recent)-steady:], isLost)
}

// slow reports whether messages cross, but take long.
func (w *crossing) slow(now time.Time) bool {
	return !w.notRelaying(now) && (w.failsInARow() && w.late(now) > 0 || w.mostly(w.isSlow))
}

// late is how long the last message took that arrived, if it missed its deadline; 0 if that is long ago, or it did not.
func (w *crossing) late(now time.Time) time.Duration {
	if w.latest == nil || !w.latest.failed || now.Sub(w.latest.arrived) >= relaySilence {
		return 0
	}
	return w.latest.took()
}
