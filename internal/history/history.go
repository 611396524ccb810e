// Package history counts how long services and containers were up, degraded, down, under maintenance and not watched, in hours and in
// days (UTC), and how long probes took. It is a fold over the rounds of the judge, and does no I/O.
package history

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// State is how a service or container is.
type State = health.State

// The states. A subject is not watched while nothing is known of it.
const (
	Up          = health.Up
	Degraded    = health.Degraded
	Down        = health.Down
	Maintenance = health.Maintenance
	NotWatched  = health.NotWatched
)

const (
	// keptHours and keptDays are how many hours and days with content are kept of each subject.
	keptHours, keptDays = 8 * 24, 91
	// maxSubjects bounds the services and containers. Beyond it, those that were seen last longest ago make room.
	maxSubjects = 2500
)

// The lengths of buckets in milliseconds, in which all times are counted.
const (
	hour = int64(time.Hour / time.Millisecond)
	day  = 24 * hour
)

// History is the history of all subjects. It is not safe for concurrent use.
type History struct {
	subjects map[health.Subject]*Kept
	// last is until when time is counted, in Unix milliseconds. Time before it is never counted again.
	last int64
}

// Kept is all that is kept of a service or container.
type Kept struct {
	Of    health.Key `json:"of"`
	State State      `json:"state"`
	// Hours and Days have the milliseconds in each state but NotWatched.
	Hours buckets `json:"hours"`
	Days  buckets `json:"days"`
	// HourLatency and DayLatency are of successful probes; a container has none.
	HourLatency buckets `json:"hour_latency,omitempty"`
	DayLatency  buckets `json:"day_latency,omitempty"`

	// until is the time in the present round until which the subject's time is counted.
	until int64
}

// bucket is an hour or day, counted since 1970, with the times in each state or a health.Latency.
type bucket [1 + len(health.Latency{})]int64

// buckets are those with content, the oldest first.
type buckets []bucket

// add adds to the content at an index, unless there are later ones, since the clock was set back. If there are limit buckets, the oldest
// makes room: by their number, so that a clock in the far future costs only one.
func (b *buckets) add(at int64, limit int, content func(*bucket)) {
	list := *b
	if n := len(list); n == 0 || list[n-1][0] < at {
		if n >= limit {
			list = list[:copy(list, list[n-limit+1:])]
		}
		list = append(list, bucket{at})
		*b = list
	}
	if last := &list[len(list)-1]; last[0] == at {
		content(last)
	}
}

// latency adds readings to a bucket.
func latency(l health.Latency) func(*bucket) {
	return func(b *bucket) {
		known := health.Latency(b[1:])
		known.Add(l)
		copy(b[1:], known[:])
	}
}

// sum adds times to a bucket.
func sum(more bucket) func(*bucket) {
	return func(b *bucket) {
		for i := range b[1:] {
			b[1+i] += more[1+i]
		}
	}
}

// New returns an empty history.
func New() *History { return &History{subjects: map[health.Subject]*Kept{}} }

// subject returns a known subject, or a new one; nil if there is no room for it.
func (h *History) subject(k health.Key) *Kept {
	known := h.subjects[health.Subject(k)]
	if known == nil {
		if len(h.subjects) >= maxSubjects && !h.makeRoom() {
			return nil
		}
		// Its strings must not keep a whole list of containers in memory.
		k.Host, k.Name = strings.Clone(k.Host), strings.Clone(k.Name)
		known = &Kept{Of: k, State: NotWatched}
		h.subjects[health.Subject(k)] = known
	}
	return known
}

// makeRoom forgets the subject that is not watched and was last seen longest ago. It returns false if all are watched.
func (h *History) makeRoom() bool {
	var oldest *Kept
	for _, s := range h.subjects {
		if s.State == NotWatched && (oldest == nil || byAge(s, oldest) < 0) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	delete(h.subjects, health.Subject(oldest.Of))
	return true
}

func byAge(a, b *Kept) int {
	return cmp.Or(cmp.Compare(a.lastHour(), b.lastHour()), strings.Compare(a.Of.Kind, b.Of.Kind), strings.Compare(a.Of.Host, b.Of.Host),
		strings.Compare(a.Of.Name, b.Of.Name))
}

// lastHour is the last hour with content, or the last day if no hour is kept.
func (s *Kept) lastHour() int64 {
	if n := len(s.Hours); n > 0 {
		return s.Hours[n-1][0]
	}
	if n := len(s.Days); n > 0 {
		return s.Days[n-1][0] * 24
	}
	return 0
}

// Apply adds a round of the judge.
func (h *History) Apply(r *health.Round) {
	from, to := int64(r.From), int64(r.To)
	if r.Back {
		h.setBack(from)
	}
	if r.Start {
		for _, s := range h.subjects {
			s.State = NotWatched
		}
	}
	from = max(from, h.last)
	for i := range r.Events {
		if e := &r.Events[i]; e.Joins() {
			h.join(health.Subject(e.Was), e.Of)
		} else if e.Alert == "" {
			if s := h.subject(e.Of); s != nil {
				s.count(from, min(int64(e.At), to))
				s.State = e.To
			}
		}
	}
	for _, s := range h.subjects {
		s.count(from, to)
	}
	for k, l := range r.Latency {
		if s := h.subject(k); s != nil {
			s.HourLatency.add(to/hour, keptHours, latency(l))
			s.DayLatency.add(to/day, keptDays, latency(l))
		}
	}
	h.last = max(h.last, to)
}

// join makes a subject continue another one, once. Of an hour or day that both have, the better watched one remains.
func (h *History) join(was health.Subject, of health.Key) {
	old := h.subjects[was]
	if old == nil {
		return
	}
	delete(h.subjects, was)
	s := h.subject(of)
	if s.State == NotWatched {
		s.State, s.until = old.State, old.until
	}
	s.Hours, s.Days = s.Hours.joined(old.Hours, keptHours), s.Days.joined(old.Days, keptDays)
	s.HourLatency, s.DayLatency = s.HourLatency.joined(old.HourLatency, keptHours), s.DayLatency.joined(old.DayLatency, keptDays)
}

// joined returns the buckets of both lists, at most limit.
func (b buckets) joined(o buckets, limit int) (all buckets) {
	for _, one := range slices.SortedStableFunc(slices.Values(slices.Concat(b, o)), func(x, y bucket) int {
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(y.watched(), x.watched()))
	}) {
		all.add(one[0], limit, func(kept *bucket) {
			if kept.watched() == 0 {
				*kept = one
			}
		})
	}
	return all
}

