package status

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// named returns the engine's container with a name.
type named struct {
	name string
	testContainer
}

func (w *world) contain(list ...named) {
	w.containers = nil
	for _, c := range list {
		w.containers = append(w.containers, c.as(c.name))
	}
}

func TestReportLevelFollowsJudgement(t *testing.T) {
	w := begin(engine, poll.Status{
		Target: "irc_rpc",
		Kind:   "irc_rpc",
		Server: health.Server{Container: "irc"},
		Reason: failure.DNS,
	}, poll.Status{Target: "web", Kind: "http"})
	w.contain(named{"irc", testContainer{state: "exited"}}, named{"services", testContainer{health: "unhealthy", dependsOn: "irc"}},
		named{"db", testContainer{memory: 2e9}})
	seen := map[Level]bool{}
	w.poll(0)
	for range 40 {
		r := w.poll(10 * time.Second)
		worst := map[string]Level{}
		for i, p := range w.in.Snapshot.Judgement.Problems {
			got := r.Problems[i]
			if got.Subject != p.Subject || got.Alert != p.Alert || got.Severity != p.Severity || got.Excuse != p.Excuse ||
				got.Lasted != p.Lasted.Seconds() || got.Text == "" {
				t.Errorf("got %+v, want %+v", got, p)
			}
			worst[p.Name] = max(worst[p.Name], (&Problem{Problem: p}).Level())
		}
		if len(r.Problems) != len(w.in.Snapshot.Judgement.Problems) {
			t.Errorf("%d problems, want %d", len(r.Problems), len(w.in.Snapshot.Judgement.Problems))
		}
		whole := OK
		for _, s := range r.Services {
			if s.Level != worst[s.Name] {
				t.Errorf("%s is %s, want %s", s.Name, s.Level, worst[s.Name])
			}
			whole = max(whole, s.Level)
		}
		for _, c := range r.Containers {
			if c.Level != worst[c.Name] {
				t.Errorf("%s is %s, want %s", c.Name, c.Level, worst[c.Name])
			}
			seen[c.Level] = true
			whole = max(whole, c.Level)
		}
		if r.Level != whole {
			t.Errorf("the whole is %s, want %s", r.Level, whole)
		}
	}
	if !seen[Pending] || !seen[Warning] || !seen[Critical] {
		t.Errorf("seen: %v, want every severity", seen)
	}
}

func TestHeldBackAlertSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		irc, db     testContainer
		maintenance string
		later       bool // the container fails later than the target
		text, json  string
		level       Level
	}{
		"its container": {
			irc:   testContainer{state: "exited"},
			text:  "; no alert: its container irc is not running",
			json:  `"excuse":{"reason":"container","cause":"irc"`,
			level: Pending,
		},
		"its container needs": {
			irc:   testContainer{state: "exited", dependsOn: "db"},
			db:    testContainer{state: "exited"},
			text:  "; no alert: it needs irc, which is not available because of db",
			json:  `"excuse":{"reason":"dependency","cause":"irc"`,
			level: Pending,
		},
		"a dependency": {
			irc:   testContainer{dependsOn: "db"},
			db:    testContainer{state: "exited"},
			text:  "; no alert: it needs db, which is not available",
			json:  `"excuse":{"reason":"dependency","cause":"db"`,
			level: Pending,
		},
		"starting": {
			irc:   testContainer{health: "starting"},
			text:  "; no alert: its container irc is starting",
			json:  `"excuse":{"reason":"starting","cause":"irc"`,
			level: Pending,
		},
		"maintenance": {
			maintenance: "target",
			text:        "; no alert: it is under maintenance",
			json:        `"excuse":{"reason":"maintenance"}`,
			level:       Maintenance,
		},
		"maintenance of its container": {
			maintenance: "container",
			text:        "; no alert: irc is under maintenance",
			json:        `"excuse":{"reason":"maintenance","cause":"irc"}`,
			level:       Maintenance,
		},
		"also": {
			irc:   testContainer{state: "exited"},
			later: true,
			text:  "; also: irc is down",
			level: Warning,
		},
		"also starting": {
			irc:   testContainer{health: "starting"},
			later: true,
			text:  "; also: irc is not available",
			level: Warning,
		},
	} {
		w := begin(engine, poll.Status{Target: "target", Kind: "irc_rpc", Server: health.Server{Container: "irc"}})
		w.contain(named{"irc", testContainer{dependsOn: c.irc.dependsOn}}, named{"db", testContainer{}})
		w.poll(0)
		fail := func() {
			s := w.status("target")
			s.Up, s.Reason, s.Since = false, failure.Timeout, w.now
		}
		if c.later {
			fail()
			w.poll(0)
			w.poll(2*time.Minute + time.Second)
		}
		if c.maintenance != "" {
			w.in.Maintenance = []maintenance.Entry{
				{Kind: c.maintenance, Name: map[string]string{"target": "target", "container": "irc"}[c.maintenance], Active: true},
			}
		}
		w.contain(named{"irc", c.irc}, named{"db", c.db})
		w.poll(0)
		fail()
		s := w.poll(time.Second).service("target")
		if s.Level != c.level || !strings.HasSuffix(s.Text, c.text) {
			t.Errorf("%s: got %s, %q; want %s, %q", name, s.Level, s.Text, c.level, c.text)
		}
		raw, err := json.Marshal(s)
		if err != nil || !strings.Contains(string(raw), c.json) || c.json == "" && strings.Contains(string(raw), "excuse") {
			t.Errorf("%s: got %s, %v; want %s", name, raw, err, c.json)
		}
	}
}

