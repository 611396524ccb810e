package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	dockerclient "github.com/docker/docker/client"
	dto "github.com/prometheus/client_model/go"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// dockerWatch follows an engine all the time, as the exporter does, and is read when a benchmark says so.
type dockerWatch struct {
	collectors.Follower
	target  poll.Target
	changed chan struct{}
	// later says that resources are measured after a reading, which does not wait for the engine's answers.
	later bool
}

// watchDocker begins to follow an engine. resources is the setting of that name. The engine has been read twice when this
// returns, so that the next reading is one of many.
func watchDocker(tb testing.TB, host, resources string) *dockerWatch {
	tb.Helper()
	content := fmt.Sprintf("targets:\n  - kind: docker\n    host: %s\n    resources: %s\n    max_containers: 100000\n", host, resources)
	target := targetsOf(tb, content, nil)[0]
	w := &dockerWatch{
		Follower: target.Collector.(collectors.Follower), target: target, changed: make(chan struct{}, 1), later: resources == "engine",
	}
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan struct{})
	tb.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		w.Follow(ctx, func() {
			select {
			case w.changed <- struct{}{}:
			default: // somebody looks soon
			}
		})
	}()
	w.awaitChange(tb)
	if following := w.values(tb, "chatstack_docker_feature_available"); len(following) != 1 || following[0] != 1 {
		tb.Fatalf("events of %s: got %v, want them followed", host, following)
	}
	// Events of the past, such as those of containers' starts, come first.
	for quiet := false; !quiet; {
		select {
		case <-w.changed:
		case <-time.After(500 * time.Millisecond):
			quiet = true
		}
	}
	for range 2 {
		w.read(tb)
	}
	return w
}

func (w *dockerWatch) awaitChange(tb testing.TB) {
	tb.Helper()
	select {
	case <-w.changed:
	case <-time.After(time.Minute):
		tb.Fatal("nothing new of the engine within a minute")
	}
}

// read makes one reading. ready is how long it took until health and state were known and encoded, measured until memory,
// CPU and network were known too.
func (w *dockerWatch) read(tb testing.TB) (ready, measured time.Duration) {
	tb.Helper()
	select {
	case <-w.changed:
	default:
	}
	begun := time.Now()
	status, _ := poll.Once(tb.Context(), w.target, discardLog)
	ready = time.Since(begun)
	if !status.Up {
		tb.Fatalf("read the engine: %s", status.Error)
	}
	if w.later {
		w.awaitChange(tb) // the end of measuring
	}
	return ready, time.Since(begun)
}

// values are those of a family's series, as they would stand on the page.
func (w *dockerWatch) values(tb testing.TB, family string) (values []float64) {
	tb.Helper()
	b := &collectors.Batch{}
	w.Present(b)
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

// check ends the benchmark unless the health, in its four states, and the memory of so many containers are known.
func (w *dockerWatch) check(tb testing.TB, containers int) {
	tb.Helper()
	healths, memories := len(w.values(tb, "chatstack_container_health"))/4, len(w.values(tb, "chatstack_container_memory_working_set_bytes"))
	if healths != containers || memories != containers {
		tb.Fatalf("known are the health of %d containers and the memory of %d, want %d", healths, memories, containers)
	}
}

// describeSerially finds out health and state of all containers the naive way, one call after another, and returns the ids
// of those that run.
func describeSerially(ctx context.Context, client *dockerclient.Client) (running []string, err error) {
	listed, err := client.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, err
	}
	for i := range listed {
		described, err := client.ContainerInspect(ctx, listed[i].ID)
		if err != nil {
			return nil, err
		}
		if described.State.Running {
			running = append(running, described.ID)
		}
	}
	return running, nil
}

// measureSerially finds out what containers use, by ask.
func measureSerially(ctx context.Context, ids []string, ask func(context.Context, string) (container.StatsResponseReader, error)) error {
	for _, id := range ids {
		answer, err := ask(ctx, id)
		if err != nil {
			return err
		}
		var used container.StatsResponse
		err = json.NewDecoder(answer.Body).Decode(&used)
		answer.Body.Close() //nolint:errcheck,gosec // only read
		if err != nil || used.MemoryStats.Usage == 0 {
			return fmt.Errorf("read stats of container %s: %d bytes of memory, error %w", id, used.MemoryStats.Usage, err)
		}
	}
	return nil
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
// clock. The engine's work is part of the number; `make bench` measures a real one.
func BenchmarkDocker(b *testing.B) {
	const containers = 1000
	engine := simstacktest.StartEngine(b, nil)
	for i := range containers {
		engine.Add(simstack.ContainerSpec{
			Name: fmt.Sprintf("worker-%d", i), Service: "worker", Image: "worker:1", Restart: "unless-stopped",
			Health: true, WorkingSet: 12e6,
		})
	}
	b.Run("reading", func(b *testing.B) {
		w := watchDocker(b, engine.Host(), "engine")
		var ready, measured []time.Duration
		cpu := ownTime(b)
		for b.Loop() {
			r, m := w.read(b)
			ready, measured = append(ready, r), append(measured, m)
		}
		b.ReportMetric(milliseconds(ownTime(b)-cpu)/float64(b.N), "cpu-ms/op")
		b.ReportMetric(milliseconds(median(ready)), "ready-ms")
		b.ReportMetric(milliseconds(median(measured)), "measured-ms")
		w.check(b, containers)
	})
	// From the engine's change to the moment when a page is asked for that shows it, while health checks make noise.
	b.Run("change", func(b *testing.B) {
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
			for len(w.values(b, "chatstack_container_unhealthy_since_timestamp_seconds")) != unhealthy {
				w.awaitChange(b)
			}
			took = append(took, time.Since(begun))
		}
		b.ReportMetric(milliseconds(median(took)), "p50-ms")
		b.ReportMetric(milliseconds(quantile(took, 1)), "max-ms")
	})
}
