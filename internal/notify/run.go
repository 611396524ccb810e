package notify

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/notify/service"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// every is how often to look without a new report: messages become due by time alone.
const every = 5 * time.Second

// Store keeps values over a restart; see state.Group.
type Store interface {
	Load() map[string]json.RawMessage
	Put(values map[string]any) error
}

// Notifier watches the judgement and sends messages. Its methods may be called from several goroutines.
type Notifier struct {
	store Store
	// flush returns once what was put into the store cannot be lost any more; an error says that it may be.
	flush func() error
	log   *slog.Logger
	wake  chan struct{}

	// drilling says that a drill is under way.
	drilling atomic.Bool

	mu        sync.Mutex
	receivers []Receiver
	site      Site
	book      book
	queues    map[string]*queue
	// limits returns the limits of an alert's rules; nil for none.
	limits func(alert string) (warning, critical health.Limit)
	// refused is since when a new configuration is refused; zero for none.
	refused time.Time
	// pair and peers are the other exporters of the pair. begun is when this process started, joined when Join was last called.
	pair          Pair
	peers         []*peer
	begun, joined time.Time
}

// New returns a notifier that goes on where the former process ended. It has no receivers yet.
func New(store Store, flush func() error, log *slog.Logger) *Notifier {
	n := &Notifier{
		store:  store,
		flush:  flush,
		log:    log,
		wake:   make(chan struct{}, 1),
		queues: map[string]*queue{},
		begun:  time.Now(),
	}
	for name, raw := range store.Load() {
		var err error
		kind, receiver, _ := strings.Cut(name, "/")
		switch kind {
		case "thread":
			t := &thread{Stages: map[stage]time.Time{}, Left: map[stage]time.Time{}, Told: map[string]*told{}}
			if err = json.Unmarshal(raw, t); err == nil {
				t.notAfter(time.Now())
				n.book.threads = append(n.book.threads, t)
			}
		case "queue":
			q := &queue{}
			if err = json.Unmarshal(raw, q); err == nil {
				q.notAfter(time.Now())
				n.queues[receiver] = q
			}
		}
		if err != nil {
			log.Error("saved notifications are lost", "name", name, "err", err)
		}
	}
	slices.SortFunc(n.book.threads, func(a, b *thread) int { return a.Began.Compare(b.Began) })
	return n
}

// Configure sets the receivers and the limits of the alerts' rules. Without limits, the exporter does not report what is wrong with
// itself. A receiver that keeps its name keeps its queue; what a removed one has not got is dropped, and logged.
func (n *Notifier) Configure(receivers []Receiver, site Site, limits func(alert string) (warning, critical health.Limit), now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range receivers {
		for k := range n.receivers {
			r, before := &receivers[i], &n.receivers[k]
			if q := n.queues[r.Name]; r.Name == before.Name && r.Place != before.Place && len(q.Waiting) > 0 {
				n.log.Info("a receiver has another address; its messages go there", "receiver", r.Name, "messages", len(q.Waiting))
			}
		}
	}
	n.receivers, n.site, n.limits = receivers, site, limits
	n.site.Exporter = n.pair.Name
	if n.book.keep = nil; limits != nil {
		n.book.keep = func(alert string) time.Duration {
			warning, critical := limits(alert)
			return max(warning.Keep, critical.Keep)
		}
	}
	for i := range receivers {
		q := n.queues[receivers[i].Name]
		if q == nil {
			q = &queue{Since: now}
			n.queues[receivers[i].Name] = q
		}
		q.reconfigure()
	}
	for name, q := range n.queues {
		if n.knows(name) {
			continue
		}
		if left := len(q.Waiting); left > 0 {
			n.log.Warn("a receiver is not configured any more; its messages are dropped", "receiver", name, "messages", left)
		}
		delete(n.queues, name)
	}
	if n.book.forget(now, n.knows); len(receivers) == 0 {
		n.book.threads = nil // nobody looks at them any more
	}
	n.save()
	n.Wake()
}

// knows reports whether a receiver is configured. The caller holds the lock.
func (n *Notifier) knows(name string) bool {
	return slices.ContainsFunc(n.receivers, func(r Receiver) bool { return r.Name == name })
}

// Wake makes Run look. It does not wait.
func (n *Notifier) Wake() {
	select {
	case n.wake <- struct{}{}:
	default: // Run is woken already
	}
}

// Run looks and sends until ctx is done. It returns once no message is under way, at most 15 s later.
func (n *Notifier) Run(ctx context.Context, view func() View) {
	var sending sync.WaitGroup
	defer sending.Wait()
	for {
		var next <-chan time.Time // without receivers, only a reload makes news
		if n.look(view) {
			next = time.After(every)
			n.send(ctx, &sending)
		}
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		case <-next:
		}
	}
}

