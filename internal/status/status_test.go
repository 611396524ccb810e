package status

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// world is what a recorder looks at, as a test wishes it to be.
type world struct {
	*Recorder

	now  time.Time
	in   Input
	text map[string]string // sample lines by target
}

// begin makes a world with targets that are up.
func begin(targets ...poll.Status) *world {
	w := &world{
		now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), text: map[string]string{},
		in: Input{Alerts: config.DefaultAlerts(), Snapshot: &poll.Snapshot{}},
	}
	w.Recorder = &Recorder{memory: newMemory()}
	for _, t := range targets {
		t.Known, t.Up = true, t.Reason == ""
		t.Since, t.LastAttempt, t.LastSuccess = w.now, w.now, w.now
		t.Failures = map[failure.Reason]uint64{}
		w.in.Snapshot.Statuses = append(w.in.Snapshot.Statuses, t)
	}
	return w
}

// Report and Watch return what was found at the test's own time, which is not the recorder's.
func (w *world) Report() *Report { return w.current.Load().report }

func (w *world) Watch() (told *Report, superseded <-chan struct{}) {
	u := w.current.Load()
	return u.told, u.superseded
}

// status is the status of a target that will be looked at next.
func (w *world) status(target string) *poll.Status {
	i := slices.IndexFunc(w.in.Snapshot.Statuses, func(s poll.Status) bool { return s.Target == target })
	return &w.in.Snapshot.Statuses[i]
}

// look has the recorder look after a while, at readings of that moment.
func (w *world) look(later time.Duration) *Report {
	w.now = w.now.Add(later)
	s := &poll.Snapshot{Time: w.now}
	for _, t := range w.in.Snapshot.Statuses {
		t.LastAttempt = w.now
		s.Statuses = append(s.Statuses, t)
		s.Families = append(s.Families, familiesOf(w.text[t.Target]))
	}
	w.in.Snapshot = s
	w.observe(w.in, w.now)
	return w.Report()
}

// familiesOf makes families of sample lines, by their names in text format.
func familiesOf(text string) []exposition.Family {
	var list []exposition.Family
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(strings.Fields(line)[0], "{")
		i := slices.IndexFunc(list, func(f exposition.Family) bool { return f.Name == name })
		if i < 0 {
			i = len(list)
			list = append(list, exposition.Family{Name: name, Type: "gauge"})
		}
		list[i].Text = append(list[i].Text, line...)
	}
	return list
}

// containerText is what the page says of a container.
type containerText struct {
	state, health, role, dependsOn string // dependsOn: several with a space between them
	host                           string // local if empty
	restarts, memory               float64
	optional                       bool
}

func (c containerText) lines(name string) string {
	labels := fmt.Sprintf("container=%q,docker_host=%q", name, cmp.Or(c.host, "local"))
	text := fmt.Sprintf("chatstack_container_state{%s,state=%q} 1\nchatstack_container_health{%s,health=%q} 1\nchatstack_container_info{%s,role=%q} 1\n"+
		"chatstack_container_restarts_total{%s} %g\n", labels, cmp.Or(c.state, "running"), labels, cmp.Or(c.health, "none"), labels, c.role, labels, c.restarts)
	if !c.optional {
		text += fmt.Sprintf("chatstack_container_expected{%s} 1\n", labels)
	}
	if c.memory > 0 {
		text += fmt.Sprintf("chatstack_container_memory_working_set_bytes{%s} %g\n", labels, c.memory)
	}
	for on := range strings.FieldsSeq(c.dependsOn) {
		text += fmt.Sprintf("chatstack_container_dependency{%s,depends_on=%q} 1\n", labels, on)
	}
	return text
}

var engine = poll.Status{Target: "docker", Kind: "docker"}

// firstOf is the first element that a test asks for, the zero value without any.
func firstOf[T any](list []T, is func(T) bool) (found T) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		found = list[i]
	}
	return found
}

