// Package history counts how long services and containers were up, degraded, down, under maintenance and not watched, in hours and in
// days (UTC), and how long probes took. It does no I/O: what it must remember over a restart, it hands out as records.
package history

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

const (
	// keptHours and keptDays are how many hours and days with content are kept of each subject.
	keptHours, keptDays = 8 * 24, 91
	// maxSubjects bounds the services and containers. Beyond it, those that were seen last longest ago make room.
	maxSubjects = 2500
	// maxGap is the longest time between two observations that counts as watched: three polls of the default interval.
	maxGap = 90 * time.Second
	// clockTolerance is how far the wall clock may deviate from the monotonic clock between two observations.
	clockTolerance = time.Second
	// acceptAfter is how long a clock must stay set back until later records are dropped.
	acceptAfter = time.Hour
	// A heartbeat is recorded as often as the most frequent poll, within these limits.
	minBeat, maxBeat = time.Second, 30 * time.Second
)

// The lengths of buckets in milliseconds, in which all times are counted.
const (
	hour = int64(time.Hour / time.Millisecond)
	day  = 24 * hour
)

// History is the history of all subjects. It is not safe for concurrent use.
type History struct {
	subjects map[health.Subject]*subject
	order    []*subject
	// last is until when time is counted, in Unix milliseconds. Time before it is never counted again.
	last int64

	// What follows belongs to this process.
	rules rules
	// now is the time of the last observation, wall its Unix milliseconds, round counts the observations.
	now   time.Time
	wall  int64
	round uint64
	// behindSince is since when the clock has been set back to an hour before last; zero if it is not.
	behindSince time.Time
	// current is the span of this observation, pending what no record contains yet.
	current, pending span
}

// subject is a service or container.
type subject struct {
	health.Subject

	state State
	// until is the time in the present span until which the subject's time is counted.
	until       int64
	hours, days buckets[spent]
	// hourLatency and dayLatency are of successful probes; a container has none.
	hourLatency, dayLatency buckets[latency]

	// What follows belongs to this process. seen is the last round with the subject, readUp the verdict of its last reading.
	seen         uint64
	read, readUp bool
	readAt       time.Time
	// unrecorded is the latency that no record contains yet.
	unrecorded latency
}

// spent is the time in each state but NotWatched, in milliseconds.
type spent [NotWatched]int32

// latency is how long successful probes took, in microseconds.
type latency struct {
	count    uint32
	min, max int32
	sum      int64
}

func (l *latency) add(o latency) {
	switch {
	case o.count == 0:
	case l.count == 0:
		*l = o
	default:
		*l = latency{
			l.count + o.count,
			min(l.min, o.min),
			max(l.max, o.max),
			l.sum + o.sum,
		}
	}
}

func latencyOf(took time.Duration) latency {
	micro := int32(min(max(took.Microseconds(), 0), math.MaxInt32))
	return latency{
		1,
		micro,
		micro,
		int64(micro),
	}
}

// bucket is one hour or day, counted since 1970.
type bucket[T any] struct {
	at      int32
	content T
}

// buckets are those with content, the oldest first.
type buckets[T any] []bucket[T]

// in returns the content at an index; nil if there are later ones, since the clock was set back. If there are limit buckets, the oldest
// makes room: by their number, so that a clock in the far future costs only one.
func (b *buckets[T]) in(at int64, limit int) *T {
	list := *b
	if n := len(list); n > 0 && int64(list[n-1].at) > at {
		return nil
	} else if n == 0 || int64(list[n-1].at) < at {
		if n >= limit {
			list = list[:copy(list, list[n-limit+1:])]
		}
		list = append(list, bucket[T]{at: int32(at)})
		*b = list
	}
	return &list[len(list)-1].content
}

// of returns the content at an index, nil if it has none.
func (b buckets[T]) of(at int64) *T {
	i, ok := slices.BinarySearchFunc(b, at, func(b bucket[T], at int64) int { return cmp.Compare(int64(b.at), at) })
	if !ok {
		return nil
	}
	return &b[i].content
}

