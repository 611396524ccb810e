package collectors

import (
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// httpKinds returns the kinds that have a URL.
func httpKinds() (kinds []Kind) {
	for _, k := range Kinds {
		if field := reflect.ValueOf(k.Defaults()).Elem().FieldByName("HTTP"); field.IsValid() {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// missingPages starts a server without any page, which remembers the first path of each probe.
func missingPages(t *testing.T) (address string, asked func() string) {
	t.Helper()
	var first atomic.Value
	first.Store("")
	address = answering(t, func(w http.ResponseWriter, r *http.Request) {
		first.CompareAndSwap("", r.URL.Path)
		http.NotFound(w, r)
	})
	return address, func() string { return first.Swap("").(string) } //nolint:forcetypeassert // only strings are stored
}

// probeOf loads a target of a kind with a URL, and makes its collector.
func probeOf(t *testing.T, kind Kind, url, keys string) Collector {
	t.Helper()
	cfg, err := loadTargets(fmt.Sprintf("  - {kind: %s, url: %q%s}\n", kind.Name, url, keys), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kind.New(cfg.Targets[0], deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestURLWithoutAPathAsksForTheDefaultPath(t *testing.T) {
	want := map[string]string{
		"xmpp_status": "/status", "xmpp_metrics": "/metrics", "xmpp_proxy": "/health",
		"xmpp_rest": "/admin_api/server/info", "irc_rpc": "/api",
		"irc_services": "/", "plant_store": "/plants", "identity": "/api/bridge/identity", "docs_search": "/api/search",
		"openmetrics": "/metrics",
		"web_irc":     "/", "web_panel": "/", "log_viewer": "/", "http": "/",
	}
	for _, kind := range httpKinds() {
		address, asked := missingPages(t)
		for _, ending := range []string{"", "/"} {
			read(t, probeOf(t, kind, address+ending, ""), 10*time.Second) //nolint:errcheck // what it asks for counts
			if got, want := asked(), cmp.Or(want[kind.Name], kind.Path); got != want {
				t.Errorf("%s with %q behind the port: asked for %q, want %s", kind.Name, ending, got, want)
			}
		}
	}
}

func TestURLWithAPathOrAQueryIsRequestedAsWritten(t *testing.T) {
	for _, kind := range httpKinds() {
		if kind.Path == "" {
			continue
		}
		address, asked := missingPages(t)
		for ending, want := range map[string]string{"/other": "/other", "/?": "/", "/?a=b": "/", "?a=b": "/"} {
			read(t, probeOf(t, kind, address+ending, ""), 10*time.Second) //nolint:errcheck // what it asks for counts
			if got := asked(); got != want {
				t.Errorf("%s with %q behind the port: asked for %s, want %s", kind.Name, ending, got, want)
			}
		}
	}
}

// TestNotFoundNamesThePathThatWasAsked has a server without any page, at the default path and elsewhere.
func TestNotFoundNamesThePathThatWasAsked(t *testing.T) {
	address, asked := missingPages(t)
	for _, kind := range httpKinds() {
		if kind.Name == "irc_services" {
			continue // a 404 shows that they live
		}
		keys := map[string]string{"identity": ", must_match: true, discord_id: '1'", "xmpp_rest": ", path: /"}[kind.Name]
		for _, ending := range []string{"/?", "/elsewhere", ""} {
			_, err := read(t, probeOf(t, kind, address+ending, keys), 10*time.Second)
			path, hint := asked(), failure.HintOf(err)
			if !strings.Contains(hint, " at "+path+":") && !strings.Contains(hint, " at "+path+" matches") {
				t.Errorf("%s: hint for a 404 at %s: %q", kind.Name, path, hint)
			}
			if ending != "" && strings.Contains(hint, "module") {
				t.Errorf("%s: asked for %s, which no module serves; hint %q", kind.Name, path, hint)
			}
		}
	}
}

func TestAnotherPageThanMetricsIsNamedByItsPath(t *testing.T) {
	address := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>Welcome to the XMPP server</html>") //nolint:errcheck // a test's server
	})
	for _, name := range []string{"xmpp_metrics", "openmetrics"} {
		kind, _ := KindOf(name)
		_, err := readFails(t, probeOf(t, kind, address+"/welcome", ""), failure.Malformed)
		if hint := failure.HintOf(err); !strings.Contains(hint, "/welcome") || !strings.Contains(hint, "/metrics") {
			t.Errorf("%s: hint %q names neither path", name, hint)
		}
	}
	kind, _ := KindOf("xmpp_status")
	if b := readUp(t, probeOf(t, kind, address+"/welcome", "")); !strings.Contains(strings.Join(b.Notes, " "), "/welcome") {
		t.Errorf("xmpp_status: notes %q do not name the path", b.Notes)
	}
}
