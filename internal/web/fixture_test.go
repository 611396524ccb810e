package web_test

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// shown is a web.Source with a fixed report. It serves only the status page.
type shown struct {
	web.Source

	report *status.Report
}

func (shown) Incidents() []*incident.Incident { return nil }

func (shown) Public() *config.Public { return &config.Public{} }

func (s shown) Report() *status.Report { return s.report }

// record invents the rounds of some minutes until the report, for every row of it.
func (s shown) record(minutes int, service func(i, minute int, at time.Time) history.State,
	container func(c *status.Container, minute int, at time.Time) history.State,
) *history.Report {
	h, clock := history.New(), health.Clock{}
	for minute := range minutes {
		at := s.report.Time.Add(time.Duration(minute-minutes) * time.Minute)
		r := &health.Round{Tick: clock.Tick(at), Latency: map[health.Key]health.Latency{}}
		for i := range s.report.Services {
			k := health.Key(health.TargetSubject(s.report.Services[i].Name))
			state := service(i, minute, at)
			r.Events = append(r.Events, health.Event{At: r.To, Of: k, To: state})
			if state == history.Up {
				r.Latency[k] = health.Latency{1, 12000, 12000, 12000}
			}
		}
		for i := range s.report.Containers {
			c := &s.report.Containers[i]
			k := health.Key(health.ContainerSubject(c.DockerHost, c.Name))
			r.Events = append(r.Events, health.Event{At: r.To, Of: k, To: container(c, minute, at)})
		}
		h.Apply(r)
	}
	return h.Report(s.report.Time)
}

// Availability invents a history for every row of the report, with each state.
func (s shown) Availability() *history.Report {
	first := map[string]string{} // container of each engine
	for i := range s.report.Containers {
		c := &s.report.Containers[i]
		first[c.DockerHost] = cmp.Or(first[c.DockerHost], c.Name)
	}
	return s.record(20*60, func(i, minute int, _ time.Time) history.State {
		if minute%900 > i {
			return history.Up
		}
		return history.Down
	}, func(c *status.Container, minute int, _ time.Time) history.State {
		switch {
		case minute/60 == 12:
			return history.NotWatched
		case minute/60 == 5 && first[c.DockerHost] == c.Name:
			return history.Degraded
		}
		return history.Up
	})
}

func (s shown) Watch() (*status.Report, <-chan struct{}) { return s.report, nil }

// Chart invents a day for every name that begins with a unit and a colon.
func (s shown) Chart(name string) (status.History, bool) {
	unit, title, _ := strings.Cut(name, ":")
	if title == "" {
		return status.History{}, false
	}
	h := status.History{
		Name:   name,
		Title:  title,
		Unit:   unit,
		Start:  s.report.Time.Add(-24 * time.Hour).Truncate(time.Minute),
		Step:   300,
		Keeps:  "mean",
		Values: make([]*float64, 288),
		Min:    make([]*float64, 288),
		Max:    make([]*float64, 288),
	}
	switch unit {
	case "bytes":
		h.Alert, h.Warning, h.Critical = "ContainerMemory", ptr(3.2e8), ptr(1e9)
	case "ratio":
		h.Keeps, h.Min, h.Max = "least", nil, nil
	}
	for i := range h.Values {
		if i < 30 || i > 100 && i < 110 {
			continue // the exporter was not running
		}
		v := 20 + 8*math.Sin(float64(i+7*len(title))/20) + 2*math.Sin(float64(i))
		low, high := 0.9, 1.2
		if strings.HasPrefix(title, "steady") {
			v, low, high = 20+math.Sin(float64(i))/100, 0.999, 1.002
		}
		switch unit {
		case "bytes":
			v *= 1e7
		case "seconds":
			v /= 1000
		case "ratio":
			v = 1
			if i == 200 {
				v = 0
			}
		}
		h.Values[i] = &v
		if h.Keeps == "mean" {
			h.Min[i], h.Max[i] = ptr(low*v), ptr(high*v)
		}
	}
	return h, true
}

