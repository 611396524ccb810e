package web

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

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
	for a == nil || a.report != r {
		// An answer that is newer than r serves as well.
		if a != nil && a.report.Revision > r.Revision {
			break
		}
		made := &answer{report: r}
		if k.present.CompareAndSwap(a, made) {
			a = made
			break
		}
		a = k.present.Load()
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
	etag := fmt.Sprintf("%q", tag(a.report))
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Vary", "Accept-Encoding")
	h.Set("X-Content-Type-Options", "nosniff")
	body := a.plain
	if exposition.AcceptsGzip(r.Header) {
		// An entity tag belongs to one encoding.
		body, etag = a.gzip, strings.TrimSuffix(etag, `"`)+`-gzip"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", etag)
	if matches(r.Header.Values("If-None-Match"), etag) {
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
