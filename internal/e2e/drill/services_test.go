//go:build realservers

package drill

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// turn makes a function that switches a fault of a simulated service.
func (s *site) turn(sim *simstack.Stack, service, fault string, on bool) func() {
	return func() {
		s.t.Helper()
		if err := sim.Switch(service, fault, on); err != nil {
			s.t.Fatal(err)
		}
	}
}

// drillServices is about services that answer, and say what is wrong.
func (r *rig) drillServices(t *testing.T) {
	t.Helper()
	sim := simstacktest.Start(t, simstack.Options{})
	environ := sim.Environ()
	keep, front := keepingStore(t, environ["PLANT_STORE_URL"])
	environ["PLANT_STORE_URL"] = front
	s := r.open(t, "services", "  - kind: plant_store\n    mode: canary\n  - kind: identity\n    cache_ttl: 20s\n  - kind: xmpp_c2s\n"+
		"    address: "+sim.XMPPClientAddress()+"\n", environ)
	for _, f := range []struct {
		service, fault string
		shown          func(page) bool
		want           []notice
	}{
		{
			"irc_rpc",
			"services_unlinked",
			is(0, "chatstack_irc_services_linked"),
			[]notice{{"IRCServicesUnlinked", "critical", ofTarget("irc_rpc")}},
		},
		{
			"xmpp",
			"module_error",
			above(0, "chatstack_xmpp_module_problems", "state", "error"),
			[]notice{{"XMPPModuleProblem", "warning", of("target", "xmpp_status", "of", simstack.XMPPDomain)}},
		},
		{
			"xmpp",
			"module_missing",
			above(0, "chatstack_xmpp_module_missing", "module", "groups_internal"),
			[]notice{{"XMPPModuleMissing", "warning", of("target", "xmpp_status", "of", simstack.XMPPDomain)}},
		},
		{
			"xmpp",
			"bad_page",
			above(0, "chatstack_upstream_dropped_series", "target", "xmpp_metrics"),
			[]notice{{"UpstreamSeriesDropped", "warning", of("target", "xmpp_metrics")}},
		},
		{
			"plant_store",
			"refuse_delete",
			above(0, "chatstack_plant_store_orphans"),
			bothOf("plant_store")[:1],
		},
		{
			"identity",
			"stopped",
			down("identity"),
			append(bothOf("identity"), notice{"IdentityCacheExhausted", "warning", ofTarget("identity")}),
		},
	} {
		s.try(fault{
			name:   f.service + " " + f.fault,
			cause:  s.turn(sim, f.service, f.fault, true),
			repair: s.turn(sim, f.service, f.fault, false),
			shown:  f.shown,
			want:   f.want,
		})
	}
	s.try(fault{
		name:   "plant_store keeps one canary",
		cause:  func() { keep.Store(true) },
		repair: func() { keep.Store(false) },
		shown:  above(0, "chatstack_plant_store_orphans"),
		want:   []notice{{"PlantStoreOrphans", "warning", ofTarget("plant_store")}},
	})
}

// keepingStore is a proxy before a plant store. While keep is true, it refuses the deletion of the first plant that a client
// deletes.
func keepingStore(t *testing.T, store string) (keep *atomic.Bool, address string) {
	t.Helper()
	storeURL, err := url.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	keep = &atomic.Bool{}
	var mu sync.Mutex
	refusedPath := ""
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(storeURL) }, ErrorLog: log.New(io.Discard, "", 0)}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if !keep.Load() {
			refusedPath = ""
		} else if refusedPath == "" && r.Method == http.MethodDelete {
			refusedPath = r.URL.Path
		}
		refused := refusedPath != "" && r.Method == http.MethodDelete && r.URL.Path == refusedPath
		mu.Unlock()
		if refused {
			http.Error(w, "this one stays", http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return keep, front.URL
}
