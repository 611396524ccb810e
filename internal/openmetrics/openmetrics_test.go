package openmetrics

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

//go:generate go test . -update
var update = flag.Bool("update", false, "write the golden files anew instead of comparing with them")

const (
	openMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8"
	textType        = "text/plain; version=0.0.4"
)

// pages writes a page's families out in both formats.
func pages(p *Page) (openMetrics, text []byte) {
	var om, tx bytes.Buffer
	for i := range p.Families {
		f := &p.Families[i]
		if f.Help != "" {
			fmt.Fprintf(&om, "# HELP %s %s\n", f.Name, strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(f.Help))
			fmt.Fprintf(&tx, "# HELP %s %s\n", f.TextName(), strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(f.Help))
		}
		fmt.Fprintf(&om, "# TYPE %s %s\n", f.Name, f.Type)
		fmt.Fprintf(&tx, "# TYPE %s %s\n", f.TextName(), f.TextType())
		if f.Unit != "" {
			fmt.Fprintf(&om, "# UNIT %s %s\n", f.Name, f.Unit)
		}
		om.Write(f.OpenMetrics)
		tx.Write(f.Text)
	}
	om.WriteString("# EOF\n")
	return om.Bytes(), tx.Bytes()
}

// series is one series with its value as textparse reads it.
type series struct {
	name  string
	kind  model.MetricType
	value string
}

// parse reads a page with textparse to its end and returns its series by labels. A page that textparse refuses or that
// has a series twice fails the test, as do sample timestamps and families in pieces.
func parse(t *testing.T, page []byte, contentType string) map[string]series {
	t.Helper()
	found, twice := parseSeries(t, page, contentType)
	for _, name := range twice {
		t.Errorf("type of family %s is declared twice", name)
	}
	return found
}

// parseSeries is parse for a page that may declare families twice, which it returns.
func parseSeries(t *testing.T, page []byte, contentType string) (found map[string]series, twice []string) {
	t.Helper()
	p, err := textparse.New(page, contentType, labels.NewSymbolTable(), textparse.ParserOptions{})
	if p == nil {
		t.Fatalf("make parser: %v", err)
	}
	found = map[string]series{}
	declared := map[string]bool{}
	kind := model.MetricTypeUnknown
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return found, twice
		}
		if err != nil {
			t.Fatalf("textparse refuses the page: %v\n%s", err, page)
		}
		switch entry {
		case textparse.EntryType:
			var name []byte
			name, kind = p.Type()
			if declared[string(name)] {
				twice = append(twice, string(name))
			}
			declared[string(name)] = true
		case textparse.EntrySeries:
			_, timestamp, value := p.Series()
			if timestamp != nil {
				t.Errorf("a sample has a timestamp")
			}
			var l labels.Labels
			p.Labels(&l)
			if name, twice := l.HasDuplicateLabelNames(); twice {
				t.Errorf("%s has label %s twice", l, name)
			}
			if _, twice := found[l.String()]; twice {
				t.Errorf("series %s stands on the page twice\n%s", l, page)
			}
			found[l.String()] = series{l.Get(model.MetricNameLabel), kind, fmt.Sprint(value)}
		default:
		}
	}
}

// dropCreated takes out what the text format has no place for.
func dropCreated(found map[string]series) {
	maps.DeleteFunc(found, func(_ string, s series) bool {
		hasCreated := s.kind == model.MetricTypeCounter || s.kind == model.MetricTypeHistogram || s.kind == model.MetricTypeSummary
		return hasCreated && strings.HasSuffix(s.name, "_created")
	})
}

// checkLegal proves what Read promises of its families: on a page of their own they clash with nobody, and what checkRoundTrip
// proves holds of it. Reading the text page loses nothing.
func checkLegal(t *testing.T, p *Page) {
	t.Helper()
	page, clashes := exposition.Compose(p.Families)
	if len(clashes) > 0 || page.Series != p.Series {
		t.Fatalf("clashes %v, %d series, want %d", clashes, page.Series, p.Series)
	}
	checkRoundTrip(t, page)
	_, text := bodies(page)
	if back := Read(text, textType, Options{}); back.Series != p.Series || len(back.Drops) > 0 {
		t.Errorf("reading the text page: got %d series and drops %v, want %d and none\n%s", back.Series, back.Drops, p.Series, text)
	}
}

// capture is the body of a captured answer, with or without its HTTP header.
func capture(tb testing.TB, name string) []byte {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".http"))
	if err != nil {
		tb.Fatal(err)
	}
	if !bytes.HasPrefix(raw, []byte("HTTP/")) {
		return raw
	}
	header, body, found := bytes.Cut(bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n")), []byte("\n\n"))
	if !found {
		tb.Fatalf("capture %s is a header alone: %s", name, header)
	}
	return body
}

