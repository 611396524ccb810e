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

	"github.com/prometheus/common/model"
)

// lines is a gauge family of n series with the given value.
func lines(name string, n, value int) Family {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "%s{number=\"%d\"} %d\n", name, i, value)
	}
	return Family{Name: name, Type: model.MetricTypeGauge, Help: "Help of " + name + ".", Series: n, Text: b.Bytes(), OpenMetrics: b.Bytes()}
}

var (
	acceptsOpenMetrics = http.Header{"Accept": {"application/openmetrics-text; version=1.0.0"}}
	acceptsText        = http.Header{}
)

// plain and unpacked are the two bodies that a scraper can get of one format.
func plain(p *Page, accept http.Header) []byte { return p.Negotiate(accept).Bytes }

func unpacked(t *testing.T, p *Page, accept http.Header) []byte {
	t.Helper()
	accept = accept.Clone()
	accept.Set("Accept-Encoding", "gzip")
	body := bytes.NewReader(p.Negotiate(accept).Bytes)
	r, err := gzip.NewReader(body)
	if err != nil {
		t.Fatal(err)
	}
	// A reader that knows nothing of further members must get it all.
	r.Multistream(false)
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if body.Len() > 0 {
		t.Errorf("%d bytes stand behind the gzip member", body.Len())
	}
	return b
}

// checkPage compares a page with one that is composed anew.
func checkPage(t *testing.T, got *Page, sources [][]Family) {
	t.Helper()
	want, _, err := Compose(sources...)
	if err != nil {
		t.Fatal(err)
	}
	if got.Series != want.Series {
		t.Errorf("series: got %d, want %d", got.Series, want.Series)
	}
	for _, accept := range []http.Header{acceptsText, acceptsOpenMetrics} {
		page := plain(want, accept)
		if !bytes.Equal(plain(got, accept), page) {
			t.Fatal("the page differs from one that is composed anew")
		}
		if !bytes.Equal(unpacked(t, got, accept), page) || !bytes.Equal(unpacked(t, want, accept), page) {
			t.Fatal("the compressed page is not the page")
		}
	}
}

// TestPageDoesNotDependOnThoseBefore changes, adds, removes and makes anew families of several sources, at random.
func TestPageDoesNotDependOnThoseBefore(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	family := func(i int) Family {
		f := lines(fmt.Sprintf("family_%03d", i), 1+rnd.IntN(60), rnd.IntN(3))
		if i%10 == 0 {
			f = lines(f.Name, 1500, rnd.IntN(2)) // larger than a segment
		}
		if i%3 == 0 {
			f.Type = model.MetricTypeCounter
			f.OpenMetrics = append(bytes.Clone(f.Text), f.Name+"_created 1\n"...)
		}
		return f
	}
	const sources, families = 3, 24
	var composer Composer
	present := make([]map[int]Family, sources)
	for i := range present {
		present[i] = map[int]Family{}
		for j := range families {
			present[i][j] = family(j)
		}
	}
	for range 12 {
		for range rnd.IntN(6) {
			source, i := rnd.IntN(sources), rnd.IntN(families)
			if rnd.IntN(2) == 0 {
				delete(present[source], i)
			} else {
				present[source][i] = family(i)
			}
		}
		page := make([][]Family, sources)
		for i := range page {
			for j := range families {
				if f, ok := present[i][j]; ok {
					page[i] = append(page[i], f)
				}
			}
		}
		got, clashes, err := composer.Compose(page...)
		if err != nil || len(clashes) > 0 {
			t.Fatalf("compose: clashes %v, error %v", clashes, err)
		}
		checkPage(t, got, page)
	}
	if got, _, err := composer.Compose(); err != nil || got.Series != 0 || len(unpacked(t, got, acceptsText)) > 0 {
		t.Errorf("a page of nothing: %d series, error %v", got.Series, err)
	}
}

