package incident

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// bluntWords name things as they are.
type bluntWords struct{}

func (bluntWords) Name(s health.Subject, _ string) string { return s.Name }

func (bluntWords) Impact(before string, problems []*health.Event) string {
	for _, p := range problems {
		before = max(before, p.Of.Name)
	}
	return before
}

func (bluntWords) Headline(e *health.Event) string {
	return strings.TrimSpace(e.Of.Name + " " + e.Alert + " " + e.Part)
}

// world has a real judge, whose facts the test changes, and the log of what it says.
type world struct {
	*testing.T
	health.Facts
	began time.Time
	judge *health.Judge
	log   *Log
	last  *health.Judgement
	saved [][]byte // the rounds, and the incidents about which somebody wrote
}

const step = 30 * time.Second

// clockAt is what a clock gives that is set to a time in full seconds: with a monotonic reading, which a later setting does not change.
func clockAt(at time.Time) time.Time {
	now := time.Now()
	return set(now, at.Round(0).Sub(now.Round(0)))
}

// set sets the clock, whose time has full seconds above 30 bits of nanoseconds.
func set(now time.Time, by time.Duration) time.Time {
	wall := now.Round(0).Add(by)
	*(*uint64)(unsafe.Pointer(&now)) += uint64(wall.Unix()-now.Unix())<<30 + uint64(wall.Nanosecond()-now.Nanosecond())
	return now
}

func newWorld(t *testing.T) *world {
	t.Helper()
	settings := alerts.Defaults()
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	w := &world{
		T:     t,
		began: began,
		judge: health.NewJudge(alerts.Rules(&settings)),
		log:   New(bluntWords{}),
	}
	w.Now = clockAt(began)
	w.Engines = []health.Engine{{Host: "local", Read: true}}
	for _, name := range []string{"db", "api", "web", "other"} {
		w.Engines[0].Containers = append(w.Engines[0].Containers, health.Container{
			Host:     "local",
			Name:     name,
			State:    health.Running,
			Expected: true,
		})
	}
	w.container("api").DependsOn, w.container("web").DependsOn = []string{"db"}, []string{"api"}
	for _, name := range []string{"api", "web", "web2", "other", "lone"} {
		home := map[string]string{"web2": "web", "lone": ""}
		container, moved := home[name]
		if !moved {
			container = name
		}
		w.Targets = append(w.Targets, health.Target{
			Name:          name,
			Kind:          "http",
			Container:     container,
			ContainerHost: "local",
			Read:          true,
			Up:            true,
			Every:         step,
		})
	}
	w.look()
	return w
}

func (w *world) container(name string) *health.Container {
	list := w.Engines[0].Containers
	return &list[slices.IndexFunc(list, func(c health.Container) bool { return c.Name == name })]
}

func (w *world) target(name string) *health.Target {
	return &w.Targets[slices.IndexFunc(w.Targets, func(t health.Target) bool { return t.Name == name })]
}

func (w *world) stopDatabase(stopped bool) {
	w.container("db").State = map[bool]string{true: "exited", false: health.Running}[stopped]
}

// look judges now, and saves the round.
func (w *world) look() {
	w.Helper()
	facts := w.Facts
	facts.Targets, facts.Engines = slices.Clone(w.Targets), slices.Clone(w.Engines)
	for i := range facts.Targets {
		facts.Targets[i].ReadAt = w.Now
	}
	facts.Engines[0].Containers = slices.Clone(w.Engines[0].Containers)
	w.last = w.judge.Judge(&facts)
	before := w.json()
	changed := w.log.Apply(&w.last.Round)
	w.save(saved{Round: &w.last.Round})
	if after := w.json(); len(changed) == 0 && before != after {
		w.Errorf("after %s, the log has changed without saying so:\n%s\n%s", w.since(w.Now), before, after)
	}
}

// saved is one of its fields.
type saved struct {
	Round    *health.Round `json:",omitempty"`
	Incident *Incident     `json:",omitempty"`
}

func (w *world) save(record saved) {
	raw, err := json.Marshal(record)
	if err != nil {
		w.Fatal(err)
	}
	w.saved = append(w.saved, raw)
}

// wrote saves an incident about which somebody has written.
func (w *world) wrote(i *Incident, err error) (*Incident, error) {
	if err == nil {
		w.save(saved{Incident: i})
	}
	return i, err
}

func (w *world) json() string {
	raw, err := json.Marshal(w.log.All())
	if err != nil {
		w.Fatal(err)
	}
	return string(raw)
}

func (w *world) since(at time.Time) time.Duration { return at.Sub(w.began) }

// pass lets time pass, with a judgement in each step.
func (w *world) pass(d time.Duration) {
	w.Helper()
	for end := w.Now.Add(d); w.Now.Before(end); {
		w.Now = w.Now.Add(min(step, end.Sub(w.Now)))
		w.look()
	}
}

