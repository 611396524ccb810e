package poll

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// TestPageTellsOfAThresholdWhenItIsPassed reads seldom, so that no reading has the page made anew at that moment.
func TestPageTellsOfAThresholdWhenItIsPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := alerts.Defaults()
		var down atomic.Bool
		target := Target{
			Name:     "web",
			Schedule: every(t, "4m"),
			Timeout:  time.Second,
			Collector: reader(func(context.Context, *collectors.Batch) error {
				if down.Load() {
					return failure.Errorf(failure.Refused, "it is down")
				}
				return nil
			}),
		}
		judge := health.NewJudge(alerts.Rules(&settings))
		p, err := New([]Target{target}, prometheus.NewRegistry(), judge, slog.New(slog.DiscardHandler), nil)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); p.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		time.Sleep(time.Second)
		synctest.Wait()
		if !strings.Contains(textOf(p), `chatstack_target_down_seconds{kind="",target="web"} 0`) {
			t.Fatalf("it is not up:\n%s", textOf(p))
		}
		down.Store(true)
		problem := func() *health.Problem {
			if problems := p.Snapshot().Judgement.Problems; len(problems) > 0 {
				return &problems[0]
			}
			return nil
		}
		for problem() == nil {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		began := problem().Since
		for _, c := range []struct {
			after time.Duration
			want  health.Severity
		}{
			{2 * time.Minute, health.Pending},
			{2*time.Minute + publishInterval, health.Warning},
			{5 * time.Minute, health.Warning},
			{5*time.Minute + publishInterval, health.Critical},
		} {
			time.Sleep(time.Until(began.Add(c.after)))
			synctest.Wait()
			if got := problem().Severity; got != c.want {
				t.Errorf("after %s the page says %s, want %s", c.after, got, c.want)
			}
		}
	})
}

// TestWhatWasWellIsNoOpinion holds which series there are of what cannot be looked at: a zero would be an opinion.
func TestWhatWasWellIsNoOpinion(t *testing.T) {
	local := func(name string) health.Subject { return health.ContainerSubject("local", name) }
	metrics := judgementMetrics(&health.Judgement{Verdicts: map[health.Subject]health.Verdict{
		health.TargetSubject("well"):       {Known: true, TargetKind: "/http"},
		health.TargetSubject("was_well"):   {Known: true, Unknown: true},
		health.TargetSubject("was_down"):   {Known: true, Unknown: true, Down: time.Second},
		health.TargetSubject("never_well"): {Down: time.Second},
		health.TargetSubject("docs"):       {WarnOnly: true},
		local("well"):                      {Known: true},
		local("was_well"):                  {Known: true, Unknown: true},
		local("was_missing"):               {Known: true, Unknown: true, Missing: time.Second},
		local("removed"):                   {Known: true, Removed: time.Second},
		local("excused"):                   {Unknown: true, Excuse: health.Excuse{Reason: health.ReasonMaintenance}},
		local("told"):                      {Unknown: true, Excuse: health.Excuse{Reason: health.ReasonMaintenance}, MemoryAlerted: true},
	}})
	families, err := new(exposition.Encoder).Encode(metrics)
	must(t, err)
	got := map[string][]string{}
	for i := range families {
		for s := range exposition.Lines(families[i].Text) {
			name := s.Label("container") + s.Label("target") + s.Label("kind")
			got[families[i].Name] = append(got[families[i].Name], fmt.Sprintf("%s=%v", name, s.Value))
		}
	}
	for family, want := range map[string][]string{
		"chatstack_target_down_seconds":         {"was_down=1", "well/http=0"},
		"chatstack_target_pages":                {"docs=0", "never_well=1", "was_down=1", "was_well=1", "well=1"},
		"chatstack_container_down_seconds":      {"removed=0", "well=0"},
		"chatstack_container_missing_seconds":   {"removed=0", "was_missing=1", "well=0"},
		"chatstack_container_removed_seconds":   {"removed=1"},
		"chatstack_container_excused":           {"excused=1", "removed=0", "told=1", "was_missing=0", "was_well=0", "well=0"},
		"chatstack_container_memory_excused":    {"excused=1", "removed=0", "told=0", "was_missing=0", "was_well=0", "well=0"},
		"chatstack_container_unhealthy_seconds": {"removed=0", "well=0"},
	} {
		slices.Sort(got[family])
		if !slices.Equal(got[family], want) {
			t.Errorf("%s: got %v, want %v", family, got[family], want)
		}
	}
}

