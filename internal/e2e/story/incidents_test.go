package story

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
)

// incidentScenarios are scripts with the incidents that they become, with nobody looking, oldest first.
var incidentScenarios = []struct {
	name, script string
	needs        map[string]string
	exporters    []exporterSpec
	lasts        time.Duration
	// incidents has lines such as "1m0s to 11m0s db is down, closed: db ContainerDown critical", with times as exact as the script's.
	incidents string
}{
	{
		name:      "a container stops for 10 minutes",
		exporters: alone,
		lasts:     30 * time.Minute,
		script: `
			1m other stops
			11m other starts
		`,
		// Nothing says that the container serves the target.
		incidents: `
			1m0s to 11m0s container other is not running, closed, 0 s: container other ContainerDown critical
			1m22s to 11m22s other is down, closed, 600 s: target other TargetDown critical
		`,
	},
	{
		name:      "a container stops too shortly",
		exporters: alone,
		lasts:     30 * time.Minute,
		script: `
			1m other stops
			5m other starts
		`,
	},
	{
		name:      "the database stops, and everything that needs it",
		exporters: alone,
		lasts:     40 * time.Minute,
		script: `
			1m db stops
			2m api stops
			3m web stops
			15m db starts
			15m api starts
			15m web starts
		`,
		incidents: `1m0s to 15m0s container db is not running, closed, 780 s: container api ContainerDown pending; container db ` +
			`ContainerDown critical; container web ContainerDown pending; target api TargetDown pending; target web TargetDown pending`,
	},
	{
		name:      "two faults without a common cause",
		exporters: alone,
		lasts:     50 * time.Minute,
		script: `
			1m other fails
			2m db stops
			20m other answers
			30m db starts
		`,
		incidents: `
			1m0s to 20m0s other is down, closed, 1140 s: target other TargetDown critical
			2m0s to 30m0s container db is not running, closed, 0 s: container db ContainerDown critical
		`,
	},
	{
		name:      "a fault during maintenance",
		exporters: alone,
		lasts:     30 * time.Minute,
		script: `
			1m api is maintained
			2m api stops
			20m api starts
			21m api is released
		`,
	},
	{
		name:      "a fault that lasts while the exporter is killed",
		exporters: keeping,
		lasts:     40 * time.Minute,
		script: `
			1m other stops
			8m a is killed
			14m a is killed
			20m other starts
			20m30s a is killed
		`,
		incidents: `
			1m0s to 20m0s container other is not running, closed, 0 s: container other ContainerDown critical
			1m22s to 20m22s other is down, closed, 1140 s: target other TargetDown critical
		`,
	},
	{
		name:      "a fault that ends while the exporter does not run",
		exporters: keeping,
		lasts:     50 * time.Minute,
		script: `
			1m other stops
			10m a stops
			15m other starts
			25m a starts
		`,
		incidents: `
			1m0s to 25m0s at the latest container other is not running, closed, 0 s: container other ContainerDown critical
			1m22s to 25m0s at the latest other is down, closed, 1418 s: target other TargetDown critical
		`,
	},
	{
		name:      "a certificate expires that two servers serve, and a token is rejected",
		exporters: bridged,
		lasts:     40 * time.Minute,
		script: `
			1m certificate expires
			1m api refuses
			15m certificate is renewed
			15m api accepts
		`,
		// The certificate's problem began when it reached the limit of the alert.
		incidents: `-360h1m0s to 15m42s xMPP server login port: a certificate expires soon or has expired, closed, 840 s: ` +
			`target irc_tls TLSCertificateExpiry critical; target irc_tls TargetDown pending; ` +
			`target xmpp_c2s TLSCertificateExpiry critical; target xmpp_c2s TargetDown pending` + `
			1m30s to 15m30s api is down, closed, 840 s: target api TargetDown critical
		`,
	},
	{
		name:      "the engine does not answer, and two services fail with it",
		exporters: alone,
		lasts:     40 * time.Minute,
		script: `
			1m engine hangs
			1m api fails
			1m web fails
			15m engine answers
			15m api answers
			15m web answers
		`,
		incidents: `1m17s to 15m30s docker Engine is down, closed, 840 s: target api TargetDown critical; ` +
			`target docker TargetDown critical; target web TargetDown critical`,
	},
	{
		name:      "the bridge hangs",
		exporters: bridged,
		lasts:     40 * time.Minute,
		script: `
			1m bridge hangs
			16m bridge relays
		`,
		// A check waits before it says that a message is lost.
		incidents: `2m34s to 16m0s crossing: messages do not arrive, closed, 806 s: target crossing BridgeNotRelaying critical; ` +
			`target crossing BridgeNotRelaying critical`,
	},
}

