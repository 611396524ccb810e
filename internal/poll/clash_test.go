package poll

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/openmetrics"
)

// upstream is a collector that re-exposes families of one type.
type upstream struct {
	down    atomic.Bool
	kind    model.MetricType
	names   []string
	dropped int // beyond a limit
}

func (u *upstream) Collect(_ context.Context, b *collectors.Batch) error {
	b.Drops = collectors.Drops{}
	for _, reason := range openmetrics.Reasons {
		b.Drops[reason] = 0
	}
	b.Drops[openmetrics.Limit] = u.dropped
	b.Note("read")
	for _, name := range u.names {
		f := exposition.Family{Name: name, Type: u.kind, Series: 2}
		f.Text = fmt.Appendf(nil, "%s{n=\"1\",target=%q} 1\n%[1]s{n=\"2\",target=%[2]q} 1\n", f.TextName(), b.Target)
		f.OpenMetrics = f.Text
		b.Families(f)
	}
	if u.down.Load() {
		return failure.Errorf(failure.Refused, "dial: nobody there")
	}
	return nil
}

func upstreamTarget(t *testing.T, name string, c collectors.Collector) Target {
	t.Helper()
	return Target{
		Name:      name,
		Kind:      config.Row{Name: "openmetrics"},
		Schedule:  every(t, "30s"),
		Timeout:   10 * time.Second,
		Collector: c,
	}
}

// droppedLines are the lines of the page that tell what a target lost.
func droppedLines(clash, limit int, target string) []string {
	var lines []string
	for reason, n := range map[string]int{"clash": clash, "limit": limit, "malformed": 0} {
		lines = append(lines, fmt.Sprintf("chatstack_upstream_dropped_series{reason=%q,target=%q} %d", reason, target, n))
	}
	return lines
}

// toldClashes are the notes on clashes that people see with the last reading of a target.
func toldClashes(p *Poller, target string) []string {
	var told []string
	h, _ := p.History(target)
	for _, note := range h.Last[0].Notes {
		if strings.HasPrefix(note, "clash: ") {
			told = append(told, note)
		}
	}
	return told
}

func TestClashesBetweenTargetsAreCountedAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &upstream{kind: model.MetricTypeGauge, names: []string{"shared", "of_first"}}
		second := &upstream{kind: model.MetricTypeCounter, names: []string{"shared", "of_second"}, dropped: 5}
		var log bytes.Buffer
		p, stop := start(t, &log, upstreamTarget(t, "first", first), upstreamTarget(t, "second", second),
			idle(t, "store", "30s"))
		clash := func(when string) {
			t.Helper()
			page := textOf(p)
			wantLines(t, page, droppedLines(0, 0, "first")...)
			wantLines(t, page, droppedLines(2, 5, "second")...)
			wantLines(t, page, `shared{n="1",target="first"} 1`, `of_second_total{n="1",target="second"} 1`)
			if strings.Contains(page, `dropped_series{reason="clash",target="store"}`) || strings.Contains(page, "shared_total") {
				t.Errorf("%s: want no drops of the store and no counter:\n%s", when, page)
			}
			if told := toldClashes(p, "second"); len(told) != 1 || !strings.Contains(told[0], "2 series of family shared") {
				t.Errorf("%s: told %q, want that of shared", when, told)
			}
			if told := toldClashes(p, "first"); len(told) > 0 {
				t.Errorf("%s: told %q of the target that lost nothing", when, told)
			}
			if notes := strings.Join(p.Snapshot().Statuses[1].Notes, "\n"); !strings.Contains(notes, "family shared") {
				t.Errorf("%s: notes of the status: %q", when, notes)
			}
		}
		time.Sleep(time.Second)
		clash("at first")

		first.down.Store(true)
		time.Sleep(50 * time.Second)
		page := textOf(p)
		wantLines(t, page, append(droppedLines(0, 5, "second"), `shared_total{n="2",target="second"} 1`)...)
		if strings.Contains(page, `dropped_series{reason="clash",target="first"}`) || len(toldClashes(p, "second")) > 0 {
			t.Errorf("after the first failed: told %q and page\n%s", toldClashes(p, "second"), page)
		}

		first.down.Store(false)
		time.Sleep(31 * time.Second)
		clash("after the recovery")

		second.down.Store(true)
		time.Sleep(31 * time.Second)
		page = textOf(p)
		if strings.Contains(page, `upstream_dropped_series{reason="clash",target="second"}`) || len(toldClashes(p, "second")) > 0 {
			t.Errorf("a failed reading is told of: %q and page\n%s", toldClashes(p, "second"), page)
		}
		stop()
		if got := strings.Count(log.String(), "family dropped"); got != 1 {
			t.Errorf("the clash stands %d times in the log, want once:\n%s", got, log.String())
		}
	})
}

// drifting is a collector whose families have other names with each reading.
type drifting struct {
	upstream
	prefix string
	reads  int
}

func (d *drifting) Collect(ctx context.Context, b *collectors.Batch) error {
	d.reads++
	d.names = []string{fmt.Sprintf("%s%d", d.prefix, d.reads)}
	return d.upstream.Collect(ctx, b)
}

func TestDriftingClashesAreLoggedWithABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range 300 {
			names = append(names, fmt.Sprintf("drift_%d", i))
		}
		var log bytes.Buffer
		_, stop := start(t, &log, upstreamTarget(t, "first", &upstream{kind: model.MetricTypeGauge, names: names}),
			upstreamTarget(t, "second", &drifting{upstream: upstream{kind: model.MetricTypeCounter}, prefix: "drift_"}))
		time.Sleep(2 * time.Hour)
		stop()
		if got := strings.Count(log.String(), "family dropped"); got < 5 || got > 50 {
			t.Errorf("%d clashes stand in the log after 240 readings, want some of them", got)
		}
		if got := strings.Count(log.String(), "further dropped families are not logged"); got != 1 {
			t.Errorf("that the log leaves some out stands there %d times, want once", got)
		}
	})
}

// TestLastingClashIsToldOnEveryPage has readings go on for minutes, and no page that counts otherwise or for nothing.
func TestLastingClashIsToldOnEveryPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := start(t, io.Discard,
			upstreamTarget(t, "first", &upstream{kind: model.MetricTypeGauge, names: []string{"shared"}}),
			upstreamTarget(t, "second", &upstream{kind: model.MetricTypeCounter, names: []string{"shared"}}))
		defer stop()
		time.Sleep(time.Second)
		const minutes = 5
		pages := 0
		for last, end := p.Snapshot(), time.Now().Add(minutes*time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			s := p.Snapshot()
			if s == last {
				continue
			}
			pages, last = pages+1, s
			wantLines(t, textOf(p), droppedLines(2, 0, "second")...)
		}
		// Two readings of each target a minute, and a beat after each at most.
		if most := minutes*(2*2+2) + 2; pages > most || pages < minutes*2*2 {
			t.Errorf("%d pages, want one for each reading, and %d at most", pages, most)
		}
	})
}

func TestClashOfAnOlderReadingIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{kind: model.MetricTypeGauge, names: []string{"shared"}}
		tg := newTarget(upstreamTarget(t, "a", u), nil, slog.New(slog.DiscardHandler))
		lost := []exposition.Clash{{Source: 1, Family: "shared", Series: 2}}
		tg.read(t.Context(), unscheduled)
		seen, _ := tg.view()
		if !tg.recordClashes(&seen, lost) || tg.recordClashes(&seen, lost) {
			t.Error("a clash is not news the first time, or is the second")
		}
		time.Sleep(time.Second)
		tg.read(t.Context(), unscheduled)
		if tg.recordClashes(&seen, nil) {
			t.Error("a page of the reading before tells of this one")
		}
		if s, _ := tg.view(); len(s.Clashes) != 1 {
			t.Errorf("got the clashes %v, want those known before until a page is made", s.Clashes)
		}
		seen, _ = tg.view()
		u.down.Store(true)
		tg.read(t.Context(), unscheduled)
		if s, _ := tg.view(); tg.recordClashes(&seen, lost) || len(s.Clashes) > 0 || s.Dropped != nil {
			t.Errorf("a failed reading has the clashes %v and drops %v", s.Clashes, s.Dropped)
		}
		u.down.Store(false)
		tg.read(t.Context(), unscheduled)
		seen, _ = tg.view()
		tg.recordClashes(&seen, lost)
		if begin := time.Now(); !tg.expire(begin.Add(time.Hour), begin) {
			t.Fatal("not expired in an hour")
		}
		if s, _ := tg.view(); tg.recordClashes(&seen, lost) || len(s.Clashes) > 0 || s.Dropped != nil {
			t.Errorf("a target that is not read has the clashes %v and drops %v", s.Clashes, s.Dropped)
		}
	})
}

// TestTargetIsNotChargedWithWhatOthersLost has our own families clash with each other, and a target with them.
func TestTargetIsNotChargedWithWhatOthersLost(t *testing.T) {
	own := prometheus.NewRegistry()
	own.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "ours"}),
		prometheus.NewCounter(prometheus.CounterOpts{Name: "ours_total"}))
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("theirs_%d", i))
	}
	for _, c := range []struct {
		names       []string
		clash, told int
	}{
		{names, 0, 0},
		{append([]string{"ours"}, names...), 2, 1},
	} {
		var log bytes.Buffer
		p, err := New([]Target{
			upstreamTarget(t, "first", &upstream{kind: model.MetricTypeCounter, names: c.names}),
			upstreamTarget(t, "second", &upstream{kind: model.MetricTypeGauge, names: names}),
		}, own, nil, slog.New(slog.NewTextHandler(&log, nil)), nil)
		must(t, err)
		for _, tg := range p.targets {
			tg.read(t.Context(), unscheduled)
		}
		p.publish()
		wantLines(t, textOf(p), droppedLines(c.clash, 0, "first")...)
		wantLines(t, textOf(p), droppedLines(2*len(names), 0, "second")...)
		if told := toldClashes(p, "first"); len(told) != c.told {
			t.Errorf("told %q of the first, want %d", told, c.told)
		}
		told := toldClashes(p, "second")
		if len(told) != maxClashes+1 || told[maxClashes] != fmt.Sprintf("clash: %d more families", len(names)-maxClashes) {
			t.Errorf("told %q of the second, want the first %d and the number of the rest", told, maxClashes)
		}
		if !strings.Contains(log.String(), "target=exporter family=ours ") {
			t.Errorf("our own loss is not told:\n%s", log.String())
		}
	}
}
