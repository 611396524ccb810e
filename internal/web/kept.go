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

// reporter is what people are shown.
type reporter interface {
	// Report returns what people see now. The same pointer is the same report.
	Report() *status.Report
}

// charter knows the histories of numbers.
type charter interface {
	// Chart returns how a number was during the last day, or false for a name that none has.
	Chart(name string) (status.History, bool)
}

// answer is a body that is made once of a report, in both encodings.
type answer struct {
	report *status.Report
	once   sync.Once
	plain  []byte
	gzip   []byte // nil for answers that are sent plainly
	err    error
}

// kept makes the answers that depend on nothing but the report: once for each report that somebody asks for, and never
// for one that nobody does. Whoever asks while it is made waits for it.
type kept struct {
	make func(*status.Report) ([]byte, error)
	// plainly says that nobody is sent the answers compressed.
	plainly bool
	present atomic.Pointer[answer]
}

func (k *kept) of(r *status.Report) *answer {
	a := k.present.Load()
	for a == nil || a.report != r && a.report.Revision <= r.Revision { // a newer answer serves as well
		made := &answer{report: r}
		if k.present.CompareAndSwap(a, made) {
			a = made
		} else {
			a = k.present.Load()
		}
	}
	a.once.Do(func() {
		if a.plain, a.err = k.make(a.report); a.err == nil && !k.plainly {
			a.gzip = compress(a.plain)
		}
	})
	return a
}

// compress is quick rather than thorough: a report lives for seconds.
func compress(body []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil // the level is valid
	}
	w.Write(body) //nolint:errcheck // a buffer takes everything
	w.Close()     //nolint:errcheck,gosec // as above
	return b.Bytes()
}

// tag names a report: among all reports of all processes, as far as a clock can tell.
func tag(r *status.Report) string {
	return strconv.FormatInt(r.Made.UnixMilli(), 36) + "-" + strconv.FormatUint(r.Revision, 36)
}

// write answers a request with the body, or with 304 where the client has it.
func (a *answer) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	writeKept(w, r, tag(a.report), a.plain, func() []byte { return a.gzip })
}

// writeKept writes a body in the encoding that the client accepts, or 304 where it has it.
func writeKept(w http.ResponseWriter, r *http.Request, tag string, plain []byte, gzipped func() []byte) {
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
	w.Write(body) //nolint:errcheck // the client has gone, and knows it
}

// matches reads If-None-Match as RFC 9110, section 13.1.2, has it: the comparison is the weak one.
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
