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
