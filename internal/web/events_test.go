package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// teller is a web.Source with a report that the test changes.
type teller struct {
	web.Source

	mu   sync.Mutex
	told *status.Report
	next chan struct{}
}

func newTeller() *teller {
	return &teller{told: newReport(1), next: make(chan struct{})}
}

func (t *teller) Report() *status.Report { r, _ := t.Watch(); return r }

func (t *teller) Incidents() []*incident.Incident { return nil }

func (t *teller) Availability() *history.Report { return &history.Report{} }

func (t *teller) Watch() (*status.Report, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.told, t.next
}

func newReport(n uint64) *status.Report {
	return &status.Report{
		Edition: status.Edition{Revision: n, Made: time.Now()},
		Verdict: status.Verdict{Summary: fmt.Sprintf("report %d", n)},
	}
}

// tell publishes the next report.
func (t *teller) tell() { t.tellOf("") }

// tellOf publishes the next report, in which one more service is down.
func (t *teller) tellOf(service string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.told.Revision + 1
	next := newReport(n)
	next.Services, next.Causes = slices.Clone(t.told.Services), slices.Clone(t.told.Causes)
	if service != "" {
		next.Level, next.Summary = status.Critical, service+" is down"
		next.Services = append(next.Services, status.Service{
			ServiceState: status.ServiceState{Name: service, State: "down"}, Shown: status.Shown{Level: status.Critical},
		})
		next.Causes = append(next.Causes,
			status.Cause{Title: service, Level: status.Critical, Members: []health.Subject{health.TargetSubject(service)}})
	}
	t.told = next
	close(t.next)
	t.next = make(chan struct{})
}

// pipes is a listener on in-memory pipes.
type pipes struct{ *exportertest.Pipes }

// request requests the stream and returns the unread connection, which closes when the test ends.
func (p pipes) request(t *testing.T, header string) net.Conn {
	t.Helper()
	client := p.Dial(nil)
	t.Cleanup(func() { client.Close() }) //nolint:errcheck,gosec // a pipe
	if _, err := fmt.Fprintf(client, "GET /api/v1/events HTTP/1.1\r\nHost: x\r\n%s\r\n", header); err != nil {
		t.Fatal(err)
	}
	return client
}

// lines reads a stream's lines, without empty ones, until it ends.
func lines(t *testing.T, c io.Reader) <-chan string {
	t.Helper()
	found := make(chan string, 1000)
	go func() {
		defer close(found)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return
		}
		defer resp.Body.Close() //nolint:errcheck // the test closes the pipe
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			if s.Text() != "" {
				found <- s.Text()
			}
		}
	}()
	return found
}

// serveEvents serves streams over pipes with the exporter's write timeout.
func serveEvents(t *testing.T, src web.Source, stop <-chan struct{}) pipes {
	t.Helper()
	server := &http.Server{
		Handler:           web.New(src, web.Options{Log: slog.New(slog.DiscardHandler), Stopping: stop}),
		ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
	}
	return pipes{exportertest.ServePipes(t, server, server.Serve)}
}

func received(found <-chan string, text string) bool {
	for {
		select {
		case line, ok := <-found:
			if !ok {
				return false
			}
			if strings.Contains(line, text) {
				return true
			}
		default:
			return false
		}
	}
}

func TestSlowReaderIsDisconnectedAndOthersAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newTeller()
		p := serveEvents(t, src, nil)
		stuck, good := p.request(t, ""), p.request(t, "")
		must(t, stuck.SetReadDeadline(time.Now().Add(time.Minute)))
		found := lines(t, good)
		synctest.Wait()
		if !received(found, "report 1") {
			t.Fatal("the first report was not told")
		}
		for n := 2; n <= 4; n++ {
			src.tell()
			synctest.Wait() // no time passes
			if !received(found, fmt.Sprintf("report %d", n)) {
				t.Errorf("report %d waits for the reader that does not read", n)
			}
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if _, err := io.ReadAll(stuck); err != nil {
			t.Errorf("the stream that nobody reads has not ended: %v", err)
		}
		src.tell()
		synctest.Wait()
		if !received(found, "report 5") {
			t.Error("who reads was dropped as well")
		}
	})
}

func TestStreamOutlivesTheServersWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newTeller()
		p := serveEvents(t, src, nil)
		found := lines(t, p.request(t, ""))
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		beats, all := 0, len(found)
		for range all {
			if strings.HasPrefix(<-found, ": ") {
				beats++
			}
		}
		if beats != 8 {
			t.Errorf("heartbeats in two minutes: got %d, want 8", beats)
		}
		src.tell()
		synctest.Wait()
		if !received(found, "report 2") {
			t.Error("after two minutes nothing is told any more")
		}
	})
}

func TestKnownReportIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newTeller()
		p := serveEvents(t, src, nil)
		found := lines(t, p.request(t, ""))
		synctest.Wait()
		id := ""
		for range len(found) {
			if v, ok := strings.CutPrefix(<-found, "id: "); ok {
				id = v
			}
		}
		if id == "" {
			t.Fatal("the event has no id")
		}
		found = lines(t, p.request(t, "Last-Event-ID: "+id+"\r\n"))
		synctest.Wait()
		if received(found, "report 1") {
			t.Error("the report is told twice")
		}
		src.tell()
		synctest.Wait()
		if !received(found, "report 2") {
			t.Error("the next report is not told")
		}
		// An id of another process is ignored.
		found = lines(t, p.request(t, "Last-Event-ID: 0-2\r\n"))
		synctest.Wait()
		if !received(found, "report 2") {
			t.Error("an unknown id keeps the report back")
		}
	})
}

func TestStreamsEndWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		p := serveEvents(t, newTeller(), stop)
		found := lines(t, p.request(t, ""))
		synctest.Wait()
		close(stop)
		synctest.Wait()
		for range len(found) {
			<-found
		}
		if _, open := <-found; open {
			t.Error("the stream goes on")
		}
	})
}

// unheard is a response that discards everything.
type unheard struct{ *httptest.ResponseRecorder }

func (unheard) SetReadDeadline(time.Time) error  { return nil }
func (unheard) SetWriteDeadline(time.Time) error { return nil }
func (unheard) Write(b []byte) (int, error)      { return len(b), nil }
func (unheard) Flush()                           {}

func TestStreamsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := web.New(newTeller(), web.Options{Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		request := func() *http.Request {
			return httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/events", http.NoBody)
		}
		for range 2000 {
			go h.ServeHTTP(unheard{httptest.NewRecorder()}, request())
		}
		synctest.Wait()
		refused := httptest.NewRecorder()
		h.ServeHTTP(refused, request())
		if refused.Code != http.StatusServiceUnavailable || refused.Header().Get("Retry-After") == "" {
			t.Errorf("stream 2001: got %d, Retry-After %q", refused.Code, refused.Header().Get("Retry-After"))
		}
		cancel()
		synctest.Wait()
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		again := unheard{httptest.NewRecorder()}
		go h.ServeHTTP(again, request())
		synctest.Wait()
		if again.Code != http.StatusOK {
			t.Errorf("after the others have gone: got %d", again.Code)
		}
	})
}
