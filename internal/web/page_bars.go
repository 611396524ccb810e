package web

import (
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// barsAge is how long bars are reused; the shortest of them is an hour.
const barsAge = 10 * time.Second

//go:embed bars.html
var barsHTML string

// bars are a window of a subject's history as bars, each in the worst state of its step.
type bars struct {
	Name  string
	Steps int
	Paths []site.BarPath
	// Share is how available it was, Words that and what else is known, Label the same for who cannot see the bars.
	Share, Words, Label string
}

// newBars draws the windows of a subject.
func newBars(s *history.Subject) []bars {
	list := make([]bars, 0, len(s.Windows))
	for i := range s.Windows {
		w := &s.Windows[i]
		worst := make([]history.State, len(w.Buckets))
		for k := range w.Buckets {
			worst[k] = w.Buckets[k].Spent.Worst()
		}
		b := bars{Name: site.WindowWords[w.Name], Steps: len(worst), Paths: site.BarPaths(worst)}
		share := site.ShareOf(w)
		b.Share = share.String()
		parts := []string{b.Share}
		if share.Counts() {
			parts[0] = "available " + b.Share + " watched"
		}
		for _, state := range []history.State{history.Down, history.Degraded, history.Maintenance, history.NotWatched} {
			if spent := w.Spent[state]; spent > 0 && (state != history.NotWatched || share.Watched > 0) {
				parts = append(parts, site.StateWords[state]+" "+wording.Glance(spent.Seconds(), "seconds"))
			}
		}
		if l := w.Latency; l != nil {
			parts = append(parts, fmt.Sprintf("probes took %s (%s to %s)", wording.Took(l.Mean), wording.Took(l.Min), wording.Took(l.Max)))
		}
		b.Words = strings.Join(parts, ", ")
		b.Label = "last " + b.Name + ": " + b.Words
		list = append(list, b)
	}
	return list
}

// barsOf returns the bars of a row, nil if nothing is known of it.
func (p *pages) barsOf(key string) []bars { return p.bars[key] }

// renewBars draws all bars anew if they are older than barsAge.
func (p *pages) renewBars(now time.Time) {
	if p.bars != nil && now.Sub(p.barsAt) < barsAge {
		return
	}
	r := p.history.Availability()
	p.bars, p.barsAt = make(map[string][]bars, len(r.Subjects)), now
	for i := range r.Subjects {
		p.bars[r.Subjects[i].Key] = newBars(&r.Subjects[i])
	}
}
