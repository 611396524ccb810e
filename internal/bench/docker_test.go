package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	dockerclient "github.com/docker/docker/client"
	dto "github.com/prometheus/client_model/go"
	"github.com/robfig/cron/v3"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// dockerWatch follows an engine all the time, as the exporter does, and is read when a benchmark says so.
type dockerWatch struct {
	target  poll.Target
	changed chan struct{}
	// later says that resources are measured after a reading, which does not wait for the engine's answers.
	later bool
}

// watchDocker begins to follow an engine. resources is the setting of that name. It has been read twice when this returns,
// so that what comes is what goes on day by day.
func watchDocker(tb testing.TB, host, resources string) *dockerWatch {
	tb.Helper()
	content := fmt.Appendf(nil, "targets:\n  - kind: docker\n    host: %s\n    resources: %s\n    max_containers: 100000\n", host, resources)
	cfg, err := config.Load(config.Source{
		File: "exporter.yaml", Content: content, Kinds: collectors.ConfigKinds(),
		Lookup: func(string) (string, bool) { return "", false },
	})
	if err != nil {
		tb.Fatal(err)
	}
	file, _, err := state.Open("")
	if err != nil {
		tb.Fatal(err)
	}
	kind, _ := collectors.KindOf("docker")
	discard := slog.New(slog.DiscardHandler)
	c, err := kind.New(cfg.Targets[0], collectors.Deps{Limits: cfg.Limits, Log: discard, State: file.Value(kind.Name)})
	if err != nil {
		tb.Fatal(err)
	}
	w := &dockerWatch{
		target:  poll.Target{Name: kind.Name, Kind: kind.Name, Collector: c, Schedule: cron.Every(30 * time.Second), Timeout: time.Minute},
		changed: make(chan struct{}, 1),
		later:   resources == "engine",
	}
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan struct{})
	tb.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		w.follower().Follow(ctx, func() {
			select {
			case w.changed <- struct{}{}:
			default: // somebody looks soon
			}
		})
	}()
	w.awaitChange(tb)
	if following := w.shown(tb, "chatstack_docker_feature_available"); len(following) != 1 || following[0] != 1 {
		tb.Fatalf("events of %s: got %v, want them followed", host, following)
	}
	w.awaitQuiet()
	for range 2 {
		w.read(tb)
	}
	return w
}

func (w *dockerWatch) follower() collectors.Follower { return w.target.Collector.(collectors.Follower) }

func (w *dockerWatch) awaitChange(tb testing.TB) {
	tb.Helper()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	select {
	case <-w.changed:
	case <-late.C:
		tb.Fatal("nothing new of the engine within a minute")
	}
}

// awaitQuiet waits until events of the past, such as those of containers' starts, have been taken in.
func (w *dockerWatch) awaitQuiet() {
	for {
		select {
		case <-w.changed:
		case <-time.After(500 * time.Millisecond):
			return
		}
	}
}

// read makes one reading, while nothing changes by itself. ready is how long it took until health and state were known and encoded, measured until memory,
// CPU and network were known too.
func (w *dockerWatch) read(tb testing.TB) (ready, measured time.Duration) {
	tb.Helper()
	select {
	case <-w.changed:
	default:
	}
	begun := time.Now()
	status, _ := poll.Once(tb.Context(), w.target, w.log())
	ready = time.Since(begun)
	if !status.Up {
		tb.Fatalf("read the engine: %s", status.Error)
	}
	if w.later {
		w.awaitChange(tb) // the end of measuring
	}
	return ready, time.Since(begun)
}

func (w *dockerWatch) log() *slog.Logger { return slog.New(slog.DiscardHandler) }

// shown are the values of a family's series, as they would stand on the page now.
func (w *dockerWatch) shown(tb testing.TB, family string) []float64 {
	tb.Helper()
	var values []float64
	b := &collectors.Batch{}
	w.follower().Present(b)
	for _, m := range b.Metrics(true) {
		if !strings.Contains(m.Desc().String(), fmt.Sprintf("fqName: %q", family)) {
			continue
		}
		var series dto.Metric
		if err := m.Write(&series); err != nil {
			tb.Fatal(err)
		}
		values = append(values, series.GetGauge().GetValue()+series.GetCounter().GetValue())
	}
	return values
}

// check ends the benchmark unless the health and the memory of so many containers are known.
func (w *dockerWatch) check(tb testing.TB, containers int) {
	tb.Helper()
	healths := len(w.shown(tb, "chatstack_container_health")) / len([]string{"healthy", "unhealthy", "starting", "none"})
	memories := len(w.shown(tb, "chatstack_container_memory_working_set_bytes"))
	if healths != containers || memories != containers {
		tb.Fatalf("known are the health of %d containers and the memory of %d, want %d", healths, memories, containers)
	}
}

// serialDocker is how a program asks an engine that was written without a thought of what it costs: one call after another,
// each container every time.
type serialDocker struct {
	client *dockerclient.Client
	// oneShot asks for one sample of a container's use, else the engine takes two, a second apart.
	oneShot bool
}

