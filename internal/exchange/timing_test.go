package exchange

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

func phaseNames(phases []Phase) []string {
	var names []string
	for _, p := range phases {
		names = append(names, p.Name)
	}
	return names
}

func TestExchangeTellsItsPhases(t *testing.T) {
	answer := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	plain, secure := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	defer plain.Close()
	defer secure.Close()
	for _, tt := range []struct {
		url  string
		want []string
	}{
		{plain.URL, []string{"connect", "first_byte", "body"}},
		{secure.URL, []string{"connect", "tls", "first_byte", "body"}},
	} {
		r := &Record{}
		h := &HTTP{Settings: config.HTTP{URL: tt.url + "/health", TLS: config.TLS{InsecureSkipVerify: true}}, Limit: 1}
		if _, err := h.Get(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		if got := phaseNames(r.Exchanges[0].Phases); !slices.Equal(got, tt.want) {
			t.Errorf("%s: phases: got %q, want %q", tt.url, got, tt.want)
		}
	}
}

// TestNothingIsHeardAfterTheEnd has the transport call back late, as it does of a connection that it goes on to make.
func TestNothingIsHeardAfterTheEnd(t *testing.T) {
	r := &Record{}
	ctx, timing := r.Begin(t.Context(), "request")
	clientTrace := httptrace.ContextClientTrace(ctx)
	clientTrace.DNSDone(httptrace.DNSDoneInfo{})
	timing.End("body", errors.New("broken"))
	if got, want := phaseNames(r.Exchanges[0].Phases), []string{"dns", "failed"}; !slices.Equal(got, want) ||
		r.Exchanges[0].Err != "broken" {
		t.Errorf("phases: got %q and error %q, want %q", got, r.Exchanges[0].Err, want)
	}
	clientTrace.GotFirstResponseByte()
	clientTrace.ConnectDone("tcp", "127.0.0.1:1", nil)
	if got := r.Exchanges[0].Address; got != "" {
		t.Errorf("address after the end: got %q", got)
	}
	if got, want := phaseNames(timing.phases), []string{"dns", "failed"}; !slices.Equal(got, want) {
		t.Errorf("phases after the end: got %q, want %q", got, want)
	}
}

func TestOnlyHarmlessFieldsOfAHeaderAreShown(t *testing.T) {
	got := maskedHeader(http.Header{
		"Content-Type": {"text/plain"}, "Content-Length": {"2"}, "Content-Encoding": {"gzip"}, "Date": {"today"}, "Server": {"nginx\x00"},
		"Transfer-Encoding": {"chunked"}, "Connection": {"close"}, "Api-Version": {"1.41"}, "Docker-Experimental": {"false"},
		"Retry-After": {"1"},
		"Set-Cookie":  {"a=1", "b=2"}, "X-User": {"alice"}, "Location": {"/?token=1"}, "Www-Authenticate": {"Basic"},
	})
	want := http.Header{
		"Content-Type": {"text/plain"}, "Content-Length": {"2"}, "Content-Encoding": {"gzip"}, "Date": {"today"}, "Server": {"nginx "},
		"Transfer-Encoding": {"chunked"}, "Connection": {"close"}, "Api-Version": {"1.41"}, "Docker-Experimental": {"false"},
		"Retry-After": {"1"},
		"Set-Cookie":  {"<masked>", "<masked>"}, "X-User": {"<masked>"}, "Location": {"<masked>"}, "Www-Authenticate": {"<masked>"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}
