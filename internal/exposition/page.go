package exposition

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/common/expfmt"
)

// Page is one metrics page, finished in every encoding. It is immutable.
type Page struct {
	// Series counts the series of the page, `_created` and exemplars aside.
	Series int

	text, textGzip               []byte
	openMetrics, openMetricsGzip []byte
	// textSum and openMetricsSum are the checksums of the pages without their last line.
	textSum, openMetricsSum uint32
	// choices are shared with the pages before.
	choices *choices
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
	// end is the last line of the page, sum the checksum of all before it.
	end string
	sum uint32
}

// With returns the body with more lines at its end, in two parts to be written one after the other. The first one is the page's own
// bytes. Nothing is compressed: it costs the same for a page of any size.
func (b *Body) With(lines []byte) (kept, last []byte) {
	text := append(append(make([]byte, 0, len(lines)+len(b.end)), lines...), b.end...)
	if b.ContentEncoding == "" {
		return b.Bytes[:len(b.Bytes)-len(b.end)], text
	}
	trailer := len(b.Bytes) - memberTrailer
	size := binary.LittleEndian.Uint32(b.Bytes[trailer+4:]) - uint32(len(b.end))
	return b.Bytes[:trailer-len(b.end)-storedHeader], appendLast(nil, text, b.sum, size)
}

// Negotiate picks the encoding for a request's Accept and Accept-Encoding headers: OpenMetrics 1.0 or 0.0.1 if it is
// preferred to text, else text format 0.0.4. It ignores Protobuf, so a scraper that prefers it gets its second choice.
func (p *Page) Negotiate(h http.Header) Body {
	c := p.choices.of(h)
	body := Body{ContentType: c.contentType, Bytes: p.text, sum: p.textSum}
	if c.openMetrics {
		body.Bytes, body.end, body.sum = p.openMetrics, end, p.openMetricsSum
	}
	if c.gzip {
		body.ContentEncoding, body.Bytes = "gzip", p.textGzip
		if c.openMetrics {
			body.Bytes = p.openMetricsGzip
		}
	}
	return body
}

// choice is what a request asks for.
type choice struct {
	contentType       string
	openMetrics, gzip bool
}

// choices remember what requests asked for. Scrapers ask for the same each time, and reading it takes longer than all
// that is left to do for a small page.
type choices struct {
	known atomic.Pointer[map[asked]choice]
}

// asked are the header fields that a choice depends on.
type asked struct{ accept, encoding string }

// maxChoices bounds how many choices are remembered, and maxAsked their length: enough for all real scrapers, and little for
// clients that invent headers.
const (
	maxChoices = 32
	maxAsked   = 1024
)

// of returns the choice for a request's headers. It never waits, so one of two concurrent updates may be lost.
func (c *choices) of(h http.Header) choice {
	accept, encoding := h["Accept"], h["Accept-Encoding"]
	if len(accept) > 1 || len(encoding) > 1 {
		return read(accept, encoding)
	}
	key := asked{first(accept), first(encoding)}
	if len(key.accept)+len(key.encoding) > maxAsked {
		return read(accept, encoding)
	}
	old := c.known.Load()
	if old != nil {
		if found, ok := (*old)[key]; ok {
			return found
		}
	}
	chosen := read(accept, encoding)
	known := map[asked]choice{key: chosen}
	if old != nil && len(*old) < maxChoices {
		maps.Copy(known, *old)
	}
	c.known.CompareAndSwap(old, &known)
	return chosen
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func read(accept, encoding []string) choice {
	c := choice{contentType: textType, gzip: acceptsGzip(encoding)}
	format := expfmt.NegotiateAccept(http.Header{"Accept": withoutProtobuf(accept)}, expfmt.DefaultOpenMetricsAcceptedFormats()...)
	if format.FormatType() != expfmt.TypeOpenMetrics {
		return c
	}
	version := expfmt.OpenMetricsVersion_1_0_0
	if strings.Contains(string(format), "version="+expfmt.OpenMetricsVersion_0_0_1) {
		version = expfmt.OpenMetricsVersion_0_0_1
	}
	c.contentType, c.openMetrics = fmt.Sprintf(openMetricsType, version), true
	return c
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

// AcceptsGzip reports whether an answer to a request with these headers may be compressed by gzip.
func AcceptsGzip(h http.Header) bool { return acceptsGzip(h["Accept-Encoding"]) }

// acceptsGzip parses Accept-Encoding by RFC 9110, section 12.5.3: an explicit gzip overrides *.
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
