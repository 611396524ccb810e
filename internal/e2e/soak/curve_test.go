package soak

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// round is what was measured of one storm of faults and of the calm after it.
type round struct {
	// at is when the calm was measured, since the beginning.
	at time.Duration
	// readings and switched are how many readings the exporter had made by then, and how often faults had been switched.
	readings, switched float64
	// busyGoroutines and busyDescriptors are the most that were seen in the storm.
	busyGoroutines, busyDescriptors float64
	// recovery is how long it took from the end of all faults until every target was up.
	recovery time.Duration
	// Of the calm: the least goroutines and descriptors, the live heap after a collection, and the resident memory.
	goroutines, descriptors, heap, resident float64
}

// measure is a number that has to stay flat, and by how much it may rise from the warm-up to the end: the larger one of
// an absolute bound and a share of where it began.
type measure struct {
	name  string
	of    func(round) float64
	unit  float64 // of what is printed
	least float64
	share float64
	// ofProcess says that it is of the whole process, whatever else than the exporter is in it.
	ofProcess bool
}

// measures are what the verdict is about. Goroutines and descriptors are counted in the calm, where each that is left
// over is one too many; a few belong to readings under way. The heap may grow by what is remembered of the last day, which
// fills during the run; the resident memory by what the runtime has not given back yet.
var measures = []measure{
	{
		"goroutines",
		func(r round) float64 { return r.goroutines },
		1,
		4,
		0.05,
		false,
	},
	{
		"descriptors",
		func(r round) float64 { return r.descriptors },
		1,
		3,
		0.05,
		false,
	},
	{
		"heap",
		func(r round) float64 { return r.heap },
		1 << 20,
		1 << 20,
		0.10,
		false,
	},
	{
		"resident memory",
		func(r round) float64 { return r.resident },
		1 << 20,
		16 << 20,
		0.20,
		true,
	},
}

// warmUp is the share of rounds at the beginning that do not count: caches fill and the runtime finds its size.
const warmUp = 0.2

// trend is how a measure went: where it began, and how much it rose until the end, by the slope of Theil and Sen, which
// a few outliers do not move.
type trend struct {
	measure
	begun, rise, allowed float64
}

func (t trend) String() string {
	return fmt.Sprintf("%s: from %.1f by %+.1f, %.1f allowed", t.name, t.begun/t.unit, t.rise/t.unit, t.allowed/t.unit)
}

// flat reports whether it rose by no more than it may.
func (t trend) flat() bool { return t.rise <= t.allowed }

// trends judges rounds, the warm-up left out.
func trends(rounds []round) []trend {
	rounds = rounds[int(warmUp*float64(len(rounds))):]
	found := make([]trend, len(measures))
	for i, m := range measures {
		var slopes []float64
		for a := range rounds {
			for b := range a {
				slopes = append(slopes, (m.of(rounds[a])-m.of(rounds[b]))/(rounds[a].at-rounds[b].at).Seconds())
			}
		}
		values := make([]float64, len(rounds))
		for j, r := range rounds {
			values[j] = m.of(r)
		}
		over := rounds[len(rounds)-1].at - rounds[0].at
		begun := median(values[:(len(values)+2)/3])
		found[i] = trend{
			m,
			begun,
			median(slopes) * over.Seconds(),
			max(m.least, m.share*begun),
		}
	}
	return found
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// table prints up to rows rounds, evenly picked, as Markdown.
func table(rounds []round, rows int) string {
	var b strings.Builder
	b.WriteString("| time | readings | faults switched | goroutines, storm | calm | descriptors, " +
		"storm | calm | heap | RSS | all up after |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	rows = min(rows, len(rounds))
	for i := range rows {
		r := rounds[i*(len(rounds)-1)/max(1, rows-1)]
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.2f MiB | %.1f MiB | %.1f s |\n",
			r.at.Round(time.Second), r.readings, r.switched,
			r.busyGoroutines, r.goroutines, r.busyDescriptors, r.descriptors, r.heap/(1<<20), r.resident/(1<<20), r.recovery.Seconds())
	}
	return b.String()
}

// simulated makes rounds of a run of three minutes whose numbers jump about, with one more of each of the measures every
// so many rounds; 0 for none.
func simulated(every int) []round {
	noise := rand.New(rand.NewPCG(1, 2))
	var rounds []round
	for i := range 20 {
		left := 0.0
		if every > 0 {
			left = float64(i / every)
		}
		r := round{
			at:          time.Duration(i+1) * 9 * time.Second,
			goroutines:  60 + left + float64(noise.IntN(3)),
			descriptors: 20 + left + float64(noise.IntN(2)),
			heap:        8<<20 + left*(256<<10) + float64(noise.IntN(100<<10)),
			resident:    60<<20 + left*(2<<20) + float64(noise.IntN(2<<20)),
		}
		if i == 13 {
			r.goroutines, r.descriptors, r.heap = r.goroutines+40, r.descriptors+30, 2*r.heap // once, and gone again
		}
		rounds = append(rounds, r)
	}
	return rounds
}

func TestLeakIsSeenThroughNoise(t *testing.T) {
	for _, tr := range trends(simulated(1)) {
		if tr.flat() {
			t.Errorf("one more in each round is called flat: %s", tr)
		}
	}
	for _, tr := range trends(simulated(0)) {
		if !tr.flat() {
			t.Errorf("noise is called a leak: %s", tr)
		}
	}
}
