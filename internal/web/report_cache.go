package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// reporter has the current report.
type reporter interface {
	// Report returns the current report. Equal pointers mean equal reports.
	Report() *status.Report
}

// historian has the histories of numbers.
type historian interface {
	// Chart returns a number's history of the last day, or false for an unknown name.
	Chart(name string) (status.History, bool)
}

// rendering is a response body rendered once from a report, in both encodings.
type rendering struct {
	report *status.Report
	once   sync.Once
	plain  []byte
	gzip   []byte // nil if uncompressed
	err    error
}

// reportCache renders responses that depend only on the report, once per requested report. Concurrent requests wait for the one
// that renders.
type reportCache struct {
	render func(*status.Report) ([]byte, error)
	// uncompressed says that clients never get gzip.
	uncompressed bool
	current      atomic.Pointer[rendering]
}

func (c *reportCache) of(r *status.Report) *rendering {
	a := c.current.Load()
	for a == nil || a.report != r && a.report.Revision <= r.Revision { // a newer report is fine too
		next := &rendering{report: r}
		if c.current.CompareAndSwap(a, next) {
			a = next
		} else {
			a = c.current.Load()
		}
	}
	a.once.Do(func() {
		if a.plain, a.err = c.render(a.report); a.err == nil && !c.uncompressed {
			a.gzip = compress(a.plain)
		}
	})
	return a
}

// compress prefers speed, since a report lives only for seconds.
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

// tag identifies a report, also across restarts of the process.
func tag(r *status.Report) string {
	return strconv.FormatInt(r.Made.UnixMilli(), 36) + "-" + strconv.FormatUint(r.Revision, 36)
}

// write responds with the body, or with 304 if the client has it.
func (a *rendering) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	writeCached(w, r, tag(a.report), a.plain, func() []byte { return a.gzip })
}

// writeCached writes a body in an encoding that the client accepts, or 304 if the client has it.
func writeCached(w http.ResponseWriter, r *http.Request, tag string, plain []byte, gzipped func() []byte) {
	h := w.Header()
	h.Set("Vary", "Accept-Encoding")
	body := plain
	if exposition.AcceptsGzip(r.Header) {
		body, tag = gzipped(), tag+"-gzip" // an entity tag belongs to one encoding
		h.Set("Content-Encoding", "gzip")
	}
	tag = strconv.Quote(tag)
	h.Set("ETag", tag)
	if matches(r.Header.Values("If-None-Match"), tag) {
		h.Del("Content-Encoding")
		h.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
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
