package collectors

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/docker/docker/pkg/stdcopy"
	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
)

// logEngine is a Docker Engine with one container, xmpp, of which it has the log.
type logEngine struct {
	host     string
	terminal bool

	mu     sync.Mutex
	status int           // of the log, if it is not 200
	back   time.Duration // how far the clock went back
	lines  []logLine
	asked  []string
}

type logLine struct {
	at     time.Time
	stream stdcopy.StdType
	text   string
}

func startLogEngine(t *testing.T, terminal bool) *logEngine {
	t.Helper()
	e := &logEngine{terminal: terminal, host: filepath.Join(t.TempDir(), "s")}
	l, err := net.Listen("unix", e.host) //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(e)
	server.Listener.Close() //nolint:errcheck,gosec // replaced by a socket
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	e.host = "unix://" + e.host
	return e
}

// write adds lines to the log, one nanosecond after the other.
func (e *logEngine) write(texts ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, text := range texts {
		n := len(e.lines)
		stream := stdcopy.Stdout
		if n%2 == 1 {
			stream = stdcopy.Stderr
		}
		e.lines = append(e.lines, logLine{noon.Add(time.Duration(n) - e.back), stream, text})
	}
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// turnBack sets the engine's clock, which stands at noon but for nanoseconds, to so long before noon.
func (e *logEngine) turnBack(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.back = d
}

func (e *logEngine) fail(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = status
}

// ServeHTTP implements http.Handler.
func (e *logEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.Header().Set("Api-Version", "1.41")
	w.Header().Set("Date", noon.Add(-e.back).Format(http.TimeFormat))
	switch path := r.URL.Path; {
	case path == "/_ping":
		io.WriteString(w, "OK") //nolint:errcheck // a test's server
	case strings.HasSuffix(path, "/containers/xmpp/json"):
		fmt.Fprintf(w, `{"Id":"0123456789ab","Name":"/xmpp","Config":{"Tty":%v}}`, e.terminal) //nolint:errcheck // a test's server
	case strings.HasSuffix(path, "/containers/0123456789ab/logs"):
		e.asked = append(e.asked, r.URL.Query().Get("tail")+"/"+r.URL.Query().Get("since"))
		e.log(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"message":"No such container: x"}`) //nolint:errcheck // a test's server
	}
}

func (e *logEngine) log(w http.ResponseWriter, r *http.Request) {
	if e.status != 0 {
		w.WriteHeader(e.status)
		io.WriteString(w, `{"message":"configured logging driver does not support reading"}`) //nolint:errcheck // a test's server
		return
	}
	lines := e.lines
	if r.URL.Query().Get("tail") == "1" {
		lines = lines[max(0, len(lines)-1):]
	}
	for _, line := range lines {
		// Like the real one, it includes the very moment.
		if since := r.URL.Query().Get("since"); since != "" && fmt.Sprintf("%d.%09d", line.at.Unix(), line.at.Nanosecond()) < since {
			continue
		}
		if asked := map[bool]string{false: "stdout", true: "stderr"}[line.stream == stdcopy.Stderr &&
			!e.terminal]; r.URL.Query().Get(asked) != "1" {
			continue
		}
		text := line.text
		if r.URL.Query().Get("timestamps") == "1" {
			text = line.at.Format(time.RFC3339Nano) + " " + text
		}
		if e.terminal {
			io.WriteString(w, text+"\r\n") //nolint:errcheck // a test's server
			continue
		}
		// A line may come in pieces.
		out := stdcopy.NewStdWriter(w, line.stream)
		io.WriteString(out, text[:len(text)/2])      //nolint:errcheck // a test's server
		io.WriteString(out, text[len(text)/2:]+"\n") //nolint:errcheck // a test's server
	}
}

// loginReader reads an XMPP server whose page is empty, and the log.
func loginReader(t *testing.T, page, host string) func() (*Batch, []string) {
	t.Helper()
	return limitedReader(t, page, host, 16<<20)
}

func limitedReader(t *testing.T, page, host string, limit int64) func() (*Batch, []string) {
	t.Helper()
	s, d := newXMPPMetricsSettings(), deps(&memory{})
	s.Name, s.URL = "xmpp_metrics", metricsPage(t, page)+"/metrics"
	s.Log.Container, s.Log.DockerHost = "xmpp", host
	d.Limits.MetricsBody = config.Bytes(limit)
	c, err := newXMPPMetrics(s, d)
	if err != nil {
		t.Fatal(err)
	}
	return func() (*Batch, []string) {
		b := readUp(t, c)
		return b, ownSeries(t, b, authFailures)
	}
}

// ownSeries are the series of a batch's own family.
func ownSeries(t *testing.T, b *Batch, family string) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(string(ownText(t, b))) {
		if strings.HasPrefix(line, family) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

const failedLogin = "c2s559 info Failed authentication attempt (not-authorized) for user alice@chat.test from IP: 192.0.2.7"

func TestFailedLoginsAreCountedFromTheLog(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		t.Run(fmt.Sprintf("terminal=%v", terminal), func(t *testing.T) {
			e := startLogEngine(t, terminal)
			reading := loginReader(t, "# EOF\n", e.host)
			for i, step := range []struct {
				written []string
				want    string
			}{
				{[]string{failedLogin, failedLogin}, "0"}, // what was there before counts as little as with any counter
				{nil, "0"},
				{[]string{failedLogin, "c2s559 info Authenticated as alice@chat.test", failedLogin}, "2"},
				{nil, "2"},
				{[]string{
					strings.Repeat("x", 3*maxLineBytes) + failedLogin, failedLogin + strings.Repeat("x", 3*maxLineBytes), failedLogin,
				}, "4"},
			} {
				e.write(step.written...)
				b, got := reading()
				if want := []string{authFailures + " " + step.want}; !slices.Equal(got, want) {
					t.Errorf("step %d: got %q, want %q; notes %q", i, got, want, b.Notes)
				}
				if available := availableFamilies(t, b); !slices.Equal(available, []string{authFailures}) || len(b.Notes) > 0 {
					t.Errorf("step %d: available %q, notes %q", i, available, b.Notes)
				}
			}
			if diff := cmp.Diff([]string{
				"1/", "/1795176000.000000001", "/1795176000.000000001", "/1795176000.000000004", "/1795176000.000000004",
			}, withoutAll(e.asked)); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
		})
	}
}

// withoutAll leaves out the number of lines that the docker client asks for where none is given.
func withoutAll(asked []string) []string {
	for i := range asked {
		asked[i] = strings.TrimPrefix(asked[i], "all")
	}
	return asked
}

// TestClockOfTheEngineThatGoesBackCostsNoCount has the clock go back by an hour, and come again to where it was.
func TestClockOfTheEngineThatGoesBackCostsNoCount(t *testing.T) {
	e := startLogEngine(t, false)
	reading := loginReader(t, "# EOF\n", e.host)
	for i, step := range []struct {
		back    time.Duration
		written []string
		want    string // "" where nothing must be told
	}{
		{0, []string{failedLogin}, "0"},
		{0, []string{failedLogin, failedLogin}, "2"},
		{time.Hour, nil, ""},
		{time.Hour, []string{"started"}, "2"},
		{time.Hour, []string{failedLogin}, "3"}, // and none of those before, whose stamps are later
		{time.Hour, nil, "3"},
		{time.Second, []string{failedLogin}, "4"},
		{0, nil, "4"},
		{0, []string{failedLogin}, "5"},
		{2 * time.Hour, []string{failedLogin, "started"}, ""},
		{2 * time.Hour, []string{failedLogin}, "6"},
		{0, []string{failedLogin}, "7"},
		{3 * time.Second, nil, "7"}, // no more than what Date and the time of a reading make
	} {
		e.turnBack(step.back)
		e.write(step.written...)
		b, got := reading()
		want := []string{authFailures + " " + step.want}
		if step.want == "" {
			want = nil
			if len(b.Notes) == 0 || !strings.Contains(b.Notes[0], "clock went back") {
				t.Errorf("step %d: notes: got %q, want one of the clock", i, b.Notes)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("step %d: got %q, want %q; notes %q", i, got, want, b.Notes)
		}
		if available := len(availableFamilies(t, b)) > 0; available != (step.want != "") {
			t.Errorf("step %d: available %v", i, available)
		}
	}
}

func TestLogWhoseLastLineIsTooMuchTellsNothing(t *testing.T) {
	e := startLogEngine(t, false)
	reading := limitedReader(t, "# EOF\n", e.host, 10_000)
	e.write(strings.Repeat("x", 20_000))
	for _, want := range [][]string{nil, {authFailures + " 0"}} {
		if b, got := reading(); !slices.Equal(got, want) || len(availableFamilies(t, b)) != len(want) {
			t.Errorf("got %q, available %q, want %q; notes %q", got, availableFamilies(t, b), want, b.Notes)
		}
		e.write("short")
	}
}

func TestLogThatBeginsEmptyIsCountedFromItsFirstLine(t *testing.T) {
	e := startLogEngine(t, false)
	reading := loginReader(t, "# EOF\n", e.host)
	reading()
	e.write(failedLogin)
	if _, got := reading(); !slices.Equal(got, []string{authFailures + " 1"}) {
		t.Errorf("got %q, want 1", got)
	}
}

func TestLogThatCannotBeReadIsANote(t *testing.T) {
	e := startLogEngine(t, false)
	reading := loginReader(t, "# EOF\n", e.host)
	reading()
	e.write(failedLogin)
	e.fail(http.StatusNotImplemented)
	b, got := reading()
	if len(got) > 0 || len(b.Notes) != 2 || !strings.Contains(b.Notes[0], "status 501") ||
		!strings.Contains(b.Notes[1], "nothing counts failed logins") {
		t.Errorf("got %q, notes %q; want no series and two notes", got, b.Notes)
	}
	for _, secret := range []string{"alice", "192.0.2.7"} {
		if strings.Contains(strings.Join(b.Notes, "\n"), secret) {
			t.Errorf("notes tell %s: %q", secret, b.Notes)
		}
	}
	e.fail(0)
	if _, got := reading(); !slices.Equal(got, []string{authFailures + " 1"}) {
		t.Errorf("after the failure: got %q, want 1, which was written meanwhile", got)
	}
	for name, host := range map[string]string{"no engine": "unix:///does/not/exist", "no container": startLogEngineWithout(t)} {
		if b, got := loginReader(t, "# EOF\n", host)(); len(got) > 0 || len(b.Notes) != 2 {
			t.Errorf("%s: got %q, notes %q; want no series and two notes", name, got, b.Notes)
		}
	}
}

// startLogEngineWithout has no container at all.
func startLogEngineWithout(t *testing.T) string {
	t.Helper()
	return "unix://" + exchangetest.RawServer(t, "unix", exchangetest.Say("HTTP/1.1 404 Not Found\r\nConnection: close\r\n"+
		"Content-Length: 36\r\n\r\n{\"message\":\"No such container: xmpp\"}"))
}

func TestPageGoesBeforeTheLog(t *testing.T) {
	e := startLogEngine(t, false)
	const page = "# TYPE prosody_mod_measure_chatstack__c2s_auth_failure counter\n" +
		"prosody_mod_measure_chatstack__c2s_auth_failure_total{host=\"a.test\"} 3\n# EOF\n"
	b, got := loginReader(t, page, e.host)()
	if len(got) > 0 || len(e.asked) > 0 || len(b.Notes) > 0 {
		t.Errorf("got %q from the log, asked %q, notes %q; want nothing", got, e.asked, b.Notes)
	}
}

func TestLogThatGrewTooMuchIsReadInParts(t *testing.T) {
	e := startLogEngine(t, false)
	reading := limitedReader(t, "# EOF\n", e.host, 100_000)
	counted := func() int {
		b, series := reading()
		n, err := strconv.Atoi(strings.TrimPrefix(strings.Join(series, ""), authFailures+" "))
		if err != nil {
			t.Fatalf("%v; notes %q", err, b.Notes)
		}
		return n
	}
	counted()
	const written = 2000 // some 300 KB
	e.write(slices.Repeat([]string{failedLogin}, written)...)
	parts := []int{counted()}
	for last := 0; parts[len(parts)-1] > last && parts[len(parts)-1] < written; {
		last = parts[len(parts)-1]
		parts = append(parts, counted())
	}
	if len(parts) < 3 || parts[len(parts)-1] != written || counted() != written {
		t.Errorf("counted %v, want several parts, up to %d", parts, written)
	}
}

func TestLengthThatALogClaimsTakesNoMemory(t *testing.T) {
	l := &loginLog{pattern: regexp.MustCompile(defaultFailurePattern), begun: true}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := l.count(strings.NewReader("\x01\x00\x00\x00\xff\xff\xff\xff2026-11-20T12:00:00Z Failed authentication attempt\n"), false,
		time.Time{}); err != nil {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("took %d bytes for a piece that says that it has 4 GiB", took)
	}
	if l.failures != 1 {
		t.Errorf("%v failures, want the one that there is", l.failures)
	}
}

func TestLogThatBreaksOffIsNoWholeLog(t *testing.T) {
	const head, refusal = "\x01\x00\x00\x00\x00\x00\x00\x09", "\x03\x00\x00\x00\x00\x00\x00\x09no driver"
	broken := errors.New("reset")
	breaksOff := func(text string) io.Reader { return io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)) }
	for name, c := range map[string]struct {
		log  io.Reader
		want error
	}{
		"at a piece's head":                 {breaksOff(""), broken},
		"within a piece":                    {breaksOff(head + "half"), broken},
		"within a piece, before the end":    {iotest.TimeoutReader(strings.NewReader(head + "half")), iotest.ErrTimeout},
		"at its end":                        {strings.NewReader(head + "half line"), nil},
		"within what the engine says of it": {breaksOff(refusal[:10]), broken},
	} {
		if err := demultiplex(c.log, io.Discard, io.Discard); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if err := demultiplex(strings.NewReader(refusal), io.Discard, io.Discard); err == nil ||
		!strings.HasSuffix(err.Error(), ": no driver") {
		t.Errorf("got %v, want what the engine says", err)
	}
}

func TestLinesThatAreOldOrBearNoTimeCountNothing(t *testing.T) {
	stamp := func(at time.Time) string { return at.Format(time.RFC3339Nano) }
	for name, line := range map[string]string{
		"older than the last":   stamp(noon.Add(-time.Second)) + " " + failedLogin,
		"the last":              stamp(noon) + " " + failedLogin,
		"no time":               "yesterday " + failedLogin,
		"nothing but a time":    stamp(noon.Add(time.Second)),
		"nothing":               "",
		"a newer one of others": stamp(noon.Add(time.Second)) + " all is well",
	} {
		pattern := defaultFailurePattern
		if name == "nothing but a time" {
			pattern = "^" // which every line matches
		}
		l := &loginLog{pattern: regexp.MustCompile(pattern), begun: true, last: noon}
		if err := l.count(strings.NewReader(line+"\n"), true, noon); err != nil || l.failures != 0 {
			t.Errorf("%s: got %v failures, %v, want none", name, l.failures, err)
		}
	}
}