func TestEngineSaysHowManyServicesDoNotAnswer(t *testing.T) {
	irc := health.Server{Container: "irc"}
	w := begin(engine, poll.Status{Target: "a", Kind: "irc_rpc", Server: irc}, poll.Status{Target: "b", Kind: "irc_tls", Server: irc},
		poll.Status{Target: "elsewhere", Kind: "http"})
	w.contain(named{"irc", testContainer{}})
	w.poll(0)
	for n, name := range []string{"docker", "a", "b", "elsewhere"} {
		w.status(name).Up, w.status(name).Reason = false, failure.Timeout
		text := w.poll(time.Second).service("docker").Text
		want := []string{"", "1 of the services on it", "2 of the services on it", "2 of the services on it"}[n]
		if !strings.Contains(text, want) || want == "" && strings.Contains(text, "of the services") {
			t.Errorf("%s is down, too: %q, want %q", name, text, want)
		}
	}
}

func TestRestartingContainerIsPending(t *testing.T) {
	w := begin(engine)
	w.contain(named{"db", testContainer{state: "exited"}}, named{"irc", testContainer{state: "restarting", dependsOn: "db"}})
	w.poll(0)
	if got := w.poll(time.Minute).container("irc"); got.Level != Pending ||
		got.Text != "keeps exiting and restarting; no alert: it needs db, which is not available" || got.Excuse.Cause != "db" {
		t.Errorf("got %+v", got)
	}
}

func TestRestartsSayHowLongTheyCount(t *testing.T) {
	w := begin(engine)
	w.contain(named{"irc", testContainer{restarts: 7}})
	w.poll(0)
	for _, c := range []struct {
		n    uint64
		want Level
		text string
	}{
		{8, Warning, "restarted once within 10 min, which counts until 12:11 UTC"},
		{10, Warning, "restarted 3 times within 10 min, which counts until 12:12 UTC"},
		{11, Critical, "restarted 4 times within 10 min, which is critical until 12:11 UTC and counts until 12:13 UTC"},
	} {
		w.contain(named{"irc", testContainer{restarts: c.n}})
		r := w.poll(time.Minute)
		if got := r.container("irc"); got.Level != c.want || got.Text != c.text {
			t.Errorf("%d restarts: got %s, %q; want %s, %q", c.n, got.Level, got.Text, c.want, c.text)
		}
		if got := r.threshold("ContainerRestarts"); got.Level != c.want || got.Present == nil || *got.Present != float64(c.n-7) ||
			got.Subject != "irc" {
			t.Errorf("%d restarts: row is %+v", c.n, got)
		}
	}
}

func TestWaitingContainerNamesDependency(t *testing.T) {
	w := begin(engine)
	waits := testContainer{state: "created", optional: true}
	w.contain(named{"app", testContainer{state: "created", optional: true, waitsFor: "db"}}, named{"idle", waits})
	r := w.poll(time.Minute)
	if c := r.container("app"); c.Level != Pending || c.Text != "was created but never started; no alert: it waits for db" {
		t.Errorf("app: %s, %q", c.Level, c.Text)
	}
	if c := r.container("idle"); c.Level != OK || c.Text != "was created but never started" {
		t.Errorf("idle: %s, %q", c.Level, c.Text)
	}
}

