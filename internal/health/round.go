package health

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Round is what a judgement adds to the record of what happened: events, and a beat that closes the watched time. It has all that the folds
// over that record need, the same whether it has just happened or is read again: last changes, incidents and availability.
type Round struct {
	Tick
	// Events are in the order of time.
	Events []Event `json:"changes,omitempty"`
	// Latency is how long successful readings of targets took.
	Latency map[Key]Latency `json:"latency,omitempty"`
	// Every is the shortest time between scheduled readings; 0 if there are none.
	Every time.Duration `json:"-"`
}

// MarshalJSON implements json.Marshaler. It leaves out times that are clear: an event of now, and a problem that begins with its event.
func (r *Round) MarshalJSON() ([]byte, error) {
	type plain Round
	short := plain(*r)
	short.Events = slices.Clone(r.Events)
	for i := range short.Events {
		e := &short.Events[i]
		if e.Since == e.At {
			e.Since = 0
		}
		if e.At == r.To {
			e.At = 0
		}
	}
	return json.Marshal(&short)
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Round) UnmarshalJSON(data []byte) error {
	type plain Round
	err := json.Unmarshal(data, (*plain)(r))
	for i := range r.Events {
		e := &r.Events[i]
		e.At = cmp.Or(e.At, r.To)
		if e.Alert != "" && !e.Ended {
			e.Since = cmp.Or(e.Since, e.At)
		}
	}
	return err
}

// Join adds the next round.
func (r *Round) Join(next *Round) {
	r.To, r.Every, r.Events = next.To, next.Every, append(r.Events, next.Events...)
	for k, l := range next.Latency {
		r.addLatency(k, l)
	}
}

func (r *Round) addLatency(k Key, l Latency) {
	if r.Latency == nil {
		r.Latency = map[Key]Latency{}
	}
	l.Add(r.Latency[k])
	r.Latency[k] = l
}

// Latency is how many readings there were, the shortest, the longest, and their sum, in microseconds.
type Latency [4]int64

// Add adds other readings.
func (l *Latency) Add(o Latency) {
	switch {
	case o[0] == 0:
	case l[0] == 0:
		*l = o
	default:
		*l = Latency{l[0] + o[0], min(l[1], o[1]), max(l[2], o[2]), l[3] + o[3]}
	}
}

// Event is a change from one round to the next: of a subject's state, or with Alert of a problem, and so of the alert on it. An event of a
// problem says all about it as it is from then on.
type Event struct {
	At Milli `json:"at,omitempty"`
	Of Key   `json:"of"`
	// Was is a container that Of continues, a shared workload, with all that is kept of it. The event says nothing else. Such events
	// come first in a round.
	Was Key `json:"was,omitzero"`

	// From and To are states of the subject. They are equal if a container has only restarted in between, Times that often.
	From  State  `json:"-"`
	To    State  `json:"state,omitzero"`
	Times uint64 `json:"-"`
	// Reason says why the state has changed: why a reading failed, the state of a container, or the alert that impairs the subject.
	Reason string `json:"-"`

	// Alert is the name of the alert on a problem, Part the part of the subject that it is about. TargetKind is the kind of the target,
	// "" if it is as the event before has told.
	Alert      string `json:"alert,omitempty"`
	Part       string `json:"part,omitempty"`
	TargetKind string `json:"kind,omitempty"`
	// Since is when the problem began; AtLeast says that it may have begun earlier. Last is the last event of a problem that counts them.
	Since   Milli `json:"since,omitempty"`
	AtLeast bool  `json:"at_least,omitempty"`
	Last    Milli `json:"last,omitempty"`
	// Severity, Excuse and Cause are those of the Problem; no Cause is the subject itself. Server is the container that serves the target.
	Severity Severity `json:"severity,omitzero"`
	Excuse   Excuse   `json:"excuse,omitzero"`
	Cause    Key      `json:"cause,omitzero"`
	Server   Key      `json:"server,omitzero"`
	// Instances and Wanted are those of the Problem.
	Instances int `json:"instances,omitempty"`
	Wanted    int `json:"wanted,omitempty"`
	// Outages and UpAgain are those of the Problem.
	Outages int  `json:"outages,omitempty"`
	UpAgain bool `json:"up_again,omitempty"`
	// RefusesUs says that the target fails only because it refuses the exporter, so its users may be well.
	RefusesUs bool `json:"refuses_us,omitempty"`
	// Ended says that the problem is over, AtLatest that this may have been earlier, Unwatched that the subject is not watched any more.
	Ended     bool `json:"over,omitempty"`
	AtLatest  bool `json:"at_latest,omitempty"`
	Unwatched bool `json:"no_longer_watched,omitempty"`
}

// Subject returns what the event is about.
func (e *Event) Subject() Subject { return Subject(e.Of) }

// Joins reports whether the event only says that a workload continues a container.
func (e *Event) Joins() bool { return e.Was != Key{} }

// Key is a subject as text: service/NAME, container/HOST/NAME, workload/HOST/NAME or exporter/. A container's name has no slash. A
// workload's may have one, so that a slash of its HOST is written as %2F.
type Key Subject

// hostEscapes are how a workload's HOST is written.
var hostEscapes, hostUnescapes = strings.NewReplacer("%", "%25", "/", "%2F"), strings.NewReplacer("%25", "%", "%2F", "/")

// String returns the text.
func (k Key) String() string {
	switch k.Kind {
	case KindContainer:
		return "container/" + k.Host + "/" + k.Name
	case KindWorkload:
		return "workload/" + hostEscapes.Replace(k.Host) + "/" + k.Name
	case KindTarget:
		return "service/" + k.Name
	}
	return k.Kind + "/" + k.Name
}

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Key) UnmarshalText(text []byte) error {
	kind, name, found := strings.Cut(string(text), "/")
	host, workload, hasHost := strings.Cut(name, "/")
	switch i := strings.LastIndexByte(name, '/'); {
	case kind == "service":
		*k = Key(TargetSubject(name))
	case kind == KindWorkload && hasHost:
		*k = Key(WorkloadSubject(hostUnescapes.Replace(host), workload))
	case kind == KindContainer && i >= 0:
		*k = Key(ContainerSubject(name[:i], name[i+1:]))
	case kind != KindContainer && kind != KindWorkload && found:
		*k = Key(Subject{Kind: kind, Name: name})
	default:
		return fmt.Errorf("%q is no subject", text)
	}
	return nil
}
