package simstack

import (
	"context"
	_ "embed" // for the page
	"encoding/json"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

//go:embed switchboard.html
var switchboardHTML string

// switchboardPage is the page on which faults are switched. It works without scripts.
var switchboardPage = template.Must(template.New("switchboard").Parse(switchboardHTML))

// switchState is a fault and whether it is on.
type switchState struct {
	Fault
	Active bool `json:"active"`
}

// switches returns the whole catalogue with what is on.
func (k *Stack) switches() []switchState {
	on := k.Active()
	var all []switchState
	for _, f := range k.Faults() {
		all = append(all, switchState{f, slices.Contains(on, f)})
	}
	return all
}

// switchboard serves the faults: GET / is a page for people, GET /faults the catalogue in JSON,
// POST /faults/{service}/{fault}/on and .../off switch one fault, POST /reset switches all off. The stack serves it at
// ControlURL; requests that a browser makes for another site's page are refused.
func (k *Stack) switchboard() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", k.serveSwitchboard)
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, k.switches()) })
	mux.HandleFunc("POST /faults/{service}/{fault}/{position}", func(w http.ResponseWriter, r *http.Request) {
		position := r.PathValue("position")
		if position != "on" && position != "off" {
			writeJSON(w, http.StatusNotFound, map[string]string{"error": fmt.Sprintf("a fault is switched on or off, not %q", position)})
			return
		}
		err := k.Switch(r.PathValue("service"), r.PathValue("fault"), position == "on") //nolint:contextcheck // a service outlives the request that starts it
		switched(w, r, http.StatusNotFound, err)
	})
	mux.HandleFunc("POST /reset", func(w http.ResponseWriter, r *http.Request) {
		err := k.Reset() //nolint:contextcheck // a service outlives the request that starts it
		switched(w, r, http.StatusInternalServerError, err)
	})
	return http.NewCrossOriginProtection().Handler(mux)
}

// switched answers a switching: browsers go back to the page, others get no content.
func switched(w http.ResponseWriter, r *http.Request, status int, err error) {
	switch {
	case err != nil:
		writeJSON(w, status, map[string]string{"error": err.Error()})
	case strings.Contains(r.Header.Get("Accept"), "text/html"):
		http.Redirect(w, r, "/", http.StatusSeeOther)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (k *Stack) serveSwitchboard(w http.ResponseWriter, _ *http.Request) {
	faults := map[string][]switchState{}
	for _, s := range k.switches() {
		faults[s.Service] = append(faults[s.Service], s)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'")
	_ = switchboardPage.Execute(w, map[string]any{"Services": append(slices.Clone(Services), "bridge"), "Faults": faults, "Active": len(k.Active()), "All": len(k.Faults()), "Environ": k.Environ()})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// startControl serves the switchboard.
func (k *Stack) startControl() error {
	listen := func(network, address string) (net.Listener, error) {
		return (&net.ListenConfig{}).Listen(context.Background(), network, address)
	}
	if k.opts.Network != nil {
		listen = k.opts.Network.Listen
	}
	l, err := listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(k.opts.BasePort)))
	if err != nil {
		return fmt.Errorf("start switchboard: %w", err)
	}
	k.control = &http.Server{Addr: l.Addr().String(), ReadHeaderTimeout: maxIdle, Handler: k.switchboard()}
	k.wg.Go(func() { _ = k.control.Serve(l) })
	return nil
}
