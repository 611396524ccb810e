package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// TestProblemsOutliveAKill has a target and a container down, and kills the program: while nothing was read anew, its pages go
// on where the last one was, and a problem that has ended meanwhile ends with the first reading.
func TestProblemsOutliveAKill(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	engine := simstacktest.StartEngine(t, nil)
	irc := engine.Add(simstack.ContainerSpec{Name: "irc", Image: "chat/irc:1", Restart: "always"})
	var down atomic.Bool
	var gate atomic.Pointer[chan struct{}] // nil while it is open
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if closed := gate.Load(); closed != nil {
			select {
			case <-*closed:
			case <-r.Context().Done():
			}
		}
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	hang := func(on bool) {
		must(t, engine.Switch("hang_list", on))
		if on {
			closed := make(chan struct{})
			gate.Store(&closed)
		} else {
			close(*gate.Swap(nil))
		}
	}
	dir := directoryWith(t, "state_file: state.json\ntargets:\n  - kind: docker\n    host: "+engine.Host()+"\n    resources: none\n"+
		"  - kind: http\n    name: web\n    url: "+server.URL+"\n")
	begin := func() (*exportertest.Program, *exporter) {
		p := startProgram(t, binary, dir, nil, "--web.listen-address=127.0.0.1:0", "--poll.interval=1s", "--poll.timeout=1s")
		return p, exporterOf(t, p)
	}
	type durations struct{ target, container float64 }
	of := func(p page) (d durations, known bool) {
		target, hasTarget := p.Value("chatstack_target_down_seconds", "target", "web")
		container, hasContainer := p.Value("chatstack_container_down_seconds", "container", "irc")
		return durations{target, container}, hasTarget && hasContainer
	}
	p, e := begin()
	e.wait(t, "all is well", func(p page) bool { d, known := of(p); return known && p.AllUp() && d == durations{} })
	down.Store(true)
	irc.Stop()
	last, _ := of(e.wait(t, "both are down", func(p page) bool { d, _ := of(p); return d.target > 1.5 && d.container > 1.5 }))
	for _, heal := range []bool{false, true} {
		must(t, p.Process.Kill())
		<-p.Ended
		killed := time.Now()
		if heal {
			down.Store(false)
			irc.Start()
		}
		hang(true)
		p, e = begin()
		first := e.scrape(t)
		d, known := of(first)
		if !known || d.target < last.target || d.container < last.container {
			t.Errorf("down for %v before the kill, then for %v (known: %t); want that both go on", last, d, known)
		}
		if first.Up("web") || first.Up("docker") {
			t.Error("the targets are up although they hang")
		}
		hang(false)
		if heal {
			e.wait(t, "both have ended", func(p page) bool { d, known := of(p); return known && p.AllUp() && d == durations{} })
			continue
		}
		last, known = of(e.wait(t, "both are read", func(p page) bool { return p.Verdict("web") == "http_status" && p.Up("docker") }))
		most := time.Since(killed).Seconds() + 1 // longer than before
		if !known || last.target < d.target || last.container < d.container || last.target > d.target+most ||
			last.container > d.container+most {
			t.Errorf("down for %v before the first reading, then for %v (known: %t); want that both go on", d, last, known)
		}
	}
}

func TestCheckSaysWhatARestartForgets(t *testing.T) {
	binary := buildBinary(t)
	const target = "targets: [{kind: http, name: web, url: 'http://127.0.0.1:1/'}]\n"
	for file, want := range map[string]int{target: 1, "state_file: state.json\n" + target: 0} {
		p := startProgram(t, binary, directoryWith(t, file), nil, "check")
		p.ExitCode(t, patience)
		if n := strings.Count(p.Stdout.String(), "warning: without state_file, a restart of the exporter forgets"); n != want {
			t.Errorf("%q: %d warnings, want %d:\n%s", file, n, want, &p.Stdout)
		}
	}
}
