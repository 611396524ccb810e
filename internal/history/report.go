package history

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// Report is the history of all subjects at one moment. It is immutable.
type Report struct {
	Time     time.Time `json:"time"`
	Subjects []Subject `json:"subjects"` // services before containers, then by engine and name
}

// Subject is the history of a service or container.
type Subject struct {
	// Key is service/NAME or container/HOST/NAME.
	Key string `json:"-"`
	// Kind is service or container; DockerHost is the container's engine, empty for a service.
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	DockerHost string `json:"docker_host,omitempty"`
	// State is the present state, NotWatched if the last observation is over 90 s old.
	State State `json:"state"`
	// Windows are the last 24 h, 7 d, 30 d and 90 d.
	Windows []Window `json:"windows"`
}

// Window is a time until now. Its first bucket is a whole one, the last is the current one.
type Window struct {
	Name  string    `json:"window"`
	Start time.Time `json:"start"`
	// Step is the length of a bucket in seconds.
	Step float64 `json:"step_seconds"`
	// Available is the percentage of the watched time without maintenance in which it was up or degraded; nil if nothing was watched.
	Available *float64 `json:"available_percent"`
	// Watched is how many seconds that percentage is of.
	Watched float64 `json:"watched_seconds"`
	Spent   Times   `json:"seconds"`
	// Latency is nil if no probe has succeeded, and for a container.
	Latency *Latency `json:"latency"`
	Buckets []Bucket `json:"buckets"`
}

// Bucket is one step of a window.
type Bucket struct {
	Spent   Times
	Latency *Latency
}

// MarshalJSON implements json.Marshaler. It omits what is 0, since most buckets have one state.
func (b Bucket) MarshalJSON() ([]byte, error) {
	body := b.Spent.appendJSON(nil, false)
	if b.Latency == nil {
		return body, nil
	}
	latency, err := json.Marshal(b.Latency)
	if len(body) > len("{}") {
		latency = append([]byte(`,"latency":`), latency...)
	} else {
		latency = append([]byte(`"latency":`), latency...)
	}
	return append(append(body[:len(body)-1], latency...), '}'), err
}

// Times is how long each state lasted, by state.
type Times [health.States]time.Duration

// MarshalJSON implements json.Marshaler.
func (t Times) MarshalJSON() ([]byte, error) { return t.appendJSON(nil, true), nil }

// appendJSON is written by hand, as a response has tens of thousands of buckets.
func (t *Times) appendJSON(to []byte, zeros bool) []byte {
	to = append(to, '{')
	for state, spent := range t {
		if spent == 0 && !zeros {
			continue
		}
		if to[len(to)-1] != '{' {
			to = append(to, ',')
		}
		to = append(append(append(to, '"'), State(state).String()...), `":`...)
		to = strconv.AppendFloat(to, spent.Seconds(), 'f', -1, 64)
	}
	return append(to, '}')
}

// Available returns the percentage of the watched time without maintenance in which it was up or degraded; false if there is none.
func (t Times) Available() (percent float64, ok bool) {
	watched := t.Watched()
	if watched == 0 {
		return 0, false
	}
	return 100 * float64(t[Up]+t[Degraded]) / float64(watched), true
}

// Watched returns the watched time without maintenance.
func (t Times) Watched() time.Duration { return t[Up] + t[Degraded] + t[Down] }

// Worst returns the state to show for the whole time: any downtime shows, and a time that was mostly not watched is not up.
func (t *Times) Worst() State {
	switch {
	case t[Down] > 0:
		return Down
	case t[Degraded] > 0:
		return Degraded
	case t[Up]+t[Maintenance] == 0, t[NotWatched] > t[Up]+t[Maintenance]:
		return NotWatched
	case t[Maintenance] > t[Up]:
		return Maintenance
	}
	return Up
}

