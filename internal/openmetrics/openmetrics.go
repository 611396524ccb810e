// Package openmetrics reads other people's metric pages leniently and writes what can be kept as finished families.
package openmetrics

import (
	"bytes"
	"mime"
	"strings"
)

// Read reads a page of OpenMetrics or of text format 0.0.4, as its content type says, or where that says nothing, as
// it ends or does not end in `# EOF`. It changes nothing of page and keeps nothing of it.
//
// What is read more kindly than the formats have it: carriage returns, blank lines, comments, any run of blanks, a
// byte order mark, a missing `# EOF`, metadata that is wrong (it is left out, the samples stay), families that stand in
// pieces, and samples of one metric in any order. A bad line costs that line alone.
//
// What is written is canonical: families and metrics in one piece, buckets in order and with +Inf (which is the count),
// values in Go's shortest form, escapes in the formats' own. Sample timestamps are left out; `_created` and exemplars,
// with the time at which these were observed, are in OpenMetrics only. Names of metrics and labels outside
// the classic alphabet are malformed. Of two series that are equal, or two families of which one could write a sample
// of the other, the first is kept. A counter whose samples lack `_total`, which OpenMetrics does not know, is unknown. So
// is one whose name another family of the page has, a gauge for example: it is served under the name of its samples,
// with `_total`. A creation time that is read before that shows is left out, since there is no place for it.
func Read(page []byte, contentType string, o Options) *Page {
	page = bytes.TrimPrefix(page, []byte("\xef\xbb\xbf"))
	r := newReader(len(page), bytes.Count(page, []byte{'\n'})+1, isOpenMetrics(page, contentType), o)
	r.read(page)
	return r.finish()
}

// isOpenMetrics reports which of the two grammars a page is in.
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
