package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/notify/service"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// file is a store of which a new process finds what was flushed.
type file struct {
	mu   sync.Mutex
	kept map[string]json.RawMessage
	now  map[string]json.RawMessage
}

func (f *file) Load() map[string]json.RawMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.kept)
}

func (f *file) Put(values map[string]any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = map[string]json.RawMessage{}
	for name, value := range values {
		raw, err := json.Marshal(value)
		if err != nil {
			return err
		}
		f.now[name] = raw
	}
	return nil
}

// flush keeps what was put.
func (f *file) flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = f.now
	return nil
}

// quarterHour are the limits of alerts that wait for a quarter of an hour.
func quarterHour(string) (warning, critical health.Limit) {
	return health.Limit{Hold: 15 * time.Minute}, health.Limit{}
}

// telephone is a receiver's service.
type telephone struct {
	mu   sync.Mutex
	got  []string
	text string // of the last message
	fail func(m *service.Message) error
	// calls counts the attempts, underWay those of now.
	calls, underWay, most int
}

func (p *telephone) Send(ctx context.Context, m *service.Message) (string, error) {
	p.mu.Lock()
	p.calls++
	p.underWay++
	p.most = max(p.most, p.underWay)
	fail := p.fail
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.underWay--
	}()
	if fail != nil {
		if err := fail(m); errors.Is(err, errHang) {
			<-ctx.Done()
			return "", ctx.Err()
		} else if err != nil {
			return "", err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got, p.text = append(p.got, m.ID+" "+m.Title), m.Text
	return "ok", nil
}

// list is what it got.
func (p *telephone) list() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got)
}

var errHang = errors.New("hang")

// process is one run of a notifier, with the problems that it sees.
type process struct {
	notifier *Notifier
	mu       sync.Mutex
	problems []status.Problem
	notices  status.Notices
	starting bool
	end      func()
}

func start(t *testing.T, f *file, phones map[string]*telephone) *process {
	t.Helper()
	return startIn(t, Pair{}, f, phones)
}

func startIn(t *testing.T, pair Pair, f *file, phones map[string]*telephone) *process {
	t.Helper()
	p := &process{notifier: New(f, f.flush, slog.New(slog.DiscardHandler))}
	var receivers []Receiver
	for _, name := range slices.Sorted(maps.Keys(phones)) {
		receivers = append(receivers, Receiver{Name: name, Sender: phones[name], Least: health.Warning})
	}
	p.notifier.Join(pair, time.Now())
	p.notifier.Configure(receivers, Site{}, quarterHour, time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		p.notifier.Run(ctx, func() View {
			p.mu.Lock()
			defer p.mu.Unlock()
			return View{
				Now:      time.Now(),
				Report:   &status.Report{Problems: slices.Clone(p.problems), Notices: p.notices},
				Starting: p.starting,
			}
		})
	})
	p.end = func() { cancel(); running.Wait() }
	return p
}

func (p *process) see(subjects ...health.Subject) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = nil
	for _, s := range subjects {
		p.problems = append(p.problems, status.Problem{Problem: health.Problem{
			Subject:  s,
			Alert:    health.AlertTargetDown,
			Since:    time.Now(),
			Severity: health.Critical,
			Cause:    s,
		}})
	}
}

// TestMessagesWaitForTheirService until it works again, and that delays no other receiver.
func TestMessagesWaitForTheirService(t *testing.T) {
	for name, err := range map[string]error{"refused": errors.New("status 500"), "hung": errHang} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dead, well := &telephone{fail: func(*service.Message) error { return err }}, &telephone{}
				p := start(t, &file{}, map[string]*telephone{"dead": dead, "well": well})
				defer p.end()
				p.see(web)
				time.Sleep(time.Minute)
				if len(well.list()) != 1 {
					t.Errorf("the other receiver got %q", well.list())
				}
				time.Sleep(3 * time.Hour)
				p.see()
				time.Sleep(time.Hour)
				if s := p.notifier.States()[0]; s.Waiting != 2 || s.Failing == "" || s.Counts[Failed] < 15 || s.Counts[Failed] > 30 {
					t.Errorf("while it fails: %+v", s)
				}
				dead.mu.Lock()
				dead.fail = nil
				dead.mu.Unlock()
				time.Sleep(2 * maxRetry)
				if s := p.notifier.States()[0]; len(dead.list()) != 2 || s.Waiting != 0 || s.Failing != "" || s.Counts[Delivered] != 2 {
					t.Errorf("got %q: %+v", dead.list(), s)
				}
				dead.mu.Lock()
				defer dead.mu.Unlock()
				if dead.most > 1 {
					t.Errorf("%d attempts at once", dead.most)
				}
			})
		})
	}
}

// TestMessagesAreGivenUpAfterADay and that is said.
func TestMessagesAreGivenUpAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := &telephone{fail: func(*service.Message) error { return errors.New("status 500") }}
		p := start(t, &file{}, map[string]*telephone{"dead": dead})
		defer p.end()
		p.see(web)
		time.Sleep(maxWait + time.Hour)
		if s := p.notifier.States()[0]; s.Lost != 1 || s.LostAt.IsZero() || s.Waiting != 0 || s.Counts[Expired] != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestNoMessageIsLost when the process is killed at any moment: before it saves, before it sends, and before it notes that it has sent.
