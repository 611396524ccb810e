package web

import (
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

func TestSmallChartShowsShortPeaks(t *testing.T) {
	series := func(n int, value func(i int) (float64, bool)) []*float64 {
		values := make([]*float64, n)
		for i := range values {
			if v, ok := value(i); ok {
				values[i] = &v
			}
		}
		return values
	}
	for name, test := range map[string]struct {
		values []*float64
		want   string
	}{
		"nothing":         {make([]*float64, 288), ""},
		"no steps":        {nil, ""},
		"always the same": {series(288, func(int) (float64, bool) { return 1, true }), "M0 2L96 2"},
		"always nothing":  {series(288, func(int) (float64, bool) { return 0, true }), "M0 22L96 22"},
		"one step of 288 down": {
			series(288, func(i int) (float64, bool) { return float64(min(1, abs(i-145))), true }),
			"M0 2L48 2L48 2L48 22L48 2L96 2",
		},
		"an hour unknown": {
			series(288, func(i int) (float64, bool) { return 1, i < 144 || i >= 156 }),
			"M0 2L48 2M52 2L96 2",
		},
		"one step known, which is no line": {series(288, func(i int) (float64, bool) { return 1, i == 144 }), ""},
		"from half on": {
			series(288, func(i int) (float64, bool) { return float64(i / 144), true }),
			"M0 22L48 22L48 2L96 2",
		},
		"fewer than columns": {series(2, func(i int) (float64, bool) { return float64(i), true }), "M0 22L48 22L48 2L96 2"},
	} {
		if got := newSpark(status.History{Title: "up", Values: test.values}).Path; got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func abs(i int) int { return max(i, -i) }

func TestChartNeedsTwoValues(t *testing.T) {
	one, three, now := 1.0, 3.0, 0.5
	if got := newSpark(status.History{Title: "CPU", Values: []*float64{nil, &one}}); got.Path != "" || got.Last != "1" {
		t.Errorf("got %+v", got)
	}
	got := newSpark(status.History{
		Title:  "CPU",
		Keeps:  "mean",
		Last:   &now,
		Values: []*float64{&one, &three},
	})
	if got.Path == "" || got.Last != "0.5" || got.High != "3" || got.Keeps != "mean, lowest and highest of each 5 min" {
		t.Errorf("got %+v", got)
	}
}

func TestChartNumbersAreConsistent(t *testing.T) {
	one, two, low, high := 0.212, 0.3, 0.002, 0.9
	for _, c := range []struct {
		keeps string
		last  float64
		want  string
	}{
		{"mean", two, "x, last 24 hours, lowest 2 ms, highest 900 ms, last 300 ms"},
		{"least", high, "x, last 24 hours, lowest 212 ms, last 900 ms"},
	} {
		h := status.History{
			Title:  "x",
			Unit:   "seconds",
			Keeps:  c.keeps,
			Last:   &c.last,
			Values: []*float64{&one, &two},
		}
		if c.keeps == "mean" {
			h.Min, h.Max = []*float64{&low, &two}, []*float64{&one, &high}
		}
		s := newSpark(h)
		if s.Label != c.want || s.Low == "" || (s.High == "") != (c.keeps == "least") {
			t.Errorf("%s: got %q, %+v, want %q", c.keeps, s.Label, s, c.want)
		}
	}
}

// TestSmallChartSpansLowestAndHighest: the mean alone would hide the peak of a step.
func TestSmallChartSpansLowestAndHighest(t *testing.T) {
	one, peak := 1.0, 2.0
	h := status.History{
		Keeps:  "mean",
		Values: []*float64{&one, &one},
		Min:    []*float64{&one, &one},
		Max:    []*float64{&one, &peak},
	}
	if got, want := newSpark(h).Path, "M0 12L48 12L48 2L48 12L48 12L96 12"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStreamsLeaveFilesForPollsAndScrapes(t *testing.T) {
	for files, want := range map[uint64]int64{1024: 256, 8000: 2000, 1 << 20: 2000, 1<<63 - 1: 2000} {
		if got := maxStreamsFor(files); got != want {
			t.Errorf("%d files: got %d streams, want %d", files, got, want)
		}
	}
}
