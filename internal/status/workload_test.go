package status

import (
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// workload is a report of one shared workload, as the judge sees it after an hour.
func workload(t *testing.T, m *memory, c *health.Container, entries ...maintenance.Entry) *Report {
	t.Helper()
	settings := alerts.Defaults()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	c.Host, c.Name, c.Workload, c.Shared, c.Expected = "local", "chat-web-2", "chat/web", true, true
	c.Members = []string{"chat-web-1", "chat-web-2"}
	engine := health.Engine{Host: "local", Read: true, Containers: []health.Container{*c}}
	judge := health.NewJudge(alerts.Rules(&settings))
	judge.Judge(&health.Facts{Now: now, Engines: []health.Engine{engine}})
	judgement := judge.Judge(&health.Facts{Now: now.Add(time.Hour), Engines: []health.Engine{engine}})
	docker := poll.Status{
		Target: "docker",
		Kind:   "docker",
		Known:  true,
		Up:     true,
		Engine: &engine,
	}
	in := &Input{Snapshot: &poll.Snapshot{
		Time:      now.Add(time.Hour),
		Statuses:  []poll.Status{docker},
		Judgement: judgement,
	}}
	in.Alerts, in.Maintenance = settings, entries
	return m.report(in, now.Add(time.Hour))
}

func TestWorkloadIsOneRow(t *testing.T) {
	m := newMemory()
	r := workload(t, &m, &health.Container{State: health.Running, Instances: 2, Wanted: 2})
	if c := r.Containers[0]; len(r.Containers) != 1 || c.Name != "chat/web" || c.Text != "two of two are running" || c.Level != OK {
		t.Errorf("got %+v", r.Containers)
	}
	r = workload(t, &m, &health.Container{State: health.Running, Instances: 1, Wanted: 2})
	c := r.Containers[0]
	if len(r.Containers) != 1 || c.Level != Warning || !strings.HasPrefix(c.Text, "one of two is running") ||
		c.Subject() != health.WorkloadSubject("local", "chat/web") {
		t.Errorf("got %+v", r.Containers)
	}
	r = workload(t, &m, &health.Container{State: "exited", Wanted: 2})
	if c := r.Containers[0]; c.Level != Critical || !strings.HasPrefix(c.Text, "is not running: exited") ||
		!strings.Contains(c.Hint, "docker logs --tail 50 chat-web-2") {
		t.Errorf("got %+v", r.Containers)
	}
	r = workload(t, &m, &health.Container{State: health.Missing, Removed: true, Wanted: 2})
	if c := r.Containers[0]; c.Level != Warning || c.Text != "was removed" || !strings.Contains(c.Hint, "acknowledge the incident") ||
		!strings.Contains(c.Hint, "chatstack_exporter forget chat/web") {
		t.Errorf("got %+v", r.Containers)
	}
}

func TestWorkloadSaysItsMaintenance(t *testing.T) {
	for _, by := range []maintenance.Entry{
		{Kind: health.KindContainer, Name: "chat-web-1"},
		{Kind: health.KindWorkload, Name: "chat/web"},
	} {
		by.Active = true
		m := newMemory()
		r := workload(t, &m, &health.Container{State: health.Running, Instances: 2, Wanted: 2}, by)
		if c := r.Containers[0]; !strings.HasPrefix(c.Maintenance, "Under maintenance until") {
			t.Errorf("%+v: got %q", by, c.Maintenance)
		}
	}
}

func TestOneShotAndRepeatedBadHealthHaveWords(t *testing.T) {
	m := newMemory()
	c := health.Container{State: "exited", OneShot: true}
	c.Stopped, c.ExitCode = true, 3
	r := workload(t, &m, &c)
	if c := r.Containers[0]; c.Level != Warning || c.Text != "did not do its work: it ended with exit code 3" {
		t.Errorf("got %+v", c)
	}
}
