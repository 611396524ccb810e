package public

import (
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// days is how many days the bars show.
const days = 90

// windows are those of a history, by name.
var windows = []string{"24h", "7d", "30d", "90d"}

// Service is a service under its public name.
type Service struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Available is the percentage of the watched time in which it was available, by window; the least of its targets. A
	// window is missing if one of them was not watched for most of it. Watched is how long all of them were watched.
	Available map[string]float64 `json:"available_percent"`
	Watched   map[string]float64 `json:"watched_seconds"`
	// Days are the worst states of the last 90 days, the oldest first, as the history names them.
	Days []history.State `json:"days"`
	// Outages are the days on which it did not work for some time.
	Outages []DayOutage `json:"outages"`

	// watched is how many of its targets are watched now.
	watched int
	shares  map[string]site.Share
	// down is how long it did not work, by day; that of the target that failed longest. first is the oldest day.
	down  [days]time.Duration
	first time.Time
}

// DayOutage is how long a service did not work on a day, in UTC, in full minutes.
type DayOutage struct {
	Day     string  `json:"day"`
	Seconds float64 `json:"seconds"`
}

// targets is what is known of all targets, by name.
type targets struct {
	now    map[string]*status.Service
	before map[string]*history.Subject
	// failing are those with a critical problem that users notice.
	failing map[string]bool
	today   time.Time
}

func newTargets(r *status.Report, past *history.Report, now time.Time) *targets {
	t := &targets{
		now:     make(map[string]*status.Service, len(r.Services)),
		before:  make(map[string]*history.Subject, len(past.Subjects)),
		failing: map[string]bool{},
		today:   now.UTC().Truncate(24 * time.Hour),
	}
	for i := range r.Problems {
		if p := &r.Problems[i]; p.Level() == status.Critical && p.Kind == health.KindTarget && !alerts.Ahead(p.Alert) {
			t.failing[p.Name] = true
		}
	}
	for i := range r.Services {
		t.now[r.Services[i].Name] = &r.Services[i]
	}
	for i := range past.Subjects {
		if s := &past.Subjects[i]; s.Kind == "service" {
			t.before[s.Name] = s
		}
	}
	return t
}

// service returns a service that needs some targets.
func (t *targets) service(name string, needs []string) Service {
	s := Service{
		Name:      name,
		Available: map[string]float64{},
		Watched:   map[string]float64{},
		Days:      slices.Repeat([]history.State{history.NotWatched}, days),
		Outages:   []DayOutage{},
		shares:    map[string]site.Share{},
		first:     t.today.AddDate(0, 0, 1-days),
	}
	s.State, s.watched = t.state(needs)
	begun := make([]bool, days)
	for n, target := range needs {
		h := t.before[target]
		if h == nil {
			h = &history.Subject{}
		}
		s.addShares(h, n == 0)
		s.addDays(h, begun)
	}
	for window, share := range s.shares {
		s.Watched[window] = share.Watched.Truncate(time.Minute).Seconds()
		if share.Counts() {
			s.Available[window] = share.Percent
		}
	}
	for i, spent := range s.down {
		if spent > 0 {
			s.Outages = append(s.Outages, DayOutage{s.day(i).Format(time.DateOnly), spent.Seconds()})
		}
	}
	return s
}

// state returns the state of a service, and how many of its targets are watched. It follows the bars: a target is down here as soon as
// they turn red. An alert on one that is up counts once it fires: until then, its problem may pass. A critical one on what has not
// happened yet, as a certificate that expires, is only a problem.
func (t *targets) state(needs []string) (state State, watched int) {
	state, failing := Operational, 0
	for _, name := range needs {
		level, is := status.OK, history.NotWatched
		if s := t.now[name]; s != nil {
			level = s.Level
		}
		if h := t.before[name]; h != nil {
			is = h.State
		}
		if is != history.NotWatched {
			watched++
		}
		switch {
		case is == history.NotWatched:
			state = worse(state, Unknown)
		case is == history.Maintenance:
			state = worse(state, Maintenance)
		case is == history.Down:
			failing++
			state = worse(state, Partly)
		case t.failing[name]:
			state = worse(state, Partly)
		case is == history.Degraded, level >= status.Warning:
			state = worse(state, Degraded)
		}
	}
	if failing > 0 && failing == watched {
		return Outage, watched
	}
	return state, watched
}