// dropAfter drops all buckets after an index.
func (b *buckets[T]) dropAfter(at int64) {
	for len(*b) > 0 && int64((*b)[len(*b)-1].at) > at {
		*b = (*b)[:len(*b)-1]
	}
}

// New returns an empty history.
func New() *History { return &History{subjects: map[health.Subject]*subject{}, round: 1} }

// subject returns a known subject, or a new one; nil if there is no room for it.
func (h *History) subject(s health.Subject) *subject {
	known := h.subjects[s]
	if known == nil {
		if len(h.order) >= maxSubjects && !h.makeRoom() {
			return nil
		}
		// Its strings must not keep a whole list of containers in memory.
		s.Host, s.Name = strings.Clone(s.Host), strings.Clone(s.Name)
		known = &subject{Subject: s, state: NotWatched}
		h.subjects[s] = known
		h.order = append(h.order, known)
	}
	return known
}

// makeRoom forgets the subject that is not watched and was last seen longest ago. It returns false if all are watched.
func (h *History) makeRoom() bool {
	oldest := -1
	for i, s := range h.order {
		if s.state == NotWatched && s.seen != h.round && (oldest < 0 || s.lastHour() < h.order[oldest].lastHour()) {
			oldest = i
		}
	}
	if oldest >= 0 {
		h.forget(oldest)
	}
	return oldest >= 0
}

func (h *History) forget(i int) {
	delete(h.subjects, h.order[i].Subject)
	h.order = slices.Delete(h.order, i, i+1)
}

// lastHour is the last hour with content, or the last day if no hour is kept.
func (s *subject) lastHour() int64 {
	if n := len(s.hours); n > 0 {
		return int64(s.hours[n-1].at)
	}
	if n := len(s.days); n > 0 {
		return int64(s.days[n-1].at) * 24
	}
	return 0
}

// Observe adds what is known at one moment. It calls put with each value to record; the value is valid during the call only.
func (h *History) Observe(f *health.Facts, j *health.Judgement, put func(any)) {
	wall := f.Now.UnixMilli()
	elapsed, passed := f.Now.Sub(h.now), time.Duration(wall-h.wall)*time.Millisecond
	watched := !h.now.IsZero() && elapsed >= 0 && elapsed <= maxGap && (elapsed-passed).Abs() <= clockTolerance
	from := wall
	if watched {
		from = min(h.wall, wall)
	}
	h.now, h.wall, h.round = f.Now, wall, h.round+1
	h.current = span{
		From:    from,
		To:      wall,
		Changes: h.current.Changes[:0],
		Reset:   h.acceptsClock(f.Now, wall),
	}
	if !watched || h.current.Reset || h.pending.To/hour != wall/hour {
		h.record(put) // records show gaps, and the latency in one is of one hour
		h.pending.From, h.pending.To = from, from
	}
	if h.current.Reset {
		h.setBack(from)
	}
	h.rules.reset(f, j)
	beat := time.Duration(0)
	for i := range f.Targets {
		t := &f.Targets[i]
		h.observeTarget(t, from, wall)
		if t.Every > 0 && (beat == 0 || t.Every < beat) {
			beat = t.Every
		}
	}
	for i := range f.Engines {
		if e := &f.Engines[i]; e.Read {
			for k := range e.Containers {
				h.observeContainer(&e.Containers[k], wall)
			}
		}
	}
	for _, s := range h.order {
		if s.seen != h.round {
			h.change(s, NotWatched, wall)
			s.read = false
		}
	}
	h.apply(&h.current)
	p := &h.pending
	p.To, p.Reset, p.Changes = max(p.To, wall), h.current.Reset, append(p.Changes, h.current.Changes...)
	// Half of it, since a poll that comes a little early must not wait for the next.
	if len(p.Changes) > 0 || p.Reset || p.To-p.From >= min(max(beat, minBeat), maxBeat).Milliseconds()/2 {
		h.record(put)
	}
}

