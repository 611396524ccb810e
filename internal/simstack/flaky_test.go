package simstack

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestFlakyServiceFailsThreeOfFourChecks asks every 5 s.
func TestFlakyServiceFailsThreeOfFourChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := new(Network)
		k, err := Start(Options{Network: network})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close() //nolint:errcheck // its end is tried elsewhere
		time.Sleep(7 * time.Second)
		if err := k.Switch("docs_search", "flaky", true); err != nil {
			t.Fatal(err)
		}
		client := http.Client{Transport: &http.Transport{DialContext: network.Dial, DisableKeepAlives: true}}
		for i, want := range []int{500, 500, 500, 200, 500, 500, 500, 200, 500} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, k.Environ()["DOCS_SEARCH_URL"], nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if r.StatusCode != want && (want == 500 || r.StatusCode == 500) {
				t.Errorf("answer %d after %d s is %d", i, 5*i, r.StatusCode)
			}
			time.Sleep(5 * time.Second)
		}
	})
}
