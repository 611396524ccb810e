//go:build bench && realservers

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

const pastText = "\n## With a past\n\n%s, by an exporter without a past and by one with 90 days of history and %d incidents (a state " +
	"file of %s), which had %s RSS after its start. %d scrapes of each, in turn.\n\n" +
	"| | without | with |\n|---|--:|--:|\n"

const incidents = 500 // as many as the exporter keeps

// measurePast compares an exporter that has a past with one that has none.
func measurePast(t *testing.T, e exporter, l load, scrapes int) (page string) {
	t.Helper()
	text := l.configure(t, capacityInterval)
	start := func(stateFile string) *carrier {
		return &carrier{load: l, Exporter: realstack.StartExporter(t, e.path, text+"state_file: "+stateFile+"\n", nil, "--log.level=warn")}
	}
	without := start(filepath.Join(t.TempDir(), "state.json"))
	shows := func(c *carrier) {
		t.Helper()
		must(0, await(awaitWithin, func() error { _, _, _, err := c.scrape(t.Context()); return err }))
	}
	shows(without)
	file := filepath.Join(t.TempDir(), "state.json")
	writePast(t, file, subjects(t, without))
	size := must(os.Stat(file)).Size()
	with := start(file)
	shows(with)
	started, _ := memoryOf(with.PID())
	both := []*carrier{without, with}
	took, used := map[*carrier][]time.Duration{}, map[*carrier]time.Duration{}
	series := map[*carrier]int{}
	for range scrapes {
		for _, c := range both {
			before := cpuTime(c.PID())
			page, _, d, err := c.scrape(t.Context())
			used[c] += cpuTime(c.PID()) - before
			series[c], _ = count(page, "")
			took[c] = append(took[c], must(d, err))
		}
	}
	if series[without] != series[with] {
		t.Errorf("%d series without a past, %d with it", series[without], series[with])
	}
	page = fmt.Sprintf(pastText, l, incidents, bytesOf(int(size)), mb(started), scrapes)
	row := func(what string, value func(c *carrier) string) {
		page += fmt.Sprintf("| %s | %s | %s |\n", what, value(without), value(with))
	}
	row("scrape, median", func(c *carrier) string { return fmt.Sprintf("%.2f ms", milliseconds(median(took[c]))) })
	row("CPU while scraped", func(c *carrier) string { return fmt.Sprintf("%.2f ms", milliseconds(used[c])/float64(scrapes)) })
	for _, path := range []string{"/", "/incidents", "/api/v1/availability"} {
		row("`"+path+"`", func(c *carrier) string {
			begun := time.Now()
			body := must(get(t.Context(), http.DefaultTransport, c.URL()+path, "gzip"))
			return fmt.Sprintf("%s in %.0f ms", bytesOf(len(body)), milliseconds(time.Since(begun)))
		})
	}
	row("RSS after that", func(c *carrier) string { rss, _ := memoryOf(c.PID()); return mb(rss) })
	return page
}

// subjects are those whose history an exporter keeps.
func subjects(t *testing.T, c *carrier) (list []health.Subject) {
	t.Helper()
	var answer struct{ Subjects []health.Subject }
	body := must(get(context.WithoutCancel(t.Context()), http.DefaultTransport, c.URL()+"/api/v1/availability", "identity"))
	must(0, json.Unmarshal(body, &answer))
	return answer.Subjects
}

// writePast writes 90 days of history of subjects, of which another one is down for ten minutes each hour, and incidents.
func writePast(t *testing.T, path string, of []health.Subject) {
	t.Helper()
	now, clock, h := time.Now(), health.Clock{}, history.New()
	targets := slices.DeleteFunc(slices.Clone(of), func(s health.Subject) bool { return s.Kind == health.KindContainer })
	for at := now.AddDate(0, 0, -90); at.Before(now); at = at.Add(time.Minute) {
		r := health.Round{Tick: clock.Tick(at), Latency: map[health.Key]health.Latency{}}
		hour := int(at.Unix() / 3600)
		for _, s := range of {
			e := health.Event{At: r.To, Of: health.Key(s)}
			if i := slices.Index(targets, s); i >= 0 && hour%len(targets) == i && at.Minute() < 10 {
				e.To = health.Down
			} else if took := int64(10+hour%7) * 1000; i >= 0 {
				r.Latency[e.Of] = health.Latency{1, took, took, took}
			}
			r.Events = append(r.Events, e)
		}
		h.Apply(&r)
	}
	past := &written{}
	for _, k := range h.All() {
		past.records = append(past.records, map[string]any{"subject": k})
	}
	for i := range incidents {
		past.records = append(past.records, map[string]any{"incident": pastIncident(i, of, now.Add(-time.Duration(i+1)*4*time.Hour))})
	}
	f, _, err := state.Open(path, slog.New(slog.DiscardHandler), past)
	must(0, err)
	must(0, f.Close())
}

// written is the series of a state file with records to write.
type written struct {
	sync.Mutex

	records []any
}

func (w *written) Read(string, []byte) error { return nil }

func (w *written) Records() iter.Seq[any] { return slices.Values(w.records) }

// pastIncident has three targets down for ten minutes, one by the fault of another.
func pastIncident(i int, of []health.Subject, began time.Time) *incident.Incident {
	ended := began.Add(10 * time.Minute)
	in := &incident.Incident{
		ID:       fmt.Sprintf("%s-%08x", began.UTC().Format("20060102"), i),
		Title:    of[i%len(of)].Name + " is down",
		State:    incident.Closed,
		Severity: health.Critical,
		Cause:    of[i%len(of)],
		Began:    began,
		Opened:   began.Add(2 * time.Minute),
		Ended:    ended,
		Closed:   ended.Add(10 * time.Minute),
		Updated:  ended.Add(10 * time.Minute),
	}
	for k := range 3 {
		s := of[(i+k)%len(of)]
		in.Links = append(in.Links, s)
		in.Problems = append(in.Problems, incident.Problem{
			Subject:  s,
			Alert:    "TargetDown",
			Text:     s.Name + " is down: connection refused",
			Severity: health.Critical,
			Since:    began,
			Cleared:  ended,
		})
		in.Outages = append(in.Outages, incident.Outage{
			Subject: s,
			Title:   s.Name,
			Seconds: 600,
			Until:   ended,
		})
		for _, kind := range []string{incident.EventBegan, incident.EventAlert, incident.EventEnded} {
			in.Timeline = append(in.Timeline, incident.Event{
				Time:     began,
				Kind:     kind,
				Subject:  s,
				Alert:    "TargetDown",
				Severity: health.Critical,
				Text:     s.Name + " is down: connection refused",
			})
		}
	}
	return in
}
