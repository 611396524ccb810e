package openmetrics

import (
	"bytes"
	"strings"
	"testing"
)

const secretPage = `# HELP plain The password is sesame-street.
# TYPE plain gauge
plain{a="1"} 1
plain{a="sesame-street"} 2
plain{a="before sesame-street after"} 3
plain{a="sesame\"open\\door"} 4
plain{sesame_street="1"} 5
plain{a="12345678"} 6
plain{a="9"} 12345678
# TYPE sesame_street_total counter
sesame_street_total{a="1"} 7
# TYPE h histogram
h_bucket{le="12345678"} 1
h_bucket{le="+Inf"} 1
h_count 1
h_sum 12345678
# TYPE c counter
c_total 1 # {trace="sesame-street"} 1
# TYPE broken_sesame_street gauge
broken_sesame_street x
# EOF
`

func TestSeriesWithASecretIsDropped(t *testing.T) {
	secrets := []string{"sesame-street", "sesame_street", `sesame"open\door`, "12345678"}
	page := Read([]byte(secretPage), "application/openmetrics-text", Options{HoldsSecret: func(text []byte) bool {
		for _, s := range secrets {
			if bytes.Contains(text, []byte(s)) {
				return true
			}
		}
		return false
	}})
	if got := page.Dropped[Secret]; got != 6 {
		t.Errorf("dropped %d series for a secret, want 6", got)
	}
	var shown strings.Builder
	for i := range page.Families {
		f := &page.Families[i]
		shown.WriteString(f.Name + " " + f.Help + "\n")
		shown.Write(f.OpenMetrics)
	}
	for _, d := range page.Drops {
		shown.WriteString(d.What + "\n")
	}
	if strings.Contains(shown.String(), "sesame") {
		t.Errorf("a secret is left:\n%s", &shown)
	}
	for _, want := range []string{`plain{a="1"} 1`, `plain{a="9"} 12345678`, `h_bucket{le="12345678`, "h_sum 12345678", "c_total 1"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("%s is lost:\n%s", want, &shown)
		}
	}
}
