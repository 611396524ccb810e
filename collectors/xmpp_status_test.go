package collectors

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func statusProbe(t *testing.T, page string) Collector {
	t.Helper()
	s := &XMPPStatus{}
	s.URL = serving(t, http.StatusOK, page) + "/status"
	return newProbe(t, newXMPPStatus, s)
}

// TestComponentsAreToldOfHoweverManyHosts reads a page that is too large for the rest.
func TestComponentsAreToldOfHoweverManyHosts(t *testing.T) {
	for components, want := range map[int]int{1: 1, maxHosts + 5: maxHosts} {
		hosts := map[string]any{"*": map[string]any{"component": map[string]string{"type": "core"}}}
		for i := range maxHosts {
			hosts[fmt.Sprintf("h%d.test", i)] = map[string]any{"roster": map[string]string{"type": "error"}}
		}
		for i := range components {
			hosts[fmt.Sprintf("c%d.test", i)] = map[string]any{"component": map[string]string{"type": "info", "message": "Connected"}}
		}
		page, err := json.Marshal(hosts)
		if err != nil {
			t.Fatal(err)
		}
		b := readUp(t, statusProbe(t, string(page)))
		if got := ownSeries(t, b, "chatstack_xmpp_component_connected"); len(got) != want || !strings.HasSuffix(got[0], "} 1") {
			t.Errorf("%d components: got %d series, want %d of 1", components, len(got), want)
		}
		if got := ownSeries(t, b, "chatstack_xmpp_module_problems"); len(got) > 0 || len(b.Notes) == 0 || len(b.Notes) > 2 {
			t.Errorf("%d components: got %d series of problems and the notes %q, want none and at most two", components, len(got), b.Notes)
		}
	}
}

func TestStatusPageOfTooManyHostsOrModulesTellsNoneOfThem(t *testing.T) {
	many := func(n int, each string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(each, i)
		}
		return strings.Join(all, ",")
	}
	wantNoModules(t, "{"+many(maxHosts+1, `"h%d":{}`)+"}", 1)
	wantNoModules(t, `{"chat.test":{`+many(maxModules+1, `"m%d":{"type":"core"}`)+"}}", 3)
}

// wantNoModules reads a status page of which the modules are not told, and counts the other metrics.
func wantNoModules(t *testing.T, page string, metrics int) {
	t.Helper()
	b := readUp(t, statusProbe(t, page))
	if n := len(b.Metrics(true)); n != metrics || len(b.Notes) != 1 {
		t.Errorf("%d metrics, want %d and one note; notes %q", n, metrics, b.Notes)
	}
	if own := string(ownText(t, b)); strings.Contains(own, "xmpp_module_status{") ||
		!strings.Contains(own, `{family="xmpp_module_status"} 0`) {
		t.Errorf("got\n%s\nwant no module in it, and the family not available", own)
	}
}
