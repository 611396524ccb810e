package collectors

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// answering starts an HTTP server that ends with the test, and returns its address.
func answering(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// serving serves one answer to everything.
func serving(t *testing.T, status int, body string) string {
	t.Helper()
	return answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body) //nolint:errcheck // a test's server
	})
}

// deps are what a collector gets beside its settings; &memory{} is a state of its own.
func deps(state State) Deps {
	return Deps{
		Limits: config.Limits{
			Body:        1 << 20,
			MetricsBody: 16 << 20,
			Series:      1000,
			Families:    1000,
			LabelBytes:  4096,
		},
		Log:       slog.New(slog.DiscardHandler),
		State:     state,
		UserAgent: "test",
	}
}

// newProbe makes a collector of its settings, with nothing to remember.
func newProbe[S any](t *testing.T, create func(S, Deps) (Collector, error), s S) Collector {
	t.Helper()
	c, err := create(s, deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// read makes one reading under a deadline and returns its batch and error.
func read(t *testing.T, c Collector, timeout time.Duration) (*Batch, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	b := &Batch{}
	err := c.Collect(ctx, b)
	return b, err
}

// readUp makes a reading that must succeed.
func readUp(t *testing.T, c Collector) *Batch {
	t.Helper()
	b, err := read(t, c, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// mustFail makes a reading that must fail with this reason.
func mustFail(t *testing.T, c Collector, want failure.Reason) {
	t.Helper()
	readFails(t, c, want) //nolint:errcheck // the test is of the reason alone
}

// readFails makes a reading that must fail with this reason.
func readFails(t *testing.T, c Collector, want failure.Reason) (*Batch, error) {
	t.Helper()
	b, err := read(t, c, 10*time.Second)
	wantReason(t, err, want)
	return b, err
}

// wantReason fails the test unless err has the reason.
func wantReason(t *testing.T, err error, want failure.Reason) {
	t.Helper()
	if err == nil || failure.ReasonOf(err) != want {
		t.Errorf("got %v (%s), want reason %s", err, failure.ReasonOf(err), want)
	}
}

// wantListed wants a reason in the table of kinds. A fault of the exporter itself is in none.
func wantListed(t *testing.T, kind string, reason failure.Reason) {
	t.Helper()
	if k, _ := KindOf(kind); reason != failure.Internal && !slices.Contains(k.Reasons, reason) {
		t.Errorf("kind %q fails for the reason %s, which is not in the table of kinds", kind, reason)
	}
}

// memory is a State that notes what was saved, and can refuse.
type memory struct {
	saved []byte
	err   error
	saves [][]byte
}

func (m *memory) Load(v any) error {
	if m.saved == nil {
		return nil
	}
	return json.Unmarshal(m.saved, v)
}

func (m *memory) Save(v any) error {
	if m.err != nil {
		return m.err
	}
	raw, err := json.Marshal(v)
	m.saved = raw
	m.saves = append(m.saves, raw)
	return err
}

// at is where a server listens.
func at(address string) Endpoint { return Endpoint{Address: address} }
