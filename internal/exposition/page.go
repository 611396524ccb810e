package exposition

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/expfmt"
)

// Page is one metrics page, finished in every encoding. It is immutable.
type Page struct {
	// Series counts the series of the page, `_created` and exemplars aside.
	Series int

	text, textGzip               []byte
	openMetrics, openMetricsGzip []byte
}

// Clash is a family that a page could not take, because a family that came earlier claims its name for another type.
type Clash struct {
	// Source is the index of the source that lost the family.
	Source int
	Family string
	Series int
}

// Compose makes a page of families from several sources. Families of the same name become one, in the order of the
// sources; metadata is the first's. Families are sorted by name. One that claims a name under another type than an
// earlier source did is left out and reported. That no series stands in two sources is the caller's duty.
func Compose(sources ...[]Family) (*Page, []Clash, error) {
	type entry struct {
		source int
		family *Family
	}
	var (
		entries []entry
		clashes []Clash
		// A name may be claimed by two formats' spellings: counter x and gauge x_total meet in the text format.
		claims = map[string]*Family{}
	)
	for source := range sources {
		for i := range sources[source] {
			f := &sources[source][i]
			if first, taken := claimed(claims, f); taken && (first.Type != f.Type || first.Name != f.Name) {
				clashes = append(clashes, Clash{Source: source, Family: f.Name, Series: f.Series})
				continue
			}
			for _, name := range []string{f.Name, f.TextName()} {
				if claims[name] == nil {
					claims[name] = f
				}
			}
			entries = append(entries, entry{source, f})
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		if a.family.Name != b.family.Name {
			return strings.Compare(a.family.Name, b.family.Name)
		}
		return a.source - b.source
	})
	var size int
	for _, e := range entries {
		size += len(e.family.Text) + 2*len(e.family.Help) + 4*len(e.family.Name) + 64
	}
	p := &Page{text: make([]byte, 0, size), openMetrics: make([]byte, 0, size+size/8)}
	for i, e := range entries {
		if i == 0 || entries[i-1].family.Name != e.family.Name {
			p.text = e.family.appendTextHeader(p.text)
			p.openMetrics = e.family.appendOpenMetricsHeader(p.openMetrics)
		}
		p.text = append(p.text, e.family.Text...)
		p.openMetrics = append(p.openMetrics, e.family.OpenMetrics...)
		p.Series += e.family.Series
	}
	p.openMetrics = append(p.openMetrics, "# EOF\n"...)
	var err error
	if p.textGzip, err = compress(p.text); err != nil {
		return nil, nil, err
	}
	if p.openMetricsGzip, err = compress(p.openMetrics); err != nil {
		return nil, nil, err
	}
	return p, clashes, nil
}

func claimed(claims map[string]*Family, f *Family) (*Family, bool) {
	for _, name := range []string{f.Name, f.TextName()} {
		if first := claims[name]; first != nil {
			return first, true
		}
	}
	return nil, false
}

func compress(b []byte) ([]byte, error) {
	var buf bytes.Buffer
	buf.Grow(len(b)/8 + 64)
	w, err := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("compress page: %w", err)
	}
	if _, err := w.Write(b); err != nil {
		return nil, fmt.Errorf("compress page: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress page: %w", err)
	}
	return buf.Bytes(), nil
}

const (
	textType = "text/plain; version=0.0.4; charset=utf-8"
	// openMetricsType lacks its version, which negotiation fills in.
	openMetricsType = "application/openmetrics-text; version=%s; charset=utf-8"
)

// Body is one encoding of a page, as it goes over the wire.
type Body struct {
	ContentType     string
	ContentEncoding string // "gzip" or empty
	Bytes           []byte
}

// Negotiate picks the encoding that a request's Accept and Accept-Encoding headers ask for: OpenMetrics 1.0 or 0.0.1
// where it is preferred to text, else text format 0.0.4. Protobuf is passed over, so that a scraper which likes it
// best still gets its second choice.
func (p *Page) Negotiate(h http.Header) Body {
	body := Body{ContentType: textType, Bytes: p.text}
	compressed := p.textGzip
	format := expfmt.NegotiateAccept(http.Header{"Accept": withoutProtobuf(h.Values("Accept"))}, expfmt.DefaultOpenMetricsAcceptedFormats()...)
	if format.FormatType() == expfmt.TypeOpenMetrics {
		version := expfmt.OpenMetricsVersion_1_0_0
		if strings.Contains(string(format), "version="+expfmt.OpenMetricsVersion_0_0_1) {
			version = expfmt.OpenMetricsVersion_0_0_1
		}
		body = Body{ContentType: fmt.Sprintf(openMetricsType, version), Bytes: p.openMetrics}
		compressed = p.openMetricsGzip
	}
	if acceptsGzip(h.Values("Accept-Encoding")) {
		body.ContentEncoding, body.Bytes = "gzip", compressed
	}
	return body
}

// withoutProtobuf returns one Accept value without its protobuf clauses.
func withoutProtobuf(accept []string) []string {
	var kept []string
	for clause := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(clause)), "application/vnd.google.protobuf") {
			kept = append(kept, clause)
		}
	}
	return []string{strings.Join(kept, ",")}
}

// acceptsGzip reads Accept-Encoding as RFC 9110, section 12.5.3, has it: an explicit gzip outweighs *.
func acceptsGzip(headers []string) bool {
	star := false
	for clause := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		name, params, _ := strings.Cut(clause, ";")
		ok := true
		for param := range strings.SplitSeq(params, ";") {
			key, value, found := strings.Cut(param, "=")
			if found && strings.EqualFold(strings.TrimSpace(key), "q") {
				weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				ok = err == nil && weight > 0
			}
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "x-gzip":
			return ok
		case "*":
			star = ok
		}
	}
	return star
}