func (r *Report) container(name string) Container {
	return firstOf(r.Containers, func(c Container) bool { return c.Name == name })
}

func (r *Report) service(name string) Service {
	return firstOf(r.Services, func(s Service) bool { return s.Name == name })
}

func (r *Report) threshold(alert string) Threshold {
	return firstOf(r.Thresholds, func(t Threshold) bool { return t.Alert == alert })
}

func TestLevelsHaveNames(t *testing.T) {
	for l := OK; l <= Critical; l++ {
		text, err := l.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back Level
		if err := back.UnmarshalText(text); err != nil || back != l || l.String() != string(text) {
			t.Errorf("%q became %d, %v", text, back, err)
		}
	}
	if _, err := Level(9).MarshalText(); err == nil {
		t.Error("there is a level 9")
	}
	if err := new(Level).UnmarshalText([]byte("fine")); err == nil {
		t.Error("there is a level fine")
	}
}

func TestDownIsCriticalExactlyWhenTheAlertIs(t *testing.T) {
	w := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc", Reason: failure.Refused, Error: "dial: refused"})
	for _, c := range []struct {
		later          time.Duration
		service, table Level
	}{
		{0, Warning, OK},
		{2*time.Minute - time.Second, Warning, OK},
		{time.Second, Warning, Warning},
		{3*time.Minute - time.Second, Warning, Warning},
		{time.Second, Critical, Critical},
	} {
		r := w.look(c.later)
		if got := r.service("irc_rpc"); got.Level != c.service || got.Text != failure.Explain(failure.Refused) || got.Hint == "" {
			t.Errorf("at %s: got %s, want %s: %+v", w.now.Format(time.TimeOnly), got.Level, c.service, got)
		}
		if got := r.threshold("TargetDown"); got.Level != c.table {
			t.Errorf("at %s: row is %s, want %s: %s", w.now.Format(time.TimeOnly), got.Level, c.table, got.Text)
		}
		if got := r.threshold("TargetDown"); got.Pending != (c.table == OK) || strings.Contains(got.Text, "no alert yet") != got.Pending {
			t.Errorf("at %s: pending is %t: %s", w.now.Format(time.TimeOnly), got.Pending, got.Text)
		}
	}
}

func TestExactlyThreeRestartsAreNotCritical(t *testing.T) {
	w := begin(engine)
	set := func(n float64) { w.text["docker"] = containerText{restarts: n}.lines("irc") }
	set(7) // before the exporter looked
	if got := w.look(0).container("irc"); got.Level != OK {
		t.Errorf("restarts of before count: %+v", got)
	}
	for _, c := range []struct {
		n     float64
		later time.Duration
		want  Level
		text  string
	}{
		{8, time.Minute, Warning, "restarted once within 10 min, which counts until 12:11 UTC"},
		{10, time.Minute, Warning, "restarted 3 times within 10 min, which counts until 12:12 UTC"},
		{11, time.Minute, Critical, "restarted 4 times within 10 min, which is critical until 12:11 UTC and counts until 12:13 UTC"},
		{11, 8*time.Minute - time.Second, Critical, "which is critical until 12:11 UTC and counts until 12:13 UTC"}, // a second before the first is ten minutes old
		{11, time.Second, Warning, "restarted 3 times within 10 min, which counts until 12:13 UTC"},
		{11, time.Minute, Warning, "restarted once within 10 min, which counts until 12:13 UTC"},
		{11, time.Minute, OK, "runs"},
		{2, time.Minute, Warning, "restarted 2 times within 10 min, which counts until 12:24 UTC"}, // the counter began anew
		{9, time.Second, Critical, "restarted 9 times within 10 min, which counts until 12:25 UTC"},
	} {
		set(c.n)
		r := w.look(c.later)
		if got := r.container("irc"); got.Level != c.want || !strings.Contains(got.Text, c.text) {
			t.Errorf("at %s, %g restarts: got %s, %q; want %s, %q", w.now.Format(time.TimeOnly), c.n, got.Level, got.Text, c.want, c.text)
		}
		if got := r.threshold("ContainerRestarts"); got.Level != c.want {
			t.Errorf("at %s, %g restarts: row is %s, want %s: %s", w.now.Format(time.TimeOnly), c.n, got.Level, c.want, got.Text)
		}
	}
}