func TestSilentEngineKeepsContainerStates(t *testing.T) {
	w := begin(engine)
	w.contain(named{"irc", testContainer{role: "xmpp", memory: 1e8}}, named{"db", testContainer{state: "exited"}})
	w.poll(0)
	w.poll(2 * time.Minute)
	w.contain()
	w.status("docker").Up, w.status("docker").Reason = false, failure.Refused
	r := w.poll(5 * time.Minute)
	if got := r.container("irc"); got.Level != Unknown || got.State != "running" ||
		got.Text != "the engine has not answered for 5 min; last known state: running" || len(got.Values) > 0 {
		t.Errorf("got %+v", got)
	}
	if got := r.threshold("ContainerMemory"); got.Subject != "irc" || got.Present == nil {
		t.Errorf("got %+v", got)
	}
	if got := r.container("db"); got.Level != Critical || !strings.HasSuffix(got.Text, "; is not running (last known at 12:02 UTC)") ||
		!r.Problems[0].Unknown {
		t.Errorf("got %+v", got)
	}
	r = w.poll(13 * time.Hour)
	if got := r.container("db"); got.Level != Critical || got.State != "exited" ||
		!strings.HasSuffix(got.Text, "; is not running (last known at 2026-03-01 12:02 UTC)") {
		t.Errorf("after thirteen hours: got %+v", got)
	}
	if got := r.container("irc"); got.Level != Unknown || !strings.HasSuffix(got.Text, "; last known state: running") {
		t.Errorf("after thirteen hours: got %+v", got)
	}
	w.status("docker").Up, w.status("docker").Reason = true, ""
	w.contain(named{"irc", testContainer{}})
	w.poll(time.Minute)
	w.contain(named{"other", testContainer{}})
	if got := w.poll(time.Minute).Containers; len(got) != 1 || got[0].Name != "other" {
		t.Errorf("a container that is gone is told of: %+v", got)
	}
}

// The exporter restarts while the engine does not answer.
func TestProblemsFromBeforeARestartAreShown(t *testing.T) {
	w := begin(engine)
	w.contain(named{"db", testContainer{state: "exited"}})
	w.poll(0)
	w.poll(10 * time.Minute)
	saved := w.judge.Memory(w.now)
	again := begin(engine)
	again.now = w.now
	again.judge.Resume(&saved, 0, 0, nil, w.now)
	again.status("docker").Up, again.status("docker").Reason = false, failure.Refused
	got := again.poll(time.Minute).container("db")
	if got.Level != Critical || got.Text != "the engine has not answered yet; is not running (last known at 12:10 UTC)" ||
		!got.ProblemSince.Equal(w.now.Add(-10*time.Minute)) {
		t.Errorf("got %+v", got)
	}
}

func TestTextListsAllProblemsOnce(t *testing.T) {
	w := begin(poll.Status{
		Target:      "irc_rpc",
		Kind:        "irc_rpc",
		Notes:       []string{"stats.get is not allowed"},
		Impairments: []string{"server.list is refused"},
	})
	w.find("irc_rpc", health.Condition{Alert: health.AlertServicesUnlinked, Holds: true},
		health.Condition{Alert: health.AlertPlaceholder, Holds: true})
	w.poll(0)
	s := w.poll(time.Hour).service("irc_rpc")
	if s.Level != Critical || !strings.HasPrefix(s.Hint, "Nobody can log in") ||
		s.Text != "IRC services are not linked; a secret is a publicly known placeholder; partly working: server.list is refused" {
		t.Errorf("got %s: %q, to do %q", s.Level, s.Text, s.Hint)
	}
	if len(s.Notes) != 1 {
		t.Errorf("notes tell again: %q", s.Notes)
	}
}

