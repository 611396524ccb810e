package public

import (
	"slices"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// days is how many days the bars show.
const days = 90

// addHistory adds how available the targets of a service were.
func (s *Service) addHistory(names []string, histories map[string]*history.Subject) {
	s.Available, s.Days = map[string]float64{}, make([]history.State, days)
	for i := range s.Days {
		s.Days[i] = history.NotWatched
	}
	for _, name := range names {
		h := histories[name]
		if h == nil {
			continue
		}
		for i := range h.Windows {
			w := &h.Windows[i]
			if known, seen := s.Available[w.Name]; w.Available != nil && (!seen || *w.Available < known) {
				s.Available[w.Name] = *w.Available
			}
			if len(w.Buckets) == days {
				for k := range w.Buckets {
					s.Days[k] = worseState(s.Days[k], w.Buckets[k].Spent.Worst())
				}
			}
		}
	}
}

// badness orders states; what is not watched is better than anything known.
var badness = []history.State{history.NotWatched, history.Up, history.Maintenance, history.Degraded, history.Down}

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
		return "not watched yet"
	}
	return "available " + strings.Join(parts, ", ")
}
