//go:build bench && realservers

package bench

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/build"
)

// takeContainers measures readings of a real engine, and whole programs that watch it.
func (s *suite) takeContainers(t *testing.T) {
	t.Helper()
	if find("dockerd") == "" || os.Getuid() != 0 {
		return
	}
	l := newDockerLab(t, s.docker)
	if s.Idle == nil {
		s.Idle = &idleRow{}
	}
	s.Idle.Image = l.imageSize(t)
	for _, n := range s.docker.sizes {
		// The goals are for as long a window as life has; fewer containers are quickly measured.
		if l.plan.window = s.docker.window; n < goalsAt {
			l.plan.window = min(l.plan.window, usualInterval/3)
		}
		l.grow(t, n)
		s.takeReadings(t, l)
		s.save(t)
		s.takePrograms(t, l)
		s.save(t)
	}
}

// takeReadings goes all ways, in turns.
func (s *suite) takeReadings(t *testing.T, l *dockerLab) {
	t.Helper()
	ways := []*way{
		l.watching(t, "engine"), l.watching(t, "cgroup"), l.listing(),
		l.asking(t, "serial, one-shot", true), l.asking(t, "serial, two samples", false),
	}
	for turn := range l.plan.turns {
		for _, w := range ways {
			if turn < w.turns {
				w.costs = append(w.costs, w.read(t))
			}
		}
	}
	both := func(c dockerCost) float64 { return milliseconds(c.own + c.engine) }
	for _, w := range ways {
		m := w.middle()
		l.shimsTime[w.name] = m.shims
		var ratios []float64
		for i, c := range w.costs {
			ratios = append(ratios, both(c)/both(ways[0].costs[i]))
		}
		s.Readings = append(s.Readings, readingRow{
			Containers: l.running, Way: w.name, Ready: milliseconds(m.ready), Measured: milliseconds(m.measured),
			Own: milliseconds(m.own), Engine: milliseconds(m.engine), Ratio: median(ratios),
		})
	}
}

// takePrograms runs programs, one at a time.
func (s *suite) takePrograms(t *testing.T, l *dockerLab) {
	t.Helper()
	programs := []*program{l.ours(t, "engine"), l.ours(t, "cgroup")}
	if path := os.Getenv(cadvisorVariable); path != "" {
		programs = append(programs, l.cadvisor(t, path, false), l.cadvisor(t, path, true))
	}
	for _, p := range programs {
		// Where the window is short, watch adds how many readings there were.
		name := p.name
		l.rest(t) // what it uses by itself changes with what it has been asked before
		stop := p.start(t)
		l.watch(t, p)
		stop()
		every := usualInterval
		if name == cadvisorDefault {
			every = l.plan.window // reads each second or so, whatever the window
		}
		s.Watching = append(s.Watching, watchRow{
			Containers: l.running, Program: name, Window: l.plan.window.Seconds(), Own: milliseconds(p.cost.own), All: milliseconds(p.all()),
			RSS: float64(p.rss) * 1024 / 1e6, Peak: float64(p.peak) * 1024 / 1e6, Share: 100 * p.all().Seconds() / every.Seconds(),
		})
	}
}

// imageSize builds the last stage of the Dockerfile, of files from this machine, and returns what it holds in MB.
func (l *dockerLab) imageSize(t *testing.T) float64 {
	t.Helper()
	dockerfile, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, last, ok := strings.Cut(string(dockerfile), "\nFROM scratch\n")
	if !ok {
		t.Fatal("the last stage of the Dockerfile is not FROM scratch")
	}
	program, err := os.ReadFile(l.exporter)
	if err != nil {
		t.Fatal(err)
	}
	authorities, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		t.Fatal(err)
	}
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	for _, f := range []struct {
		name    string
		mode    int64
		content []byte
	}{
		{"Dockerfile", 0o644, []byte("FROM scratch\n" + strings.ReplaceAll(last, "--from=build ", ""))},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities},
		{"out/chatstack_exporter", 0o755, program},
		{"out/etc/chatstack_exporter/", 0o755, nil},
		{"out/var/lib/chatstack_exporter/", 0o755, nil},
	} {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: time.Unix(0, 0)}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const image = "chatstack-bench-image"
	resp, err := l.client.ImageBuild(t.Context(), &content, build.ImageBuildOptions{Tags: []string{image}, Remove: true, NetworkMode: "none"})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	about, err := l.client.ImageInspect(t.Context(), image)
	if err != nil {
		t.Fatalf("inspect image: %v\n%s", err, said)
	}
	return float64(about.Size) / 1e6
}
