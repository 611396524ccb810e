package app

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// daySeconds returns how long the first service was in each state in the last 24 h.
func (e *exporter) daySeconds(t *testing.T) map[string]float64 {
	t.Helper()
	_, body := e.exchange(t, http.MethodGet, "/api/v1/availability", "")
	var a struct {
		Subjects []struct {
			Windows []struct{ Seconds map[string]float64 }
		}
	}
	must(t, json.Unmarshal(body, &a))
	if len(a.Subjects) == 0 {
		return map[string]float64{}
	}
	return a.Subjects[0].Windows[0].Seconds
}

// TestHistoryOutlivesKills kills the program again and again: an outage that had ended keeps its length, no time counts twice, and little
// of the rest is lost.
func TestHistoryOutlivesKills(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	var down atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	dir := directoryWith(t, "state_file: state.json\ntargets:\n  - kind: http\n    name: web\n    url: "+server.URL+"\n")
	begin := time.Now()
	var p *exportertest.Program
	var e *exporter
	polls := func(verdict string, n int) {
		var first float64
		e.wait(t, verdict, func(p page) bool {
			attempts, _ := p.Value("chatstack_probe_attempts_total", "target", "web")
			if first == 0 && p.Verdict("web") == verdict {
				first = attempts
			}
			return first > 0 && attempts >= first+float64(n)
		})
	}
	start := func() {
		p = startProgram(t, binary, dir, nil, "--web.listen-address=127.0.0.1:0", "--poll.interval=1s", "--poll.timeout=1s")
		e = exporterOf(t, p)
	}
	kill := func() {
		must(t, p.Process.Kill())
		<-p.Ended
	}
	start()
	polls("up", 2)
	down.Store(true)
	polls("http_status", 2)
	down.Store(false)
	polls("up", 3)
	before := e.daySeconds(t)
	if before["down"] < 1 {
		t.Fatalf("%v: want an outage", before)
	}
	for range 5 {
		kill()
		start()
		after := e.daySeconds(t)
		if after["down"] != before["down"] {
			t.Errorf("down for %v s before a kill, %v s after it", before["down"], after["down"])
		}
		if lost := before["up"] - after["up"]; lost > 5 {
			t.Errorf("a kill has lost %v s", lost)
		}
		if sum, most := after["up"]+after["down"], time.Since(begin).Seconds(); sum > most {
			t.Errorf("%v s were watched in %v s", sum, most)
		}
		polls("up", rand.IntN(3))
		before = e.daySeconds(t)
	}
	kill()
	file := filepath.Join(dir, "state.json")
	content, err := os.ReadFile(file)
	must(t, err)
	lines := strings.SplitAfter(string(content), "\n")
	lines[len(lines)-2] = "damage\n" // the last one
	must(t, os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600))
	start()
	if after := e.daySeconds(t); after["down"] != before["down"] || before["up"]-after["up"] > 5 {
		t.Errorf("%v after one line was damaged, %v before", after, before)
	}
	if log := p.Stderr.String(); !strings.Contains(log, "1 records of the state file") {
		t.Errorf("the log does not report the damage:\n%s", log)
	}
}
