package exposition

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/common/model"
)

// lines is a gauge family of n series with the given value.
func lines(name string, n, value int) Family {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "%s{number=\"%d\"} %d\n", name, i, value)
	}
	return Family{
		Name:        name,
		Type:        model.MetricTypeGauge,
		Help:        "Help of " + name + ".",
		Series:      n,
		Text:        b.Bytes(),
		OpenMetrics: b.Bytes(),
	}
}

// unpack returns what a scraper reads from a body. A reader that knows nothing of further gzip members must get it all.
func unpack(t *testing.T, encoding string, body []byte) []byte {
	t.Helper()
	in := bytes.NewReader(body)
	var out io.Reader = in
	switch encoding {
	case "gzip":
		r, err := gzip.NewReader(in)
		must(t, err)
		r.Multistream(false)
		out = r
	case "zstd":
		r, err := zstd.NewReader(in)
		must(t, err)
		defer r.Close()
		out = r
	}
	b, err := io.ReadAll(out)
	must(t, err)
	if in.Len() > 0 {
		t.Errorf("%d bytes stand behind the page", in.Len())
	}
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestPageIsTheSameInEveryEncoding has families of several sources, some larger than any window of a compression.
func TestPageIsTheSameInEveryEncoding(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	sources := make([][]Family, 3)
	for i := range 72 {
		f := lines(fmt.Sprintf("family_%03d", i), 1+rnd.IntN(60), rnd.IntN(3))
		switch {
		case i == 40:
			f = lines(f.Name, 30_000, 1)
		case i%3 == 0:
			f.Type = model.MetricTypeCounter
			f.OpenMetrics = append(bytes.Clone(f.Text), f.Name+"_created 1\n"...)
		}
		source := rnd.IntN(len(sources))
		sources[source] = append(sources[source], f)
	}
	for _, sources := range [][][]Family{nil, sources} {
		page := compose(t, sources...)
		for _, accept := range []string{"text/plain", "application/openmetrics-text"} {
			want := page.Negotiate(http.Header{"Accept": {accept}}).Bytes
			for _, encoding := range []string{"gzip", "zstd"} {
				body := page.Negotiate(http.Header{"Accept": {accept}, "Accept-Encoding": {encoding}})
				if got := unpack(t, encoding, body.Bytes); body.ContentEncoding != encoding || !bytes.Equal(got, want) {
					t.Errorf("%s, %s: got %d bytes as %q, want the %d bytes of the page",
						accept, encoding, len(got), body.ContentEncoding, len(want))
				}
			}
		}
	}
}

// TestOnlyWhatWasAskedForIsEncoded, and once.
func TestOnlyWhatWasAskedForIsEncoded(t *testing.T) {
	page := compose(t, []Family{lines("x", 10, 1)})
	asked := Choose(http.Header{"Accept": {"application/openmetrics-text"}, "Accept-Encoding": {"gzip"}})
	if _, made := page.Body(asked); made {
		t.Error("encoded before anybody asked")
	}
	first := page.Encode(asked)
	if again, made := page.Body(asked); !made || &again.Bytes[0] != &first.Bytes[0] {
		t.Error("not kept, or encoded again")
	}
	for i := range page.bodies {
		if made := page.bodies[i].Load() != nil; made != (i == asked.encoding()) {
			t.Errorf("encoding %d was made: %t", i, made)
		}
	}
}

// TestFamiliesThatShareANameClash tries every type beside a gauge that is called like it or one of its samples.
func TestFamiliesThatShareANameClash(t *testing.T) {
	for kind, names := range map[model.MetricType]string{
		model.MetricTypeCounter:        "x_total x_created",
		model.MetricTypeGauge:          "",
		model.MetricTypeUnknown:        "",
		model.MetricTypeStateset:       "",
		model.MetricTypeInfo:           "x_info",
		model.MetricTypeHistogram:      "x_bucket x_count x_sum x_created",
		model.MetricTypeGaugeHistogram: "x_bucket x_gcount x_gsum",
		model.MetricTypeSummary:        "x_count x_sum x_created",
	} {
		for _, name := range []string{"x", "x_total", "x_created", "x_info", "x_bucket", "x_count", "x_sum", "x_gcount", "x_gsum"} {
			first := Family{
				Name:        "x",
				Type:        kind,
				Series:      1,
				Text:        []byte("first 1\n"),
				OpenMetrics: []byte("first 1\n"),
			}
			second := lines(name, 1, 1)
			want := slices.Contains(strings.Fields(names), name) || name == "x" && kind != second.Type
			for _, order := range [][]Family{{first, second}, {second, first}} {
				page, clashes := Compose(order[:1], order[1:])
				if only := Clashes(order[:1], order[1:]); !slices.Equal(only, clashes) {
					t.Errorf("clashes alone: %v, with the page %v", only, clashes)
				}
				text := page.Negotiate(nil).Bytes
				if got := slices.Equal(clashes, []Clash{{Source: 1, Family: order[1].Name, Series: 1}}); got != want ||
					!got && len(clashes) > 0 {
					t.Errorf("%s %s before %s %s: clashes %v, want one: %t",
						order[0].Type, order[0].Name, order[1].Type, order[1].Name, clashes, want)
				}
				if !bytes.Contains(text, order[0].Text) || want == bytes.Contains(text, order[1].Text) || want != (page.Series == 1) {
					t.Errorf("%s and %s: the page of %d series has not the first alone\n%s",
						order[0].Name, order[1].Name, page.Series, text)
				}
			}
		}
	}
}