// restart ends the process and begins another one, which has the saved memory and records, after a while.
func (w *world) restart(after time.Duration) {
	w.Helper()
	memory := w.judge.Memory(w.Now)
	raw, err := json.Marshal(memory)
	if err != nil {
		w.Fatal(err)
	}
	var restored health.Memory
	if err := json.Unmarshal(raw, &restored); err != nil {
		w.Fatal(err)
	}
	settings := alerts.Defaults()
	w.Now = clockAt(w.Now.Add(after))
	before := w.json()
	w.judge, w.log = health.NewJudge(alerts.Rules(&settings)), New(bluntWords{})
	var round health.Round
	for _, raw := range w.saved {
		var record saved
		err := json.Unmarshal(raw, &record)
		if record.Round != nil {
			round = *record.Round
			w.log.Apply(&round)
		} else if err == nil {
			err = w.log.Restore(record.Incident)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	if after := w.json(); after != before {
		w.Errorf("the log was %s\nits records say %s", before, after)
	}
	w.judge.Resume(&restored, round.To, round.To, w.log.Lasting(), w.Now)
}

// want compares the incidents, newest first, such as "db ContainerDown critical 1m to 7m closed: api TargetDown, db ContainerDown".
func (w *world) want(want ...string) {
	w.Helper()
	var got []string
	for _, i := range w.log.All() {
		end := "now"
		if !i.Ended.IsZero() {
			end = w.since(i.Ended).String()
		}
		if i.EndedAtLatest {
			end += " at the latest"
		}
		var problems []string
		for n := range i.Problems {
			problems = append(problems, i.Problems[n].Text)
		}
		slices.Sort(problems)
		got = append(got,
			fmt.Sprintf("%s, %s, %s to %s, %s: %s", i.Title, i.Severity, w.since(i.Began), end, i.State, strings.Join(problems, "; ")))
	}
	if !slices.Equal(got, want) {
		w.Errorf("after %s (-want +got):\n-%s\n+%s", w.since(w.Now), strings.Join(want, "\n-"), strings.Join(got, "\n+"))
	}
}

func (w *world) newest() *Incident { return w.log.All()[0] }

func TestCriticalProblemOpensAndClosesAnIncident(t *testing.T) {
	w := newWorld(t)
	w.pass(time.Minute)
	w.target("lone").Up = false
	w.look() // the reading that notices it
	w.pass(5 * time.Minute)
	w.want()
	w.pass(30 * time.Second)
	w.want("lone TargetDown, critical, 1m0s to now, open: lone TargetDown")
	if i := w.newest(); w.since(i.Opened) != 6*time.Minute+30*time.Second || w.since(i.Timeline[0].Time) != time.Minute || len(i.ID) != 17 {
		t.Errorf("got %+v", i)
	}
	w.target("lone").Up = true
	w.pass(30 * time.Second)
	w.want("lone TargetDown, critical, 1m0s to 7m0s, watching: lone TargetDown")
	w.pass(QuietPeriod - time.Second)
	w.want("lone TargetDown, critical, 1m0s to 7m0s, watching: lone TargetDown")
	w.pass(time.Second)
	w.want("lone TargetDown, critical, 1m0s to 7m0s, closed: lone TargetDown")
	i := w.newest()
	if w.since(i.Closed) != 17*time.Minute || !i.Updated.Equal(i.Closed) {
		t.Errorf("closed after %s, updated after %s", w.since(i.Closed), w.since(i.Updated))
	}
	if len(i.Outages) != 1 || i.Outages[0].Seconds != 360 || i.Outages[0].AtMost {
		t.Errorf("outages: %+v", i.Outages)
	}
	w.pass(time.Hour)
	w.target("lone").Up = false
	w.pass(6 * time.Minute)
	if len(w.log.All()) != 2 {
		t.Error("another outage an hour later is the same incident")
	}
}

func TestShortAndMaintainedProblemsOpenNone(t *testing.T) {
	w := newWorld(t)
	w.target("lone").Up = false
	w.pass(4 * time.Minute)
	w.target("lone").Up = true
	w.pass(time.Hour)
	w.Maintenance = []health.Subject{health.TargetSubject("lone"), {Kind: health.KindContainer, Name: "db"}}
	w.target("lone").Up = false
	w.stopDatabase(true)
	w.target("api").Up, w.target("web").Up = false, false
	w.pass(2 * time.Hour)
	w.want()
}

func TestLastingWarningOpensAnIncident(t *testing.T) {
	w := newWorld(t)
	w.target("lone").WarnOnly = true
	w.target("lone").Up = false
	w.look()
	w.pass(LastingWarning - time.Second)
	w.want()
	w.pass(time.Second)
	w.want("lone TargetDown, warning, 0s to now, open: lone TargetDown")
}

// TestCauseAndConsequencesAreOneIncident has a database stop, on which everything but other depends.
func TestCauseAndConsequencesAreOneIncident(t *testing.T) {
	w := newWorld(t)
	w.pass(time.Minute)
	w.stopDatabase(true)
	w.pass(time.Minute)
	for _, name := range []string{"api", "web", "web2"} {
		w.target(name).Up = false
	}
	w.pass(10 * time.Minute)
	w.stopDatabase(false)
	w.pass(time.Minute)
	for _, name := range []string{"api", "web", "web2"} {
		w.target(name).Up = true
	}
	w.pass(time.Hour)
	w.want("db ContainerDown, critical, 1m30s to 13m30s, closed: api TargetDown; db ContainerDown; web TargetDown; web2 TargetDown")
	i := w.newest()
	if i.Cause != health.ContainerSubject("local", "db") {
		t.Errorf("cause: %v", i.Cause)
	}
	if len(i.Outages) != 3 || i.Outages[0].Seconds != 660 {
		t.Errorf("outages: %+v", i.Outages)
	}
	var told []string
	for _, e := range i.Timeline {
		told = append(told, fmt.Sprint(w.since(e.Time), " ", e.Text))
	}
	for _, want := range []string{
		"1m30s db ContainerDown", "3m0s alert ContainerDown (warning): db ContainerDown",
		"7m0s alert ContainerDown (critical): db ContainerDown",
		"2m30s no alert for api: it needs db", "12m30s over: db ContainerDown", "13m30s over: web TargetDown",
		"23m30s the incident was closed: its problems stayed away for 10 minutes",
	} {
		if !slices.Contains(told, want) {
			t.Errorf("the timeline lacks %q:\n%s", want, strings.Join(told, "\n"))
		}
	}
}

func TestTargetsOfOneContainerAreOneIncident(t *testing.T) {
	w := newWorld(t)
	w.target("web").Up = false
	w.pass(6 * time.Minute)
	w.target("web2").Up = false
	w.pass(time.Minute)
	w.target("lone").Up = false
	w.pass(6 * time.Minute)
	w.want("lone TargetDown, critical, 7m30s to now, open: lone TargetDown",
		"web TargetDown, critical, 30s to now, open: web TargetDown; web2 TargetDown")
}

// TestTargetAtFaultItselfHasItsOwnIncident has targets of one container fail at once: two hang, and one refuses the exporter's token.
func TestTargetAtFaultItselfHasItsOwnIncident(t *testing.T) {
	w := newWorld(t)
	third := *w.target("web")
	third.Name = "web3"
	w.Targets = append(w.Targets, third)
	w.look()
	w.target("web").Up, w.target("web2").Up, w.target("web3").Up = false, false, false
	w.target("web2").OwnFault, w.target("web2").Reason = true, "unauthorized"
	w.pass(6 * time.Minute)
	w.want("web2 TargetDown, critical, 30s to now, open: web2 TargetDown",
		"web TargetDown, critical, 30s to now, open: web TargetDown; web3 TargetDown")
}

// TestOneCertificateIsOneIncident has a certificate expire that two targets serve, and a third one fail.
func TestOneCertificateIsOneIncident(t *testing.T) {
	w := newWorld(t)
	v := health.Validity{Ends: w.began.Add(time.Minute), Fingerprint: [32]byte{1}}
	for _, name := range []string{"web", "lone"} {
		w.target(name).Conditions = []health.Condition{{Alert: health.AlertCertificateExpiry, Certificates: []health.Validity{v}}}
	}
	w.pass(time.Minute)
	for _, name := range []string{"web", "lone"} {
		w.target(name).Conditions[0].Refused = true
		w.target(name).Up, w.target(name).OwnFault, w.target(name).Reason = false, true, "tls"
	}
	w.target("web2").Up = false
	w.pass(6 * time.Minute)
	list := w.log.All()
	if len(list) != 2 || list[0].Title != "web2 TargetDown" || len(list[0].Problems) != 1 ||
		list[1].Title != "lone TLSCertificateExpiry" || len(list[1].Problems) != 4 {
		t.Errorf("got %s", w.json())
	}
}

// TestIncidentsOfOneCauseAreMerged has the container that serves two targets become known while both are down.
func TestIncidentsOfOneCauseAreMerged(t *testing.T) {
	w := newWorld(t)
	w.target("web2").Container = ""
	w.target("web").Up = false
	w.pass(time.Minute)
	w.target("web2").Up = false
	w.pass(6 * time.Minute)
	if n := len(w.log.All()); n != 2 {
		t.Fatalf("%d incidents, want 2", n)
	}
	younger, older := w.log.All()[0], w.log.All()[1]
	if _, err := w.wrote(w.log.AddNote(w.Now, younger.ID, "", "a note")); err != nil {
		t.Fatal(err)
	}
	w.target("web2").Container = "web"
	w.pass(time.Minute)
	w.want("web2 TargetDown, critical, 1m30s to now, merged: web2 TargetDown",
		"web TargetDown, critical, 30s to now, open: web TargetDown; web2 TargetDown")
	if got := w.log.All(); got[0].MergedInto != older.ID || len(got[1].Outages) != 2 || len(got[1].Notes) != 1 {
		t.Errorf("got %+v, %+v", got[0], got[1])
	}
	if i, err := w.wrote(w.log.AddNote(w.Now, younger.ID, "", "another")); err != nil || i.ID != older.ID {
		t.Errorf("a note on the merged one went to %v, %v", i, err)
	}
	w.target("web").Up, w.target("web2").Up = true, true
	w.pass(time.Hour)
	w.want("web2 TargetDown, critical, 1m30s to now, merged: web2 TargetDown",
		"web TargetDown, critical, 30s to 8m30s, closed: web TargetDown; web2 TargetDown")
}

// TestOldWarningTakesInNoOutage has a certificate that warns for days, and an outage of its target.
func TestOldWarningTakesInNoOutage(t *testing.T) {
	w := newWorld(t)
	w.target("lone").Conditions = []health.Condition{{Alert: health.AlertChainInvalid, Holds: true}}
	w.pass(3 * time.Hour)
	w.want("lone TLSChainInvalid, warning, 30s to now, open: lone TLSChainInvalid")
	w.target("lone").Conditions, w.target("lone").Up = nil, false
	w.pass(10 * time.Minute)
	w.target("lone").Conditions, w.target("lone").Up = []health.Condition{{Alert: health.AlertChainInvalid, Holds: true}}, true
	w.pass(time.Hour)
	w.want("lone TargetDown, critical, 3h0m30s to 3h10m30s, closed: lone TargetDown",
		"lone TLSChainInvalid, warning, 30s to now, open: lone TLSChainInvalid")
}

func TestProblemThatComesAndGoesIsOneIncident(t *testing.T) {
	w := newWorld(t)
	for range 4 {
		w.container("other").Health = health.Unhealthy
		w.pass(6 * time.Minute)
		w.container("other").Health = "healthy"
		w.pass(5 * time.Minute)
	}
	w.pass(time.Hour)
	w.want("other ContainerUnhealthy, critical, 30s to 39m30s, closed: other ContainerUnhealthy")
	for _, e := range w.newest().Timeline {
		if want := (map[string]int{EventBegan: 4, EventAlert: 4, EventEnded: 4})[e.Kind]; e.Count != want {
			t.Errorf("%s counts %d, want %d", e.Kind, e.Count, want)
		}
	}
}

// TestCrashLoopEndsWithItsLastRestart holds that the window in which the judge counts restarts does not make the fault longer.
func TestCrashLoopEndsWithItsLastRestart(t *testing.T) {
	w := newWorld(t)
	w.pass(time.Minute)
	for range 10 {
		w.container("other").Restarts++
		w.pass(step)
	}
	w.pass(2 * time.Hour)
	w.want("other ContainerRestarts, critical, 1m30s to 6m0s, closed: other ContainerRestarts")
}

func TestRestartContinuesAnIncident(t *testing.T) {
	for name, c := range map[string]struct {
		heals bool
		away  time.Duration
		want  string
	}{
		"it lasts":            {false, time.Hour, "lone TargetDown, critical, 30s to now, open: lone TargetDown"},
		"it ended meanwhile":  {true, time.Hour, "lone TargetDown, critical, 30s to 1h10m30s at the latest, watching: lone TargetDown"},
		"it ended in seconds": {true, time.Second, "lone TargetDown, critical, 30s to 10m31s at the latest, watching: lone TargetDown"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.target("lone").Up = false
			w.pass(10 * time.Minute)
			id := w.newest().ID
			w.restart(c.away)
			for i := range w.Targets {
				w.Targets[i].Read = false
			}
			w.look()
			w.want("lone TargetDown, critical, 30s to now, open: lone TargetDown")
			for i := range w.Targets {
				w.Targets[i].Read = true
			}
			w.target("lone").Up = c.heals
			w.pass(step)
			w.want(c.want)
			if w.newest().ID != id || c.heals && !w.newest().Outages[0].AtMost {
				t.Errorf("got %+v", w.newest())
			}
			w.target("lone").Up = true
			w.pass(time.Hour)
			if i := w.newest(); i.State != Closed || len(w.log.All()) != 1 {
				t.Errorf("got %+v", i)
			}
		})
	}
}

// TestUnreadContainersKeepTheirIncident has the judge forget everything, and an engine that is read late.
func TestUnreadContainersKeepTheirIncident(t *testing.T) {
	w := newWorld(t)
	w.stopDatabase(true)
	w.pass(10 * time.Minute)
	w.restart(time.Minute)
	settings := alerts.Defaults()
	w.judge = health.NewJudge(alerts.Rules(&settings))
	w.judge.Resume(&health.Memory{}, health.Milli(w.Now.UnixMilli()), health.Milli(w.Now.UnixMilli()), w.log.Lasting(), w.Now)
	w.Engines[0].Read = false
	w.pass(5 * time.Minute)
	w.want("db ContainerDown, critical, 30s to now, open: db ContainerDown")
	w.Engines[0].Read = true
	w.pass(step)
	w.want("db ContainerDown, critical, 30s to now, open: db ContainerDown")
	w.stopDatabase(false)
	w.pass(step)
	w.want("db ContainerDown, critical, 30s to 17m0s, watching: db ContainerDown")
}

// TestRestartWhileWatchingWaitsAgain has an outage end shortly before a long absence of the exporter.
func TestRestartWhileWatchingWaitsAgain(t *testing.T) {
	w := newWorld(t)
	w.target("lone").Up = false
	w.pass(10 * time.Minute)
	w.target("lone").Up = true
	w.pass(time.Minute)
	w.restart(time.Hour)
	w.pass(QuietPeriod)
	w.want("lone TargetDown, critical, 30s to 10m30s, watching: lone TargetDown")
	w.pass(step)
	w.want("lone TargetDown, critical, 30s to 10m30s, closed: lone TargetDown")
}

func TestRemovedTargetEndsItsIncident(t *testing.T) {
	w := newWorld(t)
	w.target("lone").Up = false
	w.pass(10 * time.Minute)
	w.Targets = w.Targets[:len(w.Targets)-1]
	w.pass(time.Hour)
	w.want("lone TargetDown, critical, 30s to 10m30s, closed: lone TargetDown")
	if last := w.newest().Timeline[3]; last.Text != "no longer watched: lone" && w.newest().Timeline[4].Text != "no longer watched: lone" {
		t.Errorf("got %+v", w.newest().Timeline)
	}
}

func TestReturnedIncidentsDoNotChange(t *testing.T) {
	w := newWorld(t)
	w.target("lone").Up = false
	w.pass(10 * time.Minute)
	i := w.newest()
	before, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.wrote(w.log.AddNote(w.Now, i.ID, "ann", "on it")); err != nil {
		t.Fatal(err)
	}
	w.target("lone").Up = true
	w.pass(time.Hour)
	if after, err := json.Marshal(i); err != nil || string(after) != string(before) {
		t.Errorf("it was %s\nand is %s, %v", before, after, err)
	}
	if at := i.At(w.began.Add(time.Hour)); at.Outages[0].Seconds != 3570 || i.Outages[0].Seconds != 0 {
		t.Errorf("outages after an hour: %+v, %+v", at.Outages, i.Outages)
	}
}

func TestNotesAreChecked(t *testing.T) {
	w := newWorld(t)
	w.target("lone").Up = false
	w.pass(10 * time.Minute)
	id := w.newest().ID
	for name, c := range map[string]struct {
		id, author, text string
		want             error
	}{
		"good": {
			id,
			"Ann",
			"line one\n\tline two ✓",
			nil,
		},
		"pasted": { // with a space that does not break, an emoji of three, and letters that are not joined
			id,
			"A\u00a0B",
			"5\u00a0GB free \U0001f469\u200d\U0001f4bb \u0645\u06cc\u200c\u0634\u0648\u062f",
			nil,
		},
		"longest": {
			id,
			"",
			strings.Repeat("é", 2000),
			nil,
		},
		"too long": {
			id,
			"",
			strings.Repeat("é", 2001),
			ErrInvalid,
		},
		"empty": {
			id,
			"Ann",
			" \n ",
			ErrInvalid,
		},
		"control": {
			id,
			"",
			"a\x1b[31mb",
			ErrInvalid,
		},
		"invalid UTF-8": {
			id,
			"",
			"a\xff",
			ErrInvalid,
		},
		"direction": {
			id,
			"",
			"a\u202eb",
			ErrInvalid,
		},
		"invisible": {
			id,
			"",
			"a\u2028b",
			ErrInvalid,
		},
		"author of lines": {
			id,
			"a\nb",
			"x",
			ErrInvalid,
		},
		"long author": {
			id,
			strings.Repeat("a", 101),
			"x",
			ErrInvalid,
		},
		"unknown": {
			"20260501-00000000",
			"",
			"x",
			ErrUnknown,
		},
	} {
		before := len(w.newest().Notes)
		_, err := w.log.AddNote(w.Now, c.id, c.author, c.text)
		if !errors.Is(err, c.want) || len(w.newest().Notes) != before+map[bool]int{true: 1}[c.want == nil] {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	for range maxNotes {
		_, _ = w.log.AddNote(w.Now, id, "", "again")
	}
	if _, err := w.wrote(w.log.AddNote(w.Now, id, "", "once more")); !errors.Is(err, ErrTooMany) || len(w.newest().Notes) != maxNotes {
		t.Errorf("got %v", err)
	}
}

func TestLogIsBounded(t *testing.T) {
	log, now := New(bluntWords{}), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for n := range 700 {
		at := now.Add(-time.Duration(n) * time.Hour)
		state := Closed
		if n == 650 {
			state = Watching
		}
		i := Incident{
			ID:      fmt.Sprint(n),
			State:   state,
			Began:   at,
			Opened:  at,
			Ended:   at,
			Updated: at,
		}
		if err := errors.Join(log.Restore(&i), log.Restore(&i)); err != nil {
			t.Fatal(err)
		}
	}
	round := func(at time.Time) {
		to := health.Milli(at.UnixMilli())
		log.Apply(&health.Round{Tick: health.Tick{From: to, To: to}})
	}
	round(now)
	if all := log.All(); len(all) != MaxIncidents || all[0].ID != "0" || all[MaxIncidents-1].ID != "650" {
		t.Errorf("%d incidents, %s to %s", len(all), all[0].ID, all[len(all)-1].ID)
	}
	round(now.Add(Retention))
	if all := log.All(); len(all) != 2 {
		t.Errorf("%d incidents after 90 days, want the newest, which is 90 days old, and the one that lasts", len(all))
	}
	if log.Restore(&Incident{}) == nil || log.Restore(&Incident{ID: "x"}) == nil {
		t.Error("an incident without id or beginning was restored")
	}
}

func TestTimelineIsBounded(t *testing.T) {
	i, at := &Incident{}, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for n := range 1000 {
		i.note(Event{Time: at.Add(time.Duration(n) * time.Second), Kind: EventBegan, Text: fmt.Sprint(n)})
	}
	if len(i.Timeline) != maxTimeline || i.LeftOut != 800 || i.Timeline[0].Text != "0" || i.Timeline[maxTimeline-1].Text != "999" {
		t.Errorf("%d events, %d left out", len(i.Timeline), i.LeftOut)
	}
}

// TestTimelineCountsWhatItLeavesOut has more events than there is room for, again and again.
func TestTimelineCountsWhatItLeavesOut(t *testing.T) {
	i, at := &Incident{}, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for n := range 1000 {
		i.note(Event{Time: at.Add(time.Duration(n) * time.Second), Kind: EventBegan, Text: fmt.Sprint(n % 250)})
	}
	counted := i.LeftOut
	for _, e := range i.Timeline {
		counted += max(e.Count, 1)
	}
	if len(i.Timeline) != maxTimeline || counted != 1000 || i.Timeline[0].Count != 4 || i.Timeline[maxTimeline-1].Text != "249" {
		t.Errorf("%d lines, %d events, the first %d times", len(i.Timeline), counted, i.Timeline[0].Count)
	}
}

// TestIncidentsThatContinueEachOtherAreMended restores incidents whose continuation never ends, or is not there.
func TestIncidentsThatContinueEachOtherAreMended(t *testing.T) {
	for name, c := range map[string]struct {
		into map[string]string // the incident that continues each one
		want map[string]string // where a note on each one goes
	}{
		"each other": {map[string]string{"a": "b", "b": "a"}, map[string]string{"a": "a", "b": "a"}},
		"itself":     {map[string]string{"a": "a"}, map[string]string{"a": "a"}},
		"in a circle": {
			map[string]string{"a": "b", "b": "c", "c": "a", "d": "c"},
			map[string]string{"a": "a", "b": "a", "c": "a", "d": "a"},
		},
		"by none":    {map[string]string{"a": "gone", "b": "a"}, map[string]string{"a": "a", "b": "a"}},
		"as it does": {map[string]string{"a": "b", "b": "c", "c": ""}, map[string]string{"a": "c", "b": "c", "c": "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			log, now := New(bluntWords{}), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
			for _, id := range slices.Sorted(maps.Keys(c.into)) {
				i := Incident{ID: id, State: Closed, Began: now}
				if into := c.into[id]; into != "" {
					i.State, i.MergedInto = Merged, into
				}
				if err := log.Restore(&i); err != nil {
					t.Fatal(err)
				}
			}
			_, _ = log.AddNote(now, "a", "", "must end")
			log.Mend()
			for id, want := range c.want {
				if i, err := log.AddNote(now, id, "", "text"); err != nil || i.ID != want || i.State != Closed {
					t.Errorf("a note on %s goes to %+v, %v; want %s", id, i, err, want)
				}
			}
		})
	}
}

// TestCriticalCertificateTakesInNoLaterOutage has a certificate that is critical for days, and an outage of ten minutes.
func TestCriticalCertificateTakesInNoLaterOutage(t *testing.T) {
	w := newWorld(t)
	w.target("lone").Conditions = []health.Condition{
		{Alert: health.AlertCertificateExpiry, Certificates: []health.Validity{{Ends: w.began.Add(24 * time.Hour)}}},
	}
	w.pass(12 * time.Hour)
	w.target("lone").Up = false
	w.pass(10 * time.Minute)
	w.target("lone").Up = true
	w.pass(time.Hour)
	list := w.log.All()
	if len(list) != 2 || list[0].Title != "lone TargetDown" || list[0].State != Closed || list[1].State != Open ||
		len(list[1].Outages) != 0 {
		t.Errorf("got %s", w.json())
	}
}

// TestClockSetBackKeepsTimesInOrder sets the clock back by two days over a restart, while a problem lasts and after it.
func TestClockSetBackKeepsTimesInOrder(t *testing.T) {
	for _, lasts := range []bool{true, false} {
		w := newWorld(t)
		w.target("lone").Up = false
		w.pass(10 * time.Minute)
		if !lasts {
			w.target("lone").Up = true
			w.pass(time.Minute)
		}
		w.restart(-48 * time.Hour)
		w.look()
		w.target("lone").Up = true
		w.pass(2 * time.Hour)
		i := w.newest()
		if i.State != Closed || i.Ended.Before(i.Began) || i.Closed.Before(i.Ended) || i.Closed.After(w.Now) || len(i.Outages) != 1 ||
			i.Outages[0].Seconds < 0 {
			t.Errorf("lasts %t: got %s", lasts, w.json())
		}
		for _, e := range i.Timeline {
			if e.Time.After(w.Now) {
				t.Errorf("lasts %t: %q is in the future", lasts, e.Text)
			}
		}
	}
}

// TestClockThatIsWrongAtBootIsCorrected has a machine without a clock of its own start again during an outage. How long it was away is not
// known until then, so that it counts as no time.
func TestClockThatIsWrongAtBootIsCorrected(t *testing.T) {
	w := newWorld(t)
	w.target("lone").Up = false
	w.pass(10 * time.Minute)
	began := w.newest().Began
	const back = 50 * 365 * 24 * time.Hour
	w.restart(-back)
	w.pass(5 * time.Minute)
	if i := w.newest(); i.State != Open || i.At(w.Now).Outages[0].Seconds != (14*time.Minute).Seconds() {
		t.Errorf("before the correction: got %s", w.json())
	}
	w.Now = set(w.Now, back)
	w.pass(5 * time.Minute)
	w.target("lone").Up = true
	w.pass(time.Hour)
	if i := w.newest(); len(w.log.All()) != 1 || i.Began.Sub(began) != step || i.State != Closed ||
		i.Outages[0].Seconds != i.Ended.Sub(i.Began).Seconds() || i.Ended.Sub(began) > 21*time.Minute {
		t.Errorf("began %s: got %s", began, w.json())
	}
}

// TestClockInTheFutureCostsNoIncident: it may be that of a machine at boot, or be set wrong for a while.
func TestClockInTheFutureCostsNoIncident(t *testing.T) {
	const ahead = 10 * 365 * 24 * time.Hour
	for name, goTo := range map[string]func(*world, time.Duration){
		"at boot": (*world).restart, "set": func(w *world, by time.Duration) { w.Now = set(w.Now, by) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.target("lone").Up = false
			w.pass(10 * time.Minute)
			w.target("lone").Up = true
			w.pass(2 * time.Hour)
			before := *w.newest()
			goTo(w, ahead)
			w.pass(30 * time.Minute)
			w.restart(time.Minute)
			w.pass(10 * time.Minute)
			goTo(w, -ahead)
			w.pass(2 * time.Hour)
			if all := w.log.All(); len(all) != 1 || !all[0].Ended.Equal(before.Ended) || all[0].State != Closed {
				t.Errorf("it was %+v, then %s", before, w.json())
			}
		})
	}
}

// TestTimesMoveWithTheClock sets it while a problem lasts: what lasts keeps its duration, what is over its times.
func TestTimesMoveWithTheClock(t *testing.T) {
	for name, by := range map[string]time.Duration{
		"set back": -45 * time.Minute, "set back by days": -72 * time.Hour, "set forward": 2 * time.Hour, "suspended": 8 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.target("other").Up = false
			w.pass(10 * time.Minute)
			w.target("other").Up = true
			w.pass(time.Hour)
			before := *w.newest()
			w.target("lone").Up = false
			w.pass(10 * time.Minute)
			w.Now = set(w.Now, by)
			w.pass(5 * time.Minute)
			w.target("lone").Up = true
			w.pass(step)
			ended := w.Now
			w.pass(time.Hour)
			all := w.log.All()
			at := slices.IndexFunc(all, func(i *Incident) bool { return i.Title == "lone TargetDown" })
			i, over := all[at], all[1-at]
			if i.State != Closed || !i.Ended.Equal(ended) || i.Outages[0].Seconds != (15*time.Minute).Seconds() ||
				i.Ended.Sub(i.Began) != 15*time.Minute || i.Closed.Sub(i.Ended) != QuietPeriod {
				t.Errorf("got %s", w.json())
			}
			for n, e := range i.Timeline {
				if e.Time.Before(i.Began) || e.Time.After(i.Closed) || n > 0 && e.Time.Before(i.Timeline[n-1].Time) {
					t.Errorf("%q was at %s", e.Text, e.Time)
				}
			}
			if !over.Began.Equal(before.Began) || !over.Closed.Equal(before.Closed) {
				t.Errorf("what was over is now %+v", over)
			}
			w.restart(time.Minute) // and the records say the same
		})
	}
}

