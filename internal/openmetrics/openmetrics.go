// Package openmetrics reads metrics of other programs leniently and writes the valid ones as finished families.
package openmetrics

import (
	"bytes"
	"mime"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// Read reads a page of OpenMetrics or text format 0.0.4. The content type decides which; without one, `# EOF` at the end
// means OpenMetrics. Read neither changes nor keeps page.
//
// More than the formats allow, it accepts carriage returns, blank lines, comments, any run of blanks, a byte order mark, a
// missing `# EOF`, wrong metadata (which is dropped without the samples), scattered families, and the samples of a metric in
// any order. A bad line drops only that line.
//
// The output is canonical: families and metrics in one piece, buckets in order and with +Inf (which is the count), values in
// Go's shortest form, escapes as the formats write them. It has no sample timestamps. Only OpenMetrics has `_created` and
// exemplars, with their timestamps. Names of metrics and labels outside the classic alphabet are malformed. Of two equal
// series, or of two families that could write the same sample, the first is kept. A counter whose samples lack `_total`
// becomes unknown, because OpenMetrics forbids it. So does a counter that shares its name with another family, such as a
// gauge: it is served under the name of its samples, with `_total`, and without creation times read before.
func Read(page []byte, contentType string, o Options) *Page {
	page = bytes.TrimPrefix(page, []byte("\xef\xbb\xbf"))
	if o.HoldsSecret != nil && !o.HoldsSecret(page) && !o.HoldsSecret(exposition.Unescape(page)) {
		o.HoldsSecret = nil // so that no line has to be asked about
	}
	r := newReader(len(page), bytes.Count(page, []byte{'\n'})+1, isOpenMetrics(page, contentType), o)
	r.read(page)
	return r.finish()
}

// isOpenMetrics reports whether a page is OpenMetrics rather than text format.
func isOpenMetrics(page []byte, contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		mediaType, _, _ = strings.Cut(contentType, ";")
	}
	switch strings.ToLower(strings.TrimSpace(mediaType)) {
	case "application/openmetrics-text":
		return true
	case "text/plain":
		return false
	default:
		return bytes.HasSuffix(bytes.TrimRight(page, "\r\n\t "), []byte("# EOF"))
	}
}
