package web

import (
	"log/slog"
	"net/http"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// peerGroup is one entry of the list that Prometheus' HTTP service discovery reads.
type peerGroup struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// peerLister knows the exporters that Prometheus' service discovery is told of.
type peerLister interface {
	Peers() []config.Peers
}

// serveDiscovery names the configured peers to Prometheus. Without any the list is empty, not null, which Prometheus would
// take as well; every answer is the whole list.
func serveDiscovery(w http.ResponseWriter, src peerLister, log *slog.Logger) {
	groups := []peerGroup{}
	for _, p := range src.Peers() {
		groups = append(groups, peerGroup{p.Targets, p.Labels})
	}
	writeJSON(w, http.StatusOK, groups, log)
}
