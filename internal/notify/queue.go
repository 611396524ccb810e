package notify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/notify/service"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

const (
	// sendTimeout is the deadline of one attempt.
	sendTimeout = 15 * time.Second
	// firstRetry is the pause after the first failed attempt; each next one is twice as long, up to maxRetry.
	firstRetry, maxRetry = 10 * time.Second, 15 * time.Minute
	// maxWait is how long a message is tried, hopeless how often one is that the service refuses for what it is.
	maxWait  = 24 * time.Hour
	hopeless = 3
	// maxPerHour is how many messages a receiver gets in an hour. One more says that others are held back. The last forCritical are only
	// for what is critical, so that no flood of warnings holds that back.
	maxPerHour, forCritical = 20, 5
	// maxNames is how many titles of messages that were held back are kept.
	maxNames = maxLines
)

// The outcomes of messages.
const (
	Delivered = "delivered"
	Failed    = "failed" // an attempt, which is repeated
	Expired   = "expired"
	Held      = "held"
)

// Outcomes are all of them.
var Outcomes = []string{Delivered, Failed, Expired, Held}

// waiting is a message that is not delivered yet.
type waiting struct {
	service.Message

	Made     time.Time `json:"made"`
	Attempts int       `json:"attempts,omitempty"`
	// Facts are what it tells, for the other exporters of a pair. Spare is dropped while one that sends before this one answers.
	Facts []fact `json:"facts,omitempty"`
	Spare bool   `json:"spare,omitempty"`

	// turn is until when it is left to other exporters of a pair. next is when to try again to reach the rest of its places. underWay says
	// that an attempt has it.
	turn, next time.Time
	underWay   bool
	// tried is closed when the message of a drill was tried; nil for others. drilled is what became of it.
	tried   chan struct{}
	drilled *Drilled
}

// partly reports whether somebody has the message. It does not keep others waiting, nor count as waiting.
func (w *waiting) partly() bool { return len(w.Reached) > 0 }

// queue is what a receiver has to get, the oldest first.
type queue struct {
	Waiting []*waiting `json:"waiting,omitempty"`
	// Sent is when the messages of the last hour were delivered. Holds counts those that are held back since there were too many: the first
	// is named at once. Names are titles of the others, the critical ones first. Urgent are the threads of critical ones that are not over.
	Sent   []time.Time `json:"sent,omitempty"`
	Holds  int         `json:"holds,omitempty"`
	Names  []string    `json:"names,omitempty"`
	Urgent []string    `json:"urgent,omitempty"`
	// Told is what the receiver knows of the last day, for the other exporters of a pair.
	Told []fact `json:"told,omitempty"`
	// Since is when the receiver was configured. Success is when something was last delivered, Answer what the service said.
	Since   time.Time `json:"since"`
	Success time.Time `json:"success,omitzero"`
	Answer  string    `json:"answer,omitempty"`
	// Lost counts the messages that could not be delivered in time, LostAt is when the last one was given up.
	Lost   int       `json:"lost,omitempty"`
	LostAt time.Time `json:"lost_at,omitzero"`

	// Failed is since when every attempt has failed, zero if the last one did not.
	Failed time.Time `json:"failing_since,omitzero"`

	// next is when to try again, zero for at once. inFlight says that an attempt is under way. failing is why the last one failed, nil if
	// this process has tried none.
	next     time.Time
	inFlight bool
	failing  error
	counts   map[string]uint64
	// drills are messages of drills. They come first, once, and count for nothing else.
	drills []*waiting
	// leads says that no other exporter of a pair sends first.
	leads bool
}

func (q *queue) count(outcome string) {
	if q.counts == nil {
		q.counts = map[string]uint64{}
	}
	q.counts[outcome]++
}