// TestOutageTakesInItsContainersLaterOnes has a second target of a container fail more than an hour after the first.
func TestOutageTakesInItsContainersLaterOnes(t *testing.T) {
	w := newWorld(t)
	w.target("web").Up = false
	w.pass(70 * time.Minute)
	w.target("web2").Up = false
	w.pass(20 * time.Minute)
	if all := w.log.All(); len(all) != 1 || len(all[0].Outages) != 2 {
		t.Errorf("got %s", w.json())
	}
}

func TestMergedEventsAreAllCounted(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	older, younger := &Incident{}, &Incident{}
	for n := range 5 {
		younger.note(Event{Kind: EventBegan, Text: "x", Time: at.Add(time.Duration(n) * time.Hour)})
	}
	older.note(Event{Kind: EventBegan, Text: "x", Time: at.Add(-time.Hour)})
	older.note(younger.Timeline[0])
	if e := older.Timeline[0]; len(older.Timeline) != 1 || e.Count != 6 || !e.Time.Equal(at.Add(-time.Hour)) ||
		!e.Until.Equal(at.Add(4*time.Hour)) {
		t.Errorf("got %+v", older.Timeline)
	}
}

func TestMergedOutagesAreCountedOnce(t *testing.T) {
	at, web := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), health.TargetSubject("web")
	first, lasts := Outage{Subject: web, Seconds: 600, Until: at}, Outage{Subject: web, Since: at.Add(time.Hour)}
	later := lasts
	later.Since = at.Add(2 * time.Hour)
	want := first
	want.Since = lasts.Since
	for _, order := range [][]Outage{{first, lasts, later}, {later, first, lasts}, {lasts, later, first}} {
		d := &draft{Incident: &Incident{}}
		for _, o := range order {
			d.addOutages([]Outage{o})
		}
		if len(d.Outages) != 1 || d.Outages[0] != want {
			t.Errorf("got %+v, want %+v", d.Outages, want)
		}
	}
}

