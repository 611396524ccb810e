package public

import (
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
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

// A Run is of days in a row in one state.
type Run struct {
	State  history.State
	At, To int
}

// Width is the number of days.
func (r Run) Width() int { return r.To - r.At }

// Runs are the days in runs, so that a quiet quarter is one bar.
func (s *Service) Runs() (list []Run) {
	for i, state := range s.Days {
		if n := len(list); n > 0 && list[n-1].State == state {
			list[n-1].To++
		} else {
			list = append(list, Run{state, i, i + 1})
		}
	}
	return list
}

// Shares says how available it was.
func (s *Service) Shares() string {
	var parts []string
	for _, w := range []struct{ key, name string }{{"24h", "24 h"}, {"7d", "7 d"}, {"30d", "30 d"}, {"90d", "90 d"}} {
		if share, known := s.Available[w.key]; known {
			parts = append(parts, wording.Percent(share)+" in "+w.name)
		}
	}
	if parts == nil {
		return "not watched long enough"
	}
	return "available " + strings.Join(parts, ", ")
}
