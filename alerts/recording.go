package alerts

import (
	"io"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// WriteRecording writes the recording rules of the dashboards' ratios, as a rule file of Prometheus. The alerts do not
// need them.
func WriteRecording(w io.Writer, a config.Alerts) error {
	each := func(operator, series string) string { return over(operator, series, nil) }
	const used = "(chatstack_volume_size_bytes - chatstack_volume_free_bytes)"
	return write(w, "The recording rules of chatstack_exporter, for its dashboards. Generated:\n"+
		"#   chatstack_exporter rules --recording >chatstack.recording.yml",
		file{[]group{{Name: "chatstack-ratios", Interval: seconds(a.Interval), Rules: []rule{
			{Record: "chatstack:volume_used:ratio", Expr: each("max", used+" / ("+used+" + chatstack_volume_available_bytes)")},
			{Record: "chatstack:volume_inodes_used:ratio", Expr: each("max", "1 - chatstack_volume_inodes_free / chatstack_volume_inodes")},
			{Record: "chatstack:container_memory_used:ratio", Expr: containers("max", "chatstack_container_memory_working_set_bytes / chatstack_container_memory_limit_bytes")},
			{Record: "chatstack:container_cpu:rate5m", Expr: containers("max", "rate(chatstack_container_cpu_seconds_total[5m])")},
			{Record: "chatstack:probe_success:ratio1h", Expr: each("min", "avg_over_time(chatstack_probe_success[1h])")},
			{Record: "chatstack:probe_failures:ratio_rate1h", Expr: each("max",
				"sum without (reason) (rate(chatstack_probe_failures_total[1h])) / (rate(chatstack_probe_attempts_total[1h]) > 0)")},
			{Record: "chatstack:xmpp_auth_failures:rate5m_per_minute", Expr: each("max", "sum without (host) (rate(xmpp_c2s_auth_failure_total[5m]))") + " * 60"},
		}}}})
}