// TestRestoredIncidentsAreSorted holds before the first judgement too, in whichever order the file has them.
func TestRestoredIncidentsAreSorted(t *testing.T) {
	log, at := New(bluntWords{}), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, i := range []*Incident{{ID: "new", Began: at.Add(time.Hour)}, {ID: "old", Began: at}} {
		if err := log.Restore(i); err != nil {
			t.Fatal(err)
		}
	}
	if all := log.All(); all[0].ID != "new" {
		t.Errorf("the newest is %s", all[0].ID)
	}
}

// TestOutagesThatAreOneProblemAreCountedByThemselves: between them, readings succeed.
func TestOutagesThatAreOneProblemAreCountedByThemselves(t *testing.T) {
	w := newWorld(t)
	w.pass(time.Minute)
	for range 4 {
		w.target("lone").Up = false
		w.pass(6 * time.Minute)
		w.target("lone").Up = true
		w.pass(4 * time.Minute)
	}
	w.want("lone TargetDown, critical, 1m30s to now, open: lone TargetDown")
	if got := w.newest().Outages; len(got) != 1 || got[0].Seconds != 4*360 || !got[0].Since.IsZero() {
		t.Errorf("outages %+v, want four of 6 minutes", got)
	}
	w.restart(0)
	w.pass(15 * time.Minute)
	if i := w.newest(); i.State != Watching || i.Outages[0].Seconds != 4*360 {
		t.Errorf("%s, outages %+v, want four of 6 minutes", i.State, i.Outages)
	}
}

// TestRenamedTargetKeepsItsIncident, and what its outage has lasted.
func TestRenamedTargetKeepsItsIncident(t *testing.T) {
	w := newWorld(t)
	w.target("lone").Place = "http://lone"
	w.pass(time.Minute)
	w.target("lone").Up = false
	w.pass(7 * time.Minute)
	id := w.newest().ID
	w.target("lone").Name = "alone"
	w.pass(3 * time.Minute)
	w.target("alone").Up = true
	w.pass(time.Minute)
	w.want("lone TargetDown, critical, 1m30s to 11m30s, watching: lone TargetDown")
	i := w.newest()
	if i.ID != id || i.Cause.Name != "alone" || len(i.Problems) != 1 || i.Problems[0].Name != "alone" {
		t.Errorf("incident %+v, want that of alone, and the same as before", i)
	}
	if len(i.Outages) != 1 || i.Outages[0].Name != "alone" || i.Outages[0].Seconds != 600 {
		t.Errorf("outages %+v, want one of 10 minutes", i.Outages)
	}
}
