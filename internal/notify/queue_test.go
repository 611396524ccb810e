package notify

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/notify/service"
)

func letter(n int, level service.Level) *waiting {
	return &waiting{Message: service.Message{
		ID:     fmt.Sprint(n, level),
		Thread: fmt.Sprint(n),
		Title:  fmt.Sprint("letter ", n),
		Level:  level,
	}}
}

// deliverAll delivers what waits.
func (q *queue) deliverAll(now time.Time) (list []service.Message) {
	for w := q.first(now); w != nil; w = q.first(now) {
		q.settle(w, "ok", nil, now)
		list = append(list, w.Message)
	}
	return list
}

// TestWarningsHoldNothingCriticalBack however many there are.
func TestWarningsHoldNothingCriticalBack(t *testing.T) {
	q, now := &queue{}, ten
	for n := range 50 {
		q.add(letter(n, service.LevelWarning), now, "")
		q.deliverAll(now)
	}
	q.add(letter(50, service.LevelCritical), now, "")
	if got := q.deliverAll(now); len(got) != 1 || got[0].Title != "letter 50" {
		t.Errorf("delivered %+v", got)
	}
	if len(q.Sent) > maxPerHour {
		t.Errorf("%d messages within an hour", len(q.Sent))
	}
}

// TestHeldBackCriticalMessageWakes unless it is over.
func TestHeldBackCriticalMessageWakes(t *testing.T) {
	for _, over := range []bool{false, true} {
		q, now, want := &queue{}, ten, service.LevelCritical
		for n := range 2 * maxPerHour {
			q.add(letter(n, service.LevelCritical), now, "")
		}
		for n := range 2 * maxPerHour {
			if over {
				q.add(letter(n, service.LevelOver), now, "")
				want = service.LevelWarning
			}
		}
		q.deliverAll(now)
		now = now.Add(time.Hour)
		q.release(now, "")
		if got := q.deliverAll(now); len(got) != 1 || got[0].Level != want {
			t.Errorf("over %t: got %+v, want one at %s", over, got, want)
		}
	}
}

// TestQueueOfADeadReceiverIsBounded whatever happens for a day.
func TestQueueOfADeadReceiverIsBounded(t *testing.T) {
	q, now := &queue{}, ten
	for n := range 20000 {
		q.add(letter(n, service.LevelWarning), now, "")
		if w := q.first(now); w != nil {
			q.settle(w, "", errors.New("status 500"), now)
		}
		q.release(now, "")
		now = now.Add(time.Second)
	}
	if len(q.Waiting)+len(q.Names) > 2*maxPerHour {
		t.Errorf("%d messages and %d names wait", len(q.Waiting), len(q.Names))
	}
}

// partial is the failure of a message that one of two places has.
type partial struct{ error }

func (partial) Reached() []string { return []string{"fine"} }

// TestBrokenPlaceDoesNotDelayTheOthers of the same receiver, however long it is broken.
func TestBrokenPlaceDoesNotDelayTheOthers(t *testing.T) {
	q, now := &queue{}, ten
	reached := map[string]bool{}
	for n := range 100 {
		q.add(letter(n, service.LevelWarning), now, "")
		for range 60 {
			if w := q.first(now); w != nil {
				reached[w.Title] = true
				q.settle(w, "", partial{errors.New("1 of 2 chats failed")}, now)
			}
			now = now.Add(10 * time.Second)
		}
		if title := fmt.Sprint("letter ", n); !reached[title] {
			t.Fatalf("%s has reached nobody", title)
		}
	}
	if len(q.Waiting) > maxPerHour || q.Holds > 0 || q.failing == nil {
		t.Errorf("%d messages wait, %d are held, failing: %v", len(q.Waiting), q.Holds, q.failing)
	}
	now = now.Add(time.Hour)
	if q.deliverAll(now); len(q.Waiting) > 0 || q.failing != nil {
		t.Errorf("%d messages wait, failing: %v", len(q.Waiting), q.failing)
	}
}
