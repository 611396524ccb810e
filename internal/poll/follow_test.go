package poll

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// listener is a collector whose target speaks up between readings.
type listener struct {
	down    atomic.Bool
	plants  atomic.Int64
	panics  atomic.Bool // in Present
	follows atomic.Int32
	follow  func(context.Context, *listener)

	mu      sync.Mutex
	changed func()
}

func (l *listener) Collect(context.Context, *collectors.Batch) error {
	if l.down.Load() {
		return failure.Errorf(failure.Refused, "dial: nobody there")
	}
	return nil
}

func (l *listener) Follow(ctx context.Context, changed func()) {
	l.follows.Add(1)
	l.mu.Lock()
	l.changed = changed
	l.mu.Unlock()
	if l.follow != nil {
		l.follow(ctx, l)
		return
	}
	<-ctx.Done()
}

func (l *listener) Present(b *collectors.Batch) {
	if l.panics.Load() {
		panic("boom")
	}
	b.Gauge(plantsDesc, float64(l.plants.Load()))
}

func (*listener) Forget(string) error { return collectors.ErrContainerUnknown }

// says has the target speak up.
func (l *listener) says(plants int64) {
	l.plants.Store(plants)
	l.mu.Lock()
	changed := l.changed
	l.mu.Unlock()
	changed()
}

func followed(t *testing.T, log io.Writer, l *listener) (*Poller, func()) {
	t.Helper()
	p, stop := start(t, log, Target{
		Name:      "engine",
		Kind:      config.Row{Name: "docker"},
		Schedule:  every(t, "30s"),
		Timeout:   10 * time.Second,
		Collector: l,
	})
	time.Sleep(time.Second)
	return p, stop
}

func TestChangeBetweenReadingsIsOnThePageInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listener{}
		p, stop := followed(t, io.Discard, l)
		defer stop()
		wantLines(t, textOf(p), "chatstack_test_plants 0")
		for plants := range int64(5) {
			l.says(plants)
		}
		time.Sleep(publishInterval)
		wantLines(t, textOf(p), "chatstack_test_plants 4")
		if h, _ := p.History("engine"); h.Last[0].Series != 1 {
			t.Errorf("%d series in the reading, want those that are presented", h.Last[0].Series)
		}
	})
}

func TestChangeOfAFailingTargetShowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listener{}
		p, stop := followed(t, io.Discard, l)
		defer stop()
		l.down.Store(true)
		time.Sleep(46 * time.Second)
		l.says(7)
		time.Sleep(time.Second)
		if page := textOf(p); strings.Contains(page, "chatstack_test_plants ") {
			t.Errorf("a target that is down is told of:\n%s", page)
		}
		l.down.Store(false)
		time.Sleep(31 * time.Second)
		wantLines(t, textOf(p), "chatstack_test_plants 7")
	})
}

func TestPanicOfAPresentationIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := &listener{}
		p, stop := followed(t, &log, l)
		l.panics.Store(true)
		l.says(1)
		time.Sleep(time.Second)
		if page := textOf(p); strings.Contains(page, "chatstack_test_plants ") ||
			!strings.Contains(page, `chatstack_probe_success{target="engine"} 1`) {
			t.Errorf("want the page without the stale number:\n%s", page)
		}
		l.panics.Store(false)
		l.says(2)
		time.Sleep(time.Second)
		wantLines(t, textOf(p), "chatstack_test_plants 2")
		stop()
		if !strings.Contains(log.String(), "boom") {
			t.Errorf("the log lacks the panic:\n%s", log.String())
		}
	})
}

func TestListenerThatPanicsAgainAndAgainIsStartedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var began []time.Time
		l := &listener{follow: func(context.Context, *listener) {
			began = append(began, time.Now())
			if len(began) == 8 { // which goes well for an hour
				time.Sleep(time.Hour)
			}
			panic("boom")
		}}
		_, stop := followed(t, &log, l)
		time.Sleep(5 * time.Hour)
		stop()
		want := []time.Duration{
			10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 320 * time.Second, 10 * time.Minute,
			time.Hour + 10*time.Second, 20 * time.Second,
		}
		var got []time.Duration
		for i := range began[1:] {
			got = append(got, began[i+1].Sub(began[i]))
		}
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("started %d times, at first after %s, want %s", len(began), got[:min(len(got), len(want))], want)
		}
		if !strings.Contains(log.String(), "boom") {
			t.Errorf("the log lacks the panic:\n%s", log.String())
		}
	})
}

func TestPanicOfAListenerIsOnThePageAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listener{}
		l.follow = func(_ context.Context, l *listener) {
			time.Sleep(5 * time.Second)
			l.plants.Store(7) // as it would mark that it does not listen any more
			panic("boom")
		}
		p, stop := followed(t, io.Discard, l)
		defer stop()
		wantLines(t, textOf(p), "chatstack_test_plants 0")
		time.Sleep(5 * time.Second)
		wantLines(t, textOf(p), "chatstack_test_plants 7")
	})
}
