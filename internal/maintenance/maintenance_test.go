package maintenance

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// memory keeps one value, as the state file does.
type memory struct {
	raw []byte
	err error
}

func (m *memory) Load(into any) error {
	if m.raw == nil {
		return nil
	}
	return json.Unmarshal(m.raw, into)
}

func (m *memory) Save(value any) error {
	if m.err != nil {
		return m.err
	}
	raw, err := json.Marshal(value)
	m.raw = raw
	return err
}

func register(t *testing.T, kept Store) *Register {
	t.Helper()
	r, err := New(kept, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// windows are those of a valid configuration.
func windows(t *testing.T, content string) []config.Maintenance {
	t.Helper()
	cfg, err := config.Load(config.Source{
		File: "exporter.yaml", Content: []byte("maintenance:\n" + content), Lookup: func(string) (string, bool) { return "", false },
	})
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Maintenance
}

// page is what the metric says: kinds and names, in their order.
func page(t *testing.T, r *Register) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != "chatstack_maintenance" || m.GetGauge().GetValue() != 1 || len(m.GetLabel()) != 2 {
				t.Errorf("%s: %v, want a gauge of 1 with kind and name", f.GetName(), m)
			}
			names = append(names, m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue())
		}
	}
	return strings.Join(names, ", ")
}

func TestSwitchEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &memory{}
		r := register(t, kept)
		var renewed atomic.Int64
		ctx := t.Context()
		go r.Run(ctx, func() { renewed.Add(1) })
		synctest.Wait()
		if got := page(t, r); got != "" {
			t.Errorf("at first = %q, want nothing", got)
		}
		before := renewed.Load()
		if _, replaced, err := r.Set("container", "chat-xmpp-1", "upgrade", time.Now().Add(2*time.Hour)); err != nil || replaced {
			t.Fatalf("replaced = %v, error = %v", replaced, err)
		}
		synctest.Wait()
		if renewed.Load() == before {
			t.Error("the page was not renewed at the beginning")
		}
		time.Sleep(2*time.Hour - time.Nanosecond)
		synctest.Wait()
		if got, want := page(t, r), "container chat-xmpp-1"; got != want {
			t.Errorf("just before the end = %q, want %q", got, want)
		}
		before = renewed.Load()
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := page(t, r); got != "" || len(r.List()) != 0 {
			t.Errorf("at the end = %q, %v, want nothing", got, r.List())
		}
		if renewed.Load() == before {
			t.Error("the page was not renewed at the end")
		}
		if got := string(kept.raw); got != "[]" {
			t.Errorf("kept = %s, want nothing", got)
		}
	})
}

func TestRestartForgetsNoSwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &memory{}
		first := register(t, kept)
		for name, length := range map[string]time.Duration{"irc_rpc": time.Hour, "xmpp_c2s": 3 * time.Hour} {
			if _, _, err := first.Set("target", name, "", time.Now().Add(length)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		second := register(t, kept)
		if got, want := page(t, second), "target xmpp_c2s"; got != want {
			t.Errorf("after two hours = %q, want %q", got, want)
		}
		if err := second.End("target", "xmpp_c2s"); err != nil {
			t.Fatal(err)
		}
		if got := page(t, register(t, kept)); got != "" {
			t.Errorf("after its end = %q, want nothing", got)
		}
	})
}

func TestDamagedOrForgedStateIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if r, err := New(&memory{raw: []byte(`{"a":`)}, slog.New(slog.DiscardHandler)); err == nil || page(t, r) != "" {
			t.Errorf("error = %v, page = %q; want an error and nothing under maintenance", err, page(t, r))
		}
		forged := []Entry{
			{Kind: "target", Name: "for_ever", Until: time.Now().AddDate(10, 0, 0)},
			{Kind: "stack", Name: "all", Until: time.Now().Add(time.Hour)},
			{Kind: "target", Name: "over", Until: time.Now()},
			{
				Kind:   "target",
				Name:   "good",
				Until:  time.Now().Add(time.Hour),
				Source: FromConfig,
			},
		}
		kept := &memory{}
		if err := kept.Save(forged); err != nil {
			t.Fatal(err)
		}
		r := register(t, kept)
		if got, want := page(t, r), "target good"; got != want {
			t.Errorf("page = %q, want %q", got, want)
		}
		if err := r.End("target", "good"); err != nil {
			t.Errorf("a kept switch could not be ended: %v", err)
		}
	})
}

func TestWindowsBeginAndEndOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The bubble's clock begins on Saturday, 2000-01-01 at midnight UTC.
		r := register(t, &memory{})
		r.Configure(windows(t, `
  - {kind: container, name: once, from: 2000-01-01T01:00:00+01:00, until: 2000-01-01T02:00:00Z, reason: deploy}
  - {kind: container, name: later, from: 2000-01-01T01:00:00Z, until: 2000-01-01T03:00:00Z}
  - {kind: container, name: over, from: 1999-12-31T22:00:00Z, until: 1999-12-31T23:00:00Z}
  - {kind: container, name: sunday, schedule: "CRON_TZ=UTC 0 3 * * 0", duration: 30m}
`))
		var renewed atomic.Int64
		ctx := t.Context()
		go r.Run(ctx, func() { renewed.Add(1) })
		start := time.Now()
		for _, step := range []struct {
			at   time.Duration
			want string
		}{
			{0, "container once"},
			{time.Hour - time.Nanosecond, "container once"},
			{time.Hour, "container later, container once"},
			{2 * time.Hour, "container later"},
			{3 * time.Hour, ""},
			{27*time.Hour - time.Nanosecond, ""},
			{27 * time.Hour, "container sunday"},
			{27*time.Hour + 30*time.Minute - time.Nanosecond, "container sunday"},
			{27*time.Hour + 30*time.Minute, ""},
			{(27 + 7*24) * time.Hour, "container sunday"},
		} {
			before, was := renewed.Load(), page(t, r)
			time.Sleep(time.Until(start.Add(step.at)))
			synctest.Wait()
			if got := page(t, r); got != step.want {
				t.Errorf("after %s = %q, want %q", step.at, got, step.want)
			}
			if step.at > 0 && was != step.want && renewed.Load() == before {
				t.Errorf("after %s the page was not renewed", step.at)
			}
		}
	})
}

