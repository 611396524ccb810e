package status

import "time"

// problem is one thing that is wrong.
type problem struct {
	// what names the problem among those of its subject, however bad it becomes.
	what       string
	level      Level
	text, hint string
	// since is when the problem began, where that is known whenever one looks; first is where to begin when the problem is
	// seen for the first time, now where it is zero.
	since, first time.Time
}

// beginning is when a problem began, or when it was seen first where it was there already then.
type beginning struct {
	at      time.Time
	atLeast bool
}

// beginnings are those of the problems of one subject. A problem that ends is forgotten.
type beginnings struct {
	known  map[string]beginning
	looked bool // somebody has looked at the subject, or at where it would have been
}

// of notes what is wrong now and returns when each of it began. Of what is found at the first look nobody knows it.
func (b *beginnings) of(list []problem, now time.Time) []beginning {
	known := make(map[string]beginning, len(list))
	began := make([]beginning, len(list))
	for i := range list {
		p := &list[i]
		v, ok := b.known[p.what]
		switch {
		case !p.since.IsZero():
			v = beginning{at: p.since}
		case ok:
		case !p.first.IsZero():
			v = beginning{at: p.first}
		default:
			v = beginning{at: now, atLeast: !b.looked}
		}
		known[p.what], began[i] = v, v
	}
	b.known, b.looked = known, true
	return began
}

// first is the beginning of the oldest problem of a level.
func first(list []problem, began []beginning, level Level) beginning {
	var oldest beginning
	for i := range list {
		if list[i].level == level && (oldest.at.IsZero() || began[i].at.Before(oldest.at)) {
			oldest = began[i]
		}
	}
	return oldest
}