// TestIncidentsHaveTheTimesOfTheirFaults compares incidents with scripts. A service is read each 30 s, so that a time may differ by that.
func TestIncidentsHaveTheTimesOfTheirFaults(t *testing.T) {
	for _, s := range incidentScenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			play(t, s.exporters, s.needs, func(w *world) {
				c := &chronicler{world: w}
				w.afterRound = c.compare
				(&scenario{script: s.script}).perform(w)
				w.until(w.began.Add(s.lasts))
				if got, want := w.incidents(w.exporters[0]), lines(s.incidents); !slices.EqualFunc(got, want, sameIncident) {
					w.Errorf("incidents (-want +got):\n-%s\n+%s", strings.Join(want, "\n-"), strings.Join(got, "\n+"))
				}
			})
		})
	}
}

// incidents are those of an exporter, oldest first, with the longest outage of a target.
func (w *world) incidents(e *exporter) (list []string) {
	for _, i := range slices.Backward(e.app.Incidents()) {
		var problems []string
		for _, p := range i.Problems {
			problems = append(problems, fmt.Sprintf("%s %s %s %s", p.Kind, p.Name, p.Alert, p.Severity))
		}
		slices.Sort(problems)
		latest, outage := "", 0.0
		if i.EndedAtLatest {
			latest = " at the latest"
		}
		for _, d := range i.Outages {
			outage = max(outage, d.Seconds)
		}
		title, _, _ := strings.Cut(i.Title, " from ")
		list = append(list, fmt.Sprintf("%s to %s%s %s, %s, %.0f s: %s",
			i.Began.Sub(w.began).Round(time.Second), i.Ended.Sub(w.began).Round(time.Second),
			latest, strings.ToLower(title[:1])+title[1:], i.State, outage, strings.Join(problems, "; ")))
	}
	return list
}

// sameIncident compares two lines. Their times may differ by the time between two readings, and that which a check takes.
func sameIncident(got, want string) bool {
	parse := func(line string) (text string, times []time.Duration) {
		for word := range strings.FieldsSeq(strings.Replace(line, " s:", "s :", 1)) {
			if d, err := time.ParseDuration(word); err == nil {
				times = append(times, d)
			} else {
				text += word + " "
			}
		}
		return text, times
	}
	one, at := parse(got)
	other, then := parse(want)
	return one == other && slices.EqualFunc(at, then, func(a, b time.Duration) bool { return (a - b).Abs() <= interval+10*time.Second })
}

// chronicler compares incidents with what it has seen on the pages itself.
type chronicler struct {
	*world
	watched []*watched
}

// watched is what a chronicler has seen of one process of an exporter.
type watched struct {
	exporter *exporter
	app      any
	seen     map[problemID]*sighting
	// former is what was seen of the processes before, started when this one was noticed.
	former  map[problemID]time.Time
	started time.Time
}

// problemID identifies a problem of an exporter.
type problemID struct {
	health.Subject
	alert, of string
}

// sighting is when a problem began, and when a page has shown it last.
type sighting struct {
	since, last time.Time
	lasts       bool
	maintained  bool // when it was seen last: an incident takes in no problem that maintenance explains
}

// of returns what was seen of the exporter's present process.
func (c *chronicler) of(e *exporter) *watched {
	for _, s := range c.watched {
		if s.exporter == e {
			if s.app != any(e.app) {
				for id, old := range s.seen {
					if _, known := s.former[id]; old.lasts && !known {
						s.former[id] = old.since
					}
				}
				s.app, s.seen, s.started = e.app, map[problemID]*sighting{}, time.Now()
			}
			return s
		}
	}
	c.watched = append(c.watched, &watched{
		e,
		e.app,
		map[problemID]*sighting{},
		map[problemID]time.Time{},
		time.Now(),
	})
	return c.watched[len(c.watched)-1]
}

// compare compares the incidents of all exporters with their pages.
func (c *chronicler) compare() {
	for _, e := range c.exporters {
		if e.app == nil {
			continue
		}
		c.compareOne(e, c.of(e))
	}
}

