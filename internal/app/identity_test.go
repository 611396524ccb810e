package app

import (
	"path/filepath"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// TestCacheIsKnownOverARestart stops the identity API and then the exporter: the next one says until when the bridge's
// cache helps, though it has never had an answer itself.
func TestCacheIsKnownOverARestart(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		const metric = "chatstack_identity_cache_expires_timestamp_seconds"
		stack := startStack(t, simstack.Options{})
		content := "state_file: " + filepath.Join(t.TempDir(), "state.json") + "\ntargets:\n  - kind: identity\n    cache_ttl: 2h\n"
		first := startExporter(t, only(stack, "BRIDGE_IDENTITY_"), content)
		p := first.wait(t, "identity up", func(p page) bool { return p.Verdict("identity") == "up" })
		was, ok := p.Value(metric)
		if !ok {
			t.Fatal("nothing is said of the cache while the API is up")
		}
		must(t, stack.Switch("identity", "stopped", true))
		must(t, first.stop())
		second := startExporter(t, only(stack, "BRIDGE_IDENTITY_"), content)
		p = second.wait(t, "identity down", func(p page) bool { return p.Verdict("identity") == "refused" })
		if now, ok := p.Value(metric); !ok || now > was+60 || now < was-60 {
			t.Errorf("after the restart: got %v, %v, want about %v", now, ok, was)
		}
		unremembered := startExporter(t, only(stack, "BRIDGE_IDENTITY_"), "")
		p = unremembered.wait(t, "identity down", func(p page) bool { return p.Verdict("identity") == "refused" })
		if now, ok := p.Value(metric); ok {
			t.Errorf("without a state file: got %v, want nothing", now)
		}
	})
}
