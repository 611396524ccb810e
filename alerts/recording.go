package alerts

import (
	"io"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// WriteRecording writes the recording rule of the dashboards' availability, as a rule file of Prometheus. No alert needs it.
//
// A target is up while any exporter sees it up, as in the critical alert. The series is absent while no exporter knows the target, and
// during maintenance, so averages omit both. A target whose alert goes on between outages is up in between. An outage that fired an alert
// before its maintenance began counts. So do outages with other excuses, since users noticed them.
func WriteRecording(w io.Writer, a config.Alerts) error {
	return write(w, "The recording rule of chatstack_exporter, for its dashboards. Generated:\n"+
		"#   chatstack_exporter rules --recording >chatstack.recording.yml",
		file{[]group{availabilityGroup(&a)}})
}

func availabilityGroup(a *config.Alerts) group {
	const maintained = `label_replace(chatstack_excuse_info{kind="target",reason="maintenance"}, "target", "$1", "name", "(.+)")`
	up := "chatstack_target_calm_seconds > bool 0 or chatstack_target_down_seconds == bool 0 " +
		"unless ignoring (cause, docker_host, kind, name, reason) " + maintained
	record := rule{Record: "chatstack:target_up", Expr: acrossExporters("max", up, nil)}
	return group{"chatstack-availability", seconds(a.Interval), []rule{record}}
}