// TestTwoSubjectsOfAWorkloadMakeOneSeries: one series too many would leave all metrics of the judgement without a page.
func TestTwoSubjectsOfAWorkloadMakeOneSeries(t *testing.T) {
	metrics := judgementMetrics(&health.Judgement{Verdicts: map[health.Subject]health.Verdict{
		health.ContainerSubject("local", "chat-web-1"): {Known: true, Workload: "chat/web"},
		health.ContainerSubject("local", "chat-web-2"): {Known: true, Workload: "chat/web", Missing: time.Minute},
		health.ContainerSubject("local", "chat-web-3"): {Known: true, Unknown: true, Workload: "chat/web"},
	}})
	families, err := new(exposition.Encoder).Encode(metrics)
	must(t, err)
	const want = `chatstack_workload_down_seconds{docker_host="local",workload="chat/web"} 60`
	if !slices.ContainsFunc(families, func(f exposition.Family) bool { return strings.Contains(string(f.Text), want) }) {
		t.Errorf("there is no %s", want)
	}
}

// TestWorkloadHasTheSeriesOfAContainer with its own name in the label workload, and none in the label container, which is exported so that
// nobody sets another one.
func TestWorkloadHasTheSeriesOfAContainer(t *testing.T) {
	web := health.WorkloadSubject("local", "chat/web")
	metrics := judgementMetrics(&health.Judgement{
		Verdicts: map[health.Subject]health.Verdict{
			web: {
				Known:          true,
				Down:           time.Second,
				OftenUnhealthy: time.Minute,
				Excuse:         health.Excuse{Reason: health.ReasonMaintenance},
			},
			health.ContainerSubject("local", "backup"): {Known: true, WorkFailed: time.Hour},
		},
		Members: map[health.Subject][]string{web: {"chat-web-1", "chat-web-2"}},
	})
	families, err := new(exposition.Encoder).Encode(metrics)
	must(t, err)
	var text strings.Builder
	for i := range families {
		text.Write(families[i].Text)
	}
	for _, want := range []string{
		`chatstack_container_down_seconds{container="",docker_host="local",workload="chat/web"} 1`,
		`chatstack_container_down_seconds{container="backup",docker_host="local",workload=""} 0`,
		`chatstack_container_recently_unhealthy_seconds{container="",docker_host="local",workload="chat/web"} 60`,
		`chatstack_container_one_shot_failed_seconds{container="backup",docker_host="local",workload=""} 3600`,
		`chatstack_container_memory_excused{container="chat-web-1",docker_host="local",workload=""} 1`,
		`chatstack_container_memory_excused{container="chat-web-2",docker_host="local",workload=""} 1`,
		`chatstack_excuse_info{cause="",docker_host="local",kind="workload",name="chat/web",reason="maintenance"} 1`,
	} {
		if !strings.Contains(text.String(), want+"\n") {
			t.Errorf("%s is missing in\n%s", want, &text)
		}
	}
}

func TestOnlyWhatCannotBeReadWasLastKnown(t *testing.T) {
	read := time.Unix(1000, 0)
	families, err := new(exposition.Encoder).Encode(judgementMetrics(&health.Judgement{Verdicts: map[health.Subject]health.Verdict{
		health.ContainerSubject("local", "known"): {Known: true, Down: time.Minute},
		health.ContainerSubject("local", "lost"): {
			Known:     true,
			Unknown:   true,
			LastKnown: read,
			Down:      time.Minute,
		},
		health.ContainerSubject("local", "lost, and never read"): {Known: true, Unknown: true, Down: time.Minute},
	}}))
	must(t, err)
	var got []string
	for i := range families {
		if families[i].Name == "chatstack_container_last_known_timestamp_seconds" {
			got = append(got, strings.TrimSpace(string(families[i].Text)))
		}
	}
	const want = `chatstack_container_last_known_timestamp_seconds{container="lost",docker_host="local",workload=""} 1000`
	if len(got) != 1 || !strings.HasSuffix(got[0], want) || strings.Contains(got[0], "known\"") || strings.Contains(got[0], "never read") {
		t.Errorf("got %q, want %s", got, want)
	}
}

