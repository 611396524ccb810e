package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// record is one of its fields.
type record struct {
	Span    *span    `json:"span,omitempty"`
	Subject *content `json:"subject,omitempty"`
}

// span is a time that the exporter watched without a gap, in Unix milliseconds.
type span struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Reset says that the clock was set back to From before.
	Reset   bool     `json:"reset,omitempty"`
	Changes []change `json:"changes,omitempty"`
	// Latency has count, least, most and sum.
	Latency map[key][4]int64 `json:"latency,omitempty"`
}

// change is a subject's new state from a time on.
type change struct {
	Subject key   `json:"of"`
	State   State `json:"state"`
	At      int64 `json:"at"`
}

// content is all that is kept of a subject. Each bucket begins with its index.
type content struct {
	Of          key                   `json:"of"`
	State       State                 `json:"state"`
	Hours       [][1 + NotWatched]int `json:"hours"`
	Days        [][1 + NotWatched]int `json:"days"`
	HourLatency [][5]int64            `json:"hour_latency,omitempty"`
	DayLatency  [][5]int64            `json:"day_latency,omitempty"`
}

// key is a subject as text: service/NAME or container/HOST/NAME.
type key health.Subject

// Key returns the subject as text: service/NAME or container/HOST/NAME.
func Key(s health.Subject) string {
	if s.Kind == health.KindContainer {
		return "container/" + s.Host + "/" + s.Name
	}
	return "service/" + s.Name
}

// MarshalText implements encoding.TextMarshaler.
func (k key) MarshalText() ([]byte, error) { return []byte(Key(health.Subject(k))), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *key) UnmarshalText(text []byte) error {
	kind, name, _ := strings.Cut(string(text), "/")
	switch i := strings.LastIndexByte(name, '/'); {
	case kind == "service":
		*k = key(health.TargetSubject(name))
	case kind == "container" && i >= 0:
		*k = key(health.ContainerSubject(name[:i], name[i+1:]))
	default:
		return fmt.Errorf("%q is no subject", text)
	}
	return nil
}

// Kind marks the records of this package.
func (*History) Kind() string { return "availability" }

// record hands out what no record contains yet.
func (h *History) record(put func(any)) {
	p := &h.pending
	if p.To > p.From || len(p.Changes) > 0 || p.Reset {
		for _, s := range h.order {
			if l := &s.unrecorded; l.count > 0 {
				if p.Latency == nil {
					p.Latency = map[key][4]int64{}
				}
				p.Latency[key(s.Subject)] = [...]int64{int64(l.count), int64(l.min), int64(l.max), l.sum}
			}
		}
		put(record{Span: p})
		h.markRecorded()
	}
}

// markRecorded says that records contain everything.
func (h *History) markRecorded() {
	h.pending = span{From: h.pending.To, To: h.pending.To, Changes: h.pending.Changes[:0]}
	for _, s := range h.order {
		s.unrecorded = latency{}
	}
}

// Records returns values that replace all former records, and forgets subjects of which no day is kept.
func (h *History) Records() iter.Seq[any] {
	h.markRecorded()
	for i, s := range slices.Backward(h.order) {
		if s.state == NotWatched && s.lastHour() < h.last/hour-keptDays*24 {
			h.forget(i)
		}
	}
	copies := make([]subject, len(h.order))
	for i, s := range h.order {
		copies[i] = subject{
			Subject:     s.Subject,
			state:       s.state,
			hours:       slices.Clone(s.hours),
			days:        slices.Clone(s.days),
			hourLatency: slices.Clone(s.hourLatency),
			dayLatency:  slices.Clone(s.dayLatency),
		}
	}
	last := h.last
	return func(yield func(any) bool) {
		if !yield(record{Span: &span{From: last, To: last}}) {
			return
		}
		for i := range copies {
			if !yield(record{Subject: copies[i].content()}) {
				return
			}
		}
	}
}

func (s *subject) content() *content {
	return &content{
		key(s.Subject),
		s.state,
		savedTimes(s.hours),
		savedTimes(s.days),
		savedLatency(s.hourLatency),
		savedLatency(s.dayLatency),
	}
}

