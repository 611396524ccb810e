package notify

import (
	"cmp"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// kind is what a message tells.
type kind string

// The kinds of messages. A summary is about what could not be told when it happened.
const (
	began   kind = "began"
	worse   kind = "worse"
	over    kind = "over"
	again   kind = "again"
	text    kind = "text"
	summary kind = "summary"
)

// news is something that a receiver has to be told.
type news struct {
	receiver *Receiver
	kind     kind
	// threads are those that it is about: several only in a summary. times is how many messages about the first one came before.
	threads []*thread
	times   int
	// first is the first of the texts of people that is new.
	first int
	// title is that of the last message about the first thread, told when that was, ended when what it told did.
	title       string
	told, ended time.Time
	// gathered says that a summary is of what was to be told now.
	gathered bool
}

// settle is how long a stage waits for other alerts of its cause.
func settle(s stage) time.Duration {
	if s == critical {
		return settleCritical
	}
	return settleWarning
}

// visible is what a receiver sees of a stage.
func (r *Receiver) visible(s stage) stage {
	if s.severity() < r.Least {
		return silent
	}
	return s
}

// due reports whether the thread has for long enough got further than a receiver was told. Stages that it is not told of do not count.
func (r *Receiver) due(t *thread, now time.Time, before stage, open bool) bool {
	for s := before + 1; s <= t.Stage; s++ {
		at := t.Stages[s]
		if r.visible(s) > silent && (open || s == critical || t.Stage < critical) && !at.IsZero() && now.Sub(at) >= settle(s) {
			return true
		}
	}
	return false
}

// newsFor returns what a receiver has to be told, which from then on it has been told. It was configured at since.
func (b *book) newsFor(r *Receiver, v *View, since time.Time) (list []news) {
	open := r.Hours.Contains(v.Now.In(r.zone()))
	// What is wrong with the exporter itself has a summary of its own, since the others of a pair know nothing of it.
	sums, urgent := [2]news{{receiver: r, kind: summary}, {receiver: r, kind: summary}}, false
	for _, t := range b.threads {
		k := t.Told[r.Name]
		if k == nil && (!t.about(r.Targets) || t.has(failureOf(r.Name))) {
			continue
		}
		if k == nil {
			k = &told{}
			if t.isOlder(since) {
				k.Stage, k.Held = r.visible(t.Stage), r.visible(t.Stage) > silent
			}
			t.Told[r.Name] = k
		}
		ended := b.endFor(r, t, k, v.Now)
		if kind := b.next(r, t, k, v.Now, open, ended); kind != "" {
			list = append(list, news{
				receiver: r,
				kind:     kind,
				threads:  []*thread{t},
				times:    k.Times,
				title:    k.Title,
				told:     k.At,
				ended:    ended,
			})
			k.tell(v.Now, t)
		}
		if texts := len(t.texts()); r.Notes && k.Times > 0 && texts > k.Texts {
			list = append(list, news{
				receiver: r,
				kind:     text,
				threads:  []*thread{t},
				times:    k.Times,
				first:    k.Texts,
			})
			k.Texts, k.Times = texts, k.Times+1
		}
		if k.Held {
			sum := &sums[0]
			if t.isOwn() {
				sum = &sums[1]
			}
			sum.threads = append(sum.threads, t)
			urgent = urgent || r.visible(t.Stage) == critical
		}
	}
	for _, sum := range sums {
		if len(sum.threads) > 0 && (open || urgent) && v.Now.Sub(since) >= settleWarning && !v.Starting {
			list = append(list, b.sumUp(sum, v.Now))
		}
	}
	return gather(list)
}

// gather joins messages that say the same of several containers of one engine, for example after its restart.
func gather(list []news) (few []news) {
	for _, n := range list {
		at := slices.IndexFunc(few, func(o news) bool { return n.saysTheSame(&o) })
		if at < 0 {
			few = append(few, n)
			continue
		}
		first := &few[at]
		first.kind, first.gathered, first.threads = summary, true, append(first.threads, n.threads...)
	}
	return few
}

// saysTheSame reports whether two pieces of news can be one message.
func (n *news) saysTheSame(o *news) bool {
	alert := func(n *news) string {
		t := n.threads[0]
		if n.kind == text || n.kind == summary && !n.gathered || len(t.Alerts) != 1 || !t.Root.OnEngine() ||
			n.level() == health.Critical || health.IsOutage(t.Alerts[0].Alert) {
			return ""
		}
		return t.Root.Host + " " + t.Alerts[0].Alert
	}
	return alert(n) != "" && alert(n) == alert(o) && n.threads[0].Cleared.IsZero() == o.threads[0].Cleared.IsZero()
}

// isOlder reports whether the thread was there when a receiver was configured: it was noticed before, or soon after and began before. A
// certificate that expires began to long before anybody could notice it.
func (t *thread) isOlder(since time.Time) bool {
	noticed := t.Stages[t.Stage]
	for _, at := range t.Stages {
		if at.Before(noticed) {
			noticed = at
		}
	}
	return noticed.Before(since) || t.Began.Before(since) && !t.AtLeast && noticed.Sub(since) < noticedSoon
}

// endFor returns when what a receiver was told of a thread ended, once that has lasted; zero for not yet.
func (b *book) endFor(r *Receiver, t *thread, k *told, now time.Time) time.Time {
	left := t.Left[k.Stage]
	lasts := now.Sub(left) >= b.ends(t.Alerts...)
	switch {
	case k.Stage == silent:
	case b.isOver(t, now):
		return t.Cleared
	case t.Cleared.IsZero() && !t.about(r.Targets):
		return now
	case t.Cleared.IsZero() && !left.IsZero() && lasts && r.visible(t.Stage) == silent:
		return left
	case t.Cleared.IsZero() && !left.IsZero() && lasts:
		k.Stage = r.visible(t.Stage) // it may get worse again
	}
	return time.Time{}
}

// next returns what a receiver has to be told of a thread now, "" for nothing, and what it has been told then. What it was told before has
// ended at ended, zero if it has not.
func (b *book) next(r *Receiver, t *thread, k *told, now time.Time, open bool, ended time.Time) kind {
	seen := r.visible(t.Stage)
	if !t.about(r.Targets) {
		seen = silent
	}
	if t.Into != "" {
		seen = min(seen, k.Stage) // the other thread tells the rest
	}
	switch {
	case k.Held && seen < critical: // the summary tells it
		return ""
	case seen > k.Stage && len(t.lasting) > 0 && r.due(t, now, k.Stage, open):
		if seen < critical && !open {
			k.Held = true
			return ""
		}
		before := k.Stage
		k.Woken = k.Woken || seen == critical
		if k.Stage, k.Held = seen, false; before > silent {
			return worse
		}
		return began
	case !ended.IsZero():
		if k.Stage < critical && !k.Woken && !open {
			k.Held = true
			return ""
		}
		if k.Stage, k.Woken = silent, false; k.Times == 0 {
			return "" // another thread told it, and tells the end
		}
		return over
	case k.Times > 0 && t.Into == "" && k.Stage == critical && seen == critical && r.Repeat > 0 && !t.acknowledged() &&
		now.Sub(k.At) >= r.Repeat:
		return again
	}
	return ""
}

func (k *told) tell(now time.Time, t *thread) { k.At, k.Times, k.Title = now, k.Times+1, t.Said.Title }

// sumUp tells everything that was held back.
func (b *book) sumUp(sum news, now time.Time) news {
	slices.SortStableFunc(sum.threads, func(a, b *thread) int { return cmp.Compare(b.Stage, a.Stage) }) // what is over comes last
	// The message's ID is the first thread's.
	sum.times = sum.threads[0].Told[sum.receiver.Name].Times
	for _, t := range sum.threads {
		k := t.Told[sum.receiver.Name]
		if k.Held, k.Stage = false, sum.receiver.visible(t.Stage); !t.Cleared.IsZero() || !t.about(sum.receiver.Targets) {
			k.Stage = silent
		}
		k.Woken = k.Stage == critical
		k.tell(now, t)
	}
	return sum
}

// level is the severity that a receiver sees.
func (n *news) level() (worst health.Severity) {
	for _, t := range n.threads {
		worst = max(worst, n.receiver.visible(t.Stage).severity())
	}
	return worst
}