const prosodyType = "application/openmetrics-text; version=0.0.4"

func TestRealPagesAreKeptWhole(t *testing.T) {
	for _, tc := range []struct {
		name    string
		samples int // _created too
	}{
		{"prosody012_metrics_accept_openmetrics", 563},
		{"prosody012_metrics_with_s2s", 581},
		{"nginx_metrics_proxied", 347},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body := capture(t, tc.name)
			p := Read(body, prosodyType, Options{})
			if len(p.Drops) > 0 || !p.Complete {
				t.Errorf("got drops %v, complete %t; want none, true", p.Drops, p.Complete)
			}
			want := parse(t, body, openMetricsType)
			if len(want) != tc.samples {
				t.Errorf("samples of the capture: got %d, want %d", len(want), tc.samples)
			}
			om, _ := pages(p)
			if diff := cmp.Diff(want, parse(t, om, openMetricsType), cmp.AllowUnexported(series{})); diff != "" {
				t.Errorf("samples (-upstream +ours):\n%s", diff)
			}
			checkLegal(t, p)
		})
	}
}

// TestFamiliesComposeWithoutClash puts the families of a real page beside themselves under other names.
func TestFamiliesComposeWithoutClash(t *testing.T) {
	body := capture(t, "prosody012_metrics_with_s2s")
	p := Read(body, prosodyType, Options{})
	q := Read(body, prosodyType, Options{Name: func(name string) (string, bool) { return "other_" + name, true }})
	page, clashes := exposition.Compose(p.Families, q.Families)
	if len(clashes) > 0 || page.Series != p.Series+q.Series {
		t.Fatalf("%d series, clashes %v", page.Series, clashes)
	}
	om := page.Negotiate(http.Header{"Accept": {"application/openmetrics-text;version=1.0.0"}}).Bytes
	if got, want := len(parse(t, om, openMetricsType)), 2*581; got != want {
		t.Errorf("samples: got %d, want %d", got, want)
	}
}

// TestHostilePages reads every page of testdata/hostile, *.om as OpenMetrics and *.txt as text 0.0.4, and compares what
// survives with the golden file of the same name.
func TestHostilePages(t *testing.T) {
	files, err := filepath.Glob("testdata/hostile/*.*")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range files {
		contentType, known := map[string]string{".om": openMetricsType, ".txt": textType}[filepath.Ext(file)]
		if !known {
			continue
		}
		ran++
		t.Run(filepath.Base(file), func(t *testing.T) {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			before := bytes.Clone(body)
			p := Read(body, contentType, hostileOptions)
			if !bytes.Equal(body, before) {
				t.Errorf("the page was changed while it was read")
			}
			checkLegal(t, p)
			compareGolden(t, file+".golden", report(t, p))
		})
	}
	if ran < 20 {
		t.Errorf("hostile pages: got %d, want them all", ran)
	}
}

// hostileOptions is tight where the corpus tries the limits.
var hostileOptions = Options{
	Series:     40,
	Families:   20,
	LabelBytes: 200,
	Name: func(name string) (string, bool) {
		if strings.HasPrefix(name, "process_") {
			return "xmpp_" + name, true
		}
		return name, !strings.HasPrefix(name, "chatstack_")
	},
	DropLabels: []string{"job", "instance"},
}

// report is all that there is to say of a page, for people to review.
func report(t *testing.T, p *Page) []byte {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "series %d, complete %t\n", p.Series, p.Complete)
	for _, reason := range Reasons {
		fmt.Fprintf(&b, "dropped %s %d\n", reason, p.Dropped[reason])
	}
	for _, d := range p.Drops {
		fmt.Fprintf(&b, "line %d: %s: %s\n", d.Line, d.Reason, d.What)
	}
	om, text := pages(p)
	fmt.Fprintf(&b, "--- openmetrics\n%s--- text\n%s", om, text)
	return b.Bytes()
}

func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run make generate and review what it writes", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestGoldenPages(t *testing.T) {
	o := Options{
		Name: func(name string) (string, bool) {
			if strings.HasPrefix(name, "process_") {
				return "xmpp_" + name, true
			}
			return name, true
		},
		Labels:     []exposition.Label{{Name: "target", Value: `a "quoted\" name`}},
		DropLabels: []string{"host"},
	}
	for _, name := range []string{"prosody012_metrics_accept_openmetrics", "nginx_metrics_proxied"} {
		p := Read(capture(t, name), prosodyType, o)
		checkLegal(t, p)
		compareGolden(t, "testdata/"+name+".golden", report(t, p))
	}
}

