package story

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/prometheus/prometheus/rules"
)

var otherRules = flag.String("story.rules", "", "rule file to evaluate beside the shipped rules in BenchmarkRules")

// BenchmarkRules is the cost of a round of the rules at 200 containers and 20 targets, which two exporters watch.
func BenchmarkRules(b *testing.B) {
	for _, file := range []string{"", *otherRules} {
		b.Run("rules="+file, func(b *testing.B) {
			p := newServer(b, func(context.Context, string, ...*rules.Alert) {})
			if file != "" {
				content, err := os.ReadFile(file)
				must(b, err)
				p.stop(b)
				must(b, os.WriteFile(p.ruleFile(), content, 0o600))
				p.start(b)
			}
			page := wellPage(200, 20)
			p.ahead = -time.Hour
			for range 20 {
				p.ahead += interval
				p.scrape(b, "a:9655", page, nil)
				p.scrape(b, "b:9655", page, nil)
				p.evaluate(b)
			}
			for b.Loop() {
				b.StopTimer()
				p.ahead += interval
				p.scrape(b, "a:9655", page, nil)
				p.scrape(b, "b:9655", page, nil)
				b.StartTimer()
				p.evaluate(b)
			}
		})
	}
}

// wellPage is a page of an exporter on which everything is well.
func wellPage(containers, targets int) []byte {
	var page bytes.Buffer
	line := func(v float64, format string, a ...any) {
		fmt.Fprintf(&page, "chatstack_"+format+" %v\n", append(a, v)...)
	}
	for i := range containers {
		of := fmt.Sprintf(`container="c%d",docker_host="local"`, i)
		for n, state := range []string{"running", "created", "restarting", "paused", "removing", "exited", "dead", "missing"} {
			line(float64(1-min(n, 1)), `container_state{%s,state=%q}`, of, state)
		}
		for n, health := range []string{"healthy", "unhealthy", "starting", "none"} {
			line(float64(1-min(n, 1)), `container_health{%s,health=%q}`, of, health)
		}
		line(1, `container_info{%s,role="role%d",image="image",compose_project="chat",compose_service="c%d"}`, of, i%20, i)
		line(1, `container_dependency{%s,depends_on="c%d"}`, of, (i+1)%containers)
		line(1e8, `container_memory_working_set_bytes{%s}`, of)
		for _, one := range []string{
			"expected", "start_time_seconds", "created_timestamp_seconds", "memory_limit_bytes", "cpu_seconds_total",
			"restarts_total", "oom_events_total",
		} {
			line(1, `container_%s{%s}`, one, of)
		}
		for _, none := range []string{
			"down_seconds", "missing_seconds", "unhealthy_seconds", "excused", "memory_excused", "recent_restarts",
		} {
			line(0, `container_%s{%s}`, none, of)
		}
	}
	for i := range targets {
		line(1, `target_info{target="t%d",kind="http",container="c%d",docker_host="local"}`, i, i)
		line(1, `probe_success{target="t%d"}`, i)
		line(1, `target_pages{target="t%d"}`, i)
		line(0, `target_excused{target="t%d"}`, i)
		line(0, `target_down_seconds{target="t%d",kind="http"}`, i)
	}
	line(1, `exporter_build_info`)
	page.WriteString("# EOF\n")
	return page.Bytes()
}