// look compares what is with what was told, and saves what is to be sent before anything is. Whoever asks for the state does not wait for
// the disk. It reports whether there are receivers.
func (n *Notifier) look(source func() View) bool {
	receivers := n.compare(source)
	if err := n.flush(); err != nil {
		n.log.Debug("notifications are not saved", "err", err) // the file itself warns
	}
	return receivers
}

func (n *Notifier) compare(source func() View) (receivers bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.receivers) == 0 {
		return false
	}
	now := time.Now()
	if n.listens(now) {
		return true
	}
	n.catchUp(now)
	v := source()
	if v.Report == nil || v.Stale != "" {
		return true // it says how things were
	}
	n.seeItself(&v)
	n.book.look(&v)
	for i := range n.receivers {
		r := &n.receivers[i]
		q := n.queues[r.Name]
		q.leads = n.turn(r.Name, v.Now) == 0
		for _, item := range n.book.newsFor(r, &v, q.Since) {
			if item.kind == again && q.hasFor(item.threads[0].ID) {
				continue
			}
			q.add(&waiting{
				Message: *item.message(v.Now, &n.site),
				Facts:   n.facts(&item),
				Spare:   item.kind == again,
			}, v.Now, n.site.URL)
		}
		q.release(v.Now, n.site.URL)
	}
	n.book.forget(v.Now, n.knows)
	n.save()
	return true
}

// save saves threads and queues, without waiting for the disk. The caller holds the lock.
func (n *Notifier) save() {
	all := map[string]any{}
	for _, t := range n.book.threads {
		all["thread/"+t.ID] = t
	}
	for name, q := range n.queues {
		all["queue/"+name] = q
	}
	if err := n.store.Put(all); err != nil {
		n.log.Error("notifications cannot be encoded", "err", err)
	}
}

// send sends what is due, to each receiver one message at a time.
func (n *Notifier) send(ctx context.Context, sending *sync.WaitGroup) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for i := range n.receivers {
		r := n.receivers[i]
		q := n.queues[r.Name]
		n.leave(r.Name, q, now)
		w := q.first(now)
		if w == nil || ctx.Err() != nil || w.tried == nil && n.listens(now) {
			continue
		}
		q.inFlight, w.underWay = true, true
		m := w.Message
		if by := n.standsIn(r.Name, now); by != "" && !w.isOurs() {
			m.Text = strings.TrimPrefix(m.Text+"\n"+by, "\n")
		}
		sending.Go(func() { n.deliver(ctx, &r, q, w, &m) })
	}
}

// deliver makes one attempt.
func (n *Notifier) deliver(ctx context.Context, r *Receiver, q *queue, w *waiting, m *service.Message) {
	answer, err := r.Send(ctx, m)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil && ctx.Err() != nil {
		q.inFlight, w.underWay = false, false // the end of the process is no fault of the service; the next one tries again
		return
	}
	if w.tried != nil {
		q.endDrill(w, r.Name, answer, err, time.Now())
		n.Wake()
		return
	}
	lost := q.Lost
	changed := q.settle(w, answer, err, time.Now())
	switch {
	case q.Lost > lost:
		n.log.Warn("a notification could not be delivered and is given up", "receiver", r.Name, "attempts", w.Attempts, "err", err)
	case changed && err != nil:
		n.log.Warn("notifications fail", "receiver", r.Name, "reason", failure.ReasonOf(err), "err", err, "hint", failure.HintOf(err))
	case changed:
		n.log.Info("notifications are delivered again", "receiver", r.Name)
	}
	n.save()
	n.Wake()
}

// States returns the receivers' states, in the order of the configuration.
func (n *Notifier) States() []status.Receiver {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]status.Receiver, 0, len(n.receivers))
	for i := range n.receivers {
		q := n.queues[n.receivers[i].Name]
		s := status.Receiver{
			Name:    n.receivers[i].Name,
			Waiting: len(q.Waiting) + max(q.Holds-1, 0),
			Success: q.Success,
			Answer:  q.Answer,
			Since:   q.Failed,
			Lost:    q.Lost,
			LostAt:  q.LostAt,
			Counts:  map[string]uint64{},
		}
		for _, outcome := range Outcomes {
			s.Counts[outcome] = q.counts[outcome]
		}
		if q.failing != nil {
			s.Failing = q.failing.Error()
		} else if !q.Failed.IsZero() {
			s.Failing = "not tried since the start"
		}
		list = append(list, s)
	}
	return list
}
