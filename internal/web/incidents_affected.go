package web

import (
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

const (
	// maxAffected is how many targets and containers the page of an incident shows with charts, maxAffectedCharts how many of each.
	maxAffected       = 5
	maxAffectedCharts = 2
	// around is how long before and after an incident its charts and probes begin and end.
	around = 30 * time.Minute
)

// affected is a target or container of an incident, with what is still known of that time.
type affected struct {
	Title string
	// Probes is the path of its last probes, "" for a container.
	Probes   string
	Charts   []affectedChart
	Failures []poll.Reading
}

// affectedChart is a chart of the time around an incident, which lasted From so far right, for Width.
type affectedChart struct {
	*spark
	From, Width float64
}

// affected returns the targets and containers of an incident that the exporter still watches, its cause first.
func (s *incidents) affected(i *shownIncident) (list []affected) {
	subjects := []health.Subject{i.Cause}
	for n := range i.Problems {
		if p := i.Problems[n].Subject; !slices.Contains(subjects, p) {
			subjects = append(subjects, p)
		}
	}
	r := s.frames.reports.Report()
	for _, subject := range subjects {
		a, charts := affected{}, []string(nil)
		for n := range r.Services {
			if v := &r.Services[n]; subject == health.TargetSubject(v.Name) {
				a.Title, a.Probes, charts = status.UpperFirst(status.HumanName(subject, v.Kind)), i.Up+"debug/targets/"+v.Name, v.Charts
				a.Failures = s.failures(i, v.Name)
			}
		}
		for n := range r.Containers {
			if c := &r.Containers[n]; subject == c.Subject() {
				a.Title, charts = status.UpperFirst(status.HumanName(subject, "")), c.Charts
			}
		}
		for _, name := range charts[:min(len(charts), maxAffectedCharts)] {
			if h, ok := s.source.Chart(name); ok {
				a.Charts = append(a.Charts, i.chart(h)...)
			}
		}
		if a.Title != "" && len(list) < maxAffected {
			list = append(list, a)
		}
	}
	return list
}

// end is when the incident ended, or the present moment.
func (i *shownIncident) end() time.Time {
	if i.Ended.IsZero() {
		return i.now
	}
	return i.Ended
}

// failures are the failed probes of a target around the incident, of those that are still known.
func (s *incidents) failures(i *shownIncident, target string) (list []poll.Reading) {
	known, _ := s.source.History(target)
	for _, r := range known.Failures {
		if !r.Time.Before(i.Began.Add(-around)) && !r.First.After(i.end().Add(around)) {
			list = append(list, r)
		}
	}
	return list
}

// chart draws the part of a history around the incident; nothing if that is too long ago.
func (i *shownIncident) chart(h status.History) []affectedChart {
	step := time.Duration(h.Step * float64(time.Second))
	if step <= 0 {
		return nil
	}
	index := func(t time.Time) int { return min(max(int(t.Sub(h.Start)/step), 0), len(h.Values)) }
	from, to := index(i.Began.Add(-around)), index(i.end().Add(around+step))
	if to-from < 2 || i.end().Before(h.Start) {
		return nil
	}
	if len(h.Min) == len(h.Values) && len(h.Max) == len(h.Values) {
		h.Min, h.Max = h.Min[from:to], h.Max[from:to]
	}
	h.Start, h.Values, h.Last = h.Start.Add(time.Duration(from)*step), h.Values[from:to], nil
	c := affectedChart{spark: newSpark(h)}
	if c.Path == "" {
		return nil
	}
	c.Label = h.Title + " around the incident, lowest " + c.Low
	if c.High != "" {
		c.Label += ", highest " + c.High
	}
	x := func(t time.Time) float64 {
		return min(max(sparkWidth*t.Sub(h.Start).Seconds()/(h.Step*float64(len(h.Values))), 0), sparkWidth)
	}
	c.From = x(i.Began)
	c.Width = max(x(i.end())-c.From, 1)
	return []affectedChart{c}
}