func (h *History) observeTarget(t *health.Target, from, wall int64) {
	name := health.TargetSubject(t.Name)
	s := h.subject(name)
	if s == nil {
		return
	}
	s.seen = h.round
	// The difference of times is by the monotonic clock, as ReadAt may be older than a step of the wall clock.
	noticed := wall - h.now.Sub(s.noticed(t, h.now)).Milliseconds()
	h.change(s, h.rules.ofTarget(t, name), min(max(noticed, from), wall))
	if t.Read && t.Up && !t.ReadAt.Equal(s.readAt) {
		l := latencyOf(t.Took)
		s.addLatency(l, wall)
		s.unrecorded.add(l)
	}
	s.read, s.readUp, s.readAt = t.Read, t.Up, t.ReadAt
}

func (h *History) observeContainer(c *health.Container, wall int64) {
	name := health.ContainerSubject(c.Host, c.Name)
	if s := h.subject(name); s != nil {
		s.seen = h.round
		h.change(s, h.rules.ofContainer(c, name), wall)
	}
}

func (h *History) change(s *subject, to State, at int64) {
	if s.state != to {
		h.current.Changes = append(h.current.Changes, change{key(s.Subject), to, at})
	}
}

// acceptsClock reports whether a clock that was set back has been so for long enough to believe it.
func (h *History) acceptsClock(now time.Time, wall int64) bool {
	switch {
	case wall/hour >= h.last/hour:
		h.behindSince = time.Time{}
	case h.behindSince.IsZero():
		h.behindSince = now
	case now.Sub(h.behindSince) >= acceptAfter:
		h.behindSince = time.Time{}
		return true
	}
	return false
}

// apply counts a span, live or from a record.
func (h *History) apply(p *span) {
	if p.Reset {
		h.setBack(p.From)
	}
	from := max(p.From, h.last)
	for _, c := range p.Changes {
		if s := h.subject(health.Subject(c.Subject)); s != nil {
			s.count(from, min(c.At, p.To))
			s.state = c.State
		}
	}
	for _, s := range h.order {
		s.count(from, p.To)
	}
	h.last = max(h.last, p.To)
}

// count counts the subject's time in its state, from the later of from and what is counted already.
func (s *subject) count(from, to int64) {
	at := max(s.until, from)
	s.until = max(at, to)
	if s.state == NotWatched {
		return
	}
	for at < to {
		end := min(to, (at/hour+1)*hour)
		// Records may be damaged, so there may be later buckets in spite of last.
		if in, today := s.hours.in(at/hour, keptHours), s.days.in(at/day, keptDays); in != nil && today != nil {
			in[s.state] += int32(end - at)
			today[s.state] += int32(end - at)
		}
		at = end
	}
}

func (s *subject) addLatency(l latency, at int64) {
	if in, today := s.hourLatency.in(at/hour, keptHours), s.dayLatency.in(at/day, keptDays); in != nil && today != nil {
		in.add(l)
		today.add(l)
	}
}

// setBack drops all hours after that of a time, as they are in the future now. The hour itself stays, so the rest of it counts as measured.
func (h *History) setBack(to int64) {
	h.last = min(h.last, to)
	for _, s := range h.order {
		s.until = 0
		cut(&s.hours, &s.days, to, func(sum *spent, o spent) {
			for i := range o {
				sum[i] += o[i]
			}
		})
		cut(&s.hourLatency, &s.dayLatency, to, (*latency).add)
		if s.hours.of(to/hour) != nil {
			h.last = (to/hour + 1) * hour
		}
	}
}

// cut drops the hours and days after a time, and makes its day again of the hours that are left.
func cut[T any](hours, days *buckets[T], to int64, add func(*T, T)) {
	hours.dropAfter(to / hour)
	days.dropAfter(to / day)
	today := days.of(to / day)
	if today == nil {
		return
	}
	*today = *new(T)
	for _, b := range *hours {
		if int64(b.at)/24 == to/day {
			add(today, b.content)
		}
	}
}