// TestTheEndOfWhatCountsIsNotToldTooEarly rounds moments to come to the minute.
func TestTheEndOfWhatCountsIsNotToldTooEarly(t *testing.T) {
	now := time.Date(2026, 3, 1, 23, 55, 30, 0, time.FixedZone("", 3600))
	for later, want := range map[time.Duration]string{
		30 * time.Second: "22:56 UTC", 31 * time.Second: "22:57 UTC", 3 * time.Hour: "01:56 UTC", 24 * time.Hour: "2026-03-02 22:56 UTC",
	} {
		if got := soon(now, now.Add(later)); got != want {
			t.Errorf("in %s: got %q, want %q", later, got, want)
		}
	}
}

func TestMemoryIsJudgedByTheRole(t *testing.T) {
	for _, c := range []struct {
		role   string
		memory float64
		want   Level
	}{
		{"xmpp", 5e8, OK},
		{"xmpp", 5e8 + 1, Warning},
		{"xmpp", 1e9, Warning},
		{"xmpp", 1e9 + 1, Critical},
		{"irc", 1e9, OK},
		{"irc", 1e9 + 1, Critical},
	} {
		w := begin(engine)
		w.text["docker"] = containerText{role: c.role, memory: c.memory}.lines("x")
		r := w.look(0)
		if got := r.container("x"); got.Level != c.want {
			t.Errorf("%s with %f bytes: got %s, want %s", c.role, c.memory, got.Level, c.want)
		}
		if r.Level != c.want {
			t.Errorf("%s with %f bytes: the whole is %s, want %s", c.role, c.memory, r.Level, c.want)
		}
	}
}

func TestContainersAreJudgedAsTheAlertsDo(t *testing.T) {
	for _, c := range []struct {
		name  string
		is    containerText
		lasts time.Duration
		want  Level
	}{
		{"unhealthy at once", containerText{health: "unhealthy"}, 0, Warning},
		{"unhealthy for five minutes", containerText{health: "unhealthy"}, 5 * time.Minute, Warning},
		{"unhealthy for longer", containerText{health: "unhealthy"}, 5*time.Minute + time.Second, Critical},
		{"down", containerText{state: "exited"}, 5*time.Minute - time.Second, Warning},
		{"down for five minutes", containerText{state: "exited"}, 5 * time.Minute, Critical},
		{"not expected", containerText{state: "exited", optional: true}, time.Hour, OK},
		{"missing", containerText{state: "missing"}, 5*time.Minute - time.Second, Warning},
		{"missing for five minutes", containerText{state: "missing"}, 5 * time.Minute, Critical},
		{"removed by somebody", containerText{state: "missing", optional: true}, 59 * time.Minute, Warning},
		{"restarting, without a restart that counts", containerText{state: "restarting"}, 5*time.Minute - time.Second, Warning},
		{"restarting, without a restart that counts, for five minutes", containerText{state: "restarting"}, 5 * time.Minute, Critical},
		{"restarting, and restarted", containerText{state: "restarting", restarts: 1}, 9 * time.Minute, Warning},
		{"paused", containerText{state: "paused"}, 5 * time.Minute, Critical},
		{"starting", containerText{health: "starting"}, time.Hour, OK},
	} {
		w := begin(engine)
		w.text["docker"] = containerText{}.lines("x")
		w.look(0)
		w.text["docker"] = c.is.lines("x")
		w.look(time.Minute)
		if got := w.look(c.lasts).container("x"); got.Level != c.want || got.Text == "" {
			t.Errorf("%s: got %s, want %s: %s", c.name, got.Level, c.want, got.Text)
		}
	}
}

