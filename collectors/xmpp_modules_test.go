package collectors

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// statusPage is a status page whose modules, such as "chat.test carbons", were loaded at a time; zero for none.
func statusPage(loaded time.Time, modules ...string) map[string]map[string]moduleStatus {
	page := map[string]map[string]moduleStatus{}
	for _, m := range modules {
		host, module, _ := strings.Cut(m, " ")
		if page[host] == nil {
			page[host] = map[string]moduleStatus{}
		}
		entry := moduleStatus{Type: "core"}
		if !loaded.IsZero() {
			entry.Time = loaded.Format(time.RFC3339)
		}
		page[host][module] = entry
	}
	return page
}

// missing is what a report says, such as "chat.test carbons, mam".
func (l *loadedModules) missing() string {
	var b Batch
	l.report(&b)
	var list []string
	for _, c := range b.conditions {
		if c.Holds != (c.Because != "") {
			return fmt.Sprintf("inconsistent: %+v", c)
		}
		if c.Holds {
			list = append(list, c.Of+" "+c.Because)
		}
	}
	slices.Sort(list)
	return strings.Join(list, "; ")
}

// TestModuleThatFailsToLoadIsMissing has a server that is restarted, and a module that is unloaded on purpose.
func TestModuleThatFailsToLoadIsMissing(t *testing.T) {
	at := time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC)
	state := &memory{}
	l := &loadedModules{state: state}
	step := func(what, want string, page map[string]map[string]moduleStatus) {
		t.Helper()
		at = at.Add(time.Minute)
		if err := l.read(page, at); err != nil {
			t.Fatal(err)
		}
		if got := l.missing(); got != want {
			t.Errorf("%s: missing %q, want %q", what, got, want)
		}
	}
	first := at
	step("at first", "", statusPage(first, "* c2s", "chat.test carbons", "chat.test mam", "rooms.test muc"))
	step("unloaded on purpose", "", statusPage(first, "* c2s", "chat.test carbons", "rooms.test muc"))
	second := at
	step("restarted", "chat.test carbons", statusPage(second, "* c2s", "chat.test mam", "rooms.test muc"))
	// The exporter is restarted.
	l = &loadedModules{state: state}
	if err := state.Load(&l.moduleMemory); err != nil {
		t.Fatal(err)
	}
	step("after a restart of the exporter", "chat.test carbons", statusPage(second, "* c2s", "chat.test mam", "rooms.test muc"))
	third := at
	step("a host is gone too", "chat.test carbons; rooms.test muc", statusPage(third, "* c2s", "chat.test mam"))
	step("loaded by hand", "rooms.test muc", statusPage(third, "* c2s", "chat.test mam", "chat.test carbons"))
	if err := l.forget("rooms.test", "mam"); !errors.Is(err, ErrModuleUnknown) {
		t.Errorf("forget what is not missing: %v", err)
	}
	if err := l.forget("rooms.test", "muc"); err != nil || l.missing() != "" {
		t.Errorf("forget: %v, missing %q", err, l.missing())
	}
	step("forgotten", "", statusPage(third, "* c2s", "chat.test mam", "chat.test carbons"))
	fourth := at
	step("restarted again", "chat.test mam", statusPage(fourth, "* c2s", "chat.test carbons"))
	at = at.Add(missingFor)
	step("7 days later", "", statusPage(fourth, "* c2s", "chat.test carbons"))
}

// TestServerWithoutTimesWasRestartedIfItWasAway, as far as the page shows.
func TestServerWithoutTimesWasRestartedIfItWasAway(t *testing.T) {
	l := &loadedModules{state: &memory{}}
	for _, tt := range []struct {
		away    bool
		modules []string
		want    string
	}{
		{false, []string{"* c2s", "* tls"}, ""},
		{false, []string{"* c2s"}, ""},
		{false, []string{"* c2s", "* tls"}, ""},
		{true, []string{"* c2s"}, "* tls"},
	} {
		if tt.away {
			l.lose()
		}
		if err := l.read(statusPage(time.Time{}, tt.modules...), time.Now()); err != nil {
			t.Fatal(err)
		}
		if got := l.missing(); got != tt.want {
			t.Errorf("%v: missing %q, want %q", tt, got, tt.want)
		}
	}
}