// Latency is how long successful probes took, in seconds.
type Latency struct {
	Mean  float64 `json:"mean"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Count uint32  `json:"count"`
}

// seconds returns nil without probes.
func seconds(l health.Latency) *Latency {
	if l[0] == 0 {
		return nil
	}
	const micro = 1e6
	return &Latency{
		float64(l[3]) / float64(l[0]) / micro,
		float64(l[1]) / micro,
		float64(l[2]) / micro,
		uint32(l[0]),
	}
}

// windows are those of a report. Steps of whole hours come from the hours, longer windows from the days.
var windows = [...]struct {
	name  string
	step  int64
	steps int64
}{{"24h", hour, 24}, {"7d", 6 * hour, 28}, {"30d", day, 30}, {"90d", day, 90}}

// Report returns the history at a time.
func (h *History) Report(now time.Time) *Report {
	wall := now.UnixMilli()
	if since := wall - h.last; since > 0 && since <= health.MaxGap.Milliseconds() {
		wall = h.last // until the next observation, what is newer is not yet known rather than not watched
	}
	watched := now.UnixMilli()-h.last <= health.MaxGap.Milliseconds()
	r := &Report{Time: now, Subjects: make([]Subject, 0, len(h.subjects))}
	steps := 0
	for _, w := range windows {
		steps += int(w.steps)
	}
	for _, s := range h.subjects {
		name := s.Of.String()
		kind, _, _ := strings.Cut(name, "/")
		subject := Subject{
			Key:        name,
			Kind:       kind,
			Name:       s.Of.Name,
			DockerHost: s.Of.Host,
			State:      s.State,
			Windows:    make([]Window, 0, len(windows)),
		}
		if !watched {
			subject.State = NotWatched
		}
		all := make([]Bucket, steps)
		for _, w := range windows {
			first := wall/w.step - w.steps + 1
			of := Window{
				Name:    w.name,
				Start:   time.UnixMilli(first * w.step).UTC(),
				Step:    float64(w.step) / 1000,
				Buckets: all[:w.steps:w.steps],
			}
			all = all[w.steps:]
			s.fill(&of, first, w.step, wall)
			subject.Windows = append(subject.Windows, of)
		}
		r.Subjects = append(r.Subjects, subject)
	}
	slices.SortFunc(r.Subjects, compare)
	return r
}

// fill fills a window's buckets and sums. first is the index of its first step.
func (s *Kept) fill(w *Window, first, step, wall int64) {
	times, latencies, length := s.Hours, s.HourLatency, hour
	if step == day {
		times, latencies, length = s.Days, s.DayLatency, day
	}
	in := func(all buckets, add func(bucket *Bucket, b bucket)) {
		for _, b := range all {
			i := b[0]*length/step - first
			if i >= 0 && i < int64(len(w.Buckets)) && b[0]*length < wall {
				add(&w.Buckets[i], b)
			}
		}
	}
	in(times, func(to *Bucket, b bucket) {
		for state, milli := range b[1:] {
			to.Spent[state] += time.Duration(milli) * time.Millisecond
		}
	})
	var all, one health.Latency
	var at *Bucket
	in(latencies, func(to *Bucket, b bucket) {
		if to != at {
			at, one = to, health.Latency{}
		}
		one.Add(health.Latency(b[1:]))
		all.Add(health.Latency(b[1:]))
		to.Latency = seconds(one)
	})
	w.Latency = seconds(all)
	for i := range w.Buckets {
		spent := &w.Buckets[i].Spent
		start := (first + int64(i)) * step
		left := time.Duration(min(step, wall-start)) * time.Millisecond
		for _, t := range spent[:NotWatched] {
			left -= t
		}
		spent[NotWatched] = max(left, 0)
		for state, t := range spent {
			w.Spent[state] += t
		}
	}
	w.Watched = w.Spent.Watched().Seconds()
	if percent, ok := w.Spent.Available(); ok {
		w.Available = &percent
	}
}
