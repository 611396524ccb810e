package collectors

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/openmetrics"
)

// transports are ways in which one page comes over the wire.
var transports = map[string]func(w http.ResponseWriter, page []byte){
	"plain": func(w http.ResponseWriter, page []byte) {
		w.Header().Set("Content-Length", fmt.Sprint(len(page)))
		w.Write(page) //nolint:errcheck,gosec // a test's server
	},
	"chunked": func(w http.ResponseWriter, page []byte) {
		for part := range bytes.SplitAfterSeq(page, []byte("e")) {
			w.Write(part)                         //nolint:errcheck,gosec // a test's server
			http.NewResponseController(w).Flush() //nolint:errcheck,gosec // a test's server
		}
	},
	"gzip": func(w http.ResponseWriter, page []byte) {
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, gzipped(string(page))) //nolint:errcheck // a test's server
	},
}

// TestHostilePagesSurviveTheWire serves the corpus of the reader in every way, and expects what the reader makes of it.
func TestHostilePagesSurviveTheWire(t *testing.T) {
	files, err := filepath.Glob("../internal/openmetrics/testdata/hostile/*.*")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range files {
		contentType, known := map[string]string{
			".om":  "application/openmetrics-text; version=1.0.0",
			".txt": "text/plain; version=0.0.4",
		}[filepath.Ext(file)]
		if !known {
			continue
		}
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		ran++
		for how, send := range transports {
			url := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", contentType)
				send(w, page)
			})
			name := filepath.Base(file) + " " + how
			s := &OpenMetrics{}
			s.Name, s.URL = "bridge", url
			c := newProbe(t, newOpenMetrics, s)
			want := openmetrics.Read(page, contentType, c.(*openMetrics).upstream.options)
			b, err := read(t, c, 10*time.Second)
			if want.Series == 0 && want.Dropped[openmetrics.Malformed] > 0 {
				if failure.ReasonOf(err) != failure.Malformed || len(b.Foreign(false)) > 0 {
					t.Errorf("%s: got error %v, want %s and no family", name, err, failure.Malformed)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if diff := cmp.Diff(want.Families, b.Foreign(true)); diff != "" {
				t.Errorf("%s: families (-want +got):\n%s", name, diff)
			}
			b.Target = s.Name
			own := string(ownText(t, b))
			for reason, n := range want.Dropped {
				if line := fmt.Sprintf("chatstack_upstream_dropped_series{reason=%q,target=\"bridge\"} %d\n",
					reason, n); !strings.Contains(own, line) {
					t.Errorf("%s: got\n%s\nwant %s in it", name, own, line)
				}
			}
		}
	}
	if ran < 50 {
		t.Errorf("hostile pages: got %d, want them all", ran)
	}
}

// TestPageThatBreaksOffOnTheWireIsNone has a page end before it should: nobody knows what it would have said.
func TestPageThatBreaksOffOnTheWireIsNone(t *testing.T) {
	const page = "# TYPE relayed counter\nrelayed_total{from=\"irc\"} 7\nrelayed_total{from=\"discord\"} 8\n"
	packed := gzipped(page)
	for how, answer := range map[string]string{
		"plain":   fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(page)+1, page),
		"chunked": fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(page), page),
		"gzip": fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s",
			len(packed)-20, packed[:len(packed)-20]),
	} {
		b, err := readOpenMetrics(t, "http://"+exchangetest.RawServer(t, "tcp", exchangetest.Say(answer)), nil)
		if err == nil || len(b.Foreign(err == nil)) > 0 {
			t.Errorf("%s: got error %v and %d families, want an error and none", how, err, len(b.Foreign(false)))
		}
	}
}
