package exposition

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"testing"
)

func TestLinesReadBackWhatWasWritten(t *testing.T) {
	const value = "q\"\\\n,}"
	text := AppendLabel([]byte("b_total{"), "x", value)
	text = append(text, ",y=\"\"} -2.5e+06\nbroken{x=\"1\na 1 # {trace_id=\"1\"} 2\nc{} NaN\n"...)
	got := slices.Collect(Lines(text))
	if len(got) != 3 || !math.IsNaN(got[2].Value) {
		t.Fatalf("got %+v, want three samples, the last NaN", got)
	}
	want := []Line{{"b_total", []Label{{"x", value}, {"y", ""}}, -2.5e6}, {"a", []Label{}, 1}}
	if !reflect.DeepEqual(got[:2], want) {
		t.Errorf("got %+v, want %+v", got[:2], want)
	}
	if got[0].Label("x") != value || got[0].Label("z") != "" {
		t.Errorf("labels: got %q and %q", got[0].Label("x"), got[0].Label("z"))
	}
}

func TestLineThatIsNotWholeIsNoSample(t *testing.T) {
	for _, line := range []string{
		"", "\n", " 1", `{a="b"} 1`, "a", "a ", `a{b} 1`, `a{ 1`, `a{b 1`, `a{b=c} 1`, `a{b="c`, `a{b="c\"`, `a{b="c"`, `a{b="c",`,
		`a{b="c"}`, `a{b="c"} `, `a{} `, "a many", "a{b=\"\\\x00\"} 1",
	} {
		for s := range Lines([]byte(line)) {
			t.Errorf("%q passes for the sample %+v", line, s)
		}
	}
}

func TestValuesReadBackAsTheSame(t *testing.T) {
	for _, text := range []string{
		"0", "-0", "1", "-1", "0.1", "1e-7", "1e17", "123456789012345678", "9007199254740993", "1.7951887358333395e9",
		"1.7976931348623157e308", "5e-324", "-2.5e-5", "9223372036854775807", "-9223372036854775808", "1e19",
	} {
		want, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		for _, written := range [][]byte{AppendValue(nil, want), AppendPlainValue(nil, want)} {
			if got, err := strconv.ParseFloat(string(written), 64); err != nil || got != want {
				t.Errorf("%s: wrote %s, read back %v, %v", text, written, got, err)
			}
		}
	}
	for _, tt := range []struct {
		value       float64
		text, plain string
	}{
		{math.NaN(), "NaN", "NaN"},
		{math.Inf(1), "+Inf", "+Inf"},
		{math.Inf(-1), "-Inf", "-Inf"},
		{1e6, "1e+06", "1000000"},
		{0.10, "0.1", "0.1"},
		{math.Copysign(0, -1), "0", "-0"},
	} {
		if text, plain := string(AppendValue(nil, tt.value)), string(AppendPlainValue(nil, tt.value)); text != tt.text ||
			plain != tt.plain {
			t.Errorf("%g: got %s and %s, want %s and %s", tt.value, text, plain, tt.text, tt.plain)
		}
	}
}
