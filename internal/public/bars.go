package public

import (
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// days is how many days the bars show.
const days = 90

// addHistory adds how available the targets of a service were. A target that was not watched leaves the service unknown, but one that came
// later says nothing of the days before.
func (s *Service) addHistory(names []string, histories map[string]*history.Subject) {
	s.Available, s.Days = map[string]float64{}, slices.Repeat([]history.State{history.NotWatched}, days)
	begun := make([]bool, days)
	for n, name := range names {
		shares, states := map[string]float64{}, slices.Repeat([]history.State{history.NotWatched}, days)
		if h := histories[name]; h != nil {
			shares, states = sharesOf(h), daysOf(h)
		}
		first := slices.IndexFunc(states, func(s history.State) bool { return s != history.NotWatched })
		for i := max(first, 0); i < days; i++ {
			if begun[i] {
				states[i] = worseState(s.Days[i], states[i])
			}
			s.Days[i], begun[i] = states[i], true
		}
		if n == 0 {
			s.Available = shares
			continue
		}
		for window, least := range s.Available {
			if share, known := shares[window]; !known {
				delete(s.Available, window)
			} else {
				s.Available[window] = min(least, share)
			}
		}
	}
}

// sharesOf returns how available a target was, without windows of which most was not watched: what is known says little about them.
func sharesOf(h *history.Subject) map[string]float64 {
	shares := map[string]float64{}
	for i := range h.Windows {
		w := &h.Windows[i]
		var watched time.Duration
		for _, spent := range w.Spent[:history.NotWatched] {
			watched += spent
		}
		if w.Available != nil && watched >= w.Spent[history.NotWatched] {
			shares[w.Name] = *w.Available
		}
	}
	return shares
}

// daysOf returns the states of a target, by day.
func daysOf(h *history.Subject) []history.State {
	states := slices.Repeat([]history.State{history.NotWatched}, days)
	for i := range h.Windows {
		if w := &h.Windows[i]; len(w.Buckets) == days {
			for k := range w.Buckets {
				states[k] = w.Buckets[k].Spent.Worst()
			}
		}
	}
	return states
}

// badness orders states as the page does: only a known problem is worse than what nobody watched.
var badness = []history.State{history.Up, history.Maintenance, history.NotWatched, history.Degraded, history.Down}

func worseState(a, b history.State) history.State {
	return badness[max(slices.Index(badness, a), slices.Index(badness, b))]
}

// Paths are the bars of the days.
func (s *Service) Paths() []site.BarPath { return site.BarPaths(s.Days) }

// Shares says how available it was.
func (s *Service) Shares() string {
	var parts []string
	for _, window := range []string{"24h", "7d", "30d", "90d"} {
		if share, known := s.Available[window]; known {
			parts = append(parts, wording.Percent(share)+" in "+site.WindowWords[window])
		}
	}
	if parts == nil {
		return "not watched long enough"
	}
	return "available " + strings.Join(parts, ", ")
}
