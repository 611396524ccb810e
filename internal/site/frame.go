package site

import (
	_ "embed"
	"html/template"
)

// Base begins every style sheet: colours with enough contrast in both schemes, and what all pages have.
//
//go:embed base.css
var Base []byte

// Morph begins every script that updates a page. It has the function morph(from, to).
//
//go:embed morph.js
var Morph []byte

//go:embed frame.html
var frameHTML string

// Frame is what a page has in common with others; the template "head" takes it. Up is the path to the status page. Style and Icon are URLs;
// a page may have no icon.
type Frame struct{ Up, Title, Stack, Style, Icon string }

// Parse parses a page, which may use the templates of this package.
func Parse(name, text string, words template.FuncMap) *template.Template {
	t := template.Must(template.New("frame").Parse(frameHTML))
	return template.Must(t.New(name).Funcs(words).Parse(text))
}