// add adds a message, once. What exceeds the messages of an hour is held back, and counted.
func (q *queue) add(add *waiting, now time.Time, link string) {
	m := &add.Message
	if slices.ContainsFunc(q.Waiting, func(w *waiting) bool { return w.ID == m.ID }) {
		return
	}
	q.Sent = slices.DeleteFunc(q.Sent, func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	if m.Level == service.LevelOver {
		q.calm(m.Thread)
	}
	isCritical := m.Level == service.LevelCritical
	due, room := len(q.Sent)+q.untold(), maxPerHour-forCritical
	if isCritical {
		room = maxPerHour
	}
	switch {
	case due < room && (isCritical || q.Holds == 0):
		add.Made = now
		q.Waiting = append(q.Waiting, add)
		return
	case q.Holds == 0:
		q.Waiting = append(q.Waiting, &waiting{Made: now, Spare: true, Message: service.Message{
			ID:    m.ID + "held",
			Title: m.Title,
			Text: fmt.Sprintf("There were %d messages within an hour. What follows is held back, and comes as one message. "+
				"What is critical still comes at once, up to %d an hour.", due, maxPerHour),
			Link:  link,
			Level: m.Level,
		}})
	case isCritical:
		q.Names = slices.Insert(q.Names, 0, m.Title)
	default:
		q.Names = append(q.Names, m.Title)
	}
	q.Names = q.Names[:min(len(q.Names), maxNames)]
	q.Urgent = slices.DeleteFunc(q.Urgent, func(thread string) bool { return thread == m.Thread })
	if isCritical && q.Holds > 0 {
		q.Urgent = append(q.Urgent, m.Thread)
	}
	q.Holds++
	q.count(Held)
	if q.leads {
		q.noteNow(add.Facts, now) // the others of a pair need not tell it
	}
}

// calm has what waits of a thread that is over wake nobody.
func (q *queue) calm(thread string) {
	for _, w := range q.Waiting {
		if w.Thread == thread && thread != "" && !w.underWay {
			w.Level = service.LevelOver
		}
	}
}

// hasFor reports whether a message of a thread waits. Until it is delivered, nothing has to be repeated.
func (q *queue) hasFor(thread string) bool {
	return slices.ContainsFunc(q.Waiting, func(w *waiting) bool { return w.Thread == thread && !w.partly() })
}

// untold is how many messages have reached nobody.
func (q *queue) untold() (n int) {
	for _, w := range q.Waiting {
		if !w.partly() {
			n++
		}
	}
	return n
}

// release sends what was held back as one message, once there is room.
func (q *queue) release(now time.Time, link string) {
	if q.Holds == 0 || q.untold() > 0 {
		return
	}
	q.Sent = slices.DeleteFunc(q.Sent, func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	if len(q.Sent) >= maxPerHour-forCritical {
		return
	}
	if n := q.Holds - 1; n > 0 {
		text, level := "- "+strings.Join(q.Names, "\n- "), service.LevelWarning
		if more := n - len(q.Names); more > 0 {
			text += fmt.Sprintf("\nAnd %d more.", more)
		}
		if len(q.Urgent) > 0 {
			level = service.LevelCritical
		}
		q.Waiting = append(q.Waiting, &waiting{Made: now, Spare: true, Message: service.Message{
			ID:    fmt.Sprintf("held%d", now.UnixMilli()),
			Title: wording.Count(n, "message") + " held back: there were too many",
			Text:  text,
			Link:  link,
			Level: level,
		}})
	}
	q.Holds, q.Names, q.Urgent = 0, nil, nil
}

// first is the message to send now, nil for none.
func (q *queue) first(now time.Time) *waiting {
	switch {
	case q.inFlight:
		return nil
	case len(q.drills) > 0:
		return q.drills[0]
	case now.Before(q.next):
		return nil
	}
	for _, again := range []bool{false, true} { // new ones come before the rest of the places of others
		for _, w := range q.Waiting {
			if w.partly() == again && !now.Before(w.next) && !now.Before(w.turn) {
				return w
			}
		}
	}
	return nil
}

// reconfigure ends all pauses between attempts, since the receiver may be mended. If nothing waits, no attempt will tell.
func (q *queue) reconfigure() {
	if len(q.Waiting) == 0 {
		q.failing, q.Failed = nil, time.Time{}
	}
	q.next = time.Time{}
	for _, w := range q.Waiting {
		w.next = time.Time{}
	}
}

// settle takes in the end of an attempt. It reports whether the state of the receiver has changed: it fails, or works again.
func (q *queue) settle(w *waiting, answer string, err error, now time.Time) (changed bool) {
	works := q.Failed.IsZero()
	q.inFlight, w.underWay = false, false
	w.Attempts++
	if err == nil {
		q.count(Delivered)
		q.remove(w)
		if !w.partly() {
			q.Sent = append(q.Sent, now)
			q.noteNow(w.Facts, now)
		}
		q.works(answer, now)
		return !works
	}
	q.count(Failed)
	if q.failing = err; works {
		q.Failed = now
	}
	pause := min(firstRetry<<min(w.Attempts-1, 10), maxRetry)
	next := now.Add(max(pause, min(service.RetryAfter(err), time.Hour)))
	if reached := service.Reached(err); len(reached) > 0 {
		if !w.partly() {
			q.Sent = append(q.Sent, now)
			q.noteNow(w.Facts, now)
		}
		w.Reached, w.next = reached, next
	} else {
		q.next = next
	}
	if now.Sub(w.Made) >= maxWait || service.Permanent(err) && w.Attempts >= hopeless {
		q.giveUp(w, now)
	}
	if partly := len(q.Waiting) - q.untold(); partly > maxPerHour {
		q.giveUp(q.Waiting[slices.IndexFunc(q.Waiting, (*waiting).partly)], now)
	}
	return works
}

// works notes that the service took a message.
func (q *queue) works(answer string, now time.Time) {
	q.Success, q.Answer = now, answer
	q.failing, q.Failed, q.next = nil, time.Time{}, time.Time{}
}

func (q *queue) giveUp(w *waiting, now time.Time) {
	q.count(Expired)
	q.remove(w)
	q.Lost, q.LostAt, q.next = q.Lost+1, now, time.Time{}
}

func (q *queue) remove(w *waiting) {
	q.Waiting = slices.DeleteFunc(q.Waiting, func(o *waiting) bool { return o == w })
}

// notAfter is that of a thread. Without a message that waits, it is unknown whether the receiver still fails.
func (q *queue) notAfter(now time.Time) {
	for i := range q.Sent {
		q.Sent[i] = earlier(q.Sent[i], now)
	}
	for _, w := range q.Waiting {
		w.Made = earlier(w.Made, now)
	}
	for i := range q.Told {
		q.Told[i].At = earlier(q.Told[i].At, now)
	}
	q.Since, q.Success, q.LostAt = earlier(q.Since, now), earlier(q.Success, now), earlier(q.LostAt, now)
	if q.Failed = earlier(q.Failed, now); len(q.Waiting) == 0 {
		q.Failed = time.Time{} // no attempt would tell
	}
}
