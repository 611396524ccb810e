package exposition

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// encodable are descriptors of which any may stand in one batch.
func encodable() []*prometheus.Desc {
	return []*prometheus.Desc{
		prometheus.NewDesc("plain_bytes", "No label.", nil, nil),
		prometheus.NewDesc("one_total", "One label,\nand a \\ in \"help\".", []string{"a"}, nil),
		prometheus.NewDesc("backwards_seconds", "Labels in another order than they are written in.", []string{"z", "m", "a"}, nil),
		prometheus.NewDesc("same_total_seconds", "", []string{"b", "a"}, nil),
		prometheus.NewDesc("backwards", "The beginning of another name.", []string{"a"}, nil),
		prometheus.NewDesc("constant_ratio", "A label that is always there.", []string{"a"}, prometheus.Labels{"b": "0"}),
		prometheus.NewDesc("quoted.name", "A name of the new kind.", []string{"a"}, nil),
		prometheus.NewDesc("quoted_label", "A label of the new kind.", []string{"a.b"}, nil),
	}
}

// faulty are descriptors that are wrong, alone or beside others.
func faulty() []*prometheus.Desc {
	return []*prometheus.Desc{
		prometheus.NewDesc("one_total", "Other help.", []string{"a"}, nil),
		prometheus.NewDesc("plain_bytes", "No label.", []string{"a"}, nil),
		prometheus.NewDesc("backwards_seconds", "Labels in another order than they are written in.", []string{"z", "m", "a"}, nil),
		prometheus.NewDesc("label_twice", "A label twice.", []string{"a", "a"}, nil),
		prometheus.NewDesc("label_twice", "A label twice.", []string{"__a"}, nil),
		prometheus.NewDesc("", "No name.", nil, nil),
	}
}

// counts of labels by descriptor, in the order above.
var encodableLabels, faultyLabels = []int{0, 1, 3, 2, 1, 1, 1, 1}, []int{1, 1, 3, 2, 1, 0}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// randomBatch makes samples of which one now and then breaks a rule, unless sound.
func randomBatch(r *rand.Rand, sound bool, good, bad []*prometheus.Desc) []prometheus.Metric {
	words := []string{"", "a", "b", "ab", "ä", `\`, `"`, "line\nfeed", "z{}", "0", "1"}
	values := []float64{
		0, math.Copysign(0, -1), 1, -1, 0.1, 1e21, 12345678, -2.5e-9, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64,
	}
	var samples Samples
	taken := map[string]bool{}
	for range r.IntN(60) {
		i := r.IntN(len(good))
		desc, n := good[i], encodableLabels[i]
		fault := -1
		if !sound && r.IntN(100) == 0 {
			fault = r.IntN(5)
		}
		if fault == 0 {
			j := r.IntN(len(bad))
			desc, n = bad[j], faultyLabels[j]
		}
		labels := make([]string, n)
		for j := range labels {
			labels[j] = pick(r, words)
		}
		key := fmt.Sprint(desc, labels)
		if taken[key] && fault != 1 { // 1 lets a series stand twice
			continue
		}
		taken[key] = true
		kind := prometheus.GaugeValue
		if i == 1 {
			kind = prometheus.CounterValue
		}
		switch fault {
		case 2:
			labels = slices.Concat(labels, []string{"more"})
		case 3:
			kind = pick(r, []prometheus.ValueType{prometheus.CounterValue, prometheus.UntypedValue, 0})
		case 4:
			if n > 0 {
				labels[n-1] = "\xff"
			}
		}
		samples.Add(desc, kind, pick(r, values), labels...)
	}
	return samples.AppendTo(nil)
}

// TestSamplesAreWrittenAsThroughARegistry writes random batches, sound ones and others, with one encoder after each other and
// through a registry each.
func TestSamplesAreWrittenAsThroughARegistry(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	good, bad := encodable(), faulty()
	var encoder Encoder
	written, refused := 0, 0
	for round := range 900 {
		few := good[:5] // the others need a registry
		if round%3 == 0 {
			few = good
		}
		batch := randomBatch(r, round%2 == 0, few, bad)
		want, wantErr := encodeGathered(batch)
		got, err := encoder.Encode(batch)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("round %d: got error %v, through a registry %v", round, err, wantErr)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("round %d (-registry +encoder):\n%s", round, cmp.Diff(want, got))
		}
		if _, ok := encoder.encode(batch); !ok && round%2 == 0 && round%3 != 0 {
			t.Fatalf("round %d: a sound batch was not written without a registry", round)
		}
		if err == nil {
			written++
		} else {
			refused++
		}
	}
	if written < 400 || refused < 50 {
		t.Errorf("%d batches were written, %d refused; want more of both", written, refused)
	}
}

// TestUnchangedFamilyIsTheSameMemory holds that a family without news costs no memory and no comparison, while one that
// was handed out never changes.
func TestUnchangedFamilyIsTheSameMemory(t *testing.T) {
	still := prometheus.NewDesc("still", "It never changes.", []string{"a"}, nil)
	moving := prometheus.NewDesc("moving", "It changes.", []string{"a"}, nil)
	var encoder Encoder
	write := func(value float64) []Family {
		t.Helper()
		families, err := encoder.Encode([]prometheus.Metric{
			NewSample(still, prometheus.GaugeValue, 1, "b"), NewSample(moving, prometheus.GaugeValue, value, "b"),
		})
		if err != nil {
			t.Fatal(err)
		}
		return families
	}
	before, after := write(1), write(2)
	if &before[1].Text[0] != &after[1].Text[0] {
		t.Error("a family that has not changed is other memory than before")
	}
	if got, want := string(before[0].Text)+string(after[0].Text), "moving{a=\"b\"} 1\nmoving{a=\"b\"} 2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSamplesKeepTheirLabels adds samples until memory was taken many times, with labels that their giver uses again.
func TestSamplesKeepTheirLabels(t *testing.T) {
	desc := prometheus.NewDesc("many", "Help.", []string{"a", "b"}, nil)
	var samples Samples
	labels := make([]string, 2)
	const n = 3 * labelsAtOnce
	for i := range n {
		labels[0], labels[1] = fmt.Sprint(i), fmt.Sprint(-i)
		samples.Add(desc, prometheus.GaugeValue, float64(i), labels...)
	}
	for i, m := range samples.AppendTo(nil) {
		if s := m.(*Sample); s.labels[0] != fmt.Sprint(i) || s.labels[1] != fmt.Sprint(-i) || s.value != float64(i) {
			t.Fatalf("sample %d: got %v %v", i, s.labels, s.value)
		}
	}
}
