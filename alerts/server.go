package alerts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// The label chat_server: Alertmanager sends one message for the alerts that have the same. The rules set it on their alerts. The judged
// series do not have it: rules that are loaded join these, also those of exporters of other versions and on other hosts.

// server is how a rule finds the server that an alert is about.
type server struct {
	// name is the server, if it is always the same. It is where Prometheus waits for 10 minutes or longer: some versions forget at a
	// restart for how long an alert has been pending that has a template among its labels.
	name string
	// series is a query for series that name it. fired are the matchers of the alert's own series.
	series, fired string
	// labels are labels of the alert for these: the first is %[5]q.
	labels string
}

// The servers of alerts that are about none, or about which no exporter is new enough to say it. Prometheus cannot leave out a label that
// has a template: the series ALERTS would have the template itself.
const (
	exporterServer = "exporter"
	wholeStack     = "stack"
)

var (
	theExporter = server{name: exporterServer}
	// ofTarget is for rows that name nothing else. A target whose kind does not say what it is part of may have a container.
	ofTarget = server{
		series: "last_over_time(chatstack_target_chat_server{target=%[5]q,<env>}[<range>])" +
			" or on () last_over_time(chatstack_container_chat_server{<env>}[<range>])" +
			` and on (container, docker_host) last_over_time(chatstack_target_info{target=%[5]q,container!="",<env>}[<range>])` +
			" or on () label_replace(last_over_time(chatstack_target_info{target=%[5]q,<env>}[<range>])" +
			`, "chat_server", "$1", "target", "(.*)")`,
		fired:  "target=%[5]q",
		labels: "$labels.target",
	}
	ofVolume = server{
		series: ofTarget.series,
		fired:  "volume=%[5]q",
		labels: "$labels.volume",
	}
	ofContainer = server{
		series: "(last_over_time(chatstack_container_chat_server{container=%[5]q,docker_host=%[6]q,<env>}[<range>])" +
			" or last_over_time(chatstack_container_chat_server{workload=%[7]q,docker_host=%[6]q,<env>}[<range>]))",
		fired:  "container=%[5]q,docker_host=%[6]q,workload=%[7]q",
		labels: "$labels.container $labels.docker_host $labels.workload",
	}
	// ofCertificate is the first of all servers with a certificate that ends at the same time: that is one certificate.
	ofCertificate = server{
		series: anyServer + " and on (target) label_replace(" + certificateEnd + "{<env>} - time() > %[4]f - 1 < %[4]f + 1" +
			`, "target", "$1", "endpoint", "(.*)") or on () ` + ofTarget.series,
		fired:  "endpoint=%[5]q",
		labels: "$labels.endpoint",
	}
)

const anyServer = "last_over_time(chatstack_target_chat_server{<env>}[<range>])"

// ofKind is for alerts on series that only one target of an exporter can have, without a label for it.
func ofKind(kind string) server {
	return server{series: fmt.Sprintf("last_over_time(chatstack_target_chat_server{kind=%q,<env>}[<range>])", kind)}
}

// together are queries for the server of what an alert belongs to, which replaces its own: one for critical alerts, one for all.
type together struct{ critical, all string }

// withOthers is for containers of a host of which three or more restart, as with their engine.
var withOthers = together{
	all: "label_replace(count(last_over_time(chatstack_container_recent_restarts{docker_host=%[6]q,<env>}[<lookback>]) > 0) > 2" +
		inWholeStack,
}

const inWholeStack = `, "chat_server", "` + wholeStack + `", "", "")`

// serverLabel is the template of an alert's label chat_server. An alert keeps the server that it had first: with another one, it would be
// another alert, and sent again.
func (t *alert) serverLabel(a *config.Alerts) string {
	s := t.server
	if s.name != "" {
		return s.name
	}
	if s == (server{}) {
		s = ofTarget
	}
	series := []string{fmt.Sprintf(`ALERTS{alertname=%q,severity=%q,chat_server!="",%s<env>}`, t.name, t.severity, before(s.fired, ","))}
	if t.severity == Critical {
		series = append(series, t.together.critical)
	}
	series = slices.DeleteFunc(append(series, t.together.all, s.series), func(query string) bool { return query == "" })
	query := strings.NewReplacer(
		"<env>", "cluster=%[1]q,env=%[2]q,part=%[3]q",
		"<range>", seconds(a.SlowLookback).String(), "<lookback>", seconds(a.Lookback).String(),
		"<down>", downTargets[t.severity], "<near>", number(2*a.Interval.Std().Seconds()), "<apart>", number(10*a.Interval.Std().Seconds()),
	).Replace(strings.Join(series, " or on () "))
	return "{{ with query (printf `" + query + "` " + sameEnvironmentArgs + " $value" + before(" ", s.labels) + ") }}" +
		"{{ . | sortByLabel \"chat_server\" | first | label \"chat_server\" }}{{ else }}" + wholeStack + "{{ end }}"
}

// before joins two texts if neither is empty.
func before(a, b string) string {
	if a == "" || b == "" {
		return ""
	}
	return a + b
}