func TestRootCauseIsTold(t *testing.T) {
	w := begin(engine, poll.Status{Target: "irc_rpc", Kind: "irc_rpc", Server: health.Server{Container: "irc"}, Reason: failure.DNS})
	w.text["docker"] = containerText{state: "exited"}.lines("irc") + containerText{state: "exited", dependsOn: "irc"}.lines("services")
	w.look(0)
	r := w.look(time.Hour)
	for what, c := range map[string]struct {
		level, want Level
		text        string
	}{
		"irc":      {r.container("irc").Level, Critical, r.container("irc").Text + " irc"},
		"services": {r.container("services").Level, Warning, r.container("services").Text},
		"irc_rpc":  {r.service("irc_rpc").Level, Warning, r.service("irc_rpc").Text},
	} {
		if c.level != c.want || !strings.Contains(c.text, "irc") {
			t.Errorf("%s: got %s, want %s: %s", what, c.level, c.want, c.text)
		}
	}
	if got := r.threshold("TargetDown"); got.Level != OK {
		t.Errorf("a target whose container is down counts: %+v", got)
	}
}

func TestMaintenanceOutweighsWhatIsWrong(t *testing.T) {
	w := begin(engine, poll.Status{Target: "irc_rpc", Kind: "irc_rpc", Server: health.Server{Container: "irc"}, Reason: failure.DNS})
	w.text["docker"] = containerText{state: "exited", restarts: 9}.lines("irc")
	w.in.Maintenance = []maintenance.Entry{{Kind: "container", Name: "irc", Until: w.now.Add(2 * time.Hour), Active: true}}
	w.look(0)
	r := w.look(time.Hour)
	if r.Level != Maintenance || r.container("irc").Level != Maintenance || r.service("irc_rpc").Level != Maintenance || r.service("irc_rpc").Maintenance == "" {
		t.Errorf("got %s: %+v %+v", r.Level, r.Containers, r.Services)
	}
}

func TestEngineThatDoesNotAnswerLeavesContainersUnknown(t *testing.T) {
	w := begin(engine)
	w.text["docker"] = containerText{}.lines("irc")
	w.look(0)
	w.text["docker"] = ""
	w.status("docker").Up, w.status("docker").Reason = false, failure.Refused
	if got := w.look(time.Minute).container("irc"); got.Level != Unknown || got.State != "unknown" || len(got.Values) > 0 {
		t.Errorf("got %+v", got)
	}
	if got := w.look(2 * time.Hour).Containers; len(got) > 0 {
		t.Errorf("after two hours: got %+v", got)
	}
	w.status("docker").Up, w.status("docker").Reason = true, ""
	w.text["docker"] = containerText{}.lines("irc")
	w.look(time.Minute)
	w.text["docker"] = containerText{}.lines("other")
	if got := w.look(time.Minute).Containers; len(got) != 1 || got[0].Name != "other" {
		t.Errorf("a container that is gone is told of: %+v", got)
	}
}

func TestContainerThatHasJustGoneIsNotWell(t *testing.T) {
	w := begin(engine)
	w.text["docker"] = containerText{}.lines("irc")
	w.look(0)
	w.text["docker"] = "chatstack_container_restarts_total{container=\"irc\",docker_host=\"local\"} 0\n"
	if got := w.look(time.Second).container("irc"); got.Level != Unknown || !strings.HasPrefix(got.Text, "is gone") {
		t.Errorf("got %+v", got)
	}
}