func TestNoMessageIsLost(t *testing.T) {
	for seed := range 40 {
		synctest.Test(t, func(t *testing.T) {
			f, phone := &file{}, &telephone{}
			at := time.Duration(seed) * 2500 * time.Millisecond // the message is due after 30 s
			p := start(t, f, map[string]*telephone{"phone": phone})
			p.see(web)
			seen := slices.Clone(p.problems)
			time.Sleep(at)
			kept := f.Load() // what a kill leaves
			p.end()
			p = start(t, &file{kept: kept, now: kept}, map[string]*telephone{"phone": phone})
			p.mu.Lock()
			p.problems = seen
			p.mu.Unlock()
			time.Sleep(5 * time.Minute)
			p.see()
			time.Sleep(5 * time.Minute)
			p.end()
			distinct := map[string]bool{}
			for _, line := range phone.list() {
				distinct[line] = true
			}
			if len(distinct) != 2 || len(phone.list()) > 3 {
				t.Errorf("killed after %s: got %q", at, phone.list())
			}
		})
	}
}

// TestTooManyMessagesAreHeldBack and told as one, an hour after the first.
func TestTooManyMessagesAreHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		phone := &telephone{}
		p := start(t, &file{}, map[string]*telephone{"phone": phone})
		defer p.end()
		var down []health.Subject
		for i := range 30 {
			down = append(down, health.TargetSubject(fmt.Sprintf("target%d", i)))
		}
		p.see(down...)
		time.Sleep(10 * time.Minute)
		if got := len(phone.list()); got != maxPerHour+1 {
			t.Errorf("%d messages within minutes, want %d", got, maxPerHour+1)
		}
		time.Sleep(time.Hour)
		got := phone.list()
		if last := got[len(got)-1]; len(got) != maxPerHour+2 || !strings.Contains(last, "9 messages held back") {
			t.Errorf("%d messages, the last is %q", len(got), last)
		}
		if s := p.notifier.States()[0]; s.Counts[Held] != 10 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestRemovedReceiverIsForgotten and is new if it comes back.
func TestRemovedReceiverIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		phone := &telephone{fail: func(*service.Message) error { return errors.New("status 500") }}
		f := &file{}
		p := start(t, f, map[string]*telephone{"phone": phone, "other": {}})
		defer p.end()
		p.see(web)
		time.Sleep(time.Minute)
		p.notifier.Configure([]Receiver{{Name: "other", Sender: &telephone{}, Least: health.Warning}}, Site{}, nil, time.Now())
		time.Sleep(time.Minute)
		for name := range f.Load() {
			if strings.Contains(name, "phone") {
				t.Errorf("the file has %s", name)
			}
		}
		if states := p.notifier.States(); len(states) != 1 {
			t.Errorf("%+v", states)
		}
	})
}

// TestRecoveredReceiverIsNotWokenForWhatIsOver nor told again and again what it could not be told.
func TestRecoveredReceiverIsNotWokenForWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		phone := &telephone{fail: func(*service.Message) error { return errors.New("status 500") }}
		p := start(t, &file{}, map[string]*telephone{"phone": phone})
		defer p.end()
		p.notifier.mu.Lock()
		p.notifier.receivers[0].Repeat = time.Hour
		p.notifier.mu.Unlock()
		p.see(web)
		time.Sleep(5 * time.Hour)
		p.see()
		time.Sleep(2 * time.Minute)
		var levels []service.Level
		phone.mu.Lock()
		phone.fail = func(m *service.Message) error {
			levels = append(levels, m.Level) // one attempt at a time
			return nil
		}
		phone.mu.Unlock()
		time.Sleep(time.Hour)
		if want := []service.Level{service.LevelOver, service.LevelOver}; !slices.Equal(levels, want) {
			t.Errorf("got %q at %v, want %v", phone.list(), levels, want)
		}
	})
}

// TestReloadTriesAtOnce since it may have mended what failed.
func TestReloadTriesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead, well := &telephone{fail: func(*service.Message) error { return errors.New("status 401") }}, &telephone{}
		p := start(t, &file{}, map[string]*telephone{"phone": dead})
		defer p.end()
		p.see(web)
		time.Sleep(3 * time.Hour)
		p.notifier.Configure([]Receiver{{
			Name:   "phone",
			Sender: well,
			Place:  "mended",
			Least:  health.Warning,
		}}, Site{}, nil, time.Now())
		time.Sleep(every)
		if got := well.list(); len(got) != 1 {
			t.Errorf("got %q", got)
		}
	})
}

// TestAttemptsEnd although the service never answers.
func TestAttemptsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Receiver{Sender: &telephone{fail: func(*service.Message) error { return errHang }}}
		begun := time.Now()
		if _, err := r.Send(t.Context(), &service.Message{}); err == nil || time.Since(begun) != sendTimeout {
			t.Errorf("got %v after %s", err, time.Since(begun))
		}
	})
}
