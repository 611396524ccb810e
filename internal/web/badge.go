package web

import (
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// badge is a small picture with a name and a state.
type badge struct {
	Name, State, Colour string
	// Lengths are those of the letters, widths those of the two halves and of the whole; StateX is where the state's letters
	// begin. All are pixels.
	NameLength, StateLength, NameWidth, StateWidth, Width, StateX int
}

// badgeColours have enough contrast to white letters.
var badgeColours = map[status.Level]string{
	status.OK: "#1a7f37", status.Maintenance: "#0969da", status.Unknown: "#57606a", status.Pending: "#9a6700", status.Warning: "#9a6700", status.Critical: "#cf222e",
}

var badgeImage = template.Must(template.New("badge").Parse(
	`<svg xmlns="http://www.w3.org/2000/svg" width="{{.Width}}" height="20" role="img" aria-label="{{.Name}} | {{.State}}">` +
		`<title>{{.Name}} | {{.State}}</title>` +
		`<rect width="{{.Width}}" height="20" rx="3" fill="#24292f"/>` +
		`<rect x="{{.NameWidth}}" width="{{.StateWidth}}" height="20" rx="3" fill="{{.Colour}}"/>` +
		`<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">` +
		`<text x="6" y="14" textLength="{{.NameLength}}">{{.Name}}</text>` +
		`<text x="{{.StateX}}" y="14" textLength="{{.StateLength}}">{{.State}}</text></g></svg>` + "\n"))

// maxBadgeName is how many letters of a name are shown that no target has.
const maxBadgeName = 40

// badgeLetter is how wide a letter is on average, badgePadding what surrounds a text.
const badgeLetter, badgePadding = 7, 12

func newBadge(name, state string, level status.Level) badge {
	nameLength, stateLength := badgeLetter*len([]rune(name)), badgeLetter*len([]rune(state))
	return badge{
		Name: name, State: state, Colour: badgeColours[level], NameLength: nameLength, StateLength: stateLength,
		NameWidth: nameLength + badgePadding, StateWidth: stateLength + badgePadding, Width: nameLength + stateLength + 2*badgePadding,
		StateX: nameLength + badgePadding + badgePadding/2,
	}
}

// badgeOf tells the state of a service, and what is wrong with one that is up. Where polling stands still, nobody knows.
func badgeOf(s *status.Service, stale bool) badge {
	if stale {
		return newBadge(s.Name, "unknown", status.Unknown)
	}
	state := s.State
	if s.State == "up" && s.Level > status.OK || s.Level == status.Maintenance {
		state += ", " + s.Level.String()
	}
	return newBadge(s.Name, state, s.Level)
}

// short is a name that nothing has, as far as a picture has room for it.
func short(name string) string {
	if letters := []rune(name); len(letters) > maxBadgeName {
		return string(letters[:maxBadgeName]) + "…"
	}
	return name
}

// serveBadge answers with the badge of a target. For a name that no target has it is a picture as well, under 404: who
// sees it has asked for a picture.
func serveBadge(w http.ResponseWriter, r *http.Request, src reporter, log *slog.Logger) {
	name, isSVG := strings.CutSuffix(r.PathValue("file"), ".svg")
	made, code := newBadge(short(name), "no such target", status.Unknown), http.StatusNotFound
	if isSVG {
		report := src.Report()
		services := report.Services
		for i := range services {
			if services[i].Name == name {
				made, code = badgeOf(&services[i], report.Stale != ""), http.StatusOK
			}
		}
	}
	var b strings.Builder
	if err := badgeImage.Execute(&b, made); err != nil {
		log.Error("badge does not render", "err", err)
		http.Error(w, "the badge does not render; the log says why", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "image/svg+xml")
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	fmt.Fprint(w, b.String()) //nolint:errcheck // the client has gone, and knows it
}