func TestOnlyEnginesSayHowManyTargetsAreDown(t *testing.T) {
	families, err := new(exposition.Encoder).Encode(judgementMetrics(&health.Judgement{Verdicts: map[health.Subject]health.Verdict{
		health.TargetSubject("docker"): {Engine: "local", Unanswered: 7},
		health.TargetSubject("second"): {Engine: "far"},
		health.TargetSubject("irc"):    {},
	}}))
	must(t, err)
	var got []string
	for i := range families {
		for s := range exposition.Lines(families[i].Text) {
			if families[i].Name == "chatstack_docker_targets_down" {
				got = append(got, fmt.Sprintf("%s %s %v", s.Label("target"), s.Label("docker_host"), s.Value))
			}
		}
	}
	slices.Sort(got)
	if want := []string{"docker local 7", "second far 0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLimitsOfCertificatesAreExported(t *testing.T) {
	families, err := new(exposition.Encoder).Encode(judgementMetrics(&health.Judgement{Values: []health.Value{
		{
			Subject:  health.TargetSubject("xmpp"),
			Alert:    health.AlertCertificateExpiry,
			Number:   1e6,
			Warning:  1209600,
			Critical: 259200,
		},
		{
			Subject:  health.TargetSubject("irc"),
			Alert:    health.AlertCertificateExpiry,
			Number:   -1,
			Warning:  172800,
			Critical: 86400,
		},
		{Subject: health.TargetSubject("data"), Alert: health.AlertVolumeUsage, Number: 0.5},
	}}))
	must(t, err)
	var got []string
	for i := range families {
		for s := range exposition.Lines(families[i].Text) {
			got = append(got, fmt.Sprintf("%s %s %s %v", families[i].Name, s.Label("endpoint"), s.Label("severity"), s.Value))
		}
	}
	const name = "chatstack_tls_certificate_expiry_limit_seconds"
	want := []string{
		name + " irc critical 86400", name + " irc warning 172800", name + " xmpp critical 259200", name + " xmpp warning 1.2096e+06",
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func BenchmarkJudgementMetrics(b *testing.B) {
	for _, n := range []int{200, 1000} {
		b.Run(fmt.Sprintf("%d containers", n), func(b *testing.B) {
			j := &health.Judgement{Verdicts: map[health.Subject]health.Verdict{}}
			for i := range n {
				j.Verdicts[health.ContainerSubject("local", fmt.Sprintf("c%04d", i))] = health.Verdict{Known: true}
				j.Verdicts[health.TargetSubject(fmt.Sprintf("t%04d", i))] = health.Verdict{Known: true, Down: time.Duration(i)}
			}
			var e exposition.Encoder
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Encode(judgementMetrics(j)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// factsJudge keeps the facts that it is given.
type factsJudge struct{ last *health.Facts }

func (j *factsJudge) Judge(f *health.Facts) *health.Judgement {
	j.last = f
	return &health.Judgement{Time: f.Now}
}

func TestJudgeKnowsHostNamesInOneSpelling(t *testing.T) {
	j, target := &factsJudge{}, idle(t, "irc_tls", "30s")
	target.HostName = "IRC.Example.org."
	_, err := New([]Target{target}, prometheus.NewRegistry(), j, slog.New(slog.DiscardHandler), nil)
	must(t, err)
	if got := j.last.Targets[0].HostName; got != "irc.example.org" {
		t.Errorf("got %q, want irc.example.org", got)
	}
}

// TestEngineIsKnownBeforeItIsRead also has a reload replace its target: an engine that is not named is not configured any more.
func TestEngineIsKnownBeforeItIsRead(t *testing.T) {
	var previous *Poller
	for range 2 {
		j := &factsJudge{}
		target := idle(t, "docker", "30s")
		target.DockerHost = "local"
		p, err := New([]Target{target, idle(t, "web", "30s")}, prometheus.NewRegistry(), j, slog.New(slog.DiscardHandler), previous)
		must(t, err)
		if e := j.last.Engines; len(e) != 1 || e[0].Host != "local" || e[0].Read {
			t.Errorf("got %+v, want one engine that was not read", e)
		}
		previous = p
	}
}

// TestSharedCertificateSaysWhoHasTheAlert also has the outage of one be excused by it, which would give the same series again.
func TestSharedCertificateSaysWhoHasTheAlert(t *testing.T) {
	excuse := health.Excuse{Reason: health.ReasonCertificate, Cause: "a", Root: health.TargetSubject("a")}
	held := func(name string) health.HeldBack {
		return health.HeldBack{
			Alert:   health.AlertCertificateExpiry,
			Subject: health.TargetSubject(name),
			In:      "chatstack_tls_certificate_excused",
			Excuse:  excuse,
		}
	}
	families, err := new(exposition.Encoder).Encode(judgementMetrics(&health.Judgement{
		Verdicts: map[health.Subject]health.Verdict{health.TargetSubject("b"): {Excuse: excuse}, health.TargetSubject("c"): {}},
		HeldBack: []health.HeldBack{held("b"), held("c")},
	}))
	must(t, err)
	var got []string
	for i := range families {
		for s := range exposition.Lines(families[i].Text) {
			if families[i].Name == "chatstack_excuse_info" {
				got = append(got, s.Label("name")+" "+s.Label("reason")+" "+s.Label("cause"))
			}
		}
	}
	slices.Sort(got)
	if want := []string{"b certificate a", "c certificate a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestMaintenanceIsExportedInTheSeriesOfEveryRow holds that no alert's row names a series which is not exported: the alert would fire.
func TestMaintenanceIsExportedInTheSeriesOfEveryRow(t *testing.T) {
	settings := alerts.Defaults()
	for alert, rule := range alerts.Rules(&settings).Alerts {
		if rule.ExcusedIn == "" {
			continue
		}
		held := health.HeldBack{Alert: alert, Subject: health.TargetSubject("x"), In: rule.ExcusedIn}
		got := judgementMetrics(&health.Judgement{HeldBack: []health.HeldBack{held}})
		if len(got) != 1 || !strings.Contains(got[0].Desc().String(), `"`+rule.ExcusedIn+`"`) {
			t.Errorf("%s: got %v, want %s", alert, got, rule.ExcusedIn)
		}
	}
}

// TestSeriesOfWhatFlaps holds that a target that is up between outages has a series of its own, and that its workload is not down then.
func TestSeriesOfWhatFlaps(t *testing.T) {
	flaps := health.Verdict{
		Known:    true,
		Workload: "chat/db",
		Down:     time.Hour,
		Outages:  3,
		Calm:     time.Minute,
	}
	metrics := judgementMetrics(&health.Judgement{Verdicts: map[health.Subject]health.Verdict{
		health.TargetSubject("web"):             flaps,
		health.TargetSubject("well"):            {Known: true},
		health.ContainerSubject("local", "db"):  flaps,
		health.ContainerSubject("local", "irc"): {Known: true},
	}})
	families, err := new(exposition.Encoder).Encode(metrics)
	must(t, err)
	var text strings.Builder
	for i := range families {
		text.Write(families[i].Text)
	}
	for _, want := range []string{
		`chatstack_target_down_seconds{kind="",target="web"} 3600`,
		`chatstack_target_recent_outages{kind="",target="web"} 3`,
		`chatstack_target_calm_seconds{kind="",target="web"} 60`,
		`chatstack_container_down_seconds{container="db",docker_host="local",workload=""} 3600`,
		`chatstack_container_recent_outages{container="db",docker_host="local",workload=""} 3`,
		`chatstack_container_calm_seconds{container="db",docker_host="local",workload=""} 60`,
		`chatstack_workload_down_seconds{docker_host="local",workload="chat/db"} 0`,
	} {
		if !strings.Contains(text.String(), want+"\n") {
			t.Errorf("%s is missing in\n%s", want, &text)
		}
	}
	for _, unwanted := range []string{`_outages{kind="",target="well"}`, `_calm_seconds{container="irc"`} {
		if strings.Contains(text.String(), unwanted) {
			t.Errorf("%s should be absent", unwanted)
		}
	}
}