func TestContentTypeNamesTheGrammar(t *testing.T) {
	const om, text = "# TYPE x counter\nx_total 1\n# EOF\n", "# TYPE x_total counter\nx_total 1\n"
	for _, tc := range []struct {
		contentType, page string
		complete          bool
	}{
		{prosodyType, om, true},
		{prosodyType, text, false},
		{"application/openmetrics-text", om, true},
		{"APPLICATION/OpenMetrics-Text;version", om, true},
		{"", om, true},
		{"", text, true},
		{textType, text, true},
		{"text/html", text, true},
		{"text/plain", om, true},
	} {
		p := Read([]byte(tc.page), tc.contentType, Options{})
		if p.Complete != tc.complete || len(p.Families) != 1 || p.Families[0].Type != model.MetricTypeCounter || p.Families[0].Name != "x" {
			t.Errorf("%q, %q: got complete %t, families %v; want %t and counter x",
				tc.contentType, tc.page, p.Complete, p.Families, tc.complete)
		}
	}
}

func TestEmptyPageIsEmpty(t *testing.T) {
	for _, page := range []string{"", "\n", "# EOF\n", "# EOF", "# TYPE x gauge\n# EOF\n"} {
		for _, contentType := range []string{textType, openMetricsType} {
			p := Read([]byte(page), contentType, Options{})
			if p.Series != 0 || len(p.Families) != 0 || p.Dropped[Malformed] != 0 {
				t.Errorf("%q as %s: got %d series, drops %v; want none", page, contentType, p.Series, p.Drops)
			}
		}
	}
}

// TestLimitsBoundWhatIsKept reads a page that is larger than each limit by far.
func TestLimitsBoundWhatIsKept(t *testing.T) {
	var page bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&page, "family_%d{a=\"%d\"} 1\n", i/10, i)
	}
	for _, tc := range []struct {
		o                    Options
		series, families, to int
	}{
		{
			Options{},
			1000,
			100,
			0,
		},
		{
			Options{Series: 95},
			95,
			10,
			905,
		},
		{
			Options{Families: 7},
			70,
			7,
			930,
		},
		{
			Options{LabelBytes: 8},
			100,
			10,
			900,
		},
	} {
		p := Read(page.Bytes(), textType, tc.o)
		if p.Series != tc.series || len(p.Families) != tc.families || p.Dropped[Limit] != tc.to {
			t.Errorf("%+v: got %d series, %d families, %d beyond the limit; want %d, %d, %d",
				tc.o, p.Series, len(p.Families), p.Dropped[Limit], tc.series, tc.families, tc.to)
		}
	}
}

func TestLabelsThatAreNotKeptCountAgainstTheLimit(t *testing.T) {
	for what, o := range map[string]Options{
		"dropped":  {LabelBytes: 24, DropLabels: []string{"job"}},
		"replaced": {LabelBytes: 24, Labels: []exposition.Label{{Name: "job", Value: "ours"}}},
	} {
		p := Read([]byte(`a{job="eight ch",b="long"} 1`+"\n"+`a{job="eight ch",b="fit"} 2`+"\n"), textType, o)
		if p.Series != 1 || p.Dropped[Limit] != 1 {
			t.Errorf("%s: got %d series, dropped %v; want the second alone", what, p.Series, p.Dropped)
		}
	}
}

// TestLinesOfAMegabyteCostThemselvesAlone is about what no file of the corpus should hold.
func TestLinesOfAMegabyteCostThemselvesAlone(t *testing.T) {
	huge, long := strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<16)
	for what, line := range map[string]string{
		"label value":      `a{b="` + huge + `"} 1`,
		"label name":       `a{` + long + `="b"} 1`,
		"labels":           `a{` + strings.Repeat(`b="c",`, 1<<14) + `} 1`,
		"backslashes":      `a{b="` + strings.Repeat(`\`, 1<<19) + `"} 1`,
		"metric name":      long + " 1",
		"number":           "a " + strings.Repeat("1", 1<<16) + "x",
		"label sans end":   `a{b="` + long,
		"word":             long + " " + long,
		"type":             "# TYPE a " + long,
		"family of a type": "# TYPE " + long + " gauge",
		"unit":             "# UNIT a " + long,
		"comment":          "# " + long,
		"blanks":           "a" + strings.Repeat(" ", 1<<16) + "x",
	} {
		for _, contentType := range []string{textType, openMetricsType} {
			p := Read([]byte("# TYPE b gauge\nb 1\n"+line+"\nc 2\n# EOF\n"), contentType, Options{LabelBytes: 4096})
			if _, text := pages(p); string(text) != "# TYPE b gauge\nb 1\n# TYPE c untyped\nc 2\n" {
				t.Errorf("%s as %s: got %d series: %.200q", what, contentType, p.Series, text)
			}
			if n := p.Dropped[Limit] + p.Dropped[Malformed]; n > 1 || n == 0 && line[0] != '#' {
				t.Errorf("%s as %s: dropped %v, want that line", what, contentType, p.Dropped)
			}
			for _, d := range p.Drops {
				if len(d.What) > 300 {
					t.Errorf("%s as %s: told in %d bytes", what, contentType, len(d.What))
				}
			}
		}
	}
}

