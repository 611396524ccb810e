package collectors

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

var moduleMissingDesc = readDesc("chatstack_xmpp_module_missing",
	"1 for a module that the XMPP server's status page showed before the server's restart, and has not shown since.", "host", "module")

// ErrModuleUnknown means that no module of that name is missing.
var ErrModuleUnknown = errors.New("no such module is missing")

// missingFor is how long a missing module is remembered.
const missingFor = 7 * 24 * time.Hour

// loadedModules remembers which modules the XMPP server had before it was restarted: one that fails to load is on no page.
type loadedModules struct {
	state State

	mu sync.Mutex
	// unread says that the last probe found no page, so the server may have been restarted.
	unread bool
	moduleMemory
}

// moduleMemory is what survives a restart of the exporter.
type moduleMemory struct {
	// Newest is the youngest time on the last page; zero if it has none.
	Newest time.Time `json:"newest,omitzero"`
	// Loaded are the modules on the last page, Missing since when others were not there, both by host.
	Loaded  map[string][]string             `json:"loaded,omitempty"`
	Missing map[string]map[string]time.Time `json:"missing,omitempty"`
}

// times are the oldest and the youngest time on a page: when modules were loaded, or said something. Zero if there are none.
func times(hosts map[string]map[string]moduleStatus) (oldest, newest time.Time) {
	for _, modules := range hosts {
		for _, m := range modules {
			text, _ := m.Time.(string)
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				continue
			}
			if oldest.IsZero() || at.Before(oldest) {
				oldest = at
			}
			if at.After(newest) {
				newest = at
			}
		}
	}
	return oldest, newest
}

// lose records that there was no page.
func (l *loadedModules) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unread = true
}

// read compares a page with what was there before the last restart. The error is that of saving.
func (l *loadedModules) read(hosts map[string]map[string]moduleStatus, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest, newest := times(hosts)
	// A restart loads every module again. Somebody who unloads one does so on purpose.
	restarted := oldest.After(l.Newest) && !l.Newest.IsZero() || oldest.IsZero() && l.unread
	loaded, missing := map[string][]string{}, map[string]map[string]time.Time{}
	for host, modules := range hosts {
		loaded[host] = slices.Sorted(maps.Keys(modules))
	}
	miss := func(host, module string, since time.Time) {
		if _, there := hosts[host][module]; there || now.Sub(since) >= missingFor {
			return
		}
		if missing[host] == nil {
			missing[host] = map[string]time.Time{}
		}
		missing[host][module] = since
	}
	if restarted {
		for host, modules := range l.Loaded {
			for _, module := range modules {
				miss(host, module, now)
			}
		}
	}
	for host, modules := range l.Missing {
		for module, since := range modules {
			miss(host, module, since)
		}
	}
	same := newest.Equal(l.Newest) && maps.EqualFunc(loaded, l.Loaded, slices.Equal) &&
		maps.EqualFunc(missing, l.Missing, func(a, b map[string]time.Time) bool { return maps.Equal(a, b) })
	l.unread, l.moduleMemory = false, moduleMemory{newest, loaded, missing}
	if same {
		return nil
	}
	return l.state.Save(l.moduleMemory)
}

// report adds which modules are missing, for each host.
func (l *loadedModules) report(b *Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	hosts := slices.Collect(maps.Keys(l.Loaded))
	for host := range l.Missing {
		if l.Loaded[host] == nil {
			hosts = append(hosts, host)
		}
	}
	for _, host := range hosts {
		names := slices.Sorted(maps.Keys(l.Missing[host]))
		shown := make([]string, len(names))
		for i, name := range names {
			b.Gauge(moduleMissingDesc, 1, host, name)
			shown[i] = failure.OneLine(name)
		}
		because := strings.Join(shown, ", ")
		if len(names) > 0 {
			b.Note(fmt.Sprintf("%s: %s missing since the server's restart: %s",
				failure.OneLine(host), wording.Count(len(names), "module"), because))
		}
		b.conditions = append(b.conditions, health.Condition{
			Alert:   health.AlertModuleMissing,
			Of:      host,
			Holds:   len(names) > 0,
			Because: because,
		})
	}
}

// forget forgets a missing module.
func (l *loadedModules) forget(host, module string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, missing := l.Missing[host][module]; !missing {
		return fmt.Errorf("%w: %q on %q", ErrModuleUnknown, module, host)
	}
	delete(l.Missing[host], module)
	return l.state.Save(l.moduleMemory)
}
