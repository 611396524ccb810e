// Package dashboards generates Grafana dashboards for the exporter's metrics, with the thresholds of its alerts.
package dashboards

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// The uids of the dashboards. Links and bookmarks contain them. Each file is named after its uid, with the suffix .json.
const (
	Overview   = "chatstack-overview"
	XMPP       = "chatstack-xmpp"
	IRC        = "chatstack-irc"
	Containers = "chatstack-containers"
	TLSDisks   = "chatstack-tls-disks"
	Exporter   = "chatstack-exporter"
)

// scrapeInterval is the interval of the shipped scrape configurations, and the smallest step of a chart.
const scrapeInterval = "30s"

// All returns the dashboards with the thresholds of the settings. The overview is first.
func All(a config.Alerts) []Dashboard {
	b := &builder{&a, alerts.Panels()}
	return []Dashboard{b.overview(), b.xmpp(), b.irc(), b.containers(), b.tlsDisks(), b.exporter()}
}

// Write writes the dashboard as Grafana reads it from a file.
func (d *Dashboard) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

type builder struct {
	alerts *config.Alerts
	panels map[string]string // the alerts that they are about
}

func (b *builder) runbook(alert string) string { return alerts.RunbookLink(b.alerts, alert) }

// connect gives panels the runbooks and the limits of the alerts whose rows name them.
func (b *builder) connect(uid string, panels []panel) {
	for i := range panels {
		p := &panels[i]
		alert := b.panels[strings.TrimPrefix(uid, "chatstack-")+"/"+p.Title]
		if alert != "" {
			*p = p.withLink("Runbook: "+alert, b.runbook(alert))
		}
		if p.limitsOf != nil {
			p.FieldConfig.Defaults.Thresholds = p.limitsOf(alerts.Settings(b.alerts, alert))
		}
	}
}

func (b *builder) dashboard(uid, title, description, from string, variables []Variable, sections ...section) Dashboard {
	for _, s := range sections {
		b.connect(uid, s.panels)
	}
	return Dashboard{
		UID:           uid,
		Title:         "Chat stack: " + title,
		Description:   description,
		Tags:          []string{"chatstack"},
		SchemaVersion: schemaVersion,
		Editable:      true,
		GraphTooltip:  1,
		Refresh:       "30s",
		Time:          TimeRange{from, "now"},
		Timezone:      "browser",
		Links: []Link{
			{
				Title:       "Chat stack",
				Type:        "dashboards",
				Icon:        "external link",
				Tags:        []string{"chatstack"},
				IncludeVars: true,
				KeepTime:    true,
			},
			{
				Title:       "Status page",
				Type:        "link",
				Icon:        "bolt",
				Tooltip:     "The exporter's status page. Set its address in the variable above.",
				URL:         "${status_page:raw}/",
				Tags:        []string{},
				TargetBlank: true,
			},
			{
				Title:       "Runbooks",
				Type:        "link",
				Icon:        "doc",
				Tooltip:     "What to do about each alert.",
				URL:         alerts.RunbooksLink(b.alerts),
				Tags:        []string{},
				TargetBlank: true,
			},
		},
		Annotations: Annotated{annotations()},
		Templating:  Templating{append(commonVariables(), variables...)},
		Panels:      place(sections),
	}
}

// annotations mark deploys, restarts of containers and starts of the exporter. The values of their series are times.
func annotations() []Annotation {
	started := combineContainers("max", sel("chatstack_container_start_time_seconds"))
	made := combineContainers("max", sel("chatstack_container_created_timestamp_seconds"))
	marks := []Annotation{
		{
			Name:        "Deploys",
			IconColor:   "blue",
			Expr:        made + " * 1000",
			TitleFormat: "{{container}} was deployed",
			TextFormat:  "A new container under the same name, on {{docker_host}}. {{env}} {{cluster}}",
			TagKeys:     "container,env,cluster",
		},
		{
			// Docker starts a new container within a minute of creating it; that start is not a restart.
			Name:        "Restarts",
			IconColor:   "orange",
			Expr:        "(" + started + " > " + made + " + 60) * 1000",
			TitleFormat: "{{container}} was restarted",
			TextFormat:  "The same container started again, on {{docker_host}}. {{env}} {{cluster}}",
			TagKeys:     "container,env,cluster",
		},
		{
			Name:      "Exporter starts",
			IconColor: "purple",
			Expr: "(" + sel("process_start_time_seconds") + " and on (cluster, env, instance, job) " +
				sel("chatstack_exporter_build_info") + ") * 1000",
			TitleFormat: "the exporter was started",
			TextFormat:  "{{instance}} {{env}} {{cluster}}",
			TagKeys:     "instance,env,cluster",
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
			Name:        "datasource",
			Type:        "datasource",
			Label:       "Data source",
			Query:       "prometheus",
			Description: "Prometheus, or a compatible source such as Mimir or Thanos.",
			Refresh:     1,
		},
		labelVariable("cluster", "Cluster", "Clusters, if your Prometheus adds this label.", "cluster", "chatstack_exporter_build_info"),
		labelVariable("env", "Environment", "Environments, if your Prometheus adds this label.",
			"env", `chatstack_exporter_build_info{cluster=~"$cluster"}`),
		{
			Name:        "status_page",
			Type:        "textbox",
			Label:       "Status page",
			Query:       defaultStatusPage,
			Description: "Address of the exporter's status page as your browser reaches it, without a trailing slash.",
			Current:     &Option{true, defaultStatusPage, defaultStatusPage},
			Options:     []Option{{true, defaultStatusPage, defaultStatusPage}},
		},
	}
}

const defaultStatusPage = "http://localhost:9655"

// labelVariable offers the values of a label. Several can be chosen; All includes series without the label.
func labelVariable(name, title, description, label, selector string) Variable {
	return Variable{
		Name:        name,
		Type:        "query",
		Label:       title,
		Description: description,
		Datasource:  &fromVariable,
		Query:       VariableQuery{1, "label_values(" + selector + ", " + label + ")", "PrometheusVariableQueryEditor-VariableQuery"},
		Current:     &Option{true, []string{"All"}, []string{"$__all"}},
		Refresh:     2,
		Sort:        1,
		Multi:       true,
		IncludeAll:  true,
		AllValue:    ".*",
	}
}

// exporterVariables choose exporters. All means all jobs with an exporter, since process metrics of other jobs have the same names.
func exporterVariables() []Variable {
	job := labelVariable("job", "Job", "The scrape job of the exporter.", "job", sel("chatstack_exporter_build_info"))
	job.AllValue = ""
	return []Variable{
		job,
		labelVariable("instance", "Exporter", "One exporter, or all of a pair.",
			"instance", sel("chatstack_exporter_build_info", `job=~"$job"`)),
	}
}

func containerVariables() []Variable {
	return []Variable{
		labelVariable("docker_host", "Docker host", "The engine that runs the containers.",
			"docker_host", sel("chatstack_container_state")),
		labelVariable("container", "Container", "Containers, by name.",
			"container", sel("chatstack_container_state", `docker_host=~"$docker_host"`)),
	}
}

// budgetVariable chooses the availability objective in percent.
func budgetVariable() Variable {
	v := Variable{
		Name:        "slo",
		Type:        "custom",
		Label:       "Objective (%)",
		Description: "Share of 30 days in which each target should be up.",
		Query:       "99,99.5,99.9,99.95",
		Current:     &Option{true, "99.5", "99.5"},
	}
	for _, percent := range []string{"99", "99.5", "99.9", "99.95"} {
		v.Options = append(v.Options, Option{percent == "99.5", percent, percent})
	}
	return v
}
