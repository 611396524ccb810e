package web

import "net/http"

// peerGroup is one entry of the list that Prometheus' HTTP service discovery reads.
type peerGroup struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// serveDiscovery names the configured peers to Prometheus. Without any the list is empty, not null, which Prometheus would
// take as well; every answer is the whole list.
func serveDiscovery(w http.ResponseWriter, src Source, o Options) {
	groups := []peerGroup{}
	for _, p := range src.Peers() {
		groups = append(groups, peerGroup{p.Targets, p.Labels})
	}
	writeJSON(w, http.StatusOK, groups, o.Log)
}