// pagesOf returns the handler of a report's pages.
func pagesOf(r *status.Report) http.Handler {
	r.Summarize()
	return newHandler(shown{report: r})
}

func newHandler(source web.Source) http.Handler {
	return web.New(source, web.Options{Version: "1.2.3", Log: slog.New(slog.DiscardHandler)})
}

// now is the time of all reports of the fixtures.
func now() time.Time { return time.Now().Add(-2 * time.Second) }

func ago(d time.Duration) time.Time { return now().Add(-d) }

// ptr returns a pointer to a number.
func ptr(v float64) *float64 { return new(v) }

// healthyReport is the report of a healthy stack.
func healthyReport() *status.Report {
	r := &status.Report{
		Edition: status.Edition{Made: now(), Time: now(), Version: "1.2.3"},
		Verdict: status.Verdict{Level: status.OK, Since: ago(53 * time.Hour)},
		Notices: status.Notices{PageTitle: "chat stack", NotConfigured: []string{"web_irc", "web_panel", "log_viewer", "volume"}},
	}
	for _, s := range []struct{ name, kind, values string }{
		{"docker", "docker", "containers=9"},
		{"docs_search", "docs_search", "reading=12 ms"},
		{"identity", "identity", "cache lasts=59 min"},
		{"irc_rpc", "irc_rpc", "users=212 channels=31 servers=2"},
		{"irc_services", "irc_services", "linked=yes"},
		{"irc_tls", "irc_tls", "certificate=61 days"},
		{"plant_store", "plant_store", "create=31 ms delete=12 ms orphans=0"},
		{"xmpp_c2s", "xmpp_c2s", "certificate=61 days"},
		{"xmpp_metrics", "xmpp_metrics", "sessions=143 failed logins=0.4 /min"},
		{"xmpp_proxy", "xmpp_proxy", "certificate=61 days"},
		{"xmpp_rest", "xmpp_rest", "reading=9 ms"},
		{"xmpp_s2s", "tls", "certificate=61 days"},
		{"xmpp_status", "xmpp_status", "modules in error=0"},
	} {
		service := status.Service{
			ServiceState: status.ServiceState{Name: s.name, Kind: s.kind, State: "up"},
			Row:          rowOf(s.kind),
			LastReading:  status.LastReading{LastAttempt: ago(4 * time.Second), LastSuccess: ago(4 * time.Second), Duration: 0.0123},
			Shown: status.Shown{
				Since:  ago(53 * time.Hour),
				Text:   "its last probe succeeded",
				Charts: []string{"ratio:answers", "seconds:" + s.name + " takes"},
			},
		}
		for v := range strings.SplitSeq(s.values, " ") {
			// A word without "=" continues the one before.
			if i := len(service.Values); i > 0 && !strings.Contains(v, "=") {
				service.Values[i-1].Text += " " + v
				continue
			}
			name, text, _ := strings.Cut(v, "=")
			service.Values = append(service.Values, status.Value{Name: name, Text: text})
		}
		r.Services = append(r.Services, service)
	}
	for _, role := range []string{"bridge", "docs", "identity", "irc", "irc_services", "plant_store", "web_irc", "xmpp", "xmpp_proxy"} {
		r.Containers = append(r.Containers, goodContainer("chat-"+strings.ReplaceAll(role, "_", "-")+"-1", role))
	}
	r.Thresholds = []status.Threshold{
		{
			Alert:    "ContainerUnhealthy",
			Present:  ptr(0),
			Warning:  ptr(0),
			Critical: ptr(300),
			Unit:     "seconds",
			Text:     "no container is unhealthy",
		},
		{
			Alert:    "XMPPAuthFailureRate",
			Present:  ptr(0.4),
			Warning:  ptr(10),
			Critical: ptr(50),
			Unit:     "per_minute",
		},
		{
			Alert:    "TLSCertificateExpiry",
			Subject:  "xmpp_proxy",
			Present:  ptr(61 * 86400),
			Warning:  ptr(14 * 86400),
			Critical: ptr(3 * 86400),
			Unit:     "seconds",
			Below:    true,
		},
		{
			Alert:    "DataVolumeUsage",
			Warning:  ptr(0.8),
			Critical: ptr(0.95),
			Unit:     "ratio",
			Text:     "no volume is configured",
		},
		{
			Alert:    "ContainerRestarts",
			Subject:  "chat-irc-1",
			Present:  ptr(0),
			Warning:  ptr(0),
			Critical: ptr(3),
		},
		{
			Alert:    "ContainerMemory",
			Subject:  "chat-xmpp-1",
			Present:  ptr(2.14e8),
			Warning:  ptr(5e8),
			Critical: ptr(1e9),
			Unit:     "bytes",
		},
		{
			Alert:    "ContainerDown",
			Present:  ptr(0),
			Warning:  ptr(60),
			Critical: ptr(300),
			Unit:     "seconds",
		},
		{
			Alert:    "TargetDown",
			Present:  ptr(0),
			Warning:  ptr(120),
			Critical: ptr(300),
			Unit:     "seconds",
		},
	}
	r.Transitions = []status.Transition{
		{
			Time:  ago(53 * time.Hour),
			Kind:  "target",
			Name:  "irc_rpc",
			From:  "down",
			To:    "up",
			Level: status.OK,
			Text:  "its last probe succeeded",
		},
		{
			Time:  ago(53*time.Hour + 4*time.Minute),
			Kind:  "target",
			Name:  "irc_rpc",
			From:  "up",
			To:    "down",
			Level: status.Warning,
			Text:  "nothing listens there",
		},
	}
	return r
}

