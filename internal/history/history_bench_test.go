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
func large() *situation {
	s := &situation{Facts: health.Facts{Engines: []health.Engine{{Host: "local", Read: true}}}}
	for i := range 50 {
		s.Targets = append(s.Targets, health.Target{
			Name:  fmt.Sprint("target-", i),
			Read:  true,
			Up:    true,
			Took:  12 * time.Millisecond,
			Every: 30 * time.Second,
		})
	}
	for i := range 200 {
		s.Engines[0].Containers = append(s.Engines[0].Containers, health.Container{
			Host:     "local",
			Name:     fmt.Sprint("container-", i),
			Expected: true,
			State:    health.Running,
		})
	}
	return s
}

// full returns a history of 91 days of a situation.
func full(s *situation) *recorder {
	r := newRecorder(noon)
	for range 91 * 24 * 60 {
		r.now = r.now.Add(time.Minute)
		for i := range s.Targets {
			s.Targets[i].ReadAt = r.now
		}
		s.Now = r.now
		r.Observe(&s.Facts, &s.Judgement, func(any) {})
	}
	return r
}

// BenchmarkObserve is what a judgement of 50 services and 200 containers costs in addition.
func BenchmarkObserve(b *testing.B) {
	s := large()
	r := newRecorder(noon)
	put := func(v any) {
		if _, err := json.Marshal(v); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.now = r.now.Add(250 * time.Millisecond)
		s.Targets[i%50].ReadAt = r.now
		s.Now = r.now
		r.Observe(&s.Facts, &s.Judgement, put)
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
	r.rewrite()
	size := 0
	for _, line := range r.records {
		size += len(line)
	}
	for name, f := range map[string]func(){
		"report": func() { r.Report(r.now) }, "copy": func() { r.Records() },
		"restore": func() {
			h := New()
			for _, line := range r.records {
				if err := h.Read(line); err != nil {
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