func TestAuthFailuresCountWhenTheyLast(t *testing.T) {
	w := begin(poll.Status{Target: "xmpp_metrics", Kind: "xmpp_metrics"})
	if got := w.look(0).threshold("XMPPAuthFailureRate"); got.Present != nil || got.Distance != nil || !strings.Contains(got.Text, "source") {
		t.Errorf("without a source: %+v", got)
	}
	total := 1000.0
	reading := func(perMinute float64) Threshold {
		total += perMinute / 2
		w.text["xmpp_metrics"] = fmt.Sprintf("xmpp_c2s_auth_failure_total{host=\"a\"} %g\nxmpp_c2s_auth_failure_total{host=\"b\"} 3\n", total)
		return w.look(30 * time.Second).threshold("XMPPAuthFailureRate")
	}
	if got := reading(0); got.Present != nil {
		t.Errorf("after one reading: %+v", got)
	}
	if got := reading(10); got.Present == nil || *got.Present != 10 || got.Level != OK {
		t.Errorf("exactly 10 a minute: %+v", got)
	}
	burst := func(perMinute float64, readings int) (worst Level) {
		for range readings {
			worst = max(worst, reading(perMinute).Level)
		}
		return worst
	}
	if got := burst(120, 3); got != OK { // 90 seconds
		t.Errorf("a burst of 180: got %s", got)
	}
	if got := burst(0, 20); got != OK {
		t.Errorf("after the burst: got %s", got)
	}
	if got := burst(30, 20); got != Warning {
		t.Errorf("30 a minute for 10 minutes: got %s", got)
	}
	if got := burst(90, 20); got != Critical {
		t.Errorf("90 a minute for 10 minutes: got %s", got)
	}
}

func TestCertificatesAndVolumesHaveExactLimits(t *testing.T) {
	w := begin(poll.Status{Target: "web", Kind: "tls"}, poll.Status{Target: "data", Kind: "volume"})
	for _, c := range []struct {
		left time.Duration
		used float64
		want Level
	}{
		{14 * 24 * time.Hour, 80, OK},
		{14*24*time.Hour - time.Second, 80.5, Warning},
		{3 * 24 * time.Hour, 95, Warning},
		{3*24*time.Hour - time.Second, 95.5, Critical},
		{-time.Hour, 100, Critical},
	} {
		w.text["web"] = fmt.Sprintf("chatstack_tls_certificate_not_after_timestamp_seconds{endpoint=\"web\",source=\"leaf\"} %d\n", w.now.Add(c.left).Unix())
		w.text["data"] = fmt.Sprintf("chatstack_volume_size_bytes{volume=\"data\"} 110\nchatstack_volume_free_bytes{volume=\"data\"} %g\nchatstack_volume_available_bytes{volume=\"data\"} %g\n", 110-c.used, 100-c.used)
		r := w.look(0)
		for _, alert := range []string{"TLSCertificateExpiry", "DataVolumeUsage"} {
			if got := r.threshold(alert); got.Level != c.want || got.Present == nil {
				t.Errorf("%s, %s left, %g used: got %s, want %s: %s", alert, c.left, c.used, got.Level, c.want, got.Text)
			}
		}
		for _, name := range []string{"web", "data"} {
			if got := r.service(name); got.Level != c.want {
				t.Errorf("%s, %s left, %g used: got %s, want %s: %s", name, c.left, c.used, got.Level, c.want, got.Text)
			}
		}
	}
}