func goodContainer(name, role string) status.Container {
	return status.Container{
		ContainerState: status.ContainerState{
			Name:       name,
			DockerHost: "local",
			Role:       role,
			State:      "running",
			Health:     "healthy",
		},
		RoleRow: roleOf(role),
		Shown: status.Shown{
			Since: ago(53 * time.Hour),
			Text:  "runs and is healthy",
			Values: []status.Value{
				{Name: "restarts", Text: "0"},
				{
					Name:  "memory",
					Value: 2.1e8,
					Unit:  "bytes",
					Text:  "210 MB",
				},
				{Name: "cpu", Text: "1.2 %"},
			},
			Charts: []string{"bytes:memory of " + name},
		},
	}
}

// rowOf returns a row of the table of kinds.
func rowOf(kind string) config.Row {
	k, _ := collectors.KindOf(kind)
	return k.Row
}

// roleOf returns the row of a role.
func roleOf(name string) config.Role {
	i := slices.IndexFunc(collectors.Kinds, func(k collectors.Kind) bool { return k.Role.Name == name })
	if i < 0 {
		return config.Role{}
	}
	return collectors.Kinds[i].Role
}

// faultyReport has that many problems, spread over targets and containers.
func faultyReport(faults int) *status.Report {
	r := healthyReport()
	r.Level, r.Since = status.Critical, ago(12*time.Minute)
	for i := len(r.Services) + len(r.Containers); i < faults+4; i++ {
		r.Containers = append(r.Containers, goodContainer(fmt.Sprintf("chat-worker-%d", i), ""))
	}
	texts := []string{
		"nothing listens there: the service is stopped, still starting, or the port or socket path is wrong",
		"no complete answer within the deadline: the service hangs or is overloaded, or a firewall drops packets",
		"the TLS handshake failed: a certificate that is expired, for another name or by an unknown authority, or no TLS on that port",
		"401, the credentials are missing or wrong",
	}
	for i := range faults {
		level := status.Critical
		if i%3 == 2 {
			level = status.Warning
		}
		if services := (faults + 1) / 2; i < services && i < len(r.Services) {
			s := &r.Services[(3+i)%len(r.Services)]
			s.Level, s.State, s.Since, s.Values = level, "down", ago(time.Duration(12+i)*time.Minute), nil
			s.ProblemSince = s.Since
			s.Reason, s.Text = "refused", texts[i%len(texts)]
			s.Error = "post https://127.0.0.1:8600/api: dial tcp 127.0.0.1:8600: connect: connection refused"
			s.Hint = "is the container running? docker compose ps; docker compose logs --tail 50 irc"
			continue
		}
		c := &r.Containers[i%len(r.Containers)]
		c.Level, c.Health, c.ProblemSince = level, "unhealthy", ago(time.Duration(8+i)*time.Minute)
		c.Text, c.Hint = "its health check has failed for 8 min: exit 1, curl: (7) Failed to connect to localhost port 8080",
			"docker inspect "+c.Name+" shows the last health checks"
	}
	slices.SortStableFunc(r.Services, func(a, b status.Service) int { return int(b.Level - a.Level) })
	slices.SortStableFunc(r.Containers, func(a, b status.Container) int { return int(b.Level - a.Level) })
	r.Thresholds[7].Present, r.Thresholds[7].Level, r.Thresholds[7].Subject = ptr(720), status.Critical, "irc_rpc"
	r.Thresholds[1].Present, r.Thresholds[1].Level = ptr(17), status.Warning
	for i := range 12 {
		r.Transitions = slices.Insert(r.Transitions, 0, status.Transition{
			Time:  ago(time.Duration(12-i) * time.Minute),
			Kind:  "target",
			Name:  "irc_rpc",
			From:  "up",
			To:    "down",
			Level: status.Critical,
			Text:  texts[0],
		})
	}
	return r
}

