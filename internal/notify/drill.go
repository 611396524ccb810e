package notify

import (
	"context"
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

// Drill sends the named receivers, without names all, a message that says that it is only a drill, before all that wait and without a pause. Otherwise it goes the way
// of all others. It waits until each was tried once, at most maxDrill; what was not delivered is not tried again.
func (n *Notifier) Drill(ctx context.Context, severity string, names []string) []Drilled {
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
		w := &waiting{Message: *drillMessage(begun, severity, &n.site), Made: begun, drilled: make(chan Drilled, 1)}
		q := n.queues[name]
		q.Waiting, q.next = slices.Insert(q.Waiting, 0, w), time.Time{}
		results, tries = append(results, Drilled{Name: name}), append(tries, w)
	}
	n.mu.Unlock()
	n.Wake()
	for i, w := range tries {
		select {
		case result := <-w.drilled:
			result.Name = results[i].Name
			results[i] = result
		case <-ctx.Done():
			results[i].Error = "it was not tried within " + maxDrill.String()
			results[i].Duration = time.Since(begun).Seconds()
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, w := range tries {
		if q := n.queues[results[i].Name]; q != nil {
			q.remove(w)
		}
	}
	return results
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

// tell ends the wait of a drill for its message, which was tried once.
func (w *waiting) tell(answer string, err error) {
	result := Drilled{Delivered: err == nil, Answer: answer, Duration: time.Since(w.Made).Seconds()}
	if err != nil {
		result.Error, result.Hint = err.Error(), failure.HintOf(err)
	}
	w.drilled <- result
}
