package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/notify/service"
)

// maxDrill is how long a drill waits for its messages: an attempt that is under way ends first.
const maxDrill = sendTimeout + 10*time.Second

// Drilled is what became of the message of a drill to one receiver. Answer is what the service said; Error is why it was not delivered, and
// Hint says what to do.
type Drilled struct {
	Name      string  `json:"name"`
	Delivered bool    `json:"delivered"`
	Answer    string  `json:"answer,omitempty"`
	Error     string  `json:"error,omitempty"`
	Hint      string  `json:"hint,omitempty"`
	Duration  float64 `json:"duration_seconds"`
}

// ErrDrilling means that another drill is under way.
var ErrDrilling = errors.New("another drill of receivers is under way: try again in half a minute")

// Drill sends a message to the receivers with these names, without names to all. It says that it is only a drill, goes before all that
// wait, and is tried once. Drill waits for that, at most maxDrill. The error is ErrDrilling.
func (n *Notifier) Drill(ctx context.Context, severity string, names []string) ([]Drilled, error) {
	if !n.drilling.CompareAndSwap(false, true) {
		return nil, ErrDrilling
	}
	defer n.drilling.Store(false)
	ctx, cancel := context.WithTimeout(ctx, maxDrill)
	defer cancel()
	begun := time.Now()
	n.mu.Lock()
	var results []Drilled
	var tries []*waiting
	for i := range n.receivers {
		name := n.receivers[i].Name
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		w := &waiting{Message: *drillMessage(begun, severity, &n.site), Made: begun, tried: make(chan struct{})}
		n.queues[name].drills = []*waiting{w}
		results, tries = append(results, Drilled{Name: name}), append(tries, w)
	}
	n.mu.Unlock()
	n.Wake()
	for i, w := range tries {
		select {
		case <-w.tried:
		case <-ctx.Done():
		}
		n.mu.Lock()
		if w.drilled != nil {
			results[i] = *w.drilled
		} else {
			results[i].Error = "it was not tried within " + maxDrill.String() + ": the attempt with another message hangs"
			results[i].Duration = time.Since(begun).Seconds()
		}
		n.mu.Unlock()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, q := range n.queues {
		q.drills = nil
	}
	return results, nil
}

// drillMessage is what a drill sends.
func drillMessage(now time.Time, severity string, site *Site) *service.Message {
	return &service.Message{
		ID:    fmt.Sprintf("drill%d", now.UnixNano()),
		Title: "[DRILL] This is a drill: nothing is wrong" + site.place(),
		Text:  "Somebody runs `chatstack_exporter drill` to see whether messages arrive. Nothing has to be done.",
		Link:  site.URL,
		Level: map[string]service.Level{
			alerts.None: service.LevelInfo, alerts.Warning: service.LevelWarning, alerts.Critical: service.LevelCritical,
		}[severity],
	}
}

// endDrill takes in the end of the attempt of a drill. One that fails is no failure of the receiver, since nothing would be tried again.
func (q *queue) endDrill(w *waiting, name, answer string, err error, now time.Time) {
	q.inFlight, w.underWay = false, false
	q.drills = slices.DeleteFunc(q.drills, func(o *waiting) bool { return o == w }) // another drill may have begun
	result := Drilled{
		Name:      name,
		Delivered: err == nil,
		Answer:    answer,
		Duration:  now.Sub(w.Made).Seconds(),
	}
	if err == nil {
		q.count(Delivered)
		q.works(answer, now)
	} else {
		q.count(Failed)
		result.Error, result.Hint = err.Error(), failure.HintOf(err)
	}
	w.drilled = &result
	close(w.tried)
}