// maintenanceReport has current and planned maintenance, an alert that is held back, a configuration error, a pending threshold, and
// a very long error.
func maintenanceReport() *status.Report {
	r := faultyReport(1)
	r.ConfigError = "exporter.yaml:12: targets[3]: unknown key\nexporter.yaml:19: poll.interval\n" +
		"see the log, or run chatstack_exporter check-config, for details"
	r.Services[0].Error = "get https://" + strings.Repeat("very-long-host-name-", 30) + ".example:5281/status: " +
		strings.Repeat("x509 certificate signed by unknown authority ", 12)
	r.Thresholds[1].Level, r.Thresholds[1].Pending, r.Thresholds[1].Text = status.OK, true,
		"17 /min, over the threshold for 2 min; it alerts after 5 min"
	c := &r.Containers[0]
	c.Level, c.State, c.Health, c.ProblemSince, c.Values = status.Pending, "exited", "none", ago(time.Minute), nil
	c.Text = "is not running: exited with exit code 1; no alert: it needs chat-irc-1, which is not available"
	s := &r.Services[1]
	s.Level, s.State, s.Maintenance, s.Since = status.Maintenance, "down", "until 22:00 UTC: upgrade to 13.1", ago(time.Hour)
	s.Text = "nothing listens there"
	r.Maintenance = []maintenance.Entry{
		{
			Kind:   "target",
			Name:   s.Name,
			From:   ago(time.Hour),
			Until:  ago(-time.Hour),
			Reason: "upgrade to 13.1",
			Source: maintenance.FromAPI,
			Active: true,
		},
		{
			Kind:   "container",
			Name:   "chat-irc-1",
			From:   ago(-24 * time.Hour),
			Until:  ago(-26 * time.Hour),
			Reason: "new certificate",
			Source: maintenance.FromConfig,
		},
	}
	return r
}

// largeReport has two hundred containers on two engines.
func largeReport() *status.Report {
	r := faultyReport(5)
	for i := range 190 {
		c := goodContainer(fmt.Sprintf("tenant-%03d-service-with-a-rather-long-name-1", i), "")
		c.DockerHost = []string{"local", "backup"}[i%2]
		r.Containers = append(r.Containers, c)
	}
	return r
}

// emptyReport is the report of an exporter without targets.
func emptyReport() *status.Report {
	return &status.Report{
		Edition: status.Edition{Made: now(), Time: now(), Version: "1.2.3"},
		Verdict: status.Verdict{Level: status.Unknown, Since: ago(time.Minute)},
		Notices: status.Notices{PageTitle: "chat stack", NotConfigured: []string{
			"xmpp_status", "xmpp_metrics", "xmpp_proxy", "irc_rpc", "irc_services", "plant_store", "identity", "docs_search", "docker",
		}},
	}
}