func savedTimes(b buckets[spent]) [][1 + NotWatched]int {
	list := make([][1 + NotWatched]int, len(b))
	for i := range b {
		list[i][0] = int(b[i].at)
		for state, milli := range b[i].content {
			list[i][1+state] = int(milli)
		}
	}
	return list
}

func savedLatency(b buckets[latency]) [][5]int64 {
	list := make([][5]int64, len(b))
	for i := range b {
		l := &b[i].content
		list[i] = [...]int64{int64(b[i].at), int64(l.count), int64(l.min), int64(l.max), l.sum}
	}
	return list
}

var errNonsense = errors.New("the record contradicts itself")

// Read restores a record. All records are read before the first observation.
func (h *History) Read(data []byte) error {
	var r record
	switch err := json.Unmarshal(data, &r); {
	case err != nil:
		return err
	case r.Span != nil:
		return h.readSpan(r.Span)
	case r.Subject != nil:
		return h.readContent(r.Subject)
	}
	return errNonsense
}

// longestSpan is longer than any span that is recorded.
const longestSpan = int64((maxBeat + 2*maxGap) / time.Millisecond)

func (h *History) readSpan(p *span) error {
	if p.From < 0 || p.To < p.From || p.To-p.From > longestSpan {
		return errNonsense
	}
	latencies := map[key]latency{}
	for k, l := range p.Latency {
		read, ok := latencyFrom(l)
		if !ok {
			return errNonsense
		}
		latencies[k] = read
	}
	h.apply(p)
	for k, l := range latencies {
		if s := h.subject(health.Subject(k)); s != nil {
			s.addLatency(l, p.To)
		}
	}
	return nil
}

func latencyFrom(l [4]int64) (latency, bool) {
	read := latency{
		uint32(l[0]),
		int32(l[1]),
		int32(l[2]),
		l[3],
	}
	return read, l[0] > 0 && int64(read.count) == l[0] && l[1] >= 0 && l[1] <= l[2] && int64(read.max) == l[2] && l[3] >= l[2]
}

func (h *History) readContent(c *content) error {
	read := subject{state: c.State}
	for _, list := range []struct {
		saved  [][1 + NotWatched]int
		into   *buckets[spent]
		length int64
		limit  int
	}{
		{
			c.Hours,
			&read.hours,
			hour,
			keptHours,
		},
		{
			c.Days,
			&read.days,
			day,
			keptDays,
		},
	} {
		for _, saved := range list.saved {
			in, sum := list.into.next(int64(saved[0]), list.limit), int64(0)
			if in == nil {
				return errNonsense
			}
			for state, milli := range saved[1:] {
				if sum += int64(milli); milli < 0 || sum > list.length {
					return errNonsense
				}
				in[state] = int32(milli)
			}
		}
	}
	for _, list := range []struct {
		saved [][5]int64
		into  *buckets[latency]
		limit int
	}{{c.HourLatency, &read.hourLatency, keptHours}, {c.DayLatency, &read.dayLatency, keptDays}} {
		for _, saved := range list.saved {
			l, ok := latencyFrom([4]int64(saved[1:]))
			in := list.into.next(saved[0], list.limit)
			if in == nil || !ok {
				return errNonsense
			}
			*in = l
		}
	}
	// The record of until when time is counted may be lost: at least what is in the latest bucket is counted.
	h.last = max(h.last, countedUntil(read.hours, hour), countedUntil(read.days, day))
	if s := h.subject(health.Subject(c.Of)); s != nil {
		s.state, s.hours, s.days, s.hourLatency, s.dayLatency = read.state, read.hours, read.days, read.hourLatency, read.dayLatency
	}
	return nil
}

// countedUntil returns the earliest end of what the latest bucket contains.
func countedUntil(b buckets[spent], length int64) int64 {
	if len(b) == 0 {
		return 0
	}
	latest := &b[len(b)-1]
	end := int64(latest.at) * length
	for _, milli := range latest.content {
		end += int64(milli)
	}
	return end
}

// next is in for an index that is higher than all others; nil if it is not, or out of range.
func (b *buckets[T]) next(at int64, limit int) *T {
	if n := len(*b); at < 0 || at != int64(int32(at)) || n > 0 && at <= int64((*b)[n-1].at) {
		return nil
	}
	return b.in(at, limit)
}