// TestLinesOfManyPartsTakeLittleMemory reads lines of as many small parts as fit. What is allocated for each byte must stay
// below what internal/app expects of a page.
func TestLinesOfManyPartsTakeLittleMemory(t *testing.T) {
	const most = 2 // bytes for each of the page
	fill := func(part string) string { return strings.Repeat(part, (1<<20)/len(part)) }
	for what, line := range map[string]string{
		"labels":                      `a{` + fill(`l="",`) + `} 1`,
		"labels of one letter":        `a{` + fill(`l="x",`) + `m="\a"} 1`,
		"labels in blanks":            `a{` + fill(`l="" , `) + `} 1`,
		"labels without an end":       `a{` + fill(`l="",`) + ` 1`,
		"labels that are dropped":     `a{` + fill(`job="",`) + `} 1`,
		"blanks":                      `a{` + fill(` `) + `l=""} 1`,
		"labels of an exemplar":       `a_total 1 # {` + fill(`l="",`) + `} 1`,
		"loose labels of an exemplar": `a_total 1 # {` + fill(`l="" , `) + `} 1`,
		"numbers of an exemplar":      `a_total 1 # {}` + fill(` 1`),
		"numbers":                     `a` + fill(` 1`),
	} {
		page := []byte("# TYPE a counter\n" + line + "\nb 1\n# EOF\n")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p := Read(page, openMetricsType, Options{Series: 1000, LabelBytes: 4096, DropLabels: []string{"job"}})
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > most*uint64(len(page)) {
			t.Errorf("%s: a page of %d bytes took %d, want %d times as much at most", what, len(page), took, most)
		}
		if p.Series == 0 {
			t.Errorf("%s: the line behind is lost: %v", what, p.Drops)
		}
	}
}

func TestDropsNameNoLabelValue(t *testing.T) {
	const secret = "alice@chat.test"
	page := strings.Join([]string{
		`x{jid="` + secret + `"} 1`, `x{jid="` + secret + `"} 1`, `x{jid="` + secret, `x{jid="` + secret + `"} one`,
		secret + " 5", "alice logged in", `y{jid="` + secret + `",jid="b"} 1`, "# TYPE " + secret + " gauge",
	}, "\n")
	for _, contentType := range []string{textType, openMetricsType} {
		for _, d := range Read([]byte(page), contentType, Options{Series: 1}).Drops {
			if strings.Contains(d.What, "alice") {
				t.Errorf("drop tells too much: %+v", d)
			}
			if d.Line < 1 || d.Line > 8 {
				t.Errorf("drop of line %d of 8: %+v", d.Line, d)
			}
		}
	}
}

// FuzzRead throws pages at the reader. Whatever comes, it does not panic, what it keeps is legal, and it reads what Prometheus
// reads.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/hostile/*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if filepath.Ext(file) == ".golden" {
			continue
		}
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for how := range uint8(4) {
			f.Add(body, how)
		}
	}
	f.Add([]byte("a{b=\"\\\x00\"} 1\n"), uint8(0))
	f.Add([]byte("a 0  b\n"), uint8(1))
	f.Add([]byte("a 1\n#\x00\nb{} 1\nb{l=\"\"} 2\n"), uint8(0))
	for _, name := range []string{"prosody012_metrics_accept_openmetrics", "prosody012_metrics_with_s2s", "nginx_metrics_proxied"} {
		f.Add(capture(f, name), uint8(1))
	}
	f.Fuzz(func(t *testing.T, page []byte, how uint8) {
		contentType := textType
		if how&1 != 0 {
			contentType = openMetricsType
		}
		o := Options{}
		if how&2 != 0 {
			o = hostileOptions
			o.Labels = []exposition.Label{{Name: "target", Value: "one"}}
		}
		before := bytes.Clone(page)
		p := Read(page, contentType, o)
		if !bytes.Equal(before, page) {
			t.Fatal("the page was changed while it was read")
		}
		checkLegal(t, p)
		if how&2 == 0 {
			checkLines(t, page, contentType)
			checkPage(t, page, contentType, p)
		}
		for _, family := range p.Families {
			if family.Series == 0 || len(family.Text) == 0 || !slices.Contains(types, family.Type) {
				t.Errorf("family without a series or of no type: %+v", family)
			}
		}
	})
}
