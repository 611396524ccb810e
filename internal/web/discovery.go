package web

import (
	"log/slog"
	"net/http"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// peerGroup is one entry of a response to Prometheus' HTTP service discovery.
type peerGroup struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// peerLister lists the exporters for Prometheus' service discovery.
type peerLister interface {
	Peers() []config.Peers
}

// serveDiscovery lists the configured peers. Without peers, the list is empty and not null.
func serveDiscovery(w http.ResponseWriter, src peerLister, log *slog.Logger) {
	groups := []peerGroup{}
	for _, p := range src.Peers() {
		groups = append(groups, peerGroup{p.Targets, p.Labels})
	}
	writeJSON(w, http.StatusOK, groups, log)
}

// teller knows what the exporter has told its receivers.
type teller interface {
	// Told returns that as the other exporters of a pair ask for it, to be encoded as JSON.
	Told() any
}

func serveTold(w http.ResponseWriter, src teller, log *slog.Logger) {
	writeJSON(w, http.StatusOK, src.Told(), log)
}