func TestEveryAlertHasWords(t *testing.T) {
	var names [][]string
	files, err := filepath.Glob("../health/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, regexp.MustCompile(`\bAlert\w+ += "(\w+)"`).FindAllStringSubmatch(string(source), -1)...)
	}
	if len(names) < 30 {
		t.Fatalf("found %d alerts", len(names))
	}
	for _, name := range names {
		if name[1] == health.AlertSessionsGone || name[1] == health.AlertUsersGone { // no problems of the judgement
			continue
		}
		given := &health.Judgement{Problems: []health.Problem{{Subject: health.TargetSubject("x"), Alert: name[1]}}}
		if text := Describe(given)[0].Text; text == "" || text == name[1] || strings.Contains(text, "%") {
			t.Errorf("%s: %q", name[1], text)
		}
	}
}

func TestThresholdOfUnhealthyContainersHasItsWarning(t *testing.T) {
	w := begin(engine)
	w.in.Alerts.Of("container_unhealthy").Warning.For = config.Duration(time.Minute)
	row := w.poll(30 * time.Second).Thresholds[0]
	if row.Alert != health.AlertContainerUnhealthy || *row.Warning != 60 || *row.Critical != 300 {
		t.Errorf("%s warns after %g s, and is critical after %g s; want 60 and 300", row.Alert, *row.Warning, *row.Critical)
	}
}

// used are the values of all alerts in the table that compare what a reading of a target has measured: well under their limits, or beyond.
func used(a *config.Alerts, beyond bool) (list []health.Condition) {
	for _, alert := range alerts.Gauged() {
		rule := alerts.Rules(a).Alerts[alert]
		if !rule.Measured || alerts.GaugeOf(alert).Containers || rule.Window > 0 || rule.Warning.Under > 0 {
			continue
		}
		c := health.Condition{Alert: alert, Used: 0.6 * rule.Warning.Over}
		if beyond {
			c.Used = 1.01 * rule.Critical.Over
		}
		list = append(list, c)
	}
	return list
}

func TestThresholdLevelsFollowAlerts(t *testing.T) {
	w := begin(engine, poll.Status{Target: "irc_rpc", Kind: "irc_rpc"}, poll.Status{Target: "data", Kind: "volume"},
		poll.Status{Target: "cert", Kind: "tls"}, poll.Status{Target: "xmpp", Kind: "xmpp_metrics"})
	total := 0.0
	step := func(fail bool) *Report {
		check, end := "healthy", w.now.Add(100*24*time.Hour)
		if fail {
			check, end = "unhealthy", w.now.Add(24*time.Hour)
			total += 45
		}
		w.contain(named{"a", testContainer{health: check, memory: map[bool]float64{true: 2e9, false: 1e8}[fail]}},
			named{"b", testContainer{role: "xmpp", memory: 6e8}})
		w.find("data", used(&w.in.Alerts, fail)...)
		w.find("cert", endedAt(end))
		w.find("xmpp", failedLogins(total))
		s := w.status("irc_rpc")
		if s.Up == fail {
			s.Since = w.now
		}
		s.Up, s.Reason = !fail, map[bool]failure.Reason{true: failure.Timeout}[fail]
		return w.poll(30 * time.Second)
	}
	for range 20 {
		step(false)
	}
	r := step(false)
	for _, row := range r.Thresholds {
		if want := map[bool]Level{true: Warning, false: OK}[row.Subject == "b"]; row.Level != want || row.Pending || row.Present == nil {
			t.Errorf("while all is well: %+v", row)
		}
	}
	seen := map[Level]map[string]bool{Unknown: {}, OK: {}, Warning: {}, Critical: {}}
	notCaused := []string{"ContainerRestarts", "ContainerDown"}
	began := w.now.Add(30 * time.Second)
	for range 30 {
		r = step(true)
		for i, row := range r.Thresholds {
			if row.Subject == "b" || slices.Contains(notCaused, row.Alert) {
				continue
			}
			worst := OK
			for _, p := range r.Problems {
				if p.Alert == row.Alert && p.Name == row.Subject {
					worst = max(worst, p.Level())
				}
			}
			if row.Pending != (worst == Pending) || !row.Pending && row.Level != worst || row.Pending && row.Level != OK {
				t.Errorf("row %d is %+v, want as %s", i, row, worst)
			}
			if strings.Contains(row.Text, "no alert yet") != row.Pending {
				t.Errorf("pending is %t: %s", row.Pending, row.Text)
			}
			seen[row.Level][row.Alert] = true
		}
	}
	if len(seen[OK]) < 4 || len(seen[Critical]) != len(alerts.Gauged())-len(notCaused) {
		t.Errorf("seen %v", seen)
	}
	if got := r.threshold("ContainerUnhealthy"); !got.Since.Equal(began) || got.Text != "14 min 30 s, over the critical 5 min" ||
		*got.Present != 870 || *got.Distance != -570 {
		t.Errorf("got %+v", got)
	}
	if got := r.threshold("TLSCertificateExpiry"); got.Text != "23 h 59 min left, under the critical 3 d" {
		t.Errorf("got %+v", got)
	}
}

