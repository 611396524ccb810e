package site

import (
	"strconv"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// BarPath are all bars in one state: a line for each run, which the style sheet dashes into bars.
type BarPath struct{ Class, Line string }

// barHeights are the vertical centres of a state's lines. Each state has its own shape, so that colour is not needed.
var barHeights = map[history.State][]string{
	history.Up: {"5"}, history.Degraded: {"7"}, history.Down: {"2", "8"}, history.Maintenance: {"8.5"}, history.NotWatched: {"9.5"},
}

// StateWords are the words for the states of the bars.
var StateWords = map[history.State]string{
	history.Up: "up", history.Degraded: "degraded", history.Down: "down", history.Maintenance: "maintenance",
	history.NotWatched: "not watched",
}

// Meaning is a state with the bars that show it.
type Meaning struct {
	Name  string
	Paths []BarPath
}

// Legend explains the bars; the template "legend" takes it.
func Legend() (list []Meaning) {
	for s := history.Up; s <= history.NotWatched; s++ {
		list = append(list, Meaning{StateWords[s], BarPaths([]history.State{s, s})})
	}
	return list
}

// WindowWords are the words for the windows of a history, by name.
var WindowWords = map[string]string{"24h": "24 h", "7d": "7 d", "30d": "30 d", "90d": "90 d"}

// Share is how available something was in a window.
type Share struct {
	// Percent is of the Watched time, without maintenance. Length is how long the window is.
	Percent         float64
	Watched, Length time.Duration
}

// ShareOf returns the share of a window.
func ShareOf(w *history.Window) Share {
	s := Share{Watched: w.Spent.Watched()}
	s.Percent, _ = w.Spent.Available()
	for _, spent := range w.Spent {
		s.Length += spent
	}
	return s
}

// Counts reports whether the percentage says something: that most of the window was watched.
func (s Share) Counts() bool { return s.Watched > 0 && 2*s.Watched >= s.Length }

// String returns the percentage with how long was watched, or only that if the percentage says little.
func (s Share) String() string {
	switch {
	case s.Watched <= 0:
		return "not watched"
	case s.Counts():
		return wording.Percent(s.Percent) + " of " + wording.Duration(s.Watched)
	}
	return wording.Duration(s.Watched) + " watched"
}

// BarPaths draws runs of equal states, so that a row of equal bars is one short line. The template "barPaths" takes them.
func BarPaths(states []history.State) (paths []BarPath) {
	for state := history.Up; state <= history.NotWatched; state++ {
		var line []byte
		for from := 0; from < len(states); from++ {
			to := from
			for to < len(states) && states[to] == state {
				to++
			}
			if to == from {
				continue
			}
			for _, height := range barHeights[state] {
				line = append(strconv.AppendInt(append(line, 'M'), int64(from), 10), ' ')
				line = strconv.AppendInt(append(append(line, height...), 'h'), int64(to-from), 10)
			}
			from = to
		}
		if line != nil {
			paths = append(paths, BarPath{state.String(), string(line)})
		}
	}
	return paths
}