// watched is how long the subject was watched in the hour or day.
func (b *bucket) watched() (all int64) {
	for _, n := range b[1:] {
		all += n
	}
	return all
}

// count counts the subject's time in its state, from the later of from and what is counted already.
func (s *Kept) count(from, to int64) {
	at := max(s.until, from)
	s.until = max(at, to)
	if s.State == NotWatched {
		return
	}
	for at < to {
		end := min(to, (at/hour+1)*hour)
		more := bucket{}
		more[1+s.State] = end - at
		s.Hours.add(at/hour, keptHours, sum(more))
		s.Days.add(at/day, keptDays, sum(more))
		at = end
	}
}

// setBack drops all hours after that of a time, as they are in the future now. The hour itself stays, so the rest of it counts as measured.
func (h *History) setBack(to int64) {
	h.last = min(h.last, to)
	for _, s := range h.subjects {
		s.until = 0
		cut(&s.Hours, &s.Days, to, sum)
		cut(&s.HourLatency, &s.DayLatency, to, func(b bucket) func(*bucket) { return latency(health.Latency(b[1:])) })
		if n := len(s.Hours); n > 0 && s.Hours[n-1][0] == to/hour {
			h.last = (to/hour + 1) * hour
		}
	}
}

// cut drops the hours and days after a time, and makes its day again of the hours that are left.
func cut(hours, days *buckets, to int64, add func(bucket) func(*bucket)) {
	later := func(at int64) func(bucket) bool { return func(b bucket) bool { return b[0] > at } }
	*hours = slices.DeleteFunc(*hours, later(to/hour))
	*days = slices.DeleteFunc(*days, later(to/day))
	if n := len(*days); n > 0 && (*days)[n-1][0] == to/day {
		(*days)[n-1] = bucket{to / day}
		for _, b := range *hours {
			if b[0]/24 == to/day {
				days.add(to/day, keptDays, add(b))
			}
		}
	}
}

// Last is until when time is counted.
func (h *History) Last() health.Milli { return health.Milli(h.last) }

// All returns all that is kept of each subject. Subjects of which no day is kept are forgotten.
func (h *History) All() []*Kept {
	maps.DeleteFunc(h.subjects, func(_ health.Subject, s *Kept) bool {
		return s.State == NotWatched && s.lastHour() < h.last/hour-keptDays*24
	})
	all := make([]*Kept, 0, len(h.subjects))
	for _, s := range slices.SortedFunc(maps.Values(h.subjects), byAge) {
		all = append(all, s.clone())
	}
	return all
}

// clone returns a copy without room to spare.
func (s *Kept) clone() *Kept {
	c := *s
	for _, b := range []*buckets{&c.Hours, &c.Days, &c.HourLatency, &c.DayLatency} {
		*b = append(buckets{}, *b...)
	}
	return &c
}

var errNonsense = errors.New("the record contradicts itself")

// Restore takes over all that was kept of a subject.
func (h *History) Restore(k *Kept) error {
	for _, list := range []struct {
		buckets
		limit, length int
	}{{k.Hours, keptHours, int(hour)}, {k.Days, keptDays, int(day)}, {k.HourLatency, keptHours, 0}, {k.DayLatency, keptDays, 0}} {
		if !list.valid(list.limit, int64(list.length)) {
			return errNonsense
		}
	}
	// The record of until when time is counted may be lost: at least what is in the latest bucket is counted.
	h.last = max(h.last, k.Hours.countedUntil(hour), k.Days.countedUntil(day))
	if s := h.subject(k.Of); s != nil {
		*s = *k.clone() // what was decoded takes a third more memory
	}
	return nil
}

// valid reports whether the buckets are in order, and their times not longer than they are.
func (b buckets) valid(limit int, length int64) bool {
	for i, one := range b {
		if slices.Min(one[:]) < 0 || length > 0 && one.watched() > length || i > 0 && one[0] <= b[i-1][0] {
			return false
		}
	}
	return len(b) <= limit
}

// countedUntil returns the earliest end of what the latest bucket contains.
func (b buckets) countedUntil(length int64) int64 {
	if len(b) == 0 {
		return 0
	}
	latest := b[len(b)-1]
	end := latest[0] * length
	for _, milli := range latest[1:] {
		end += milli
	}
	return end
}

// compare puts services before containers, and these before workloads, then sorts by engine and name.
func compare(a, b Subject) int {
	order := []string{"service", health.KindContainer, health.KindWorkload}
	return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), strings.Compare(a.DockerHost, b.DockerHost),
		strings.Compare(a.Name, b.Name))
}
