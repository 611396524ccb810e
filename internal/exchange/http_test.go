package exchange

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

func TestBodyMayBeAsLongAsTheLimit(t *testing.T) {
	if got, err := readLimited(strings.NewReader("12345"), 5); err != nil || string(got) != "12345" {
		t.Errorf("5 of 5 bytes: got %q, error %v", got, err)
	}
	_, err := readLimited(strings.NewReader("12345"), 4)
	wantReason(t, err, failure.TooLarge)
}

func TestPrintableURLHidesWhatMayBeSecret(t *testing.T) {
	for raw, want := range map[string]string{
		"http://user:pass@host:1/path?token=1#x": "http://host:1/path",
		"http://host/":                           "http://host/",
		"http://bad host":                        "<no URL>",
	} {
		if got := PrintableURL(raw); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

// TestRedirectKeepsSchemeAndHost has redirects after which a token would go to another server, or in plain text.
func TestRedirectKeepsSchemeAndHost(t *testing.T) {
	request := func(url string) *http.Request {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for to, follows := range map[string]bool{
		"https://chat.test/other": true, "http://chat.test/": false, "https://chat.test:8443/": false, "https://other.test/": false,
	} {
		err := sameHost(request(to), []*http.Request{request("https://chat.test/")})
		if follows != (err == nil) || !follows && !errors.Is(err, ErrRedirect) {
			t.Errorf("to %s: got %v, want followed %t", to, err, follows)
		}
	}
}
