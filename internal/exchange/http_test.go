package exchange

import (
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
