package web

import (
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// badge is an SVG image with a name and a state.
type badge struct {
	Name, State, Colour string
	// Lengths are of the two texts, widths of the two halves and the whole badge; StateX is where the state's text begins. All in
	// pixels.
	NameLength, StateLength, NameWidth, StateWidth, Width, StateX int
}

// badgeColours have enough contrast with white text.
var badgeColours = map[status.Level]string{
	status.OK: "#1a7f37", status.Maintenance: "#0969da", status.Unknown: "#57606a", status.Pending: "#9a6700", status.Warning: "#9a6700",
	status.Critical: "#cf222e",
}

var badgeImage = template.Must(template.New("badge").Parse(
	`<svg xmlns="http://www.w3.org/2000/svg" width="{{.Width}}" height="20" role="img" aria-label="{{.Name}} | {{.State}}">` +
		`<title>{{.Name}} | {{.State}}</title>` +
		`<rect width="{{.Width}}" height="20" rx="3" fill="#24292f"/>` +
		`<rect x="{{.NameWidth}}" width="{{.StateWidth}}" height="20" rx="3" fill="{{.Colour}}"/>` +
		`<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">` +
		`<text x="6" y="14" textLength="{{.NameLength}}">{{.Name}}</text>` +
		`<text x="{{.StateX}}" y="14" textLength="{{.StateLength}}">{{.State}}</text></g></svg>` + "\n"))

// maxBadgeName limits the characters shown of an unknown name.
const maxBadgeName = 40

// badgeLetter is the mean width of a letter, badgePadding the space around a text, in pixels.
const badgeLetter, badgePadding = 7, 12

func newBadge(name, state string, level status.Level) badge {
	nameLength, stateLength := badgeLetter*len([]rune(name)), badgeLetter*len([]rune(state))
	return badge{
		Name:        name,
		State:       state,
		Colour:      badgeColours[level],
		NameLength:  nameLength,
		StateLength: stateLength,
		NameWidth:   nameLength + badgePadding,
		StateWidth:  stateLength + badgePadding,
		Width:       nameLength + stateLength + 2*badgePadding,
		StateX:      nameLength + badgePadding + badgePadding/2,
	}
}

// serviceBadge shows a service's state, and the level if it is up with a problem. stale: polling has stalled.
func serviceBadge(s *status.Service, stale bool) badge {
	if stale {
		return newBadge(s.Name, "unknown", status.Unknown)
	}
	state := s.State
	if s.State == "up" && s.Level > status.OK || s.Level == status.Maintenance {
		state += ", " + s.Level.String()
	}
	return newBadge(s.Name, state, s.Level)
}

// truncateName cuts an unknown name to maxBadgeName.
func truncateName(name string) string {
	if letters := []rune(name); len(letters) > maxBadgeName {
		return string(letters[:maxBadgeName]) + "…"
	}
	return name
}

// serveBadge answers with a target's badge. An unknown name gets a badge too, with status 404, since the client expects an image.
func serveBadge(w http.ResponseWriter, r *http.Request, src reporter, log *slog.Logger) {
	name, isSVG := strings.CutSuffix(r.PathValue("file"), ".svg")
	shown, code := newBadge(truncateName(name), "no such target", status.Unknown), http.StatusNotFound
	if isSVG {
		report := src.Report()
		services := report.Services
		for i := range services {
			if services[i].Name == name {
				shown, code = serviceBadge(&services[i], report.Stale != ""), http.StatusOK
			}
		}
	}
	var b strings.Builder
	if err := badgeImage.Execute(&b, shown); err != nil {
		log.Error("badge does not render", "err", err)
		http.Error(w, "the badge does not render: see the exporter's log", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "image/svg+xml")
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	fmt.Fprint(w, b.String()) //nolint:errcheck // the client is gone
}
