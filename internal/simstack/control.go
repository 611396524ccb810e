package simstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// switchboard is the page on which faults are switched. It works without scripts.
var switchboard = template.Must(template.New("switchboard").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Simulated chat stack</title>
<style>
body{font:16px/1.4 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color-scheme:light dark}
table{border-collapse:collapse;width:100%}
td,th{padding:.2em .6em;text-align:left;border-bottom:1px solid #8884}
tr.active{background:#c002}
form{display:inline}
code{overflow-wrap:anywhere}
</style>
</head>
<body>
<h1>Simulated chat stack</h1>
<p>{{.Active}} of {{len .Faults}} faults are on.</p>
<form method="post" action="/reset"><button>Switch all off</button></form>
{{range .Services}}<h2>{{.Name}}</h2>
<table>
{{range .Faults}}<tr{{if .Active}} class="active"{{end}}>
<td><form method="post" action="/faults/{{.Service}}/{{.Name}}/{{if .Active}}off{{else}}on{{end}}"><button>{{if .Active}}off{{else}}on{{end}}</button></form></td>
<th scope="row">{{.Name}}</th><td>{{.Description}}</td>
</tr>
{{end}}</table>
{{end}}<h2>Environment</h2>
<p>These variables point an exporter at this stack.</p>
<pre><code>{{range $name, $value := .Environ}}{{$name}}={{$value}}
{{end}}</code></pre>
</body>
</html>
`))

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

// Control returns the switchboard: GET / is a page for people, GET /faults the catalogue in JSON,
// POST /faults/{service}/{fault}/on and .../off switch one fault, POST /reset switches all off. The stack serves it at
// ControlURL; requests that a browser makes for another site's page are refused.
func (k *Stack) Control() http.Handler {
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
	type group struct {
		Name   string
		Faults []switchState
	}
	all := k.switches()
	groups := make([]group, len(Services))
	active := 0
	for i, name := range Services {
		groups[i].Name = name
	}
	for _, s := range all {
		g := &groups[slices.Index(Services, s.Service)]
		g.Faults = append(g.Faults, s)
		if s.Active {
			active++
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'")
	_ = switchboard.Execute(w, map[string]any{"Faults": all, "Services": groups, "Active": active, "Environ": k.Environ()})
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
	k.control = &http.Server{Addr: l.Addr().String(), ReadHeaderTimeout: closeTimeout, Handler: k.Control()}
	k.wg.Go(func() { _ = k.control.Serve(l) })
	return nil
}

// closeTimeout is how long requests to the switchboard may take to end.
const closeTimeout = 2 * time.Second

func (k *Stack) closeControl() error {
	if k.control == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := k.control.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = k.control.Close()
	}
	return err
}