// TestThresholdOfACertificateIsItsOwn has the row show the certificate that is next to its limit, not the first to expire.
func TestThresholdOfACertificateIsItsOwn(t *testing.T) {
	const day = 24 * time.Hour
	w := begin(poll.Status{Target: "brief", Kind: "tls"}, poll.Status{Target: "long", Kind: "tls"})
	for _, c := range []struct {
		brief, long       time.Duration
		subject, text     string
		warning, critical time.Duration
	}{
		{
			5 * day,
			15 * day,
			"long",
			"15 d left, 1 d from warning",
			14 * day,
			3 * day,
		},
		{
			5 * day,
			60 * day,
			"brief",
			"5 d left, 3 d from warning",
			2 * day,
			day,
		},
		{
			36 * time.Hour,
			15 * day,
			"brief",
			"1 d 12 h left, 12 h from critical",
			2 * day,
			day,
		},
		{
			12 * time.Hour,
			10 * day,
			"brief",
			"12 h left, under the critical 1 d",
			2 * day,
			day,
		},
	} {
		brief := endedAt(w.now.Add(c.brief))
		brief.Certificates[0].Begins = w.now.Add(c.brief - 144*time.Hour)
		w.find("brief", brief)
		w.find("long", endedAt(w.now.Add(c.long)))
		r := w.poll(0)
		got := r.threshold("TLSCertificateExpiry")
		if got.Subject != c.subject || got.Text != c.text || *got.Warning != c.warning.Seconds() || *got.Critical != c.critical.Seconds() {
			t.Errorf("%s and %s left: %s %q, limits %g and %g; want %s %q",
				c.brief, c.long, got.Subject, got.Text, *got.Warning, *got.Critical, c.subject, c.text)
		}
	}
}

func TestTargetNeverUpAlertsLater(t *testing.T) {
	w := begin(poll.Status{Target: "web", Kind: "http", Reason: failure.DNS})
	w.poll(0)
	const why = "since it was never seen up"
	r := w.poll(3 * time.Minute)
	if got, want := r.threshold("TargetDown"), "3 min, no alert yet; it alerts after 5 min, "+why; got.Text != want ||
		*got.Distance != 120 || !got.Pending {
		t.Errorf("got %+v, want %s", got, want)
	}
	for _, text := range []string{r.Services[0].Text, r.Problems[0].Text} {
		if !strings.HasSuffix(text, "; no alert before target_down.critical, "+why) {
			t.Errorf("it is said: %s", text)
		}
	}
	r = w.poll(2*time.Minute + time.Second)
	for _, text := range []string{r.threshold("TargetDown").Text, r.Services[0].Text} {
		if strings.Contains(text, why) {
			t.Errorf("once it is critical: %s", text)
		}
	}
}

func TestMaintenanceMentionsFiredAlert(t *testing.T) {
	w := begin(engine, poll.Status{Target: "web", Kind: "http"})
	w.contain(named{"irc", testContainer{}})
	w.poll(0)
	w.contain(named{"irc", testContainer{state: "exited"}})
	w.in.Snapshot.Statuses[1].Up, w.in.Snapshot.Statuses[1].Reason = false, failure.DNS
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{0, false}, {10 * time.Minute, true}} {
		w.in.Maintenance = nil
		w.poll(c.after)
		w.in.Maintenance = []maintenance.Entry{
			{
				Kind:   "target",
				Name:   "web",
				Active: true,
				Reason: "upgrade",
			},
			{Kind: "container", Name: "irc", Active: true},
		}
		r := w.poll(time.Second)
		for _, s := range r.Services {
			if is := s.Name == "web" &&
				c.want; strings.HasSuffix(s.Maintenance, ": upgrade; its alert fired before: silence it in Alertmanager") != is {
				t.Errorf("after %s: %s: %q, want it: %t", c.after, s.Name, s.Maintenance, is)
			}
		}
		if got := r.Containers[0].Maintenance; strings.HasSuffix(got, "; its alert fired before: silence it in Alertmanager") != c.want ||
			got == "" {
			t.Errorf("after %s: %q, want it: %t", c.after, got, c.want)
		}
	}
}

