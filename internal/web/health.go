package web

import (
	"fmt"
	"net/http"
)

// Liveness says whether the poll loop runs.
type Liveness interface {
	// Alive returns an error if polling has stalled.
	Alive() error
}

// readiness says whether /metrics is complete.
type readiness interface {
	// Ready reports whether every target has been probed once.
	Ready() bool
}

const healthy = "GET /-/healthy"

// Healthy returns the handler of /-/healthy alone, for listeners without a password.
func Healthy(src Liveness) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(healthy, func(w http.ResponseWriter, _ *http.Request) {
		if err := src.Alive(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "chatstack_exporter is healthy.") //nolint:errcheck // the client is gone
	})
	return mux
}

func serveReady(w http.ResponseWriter, src readiness) {
	if !src.Ready() {
		http.Error(w, "not every target has been probed yet", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "chatstack_exporter is ready.") //nolint:errcheck // the client is gone
}
