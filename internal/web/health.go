package web

import (
	"fmt"
	"net/http"
)

// Liveness says whether the process does its work.
type Liveness interface {
	// Alive returns nil unless the poll loop stands still.
	Alive() error
}

// readiness says whether there is something to scrape.
type readiness interface {
	// Ready reports whether every target has been read once.
	Ready() bool
}

const healthy = "GET /-/healthy"

// Healthy returns the handler of /-/healthy alone, for listeners that ask for no password.
func Healthy(src Liveness) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(healthy, func(w http.ResponseWriter, _ *http.Request) {
		if err := src.Alive(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "chatstack_exporter is healthy.") //nolint:errcheck // nobody to tell
	})
	return mux
}

func serveReady(w http.ResponseWriter, src readiness) {
	if !src.Ready() {
		http.Error(w, "not every target has been read yet", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "chatstack_exporter is ready.") //nolint:errcheck // nobody to tell
}