func (c *chronicler) compareOne(e *exporter, s *watched) {
	j, now := e.app.Snapshot().Judgement, time.Now()
	homes, incidents := map[problemID][]*incident.Incident{}, e.app.Incidents()
	problems := map[problemID]incident.Problem{}
	for _, i := range incidents {
		earliest := time.Time{}
		for _, p := range i.Problems {
			id := problemID{p.Subject, p.Alert, p.Of}
			if i.Lasts() {
				homes[id], problems[id] = append(homes[id], i), p
			}
			if earliest.IsZero() || p.Since.Before(earliest) {
				earliest = p.Since
			}
			if i.State == incident.Closed && (p.Cleared.IsZero() || p.Cleared.After(i.Ended)) {
				c.complain(e, "incident %s was closed although its problem %v lasts, or ended later", i.Title, id)
			}
		}
		if i.Began.After(earliest) {
			c.complain(e, "incident %s began at %s, after its first problem at %s", i.Title, i.Began.Sub(c.began), earliest.Sub(c.began))
		}
	}
	present := map[problemID]bool{}
	for _, p := range j.Problems {
		id := problemID{p.Subject, p.Alert, p.Of}
		present[id] = true
		// it was over for a moment
		if old := s.seen[id]; old == nil || !old.lasts || p.Since.After(old.since) && p.Severity < health.Critical {
			s.seen[id] = &sighting{since: p.Since, lasts: true}
		}
		s.seen[id].last, s.seen[id].maintained = now, p.Excuse.Reason == health.ReasonMaintenance
		home := homes[id]
		switch must := p.Severity == health.Critical || p.Severity == health.Warning && p.Lasted >= incident.LastingWarning; {
		case len(home) > 1:
			c.complain(e, "%v belongs to %d incidents", id, len(home))
		case must && len(home) == 0:
			c.complain(e, "%v belongs to no incident", id)
		case len(home) == 0 || counted(p.Alert) || p.Outages > 0: // the incident of what flaps may have begun with any of its outages
		case !problems[id].Cleared.IsZero() && !s.seen[id].maintained:
			c.complain(e, "%v lasts, but its incident says that it ended", id)
		case problems[id].Cleared.IsZero() && p.Severity < health.Critical && lastsUnread(p.Alert) && !s.since(id, problems[id].Since):
			c.complain(e, "%v began at %s, its incident says %s", id, s.seen[id].since.Sub(c.began), problems[id].Since.Sub(c.began))
		}
	}
	for id := range s.former { // what is over counts no more, whichever process saw its end
		if v := j.Verdicts[id.Subject]; v.Known && !v.Unknown && !present[id] {
			delete(s.former, id)
		}
	}
	for id, old := range s.seen {
		if present[id] || !old.lasts {
			continue
		}
		old.lasts = false
		delete(s.former, id)
		if p, known := problems[id]; known && !counted(id.alert) && !old.maintained && !j.Verdicts[id.Subject].Unknown {
			if p.Cleared.Before(old.last) || p.Cleared.After(now) {
				c.complain(e, "%v ended between %s and %s, its incident says %s",
					id, old.last.Sub(c.began), now.Sub(c.began), p.Cleared.Sub(c.began))
			}
		}
	}
}

// lastsUnread reports whether a problem stays on the page while its subject cannot be read. Others stay in their incident alone.
func lastsUnread(alert string) bool {
	return alert == health.AlertTargetDown || strings.HasPrefix(alert, "Container")
}

// since reports whether a problem began at that time, as this process or the former one says.
func (s *watched) since(id problemID, at time.Time) bool {
	former, known := s.former[id]
	unseen := !known && at.Before(s.started) && s.started.Sub(at) <= interval // since the last look at the former process
	return at.Sub(s.seen[id].since).Abs() <= time.Second || known && at.Sub(former).Abs() <= time.Second || unseen
}

// counted reports whether an alert counts events, whose problem lasts for longer than they do.
func counted(alert string) bool {
	return alert == health.AlertContainerRestarts || alert == health.AlertContainerOOMKill
}

func (c *chronicler) complain(e *exporter, format string, args ...any) {
	c.Errorf("after %s, %s: %s", time.Since(c.began), e.name, fmt.Sprintf(format, args...))
}

// settled wants no incident to last that has nothing to last for.
func (c *chronicler) settled() {
	for _, e := range c.exporters {
		if e.app == nil {
			continue
		}
		for _, i := range e.app.Incidents() {
			lasting := slices.ContainsFunc(i.Problems, func(p incident.Problem) bool { return p.Cleared.IsZero() })
			if i.State == incident.Open && !lasting {
				c.complain(e, "incident %s is open without a problem", i.Title)
			}
		}
	}
}