func TestShortOutageIsSeenInTheHistory(t *testing.T) {
	w := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc"})
	w.look(0)
	w.look(time.Minute)
	// It failed and recovered between two looks.
	w.status("irc_rpc").Failures = map[failure.Reason]uint64{failure.Timeout: 1}
	w.look(time.Minute)
	w.look(time.Minute)
	w.look(10 * time.Minute)
	s := w.memory.series["service/irc_rpc/up"]
	h := s.history("x", w.now)
	if len(h.Values) != 288 || h.Step != 300 || !h.Start.Equal(w.now.Truncate(step).Add(-287*step)) {
		t.Errorf("got %d steps of %g s from %s", len(h.Values), h.Step, h.Start)
	}
	tail := h.Values[len(h.Values)-3:]
	if tail[0] == nil || *tail[0] != 0 || tail[1] != nil || tail[2] == nil || *tail[2] != 1 {
		t.Errorf("got %v, want 0, nothing, 1", tail)
	}
	later := s.history("x", w.now.Add(25*time.Hour))
	if slices.ContainsFunc(later.Values, func(v *float64) bool { return v != nil }) {
		t.Error("what is older than a day is still there")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	w := begin(engine)
	for round := range 3 {
		var text strings.Builder
		for i := range 2500 {
			state := []string{"running", "exited"}[(round+i)%2]
			text.WriteString(containerText{state: state, memory: 1}.lines(fmt.Sprintf("c%d-%d", round/2, i)))
		}
		w.text["docker"] = text.String()
		r := w.look(time.Minute)
		if len(r.Containers) != maxContainers || r.ContainersLeftOut != 500 || len(r.Transitions) > maxTransitions || len(w.memory.series) > maxSeries {
			t.Errorf("got %d containers, %d left out, %d transitions, %d series", len(r.Containers), r.ContainersLeftOut, len(r.Transitions), len(w.memory.series))
		}
	}
	w.text["docker"] = ""
	w.look(25 * time.Hour)
	w.look(2 * time.Hour)
	for name := range w.memory.series {
		if strings.HasPrefix(name, "container/") {
			t.Fatalf("%s is kept although its container has been gone for a day", name)
		}
	}
}

func TestEverythingThatIsWrongIsToldOnce(t *testing.T) {
	w := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc", Notes: []string{"stats.get is not allowed"}})
	w.in.Placeholders = []string{"irc_rpc"}
	w.text["irc_rpc"] = "chatstack_irc_services_linked 0\n"
	w.look(0)
	s := w.look(time.Hour).service("irc_rpc")
	if s.Level != Critical || s.Text != "no services are linked; a secret is an obvious placeholder, which everybody knows" || !strings.HasPrefix(s.Hint, "Nobody can log in") {
		t.Errorf("got %s: %q, to do %q", s.Level, s.Text, s.Hint)
	}
	if !slices.Equal(s.Notes, []string{"stats.get is not allowed"}) {
		t.Errorf("notes tell again: %q", s.Notes)
	}
}

func TestNothingConfiguredIsNotAllRight(t *testing.T) {
	if r := begin().look(0); r.Level != Unknown || !strings.Contains(strings.ToLower(r.Summary), "nothing is watched") {
		t.Errorf("got %s: %s", r.Level, r.Summary)
	}
}

func TestWhatIsWrongWithAServiceThatIsUpIsAChange(t *testing.T) {
	w := begin(poll.Status{Target: "xmpp_status", Kind: "xmpp_status"})
	for i, linked := range []string{"1", "0", "0", "1"} {
		w.text["xmpp_status"] = "chatstack_xmpp_component_connected{host=\"bridge\"} " + linked + "\n"
		r := w.look(time.Minute)
		if want := []int{0, 1, 1, 2}[i]; len(r.Transitions) != want {
			t.Fatalf("look %d: got %+v, want %d", i, r.Transitions, want)
		}
	}
	list := w.look(time.Minute).Transitions
	if lost := list[1]; lost.From != up || lost.To != "up, something wrong" || lost.Level != Warning || !strings.Contains(lost.Text, "bridge") || !lost.Time.Equal(w.now.Add(-3*time.Minute)) {
		t.Errorf("lost: got %+v", lost)
	}
	if back := list[0]; back.To != "all right" || back.Level != OK || !back.Time.Equal(w.now.Add(-time.Minute)) {
		t.Errorf("back: got %+v", back)
	}
}

func TestTransitionsAreNewsOnly(t *testing.T) {
	w := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc"}, engine)
	w.text["docker"] = containerText{}.lines("irc")
	if got := w.look(0).Transitions; len(got) > 0 {
		t.Errorf("the start is news: %+v", got)
	}
	s := w.status("irc_rpc")
	s.Up, s.Reason, s.Since = false, failure.Timeout, w.now.Add(time.Minute)
	w.text["docker"] = containerText{restarts: 1}.lines("irc")
	r := w.look(time.Minute)
	w.look(time.Minute)
	if len(r.Transitions) != 2 {
		t.Fatalf("got %+v", r.Transitions)
	}
	for _, got := range r.Transitions {
		switch got.Kind {
		case "service":
			if got.From != "up" || got.To != "down" || got.Level != Warning || !got.Time.Equal(w.now.Add(-time.Minute)) {
				t.Errorf("got %+v", got)
			}
		default:
			if got.From != "running" || got.To != "restarted" || got.Level != Warning {
				t.Errorf("got %+v", got)
			}
		}
	}
}

func TestWatchersAreToldOfNewsAtOnceAndOfAgesSeldom(t *testing.T) {
	w := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc"})
	first := w.look(0)
	told, next := w.Watch()
	if told != first {
		t.Fatal("the first report is not told")
	}
	newer := func() bool {
		select {
		case <-next:
			_, next = w.Watch()
			return true
		default:
			return false
		}
	}
	w.look(9 * time.Second)
	if newer() {
		t.Error("ages alone are told after nine seconds")
	}
	if w.Report().Revision != 2 {
		t.Errorf("revision: got %d, want 2", w.Report().Revision)
	}
	w.look(time.Second)
	if !newer() {
		t.Error("nothing is told after ten seconds")
	}
	s := w.status("irc_rpc")
	s.Up, s.Reason = false, failure.Timeout
	w.look(time.Millisecond)
	if !newer() {
		t.Error("a failure is not told at once")
	}
}

func TestRecorderLooksWhenItIsWokenAndWhenNobodyWakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc"}).in
		alive := make(chan error, 1)
		alive <- nil
		r := NewRecorder("1.2.3", func() Input {
			in := in
			in.Alive = <-alive
			alive <- in.Alive
			return in
		})
		done := make(chan struct{})
		go func() { defer close(done); r.Run(t.Context()) }()
		r.Report() // somebody looks
		r.Wake()
		r.Wake()
		synctest.Wait()
		if got := r.Report().Revision; got < 2 || got > 3 {
			t.Errorf("revision after waking it: got %d", got)
		}
		if err := <-alive; err != nil {
			t.Fatal(err)
		}
		alive <- errors.New("the poll loop has stood still for 31s")
		time.Sleep(lookAgain)
		synctest.Wait()
		if got := r.Report(); got.Level != Critical || got.Stale == "" || got.Version != "1.2.3" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestNobodySeesAReportThatWasNotRenewedWhileNobodyLooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc"})
		var in atomic.Pointer[Input]
		in.Store(&w.in)
		r := NewRecorder("1.2.3", func() Input { return *in.Load() })
		made := func() time.Time { return r.current.Load().report.Made }
		first := made()
		go r.Run(t.Context())

		time.Sleep(restAgain - time.Second)
		r.Wake() // a page without news, as the heartbeat makes it
		synctest.Wait()
		if got := made(); !got.Equal(first) {
			t.Errorf("a report was made after %s, with nobody to see it and nothing to tell", got.Sub(first))
		}
		read := w.in
		read.Snapshot = &poll.Snapshot{Statuses: slices.Clone(w.in.Snapshot.Statuses)}
		s := &read.Snapshot.Statuses[0]
		s.Attempts, s.LastAttempt, s.Since, s.Up, s.Reason = 1, time.Now(), time.Now(), false, failure.Timeout
		in.Store(&read)
		r.Wake()
		synctest.Wait()
		if got := made(); !got.Equal(time.Now()) {
			t.Errorf("a reading is not remembered: the last report is %s old", time.Since(got))
		}
		if got := len(r.current.Load().report.Transitions); got != 1 {
			t.Errorf("got %d transitions, want that the service has gone down", got)
		}

		stale := read
		stale.Alive = errors.New("the poll loop has stood still for 31s")
		time.Sleep(2 * lookAgain)
		synctest.Wait()
		in.Store(&stale)
		if got := r.Report(); got.Stale == "" || !got.Made.Equal(time.Now()) {
			t.Errorf("who looks first sees a report that is %s old: %q", time.Since(got.Made), got.Stale)
		}
		time.Sleep(lookAgain)
		synctest.Wait()
		told, superseded := r.Watch()
		time.Sleep(tellAgain + lookAgain)
		synctest.Wait()
		select {
		case <-superseded:
		default:
			t.Errorf("a watcher was told of nothing since %s ago", time.Since(told.Made))
		}
		time.Sleep(2 * attention)
		synctest.Wait()
		if age := time.Since(made()); age > restAgain+lookAgain {
			t.Errorf("what lasts is not noticed: the last report is %s old", age)
		}
	})
}

