package history

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// large is a situation with 50 services and 200 containers.
func large() situation {
	s := web(true)
	for i := range 49 {
		s[fmt.Sprint("service/target-", i)] = Up
	}
	for i := range 200 {
		s[fmt.Sprint("container/local/container-", i)] = Up
	}
	return s
}

// full returns a history of 91 days of a situation.
func full(s situation) *recorder {
	r := newRecorder(noon)
	r.see(s)
	for range 91 * 24 * 60 {
		r.now = r.now.Add(time.Minute)
		round := &health.Round{Tick: r.clock.Tick(r.now), Latency: map[health.Key]health.Latency{}}
		for name := range s {
			if k := keyOf(name); k.Kind == health.KindTarget {
				round.Latency[k] = health.Latency{1, 12000, 12000, 12000}
			}
		}
		r.Apply(round)
	}
	return r
}

// BenchmarkApply is what a judgement of 50 services and 200 containers costs in addition.
func BenchmarkApply(b *testing.B) {
	r := newRecorder(noon)
	r.see(large())
	b.ReportAllocs()
	for b.Loop() {
		r.now = r.now.Add(250 * time.Millisecond)
		r.Apply(&health.Round{Tick: r.clock.Tick(r.now), Latency: map[health.Key]health.Latency{keyOf("service/web"): {1, 1, 1, 1}}})
	}
}

// BenchmarkFull reports what 90 days of 50 services and 200 containers cost in memory, on the disk and on request.
func BenchmarkFull(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := full(large())
	runtime.GC()
	runtime.ReadMemStats(&after)
	var lines [][]byte
	size := 0
	for _, k := range r.All() {
		raw, err := json.Marshal(k)
		if err != nil {
			b.Fatal(err)
		}
		lines, size = append(lines, raw), size+len(raw)
	}
	for name, f := range map[string]func(){
		"report": func() { r.Report(r.now) }, "copy": func() { r.All() },
		"restore": func() {
			h := New()
			for _, line := range lines {
				k := &Kept{}
				if err := json.Unmarshal(line, k); err != nil || h.Restore(k) != nil {
					b.Fatal(err)
				}
			}
		},
		"json": func() {
			if _, err := json.Marshal(r.Report(r.now)); err != nil {
				b.Fatal(err)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc), "B-heap")
			b.ReportMetric(float64(size), "B-file")
		})
	}
}
