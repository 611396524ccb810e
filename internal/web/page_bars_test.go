package web_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// TestBarsHaveNumbers: what the bars show is there for a screen reader too, and each state has its own shape.
func TestBarsHaveNumbers(t *testing.T) {
	r := healthyReport()
	body := pageOf(t, r)
	holds(t, body,
		`role="img" aria-label="last 24 h: available 99.`, " % of 19 h 59 min watched, down ", "<span>19 h 59 min watched, ",
		"not watched ", "probes took 12 ms (12 ms to 12 ms)",
		"<b>7 d</b>", "<b>30 d</b>", "<b>90 d</b>", "Bars show the worst state of each hour", `<path class="b-down" d="M0 2h2M0 8h2"/>`,
		`class="b-degraded"`,
	)
	rows := len(r.Services) + len(r.Containers)
	if n := strings.Count(body, `<span class="past"><svg class="bars" viewBox="0 0 24 10"`); n != rows {
		t.Errorf("%d rows have bars, want %d", n, rows)
	}
	if strings.Contains(body, `class="spark"`) {
		t.Error("a row has bars and a small chart")
	}
}

// past is a shown report with its own history.
type past struct {
	shown

	history *history.Report
}

func (p past) Availability() *history.Report { return p.history }

// longReport has 50 services and 200 containers; the history has 90 days of them. Each hour, and each day, is troubled with a probability.
func longReport(tb testing.TB, trouble float64) past {
	tb.Helper()
	r := healthyReport()
	for i := len(r.Services); i < 50; i++ {
		s := r.Services[i%13]
		s.Name, s.Charts = fmt.Sprintf("%s-%d", s.Name, i), nil
		r.Services = append(r.Services, s)
	}
	for i := len(r.Containers); i < 200; i++ {
		r.Containers = append(r.Containers, goodContainer(fmt.Sprintf("tenant-%03d-service-with-a-rather-long-name-1", i), ""))
	}
	for i := range r.Containers {
		r.Containers[i].Charts = nil
	}
	h := history.New()
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's
	buckets := func(length, n int) (list [][5]int) {
		last := int(r.Time.UnixMilli()) / length
		for at := last - n; at < last; at++ {
			b := [5]int{at, length}
			if rng.Float64() < trouble {
				b[1] = rng.IntN(length)
				b[2+rng.IntN(3)] = length - b[1]
			}
			list = append(list, b)
		}
		return list
	}
	read := func(key string, latency bool) {
		const hour = 3_600_000
		content := map[string]any{"of": key, "state": "up", "hours": buckets(hour, 191), "days": buckets(24*hour, 90)}
		if latency {
			var hours, days [][5]int
			for i := range 90 {
				l := 10_000 + rng.IntN(5000)
				hours = append(hours, [5]int{int(r.Time.Unix())/3600 - 90 + i, 120, l, 3 * l, 200 * l})
				days = append(days, [5]int{int(r.Time.Unix())/86400 - 90 + i, 2880, l, 9 * l, 4000 * l})
			}
			content["hour_latency"], content["day_latency"] = hours, days
		}
		raw, err := json.Marshal(content)
		if err == nil {
			var kept history.Kept
			err = errors.Join(json.Unmarshal(raw, &kept), h.Restore(&kept))
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	for i := range r.Services {
		read("service/"+r.Services[i].Name, true)
	}
	for i := range r.Containers {
		read("container/"+r.Containers[i].DockerHost+"/"+r.Containers[i].Name, false)
	}
	return past{shown{report: r}, h.Report(r.Time)}
}

// TestPageOfLongHistoryIsSmall holds the goal for 50 services, 200 containers and 90 days, without charts: 150 kB compressed,
// even if one hour and day in ten has trouble.
func TestPageOfLongHistoryIsSmall(t *testing.T) {
	for _, trouble := range []float64{0, 0.02, 0.1} {
		resp := fetch(t, newHandler(longReport(t, trouble)), "/", "Accept-Encoding", "gzip")
		if t.Logf("trouble in %.0f %%: %d bytes", 100*trouble, len(resp.body)); len(resp.body) > 150_000 {
			t.Errorf("the page has %d bytes, compressed", len(resp.body))
		}
	}
}

func TestAvailabilityIsCached(t *testing.T) {
	h := newHandler(longReport(t, 0.02))
	first := fetch(t, h, "/api/v1/availability", "Accept-Encoding", "gzip")
	if first.StatusCode != http.StatusOK || first.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("status %d, %v", first.StatusCode, first.Header)
	}
	t.Logf("%d bytes", len(first.body))
	if again := fetch(t, h, "/api/v1/availability", "Accept-Encoding", "gzip", "If-None-Match",
		first.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("asked again: status %d", again.StatusCode)
	}
}

// TestAvailabilityHasTheWordsOfTheAPI: its version, and target for what a problem and an incident call so.
func TestAvailabilityHasTheWordsOfTheAPI(t *testing.T) {
	source := longReport(t, 0)
	var got struct {
		Schema   int
		Time     time.Time
		Subjects []struct{ Kind, Name string }
	}
	must(t, json.Unmarshal(fetch(t, newHandler(source), "/api/v1/availability").body, &got))
	kinds := map[string]int{}
	for _, s := range got.Subjects {
		kinds[s.Kind]++
	}
	if want := map[string]int{"target": 50, "container": 200}; got.Schema != status.SchemaVersion || !got.Time.Equal(source.history.Time) ||
		!maps.Equal(kinds, want) {
		t.Errorf("schema %d of %s, with %v, want %v", got.Schema, got.Time, kinds, want)
	}
	if s := source.history.Subjects[0]; s.Kind != "service" || s.Key != "service/"+s.Name {
		t.Errorf("the response has changed the history: %s is a %s", s.Key, s.Kind)
	}
}

// BenchmarkPageOfLongHistory renders the page of 50 services, 200 containers and 90 days.
func BenchmarkPageOfLongHistory(b *testing.B) {
	p := longReport(b, 0.02)
	b.ReportAllocs()
	for b.Loop() {
		size, err := web.RenderPage(p, web.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(size), "B-gzip")
	}
}
