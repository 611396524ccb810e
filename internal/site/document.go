// Package site has what the pages of the operators and the page of the users have in common: how a response is cached and sent, how a page
// begins, how its bars are drawn, and the words for states and availability.
package site

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// Policy is the content security policy of every page. Only a page with forms has another.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// Protect sets the headers that keep a response from being taken for something else, or from reaching other sites.
func Protect(h http.Header) {
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}

// Document is a response that is the same for all clients. It is immutable.
type Document struct {
	contentType string
	// Tag identifies the content.
	Tag     string
	plain   []byte
	gzipped func() []byte
}

// NewDocument returns a document. It is compressed once, when a client first asks for that.
func NewDocument(contentType string, body []byte) *Document {
	sum := sha256.Sum256(body)
	return &Document{
		contentType,
		hex.EncodeToString(sum[:8]),
		body,
		sync.OnceValue(func() []byte { return compress(body) }),
	}
}

// compress prefers speed, since most documents live only for seconds.
func compress(body []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil // the level is valid
	}
	w.Write(body) //nolint:errcheck // a buffer never fails
	w.Close()     //nolint:errcheck,gosec // as above
	return b.Bytes()
}

// Serve sends the document in an encoding that the client accepts, or 304 if the client has it. caching is the header Cache-Control.
func (d *Document) Serve(w http.ResponseWriter, r *http.Request, caching string) {
	h, body, tag, encoding := w.Header(), d.plain, d.Tag, ""
	if exposition.AcceptsGzip(r.Header) {
		body, tag, encoding = d.gzipped(), tag+"-gzip", "gzip" // an entity tag belongs to one encoding
	}
	tag = strconv.Quote(tag)
	h.Set("Cache-Control", caching)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", tag)
	if matches(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", d.contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
	}
	w.Write(body) //nolint:errcheck // the client is gone
}

// matches compares If-None-Match weakly, see RFC 9110, section 13.1.2.
func matches(headers []string, etag string) bool {
	for _, header := range headers {
		for candidate := range strings.SplitSeq(header, ",") {
			candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
			if candidate == etag || candidate == "*" {
				return true
			}
		}
	}
	return false
}
