package web

import (
	_ "embed"
	"html/template"
)

//go:embed frame.html
var frameHTML string

// newPage parses a page beside the status page; its template "head" takes a frame.
func newPage(name, text string, words template.FuncMap) *template.Template {
	t := template.Must(template.New("frame").Parse(frameHTML))
	return template.Must(t.New(name).Funcs(words).Parse(text))
}

// frames makes what the pages beside the status page have in common.
type frames struct {
	reports reporter
	assets  *assets
}

// frame is what a page has in common with others. Up is the path to the status page.
type frame struct{ Up, Title, Stack, Style, Icon string }

// frame returns the frame of a page; icon is the file in assets.
func (f frames) frame(up, title, icon string) frame {
	return frame{
		up,
		title,
		f.reports.Report().PageTitle,
		up + f.assets.link("style.css"),
		up + f.assets.link(icon),
	}
}