func TestReloadKeepsSwitches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := register(t, &memory{})
		if _, _, err := r.Set("target", "irc_rpc", "", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		r.Configure(windows(t, "  - {kind: container, name: a, from: 2000-01-01T00:00:00Z, until: 2000-01-02T00:00:00Z}\n"))
		if got, want := page(t, r), "container a, target irc_rpc"; got != want {
			t.Errorf("with a window = %q, want %q", got, want)
		}
		r.Configure(nil)
		if got, want := page(t, r), "target irc_rpc"; got != want {
			t.Errorf("without it = %q, want %q", got, want)
		}
	})
}

func TestOneSeriesHoweverManyReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := register(t, &memory{})
		r.Configure(windows(t, "  - {kind: container, name: a, from: 2000-01-01T00:00:00Z, until: 2000-01-02T00:00:00Z}\n"))
		if _, _, err := r.Set("container", "a", "", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, replaced, err := r.Set("container", "a", "longer", time.Now().Add(2*time.Hour)); err != nil || !replaced {
			t.Errorf("a second switch: replaced = %v, error = %v, want it in the place of the first", replaced, err)
		}
		if got, want := page(t, r), "container a"; got != want || len(r.List()) != 2 {
			t.Errorf("page = %q, list = %v, want one series of two", got, r.List())
		}
		if err := r.End("container", "a"); err != nil {
			t.Fatal(err)
		}
		if err := r.End("container", "a"); !errors.Is(err, ErrConfigured) {
			t.Errorf("end of a window = %v, want ErrConfigured", err)
		}
		if got, want := page(t, r), "container a"; got != want {
			t.Errorf("the window alone = %q, want %q", got, want)
		}
	})
}

func TestWhatIsWrongIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := register(t, &memory{})
		now := time.Now()
		for _, c := range []struct {
			kind, name, reason string
			until              time.Time
			want               string
		}{
			{
				"stack",
				"all",
				"",
				now.Add(time.Hour),
				`kind is "stack"`,
			},
			{
				"target",
				"",
				"",
				now.Add(time.Hour),
				"name is empty",
			},
			{
				"container",
				"a b",
				"",
				now.Add(time.Hour),
				`name is "a b"`,
			},
			{
				"target",
				`x"}`,
				"",
				now.Add(time.Hour),
				"which is not a valid name of a target",
			},
			{
				"target",
				"x",
				strings.Repeat("x", 201),
				now.Add(time.Hour),
				"reason has 201 bytes",
			},
			{
				"target",
				"x",
				"two\nlines",
				now.Add(time.Hour),
				"one line",
			},
			{
				"target",
				"x",
				"",
				now,
				"it would end at",
			},
			{
				"target",
				"x",
				"",
				now.Add(-time.Hour),
				"it would end at",
			},
			{
				"target",
				"x",
				"",
				time.Time{},
				"it would end at",
			},
			{
				"target",
				"x",
				"",
				now.Add(30*24*time.Hour + time.Second),
				"the maximum is 720h",
			},
		} {
			if _, _, err := r.Set(c.kind, c.name, c.reason, c.until); !errors.Is(err, ErrInvalid) ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: error = %v, want %q", c, err, c.want)
			}
		}
		if _, _, err := r.Set("target", "x", strings.Repeat("x", 200), now.Add(30*24*time.Hour)); err != nil {
			t.Errorf("at its bounds: %v", err)
		}
		if err := r.End("target", "y"); !errors.Is(err, ErrNone) {
			t.Errorf("end of nothing = %v, want ErrNone", err)
		}
	})
}

func TestSwitchesAreBoundedInNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := register(t, &memory{})
		set := func(name string, until time.Duration) error {
			_, _, err := r.Set("target", name, "", time.Now().Add(until))
			return err
		}
		for i := range maxSwitches {
			if err := set(fmt.Sprintf("t%d", i), time.Duration(i+1)*time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if err := set("more", time.Hour); !errors.Is(err, ErrTooMany) {
			t.Errorf("one more = %v, want ErrTooMany", err)
		}
		if err := set("t0", time.Minute); err != nil {
			t.Errorf("one that is there already: %v", err)
		}
		time.Sleep(time.Minute)
		if err := set("more", time.Hour); err != nil {
			t.Errorf("after one has ended: %v", err)
		}
	})
}

func TestFullDiskStopsNoMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &memory{err: errors.New("no space left on device")}
		r := register(t, kept)
		_, _, err := r.Set("target", "x", "", time.Now().Add(time.Hour))
		if _, ok := errors.AsType[*SaveError](err); !ok {
			t.Errorf("error = %v, want a SaveError", err)
		}
		if got, want := page(t, r), "target x"; got != want {
			t.Errorf("page = %q, want %q", got, want)
		}
		if _, ok := errors.AsType[*SaveError](r.End("target", "x")); !ok || page(t, r) != "" {
			t.Errorf("its end: page = %q, want a SaveError and nothing", page(t, r))
		}
	})
}
