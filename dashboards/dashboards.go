// Package dashboards makes the Grafana dashboards of the exporter's metrics, with the thresholds of its alerts.
package dashboards

import (
	"encoding/json"
	"io"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// The dashboards' uids, which links and bookmarks hold on to. Each is also the name of its file, with .json behind it.
const (
	Overview   = "chatstack-overview"
	XMPP       = "chatstack-xmpp"
	IRC        = "chatstack-irc"
	Containers = "chatstack-containers"
	TLSDisks   = "chatstack-tls-disks"
	Exporter   = "chatstack-exporter"
)

// scrapeInterval is that of the shipped scrape configurations. No chart asks for points that lie closer.
const scrapeInterval = "30s"

// All returns the dashboards with the thresholds of the settings: the overview first.
func All(a config.Alerts) []Dashboard {
	b := &book{alerts: &a}
	return []Dashboard{b.overview(), b.xmpp(), b.irc(), b.containers(), b.tlsDisks(), b.exporter()}
}

// Write writes the dashboard as Grafana reads it from a file.
func (d *Dashboard) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

// book is what all dashboards have in common.
type book struct{ alerts *config.Alerts }

// runbook is the address of an alert's runbook.
func (b *book) runbook(alert string) string { return b.alerts.RunbookLink(alert) }

// guided adds a link to an alert's runbook to a panel.
func (b *book) guided(p panel, alert string) panel {
	return p.linked("Runbook: "+alert, b.runbook(alert))
}

func (b *book) dashboard(uid, title, description, from string, variables []Variable, sections ...section) Dashboard {
	return Dashboard{
		UID: uid, Title: "Chat stack: " + title, Description: description, Tags: []string{"chatstack"},
		SchemaVersion: schemaVersion, Editable: true, GraphTooltip: 1, Refresh: "30s",
		Time: TimeRange{from, "now"}, Timezone: "browser",
		Links: []Link{
			{Title: "Chat stack", Type: "dashboards", Icon: "external link", Tags: []string{"chatstack"}, IncludeVars: true, KeepTime: true},
			{Title: "Status page", Type: "link", Icon: "bolt", Tooltip: "The exporter's own page; its address is a variable above.", URL: "${status_page:raw}/", Tags: []string{}, TargetBlank: true},
			{Title: "Runbooks", Type: "link", Icon: "doc", Tooltip: "What to do about each alert.", URL: b.alerts.RunbooksLink(), Tags: []string{}, TargetBlank: true},
		},
		Annotations: Annotated{annotations()},
		Templating:  Templating{append(commonVariables(), variables...)},
		Panels:      place(sections),
	}
}

// annotations mark a deploy, a restart of a container, and one of the exporter. The values of their series are the times.
func annotations() []Annotation {
	started := eachContainer("max", sel("chatstack_container_start_time_seconds"))
	made := eachContainer("max", sel("chatstack_container_created_timestamp_seconds"))
	marks := []Annotation{
		{Name: "Deploys", IconColor: "blue", Expr: made + " * 1000", TitleFormat: "{{container}} was deployed", TextFormat: "A new container under the same name, on {{docker_host}}. {{env}} {{cluster}}", TagKeys: "container,env,cluster"},
		{
			// A new container is started at once, which is no restart.
			Name: "Restarts", IconColor: "orange", Expr: "(" + started + " > " + made + " + 60) * 1000",
			TitleFormat: "{{container}} was restarted", TextFormat: "The same container began anew, on {{docker_host}}. {{env}} {{cluster}}", TagKeys: "container,env,cluster",
		},
		{
			Name: "Exporter starts", IconColor: "purple", Expr: "(" + sel("process_start_time_seconds") + " and on (cluster, env, instance, job) " + sel("chatstack_exporter_build_info") + ") * 1000",
			TitleFormat: "the exporter was started", TextFormat: "{{instance}} {{env}} {{cluster}}", TagKeys: "instance,env,cluster",
		},
	}
	for i := range marks {
		marks[i].Datasource, marks[i].Enable, marks[i].Step, marks[i].UseValueForTime = fromVariable, true, "60s", true
	}
	return marks
}

func commonVariables() []Variable {
	return []Variable{
		{
			Name: "datasource", Type: "datasource", Label: "Data source", Query: "prometheus",
			Description: "Prometheus, or what answers like it: Mimir, Thanos.", Refresh: 1,
		},
		choice("cluster", "Cluster", "Any number of clusters, where your Prometheus adds this label.", "cluster", "chatstack_exporter_build_info"),
		choice("env", "Environment", "Any number of environments, where your Prometheus adds this label.", "env", `chatstack_exporter_build_info{cluster=~"$cluster"}`),
		{
			Name: "status_page", Type: "textbox", Label: "Status page", Query: defaultStatusPage,
			Description: "Where the exporter's own page is, as your browser reaches it, without a slash at the end.",
			Current:     &Option{true, defaultStatusPage, defaultStatusPage}, Options: []Option{{true, defaultStatusPage, defaultStatusPage}},
		},
	}
}

const defaultStatusPage = "http://localhost:9655"

// choice is a variable with the values of a label, of which any number can be chosen. All takes series without the label too.
func choice(name, title, description, label, selector string) Variable {
	return Variable{
		Name: name, Type: "query", Label: title, Description: description, Datasource: &fromVariable,
		Query:   VariableQuery{1, "label_values(" + selector + ", " + label + ")", "PrometheusVariableQueryEditor-VariableQuery"},
		Current: &Option{true, []string{"All"}, []string{"$__all"}},
		Refresh: 2, Sort: 1, Multi: true, IncludeAll: true, AllValue: ".*",
	}
}

// exporterVariables choose exporters. All jobs are those that have an exporter: there are other processes in a Prometheus.
func exporterVariables() []Variable {
	job := choice("job", "Job", "The scrape job of the exporter.", "job", sel("chatstack_exporter_build_info"))
	job.AllValue = ""
	return []Variable{job, choice("instance", "Exporter", "One exporter, or all of a pair.", "instance", sel("chatstack_exporter_build_info", `job=~"$job"`))}
}

// containerVariables choose containers.
func containerVariables() []Variable {
	return []Variable{
		choice("docker_host", "Docker host", "The engine that the containers are on.", "docker_host", sel("chatstack_container_state")),
		choice("container", "Container", "Any number of containers, by name.", "container", sel("chatstack_container_state", `docker_host=~"$docker_host"`)),
	}
}

// budgetVariable chooses what availability is promised, in percent.
func budgetVariable() Variable {
	v := Variable{
		Name: "slo", Type: "custom", Label: "Objective (%)", Description: "The part of 30 days in which each target should answer.",
		Query: "99,99.5,99.9,99.95", Current: &Option{true, "99.5", "99.5"},
	}
	for _, percent := range []string{"99", "99.5", "99.9", "99.95"} {
		v.Options = append(v.Options, Option{percent == "99.5", percent, percent})
	}
	return v
}
