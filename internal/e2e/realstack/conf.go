//go:build realservers

package realstack

import (
	"embed"
	"text/template"
)

//go:embed conf
var conf embed.FS

// templates are the servers' configurations.
var templates = template.Must(template.ParseFS(conf, "conf/*.tmpl"))