// TestNamesOfAnEngineAreShownPrintable has names that forge a line, turn the direction of writing, and never end.
func TestNamesOfAnEngineAreShownPrintable(t *testing.T) {
	w := begin(engine)
	for _, name := range []string{"a\x1b[2J\x1b[31m", `b\nDOWN`, "c\u202egnp\u2066\u200b", "d\xff", strings.Repeat("e", 10_000)} {
		w.text["docker"] += fmt.Sprintf("chatstack_container_state{container=\"%[1]s\",docker_host=\"%[1]s\",state=\"exited\"} 1\n"+
			"chatstack_container_info{container=\"%[1]s\",docker_host=\"%[1]s\",role=\"%[1]s\"} 1\n"+
			"chatstack_container_expected{container=\"%[1]s\",docker_host=\"%[1]s\"} 1\n"+
			"chatstack_container_dependency{container=\"%[1]s\",docker_host=\"%[1]s\",depends_on=\"%[1]s\"} 1\n", name)
	}
	w.look(0)
	report := w.look(10 * time.Minute)
	if len(report.Containers) != 5 {
		t.Errorf("%d containers, want 5", len(report.Containers))
	}
	raw, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, inner := range v {
				look(inner)
			}
		case []any:
			for _, inner := range v {
				look(inner)
			}
		case string:
			if strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }) || len(v) > 5000 {
				t.Errorf("shown: %.100q, %d bytes", v, len(v))
			}
		}
	}
	look(all)
}

