package exposition

import (
	"fmt"
	"net/http"
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