func TestThresholdSaysWhyFailedLoginsAreUnknown(t *testing.T) {
	row := func(w *world) Threshold { return w.poll(0).threshold("XMPPAuthFailureRate") }
	if got := row(begin(engine)); got.Level != Unknown || got.Present != nil || !strings.HasPrefix(got.Text, "no xmpp_metrics target") {
		t.Errorf("without a target: %+v", got)
	}
	w := begin(poll.Status{Target: "xmpp", Kind: "xmpp_metrics"})
	w.find("xmpp", health.Condition{Alert: health.AlertAuthSourceMissing, Holds: true})
	if got := row(w); !strings.HasPrefix(got.Text, "nothing counts") {
		t.Errorf("without a source: %+v", got)
	}
	w.find("xmpp", failedLogins(3))
	if got := row(w); !strings.HasPrefix(got.Text, "a rate needs two") {
		t.Errorf("after one probe: %+v", got)
	}
	w.status("xmpp").Up, w.status("xmpp").Reason = false, failure.Timeout
	if got := row(w); !strings.HasPrefix(got.Text, "xmpp is not up") {
		t.Errorf("while it is down: %+v", got)
	}
}

func TestSummaryHasHumanNameFirst(t *testing.T) {
	w := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc", Reason: failure.Timeout})
	if got := w.poll(0).Summary; got != "IRC server is down, no alert yet: 1 of 1 target." {
		t.Errorf("got %q", got)
	}
}

// TestWhatFlapsSaysHowOftenItWasDown, whether it is up now or not.
func TestWhatFlapsSaysHowOftenItWasDown(t *testing.T) {
	w := begin(engine, poll.Status{Target: "irc_rpc", Kind: "irc_rpc"})
	var r *Report
	play := func(up bool, d time.Duration) {
		state := map[bool]string{true: "running", false: "exited"}[up]
		w.contain(named{"db", testContainer{state: state}})
		s := w.status("irc_rpc")
		if s.Up, s.Reason = up, ""; !up {
			s.Reason = failure.Refused
		}
		w.poll(10 * time.Second)
		r = w.poll(d)
	}
	w.poll(0)
	for range 2 {
		play(false, 6*time.Minute)
		play(true, time.Minute)
	}
	play(false, 3*time.Minute)
	if s := r.service("irc_rpc"); s.Level != Critical || !strings.HasSuffix(s.Text, "; it has been down 3 times in the last 90 minutes") {
		t.Errorf("service while it is down: %s, %q", s.Level, s.Text)
	}
	if c := r.container("db"); c.Level != Critical || c.Text != "has been down 3 times in the last 90 minutes" {
		t.Errorf("container while it is down: %s, %q", c.Level, c.Text)
	}
	play(true, 4*time.Minute)
	const text = "has been down 3 times in the last 90 minutes, and up again for 4 min"
	if s := r.service("irc_rpc"); s.Level != Critical || s.State != up || s.Text != text || !strings.Contains(s.Hint, "does not stay up") {
		t.Errorf("service: %s, %s, %q, to do %q", s.Level, s.State, s.Text, s.Hint)
	}
	if c := r.container("db"); c.Level != Critical || c.State != "running" || c.Text != text || !strings.Contains(c.Hint, "docker logs") {
		t.Errorf("container: %s, %s, %q, to do %q", c.Level, c.State, c.Text, c.Hint)
	}
	if got := r.threshold("TargetDown"); got.Text != "has been down 3 times in the last 90 minutes" {
		t.Errorf("threshold: %q", got.Text)
	}
	for i := range r.Causes {
		if c := &r.Causes[i]; c.State != "goes down again and again" || c.Loss != "" {
			t.Errorf("cause: %s %s: %q, users lose %q", c.Title, c.State, c.Text, c.Loss)
		}
	}
	if got := Headline(&r.Problems[0].Problem, ""); got != "Container db has been down 3 times in the last 90 minutes" {
		t.Errorf("headline %q", got)
	}
}
