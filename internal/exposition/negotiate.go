package exposition

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/common/expfmt"
)

const (
	textType = "text/plain; version=0.0.4; charset=utf-8"
	// openMetricsType lacks its version, which negotiation fills in.
	openMetricsType = "application/openmetrics-text; version=%s; charset=utf-8"
)

// Choice is what a request asks for: the format of a page and its compression.
type Choice struct {
	contentType string
	openMetrics bool
	coding      coding
}

// encoding identifies the bytes of a choice; versions of OpenMetrics share them.
func (c Choice) encoding() int {
	n := int(c.coding)
	if c.openMetrics {
		n += int(codings)
	}
	return n
}

// Choices remember what requests asked for. Scrapers ask for the same each time, and parsing it takes longer than serving a small
// page. The zero value is ready and safe for concurrent use.
type Choices struct {
	known atomic.Pointer[map[asked]Choice]
}

// asked are the header fields that a choice depends on.
type asked struct{ accept, encoding string }

// maxChoices bounds how many choices are remembered, and maxAsked their length: enough for all real scrapers, and little for
// clients that invent headers.
const (
	maxChoices = 32
	maxAsked   = 1024
)

// Of returns the choice for a request's headers; see Choose. It never waits, so one of two concurrent updates may be lost.
func (c *Choices) Of(h http.Header) Choice {
	accept, encoding := h["Accept"], h["Accept-Encoding"]
	if len(accept) > 1 || len(encoding) > 1 {
		return Choose(h)
	}
	key := asked{first(accept), first(encoding)}
	if len(key.accept)+len(key.encoding) > maxAsked {
		return Choose(h)
	}
	old := c.known.Load()
	if old != nil {
		if found, ok := (*old)[key]; ok {
			return found
		}
	}
	chosen := Choose(h)
	known := map[asked]Choice{key: chosen}
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

// Choose reads a request's Accept and Accept-Encoding headers: OpenMetrics 1.0 or 0.0.1 if it is preferred to text, else text format
// 0.0.4. It ignores Protobuf, so a scraper that prefers it gets its second choice.
func Choose(h http.Header) Choice {
	c := Choice{contentType: textType, coding: codingOf(h["Accept-Encoding"])}
	format := expfmt.NegotiateAccept(http.Header{"Accept": withoutProtobuf(h["Accept"])}, expfmt.DefaultOpenMetricsAcceptedFormats()...)
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
func AcceptsGzip(h http.Header) bool {
	weight, _ := weightOf("gzip", h["Accept-Encoding"])
	return weight > 0
}

// codingOf picks gzip or zstd by weight if the client accepts either, by RFC 9110, section 12.5.3. Between equal weights zstd wins: it is
// faster and smaller. Only who names zstd gets it.
func codingOf(headers []string) coding {
	gzip, _ := weightOf("gzip", headers)
	zstd, named := weightOf("zstd", headers)
	switch {
	case named && zstd > 0 && zstd >= gzip:
		return zstdCoding
	case gzip > 0:
		return gzipCoding
	default:
		return identity
	}
}

// weightOf returns the weight of a coding in Accept-Encoding; 0 if it is not accepted. Its own clause overrides *; named says that there is
// one. x-gzip means gzip (RFC 9110, section 8.4.1.3).
func weightOf(coding string, headers []string) (weight float64, named bool) {
	for clause := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		name, params, _ := strings.Cut(clause, ";")
		q := 1.0
		for param := range strings.SplitSeq(params, ";") {
			key, value, found := strings.Cut(param, "=")
			if found && strings.EqualFold(strings.TrimSpace(key), "q") {
				q, _ = strconv.ParseFloat(strings.TrimSpace(value), 64) // 0 unless it is a weight
			}
		}
		switch name = strings.ToLower(strings.TrimSpace(name)); {
		case name == coding, name == "x-gzip" && coding == "gzip":
			return q, true
		case name == "*":
			weight = q
		}
	}
	return weight, false
}
