package wording

import (
	"fmt"
	"testing"
	"time"
)

func TestPercentKeepsTwoDigits(t *testing.T) {
	for n := range 10_001 {
		share := fmt.Sprintf("%d.%02d", n/100, n%100)
		var p float64
		if _, err := fmt.Sscan(share, &p); err != nil {
			t.Fatal(err)
		}
		if got, want := Percent(p), fmt.Sprint(p)+" %"; got != want {
			t.Errorf("%s: got %s", want, got)
		}
	}
}

func TestAnyDowntimeIsLessThan100Percent(t *testing.T) {
	quarter := 90 * 24 * time.Hour
	for _, down := range []time.Duration{time.Millisecond, time.Second, time.Minute} {
		if got := Percent(100 * float64(quarter-down) / float64(quarter)); got != "99.99 %" {
			t.Errorf("%s down: got %s", down, got)
		}
	}
	if got := Percent(99.999); got != "99.99 %" {
		t.Errorf("got %s", got)
	}
}

func TestDurationHasAtMostTwoUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 59 * time.Second: "59 s", 90 * time.Second: "1 min", 4320 * time.Minute: "3 d",
		200 * time.Minute: "3 h 20 min", 400 * time.Hour: "16 days",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

func TestWordsOfAmounts(t *testing.T) {
	noon := time.Date(2026, 5, 1, 14, 0, 0, 0, time.FixedZone("", 2*3600))
	for _, tt := range []struct{ got, want string }{
		{Exact(312 * time.Second), "5 min 12 s"},
		{Exact(16*24*time.Hour + time.Hour), "16 d 1 h"},
		{Exact(-time.Second), "0 s"},
		{Took(0.0004), "under 1 ms"},
		{Took(0.0123), "12 ms"},
		{Took(1.25), "1.2 s"},
		{Limit(14 * 24 * time.Hour), "14 days"},
		{Limit(time.Hour), "1 hour"},
		{Limit(90 * time.Second), "90 seconds"},
		{Limit(1500 * time.Millisecond), "1.5s"},
		{AsPrometheus(90 * time.Second), "1m30s"},
		{AsPrometheus(2 * time.Minute), "2m"},
		{AsPrometheus(500 * time.Millisecond), "500ms"},
		{Minute(noon), "1 May 2026 12:00 UTC"},
		{Span(noon, noon.Add(time.Hour)), "1 May 2026 12:00 to 13:00 UTC"},
		{Span(noon, noon.Add(12*time.Hour)), "1 May 2026 12:00 to 2 May 2026 00:00 UTC"},
		{Count(1, "target"), "1 target"},
		{Count(0, "target"), "0 targets"},
		{Times(1), "once"},
		{Times(3), "3 times"},
		{Amount(0.0012, "seconds"), "1.2 ms"},
		{Amount(0.25, "seconds"), "250 ms"},
		{Amount(-60, "seconds"), "-1 min"},
		{Amount(0.955, "ratio"), "96 %"},
		{Amount(2.25, "per_minute"), "2.2 per minute"},
		{Amount(1e9, "bytes"), "1.0 GB"},
		{Bytes(12.4e6), "12 MB"},
		{Bytes(999), "999 B"},
		{SizeLimit(5e8), "500 MB"},
		{SizeLimit(1001), "1001 bytes"},
		{Glance(1.5, "seconds"), "1.5 s"},
		{Glance(-60, "seconds"), "minus 1 min"},
		{Glance(90, "seconds"), "1 min"},
		{Glance(999_600, "bytes"), "1 MB"},
		{Glance(0.1234, "ratio"), "12.3 %"},
		{Glance(0.123, ""), "0.12"},
		{Glance(2, "per_minute"), "2 /min"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