// addShares adds how available a target was: the least percentage, of the shortest time watched, counts.
func (s *Service) addShares(h *history.Subject, first bool) {
	for _, window := range windows {
		var share site.Share
		if i := slices.IndexFunc(h.Windows, func(w history.Window) bool { return w.Name == window }); i >= 0 {
			share = site.ShareOf(&h.Windows[i])
		}
		if have := s.shares[window]; !first {
			share = site.Share{
				Percent: min(have.Percent, share.Percent),
				Watched: min(have.Watched, share.Watched),
				Length:  max(have.Length, share.Length),
			}
		}
		s.shares[window] = share
	}
}

// addDays adds the days of a target. One that was not watched leaves the service unknown, but one that came later says nothing of the
// days before. begun are the days since the first target came.
func (s *Service) addDays(h *history.Subject, begun []bool) {
	states, first := slices.Repeat([]history.State{history.NotWatched}, days), days
	for i := range h.Windows {
		w := &h.Windows[i]
		if len(w.Buckets) != days {
			continue
		}
		if !w.Start.IsZero() {
			s.first = w.Start
		}
		for k := range w.Buckets {
			spent := &w.Buckets[k].Spent
			if slices.Max(spent[:history.NotWatched]) > 0 { // even if the day was mostly not watched
				first = min(first, k)
			}
			states[k] = spent.Worst()
			s.down[k] = max(s.down[k], (spent[history.Down] + time.Minute - 1).Truncate(time.Minute))
		}
	}
	for i := first % days; i < days; i++ { // all of them if there is no first
		if begun[i] {
			states[i] = worseState(s.Days[i], states[i])
		}
		s.Days[i], begun[i] = states[i], true
	}
}

// badness orders states as the page does: only a known problem is worse than what nobody watched.
var badness = []history.State{history.Up, history.Maintenance, history.NotWatched, history.Degraded, history.Down}

func worseState(a, b history.State) history.State {
	return badness[max(slices.Index(badness, a), slices.Index(badness, b))]
}

// day is the beginning of a day of the bars.
func (s *Service) day(i int) time.Time { return s.first.AddDate(0, 0, i) }

// Paths are the bars of the days.
func (s *Service) Paths() []site.BarPath { return site.BarPaths(s.Days) }

// A Run is of days in a row of which the same can be said.
type Run struct {
	At, Width int
	Text      string
}

// Runs are the days in words; a day with an outage says how long it lasted.
func (s *Service) Runs() (list []Run) {
	const date = "2 Jan 2006"
	for from := 0; from < days; {
		to, words := from+1, site.StateWords[s.Days[from]]
		for to < days && s.Days[from] != history.Down && s.Days[to] == s.Days[from] {
			to++
		}
		text := s.day(from).Format(date)
		if to > from+1 {
			text += " to " + s.day(to-1).Format(date)
		}
		if s.Days[from] == history.Down {
			words += " for " + wording.Duration(s.down[from])
		}
		list = append(list, Run{from, to - from, text + ": " + words})
		from = to
	}
	return list
}

// Shares says how available it was. Windows of which the same can be said are one.
func (s *Service) Shares() string {
	var names, texts []string
	for _, window := range windows {
		name, text := site.WindowWords[window], s.shares[window].String()
		if n := len(texts); n > 0 && texts[n-1] == text {
			names[n-1] += ", " + name
			continue
		}
		names, texts = append(names, name), append(texts, text)
	}
	if len(texts) == 1 { // as in the first hours
		return texts[0]
	}
	for n := range texts {
		texts[n] = "last " + names[n] + ": " + texts[n]
	}
	return strings.Join(texts, "; ")
}
