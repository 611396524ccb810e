package web

import "github.com/chatstack-exporter/chatstack_exporter/internal/site"

// frames makes what the pages beside the status page have in common.
type frames struct {
	reports reporter
	assets  *assets
}

// frame is what a page has in common with others.
type frame = site.Frame

// frame returns the frame of a page; icon is the file in assets.
func (f frames) frame(up, title, icon string) frame {
	return frame{
		Up:    up,
		Title: title,
		Stack: f.reports.Report().PageTitle,
		Style: up + f.assets.link("style.css"),
		Icon:  up + f.assets.link(icon),
	}
}