func TestOnlyWhatChangedIsCompressed(t *testing.T) {
	var upstream []Family
	for i := range 250 {
		upstream = append(upstream, lines(fmt.Sprintf("upstream_%03d", i), 50, i))
	}
	var composer Composer
	compose := func(sources ...[]Family) (fed int) {
		t.Helper()
		before := composer.deflater.fed
		page, _, err := composer.Compose(sources...)
		if err != nil {
			t.Fatal(err)
		}
		checkPage(t, page, sources)
		return composer.deflater.fed - before
	}
	own := []Family{lines("chatstack_heartbeat", 1, 0)}
	whole := compose(own, upstream)
	if fed := compose(own, upstream); fed != 0 {
		t.Errorf("nothing changed: compressed %d bytes, want none", fed)
	}
	own = []Family{lines("chatstack_heartbeat", 1, 1)}
	if fed := compose(own, upstream); fed == 0 || fed > 2*segmentSize {
		t.Errorf("a small family changed: compressed %d bytes of %d, want at most a segment in both formats", fed, whole)
	}
	again := make([]Family, len(upstream))
	for i, f := range upstream {
		f.Text = bytes.Clone(f.Text)
		f.OpenMetrics = f.Text
		again[i] = f
	}
	if fed := compose(own, again); fed != 0 {
		t.Errorf("a reading found what the one before did: compressed %d bytes, want none", fed)
	}
	upstream = slices.Delete(slices.Clone(again), 150, 151)
	if fed := compose(own, upstream); fed > 2*segmentSize {
		t.Errorf("a family went: compressed %d bytes of %d, want at most a segment in both formats", fed, whole)
	}
	upstream = slices.Insert(upstream, 100, lines("upstream_099a", 50, 1))
	if fed := compose(own, upstream); fed > 2*segmentSize {
		t.Errorf("a family came: compressed %d bytes of %d, want at most a segment in both formats", fed, whole)
	}
}

func TestLastPageKeepsNoReadingThatIsOver(t *testing.T) {
	var composer Composer
	var last []Family
	for range 2 {
		last = []Family{lines("x", 10, 1)}
		if _, _, err := composer.Compose(last); err != nil {
			t.Fatal(err)
		}
	}
	if kept := composer.segments[0].parts[0].Text; &kept[0] != &last[0].Text[0] {
		t.Error("the lines of an earlier reading are kept, although a later one has the same")
	}
}

func TestFragmentsAreJoined(t *testing.T) {
	var composer Composer
	page := make([]Family, 24)
	compose := func() {
		t.Helper()
		if _, _, err := composer.Compose(page); err != nil {
			t.Fatal(err)
		}
	}
	for i := range page {
		page[i] = lines(fmt.Sprintf("family_%02d", i), 1400, i)
	}
	compose()
	// Each has a segment of its own now, and stays in it when it shrinks alone.
	for i := range page {
		page[i] = lines(page[i].Name, 1, i)
		compose()
	}
	size := 0
	for _, f := range page {
		size += len(f.Text)
	}
	if got, most := len(composer.segments), 4*size/segmentSize+16; got > most {
		t.Errorf("the page of %d bytes is in %d segments, want at most %d", size, got, most)
	}
}

// TestFamiliesThatShareANameClash tries every type beside a gauge that is called like it or one of its samples.
func TestFamiliesThatShareANameClash(t *testing.T) {
	var composer Composer
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
			first := Family{Name: "x", Type: kind, Series: 1, Text: []byte("first 1\n"), OpenMetrics: []byte("first 1\n")}
			second := lines(name, 1, 1)
			want := slices.Contains(strings.Fields(names), name) || name == "x" && kind != second.Type
			for _, order := range [][]Family{{first, second}, {second, first}} {
				page, clashes, err := composer.Compose(order[:1], order[1:])
				if err != nil {
					t.Fatal(err)
				}
				if got := slices.Equal(clashes, []Clash{{Source: 1, Family: order[1].Name, Series: 1}}); got != want || !got && len(clashes) > 0 {
					t.Errorf("%s %s before %s %s: clashes %v, want one: %t", order[0].Type, order[0].Name, order[1].Type, order[1].Name, clashes, want)
				}
				if !bytes.Contains(plain(page, acceptsText), order[0].Text) || want == bytes.Contains(plain(page, acceptsText), order[1].Text) || want != (page.Series == 1) {
					t.Errorf("%s and %s: the page of %d series has not the first alone\n%s", order[0].Name, order[1].Name, page.Series, plain(page, acceptsText))
				}
			}
		}
	}
}