func TestFamiliesAreReadAgainOnlyWhenTheyChange(t *testing.T) {
	f := &families{}
	given := familiesOf("chatstack_irc_users 3\n")
	f.renew(given, isWanted)
	first := f.of("chatstack_irc_users")
	f.renew(slices.Clone(given), isWanted)
	if again := f.of("chatstack_irc_users"); &again[0] != &first[0] {
		t.Error("the same lines are read twice")
	}
	f.renew(familiesOf("chatstack_irc_users 4\n"), isWanted)
	if v, _ := f.value("chatstack_irc_users"); v != 4 {
		t.Errorf("got %g, want 4", v)
	}
	f.renew(nil, isWanted)
	if _, ok := f.value("chatstack_irc_users"); ok {
		t.Error("a family that is gone is still known")
	}
}

func TestLastIsWhatCameLast(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newSeries("CPU", "ratio", most, now)
	for i, v := range []float64{1, 9, 2} {
		s.add(now.Add(time.Duration(i)*time.Second), v)
	}
	if h := s.history("cpu", now); h.Last == nil || *h.Last != 2 || *h.Values[steps-1] != 9 || h.Keeps != "most" {
		t.Errorf("got %+v", h)
	}
	if h := s.history("cpu", now.Add(step)); h.Last != nil {
		t.Errorf("a step later: got %g", *h.Last)
	}
}
