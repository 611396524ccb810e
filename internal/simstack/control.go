package simstack

import (
	"context"
	_ "embed" // for the page
	"encoding/json"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

//go:embed switchboard.html
var switchboardHTML string

//go:embed switchboard.js
var switchboardScript []byte

// switchboardPage is the page on which faults and stories are switched. It works without scripts.
var switchboardPage = template.Must(template.New("switchboard").Parse(switchboardHTML))

// switchState is a fault and whether it is on.
type switchState struct {
	Fault
	Active bool `json:"active"`
}

// Switch returns the fault's button.
func (s switchState) Switch() button {
	return button{"/faults/" + s.Service + "/" + s.Name, s.Name + " of " + s.Service, s.Active}
}

// storyState is a story and whether it is on.
type storyState struct {
	Story
	Active bool `json:"active"`
}

// Switch returns the story's button.
func (s storyState) Switch() button { return button{"/stories/" + s.ID, s.Title, s.Active} }

// button switches a fault or story to the other position.
type button struct {
	Action, What string
	Active       bool
}

// serviceGroup is a service on the page.
type serviceGroup struct {
	Name   string
	Open   bool
	Faults []switchState
	Active int // how many are on
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

// storyStates returns all stories with what is on.
func (k *Stack) storyStates() (all []storyState) {
	on := k.ActiveStories()
	for _, s := range Stories() {
		all = append(all, storyState{s, slices.Contains(on, s.ID)})
	}
	return all
}

// maxForm limits the body of a switching, in bytes.
const maxForm = 16 << 10

// switchboard serves the faults and stories: GET / is a page for people, GET /faults and GET /stories are JSON,
// POST /faults/{service}/{fault}/on and .../off switch one fault, POST /stories/{story}/on and .../off one story, POST /reset switches
// all off. The stack serves it at ControlURL; requests that a browser makes for another site's page are refused.
func (k *Stack) switchboard() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", k.serveSwitchboard)
	mux.HandleFunc("GET /switchboard.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write(switchboardScript)
	})
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, k.switches()) })
	mux.HandleFunc("GET /stories", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, k.storyStates()) })
	mux.HandleFunc("POST /faults/{service}/{fault}/{position}", position(func(w http.ResponseWriter, r *http.Request, on bool) {
		service, fault := r.PathValue("service"), r.PathValue("fault")
		err := k.Switch(service, fault, on)
		switched(w, r, http.StatusNotFound, err, "fault-"+service+"-"+fault, service)
	}))
	mux.HandleFunc("POST /stories/{story}/{position}", position(func(w http.ResponseWriter, r *http.Request, on bool) {
		err := k.SwitchStory(r.PathValue("story"), on)
		switched(w, r, http.StatusNotFound, err, "story-"+r.PathValue("story"))
	}))
	mux.HandleFunc("POST /reset", func(w http.ResponseWriter, r *http.Request) {
		err := k.Reset() //nolint:contextcheck // a service outlives the request that starts it
		switched(w, r, http.StatusInternalServerError, err, "state")
	})
	return http.NewCrossOriginProtection().Handler(mux)
}

// position reads whether a request switches on or off.
func position(h func(w http.ResponseWriter, r *http.Request, on bool)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if p := r.PathValue("position"); p != "on" && p != "off" {
			writeJSON(w, http.StatusNotFound,
				map[string]string{"error": fmt.Sprintf("the last part of the path is %q, must be on or off", p)})
			return
		}
		h(w, r, r.PathValue("position") == "on")
	}
}

// switched answers a switching. Browsers go back to where they were on the page, with the same groups open, and the given ones.
func switched(w http.ResponseWriter, r *http.Request, status int, err error, anchor string, open ...string) {
	switch {
	case err != nil:
		writeJSON(w, status, map[string]string{"error": err.Error()})
	case strings.Contains(r.Header.Get("Accept"), "text/html"):
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		_ = r.ParseForm() // without it, groups close
		open = append(open, r.PostForm["open"]...)
		slices.Sort(open)
		back := url.URL{Path: "/", Fragment: anchor, RawQuery: url.Values{"open": slices.Compact(open)}.Encode()}
		http.Redirect(w, r, back.String(), http.StatusSeeOther)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (k *Stack) serveSwitchboard(w http.ResponseWriter, r *http.Request) {
	open := r.URL.Query()["open"]
	var groups []serviceGroup
	for _, name := range append(slices.Clone(Services), "bridge") {
		groups = append(groups, serviceGroup{Name: name, Open: slices.Contains(open, name)})
	}
	active, all := 0, k.switches()
	for _, s := range all {
		g := &groups[slices.IndexFunc(groups, func(g serviceGroup) bool { return g.Name == s.Service })]
		g.Faults = append(g.Faults, s)
		if s.Active {
			g.Active++
			active++
		}
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; img-src data:; form-action 'self'")
	_ = switchboardPage.Execute(w, map[string]any{
		"Stories": k.storyStates(), "Services": groups, "Active": active, "All": len(all), "Environ": k.Environ(),
		"StatusPage": k.statusPage.Load(),
	})
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