func newSerialDocker(tb testing.TB, host string, oneShot bool) *serialDocker {
	tb.Helper()
	cli, err := dockerclient.NewClientWithOpts(dockerclient.WithHost(host), dockerclient.WithAPIVersionNegotiation())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := cli.Close(); err != nil {
			tb.Error(err)
		}
	})
	return &serialDocker{client: cli, oneShot: oneShot}
}

// describe finds out health and state of all containers, and returns the ids of those that run.
func (s *serialDocker) describe(ctx context.Context) ([]string, error) {
	listed, err := s.client.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, err
	}
	var running []string
	for i := range listed {
		described, err := s.client.ContainerInspect(ctx, listed[i].ID)
		if err != nil {
			return nil, err
		}
		if described.State.Running {
			running = append(running, described.ID)
		}
	}
	return running, nil
}

// measure finds out what containers use.
func (s *serialDocker) measure(ctx context.Context, ids []string) error {
	ask := func(ctx context.Context, id string) (container.StatsResponseReader, error) {
		return s.client.ContainerStats(ctx, id, false)
	}
	if s.oneShot {
		ask = s.client.ContainerStatsOneShot
	}
	for _, id := range ids {
		answer, err := ask(ctx, id)
		if err != nil {
			return err
		}
		var used container.StatsResponse
		err = json.NewDecoder(answer.Body).Decode(&used)
		answer.Body.Close() //nolint:errcheck,gosec // only read
		if err != nil {
			return fmt.Errorf("read stats of container %s: %w", id, err)
		}
		if used.MemoryStats.Usage == 0 {
			return fmt.Errorf("container %s uses no memory", id)
		}
	}
	return nil
}

// bytesRead is how much this process has read so far, of files and sockets.
func bytesRead(tb testing.TB) int64 {
	tb.Helper()
	content, err := os.ReadFile("/proc/self/io")
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(content), "rchar: ")
	number, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		tb.Fatalf("/proc/self/io: %v", err)
	}
	return n
}

// ownTime is how long this process has been on a processor, in user mode and in the kernel.
func ownTime(tb testing.TB) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkDocker watches a thousand containers of a simulated engine, which answers at once where a real one waits for its
// clock, and beside it the serial way. The engine's own work is in the same process, so its processor time is part of the
// number. What a real engine makes of it is told by `make bench-docker`.
func BenchmarkDocker(b *testing.B) {
	const containers = 1000
	engine, err := simstack.NewEngine(simstack.EngineOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := engine.Close(); err != nil {
			b.Error(err)
		}
	})
	for i := range containers {
		engine.Add(simstack.ContainerSpec{
			Name: fmt.Sprintf("worker-%d", i), Service: "worker", Image: "worker:1", Restart: "unless-stopped",
			Health: &simstack.HealthCheck{}, WorkingSet: 12e6,
		})
	}
	b.Run(fmt.Sprintf("containers=%d/watch", containers), func(b *testing.B) {
		w := watchDocker(b, engine.Host(), "engine")
		w.check(b, containers)
		var ready, measured []time.Duration
		read, cpu := bytesRead(b), ownTime(b)
		for b.Loop() {
			r, m := w.read(b)
			ready, measured = append(ready, r), append(measured, m)
		}
		b.ReportMetric(milliseconds(ownTime(b)-cpu)/float64(b.N), "cpu-ms/op")
		b.ReportMetric(float64(bytesRead(b)-read)/float64(b.N), "read-B/op")
		b.ReportMetric(milliseconds(quantile(ready, 0.5)), "ready-ms")
		b.ReportMetric(milliseconds(quantile(measured, 0.5)), "measured-ms")
		w.check(b, containers)
	})
	b.Run(fmt.Sprintf("containers=%d/serial", containers), func(b *testing.B) {
		s := newSerialDocker(b, engine.Host(), true)
		var ready []time.Duration
		read, cpu := bytesRead(b), ownTime(b)
		for b.Loop() {
			begun := time.Now()
			ids, err := s.describe(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			ready = append(ready, time.Since(begun))
			if err := s.measure(b.Context(), ids); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(milliseconds(ownTime(b)-cpu)/float64(b.N), "cpu-ms/op")
		b.ReportMetric(float64(bytesRead(b)-read)/float64(b.N), "read-B/op")
		b.ReportMetric(milliseconds(quantile(ready, 0.5)), "ready-ms")
	})
	// From the engine's change to the moment when a page is asked for that shows it, while health checks make noise.
	b.Run(fmt.Sprintf("containers=%d/change", containers), func(b *testing.B) {
		w := watchDocker(b, engine.Host(), "none")
		var took []time.Duration
		for b.Loop() {
			// One container after another becomes unhealthy, and healthy again.
			i := len(took)
			health, unhealthy := "unhealthy", 1
			if i%2 == 1 {
				health, unhealthy = "healthy", 0
			}
			engine.Noise(256)
			begun := time.Now()
			engine.Container(fmt.Sprintf("worker-%d", i/2%containers)).SetHealth(health)
			for len(w.shown(b, "chatstack_container_unhealthy_since_timestamp_seconds")) != unhealthy {
				w.awaitChange(b)
			}
			took = append(took, time.Since(begun))
		}
		b.ReportMetric(milliseconds(quantile(took, 0.5)), "p50-ms")
		b.ReportMetric(milliseconds(quantile(took, 1)), "max-ms")
	})
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
