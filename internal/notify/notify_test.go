package notify

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// ten is a morning at ten.
var ten = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

// play looks every ten seconds, and has what each receiver is told.
type play struct {
	*testing.T
	book      book
	now       time.Time
	since     time.Time
	receivers []Receiver
	site      Site
	problems  []status.Problem
	incidents []*incident.Incident
	starting  bool
	// forgets says that every look begins with what is in the file.
	forgets bool
	told    []string
	texts   []string
}

func newPlay(t *testing.T, receivers ...Receiver) *play {
	t.Helper()
	if len(receivers) == 0 {
		receivers = []Receiver{{Name: "all", Least: health.Warning}}
	}
	return &play{
		T:         t,
		now:       ten,
		since:     ten.Add(-time.Hour),
		receivers: receivers,
	}
}

// fire has an alert fire from now on.
func (p *play) fire(s health.Subject, alert string, severity health.Severity) *play {
	p.end(s, alert)
	p.problems = append(p.problems, status.Problem{Problem: health.Problem{
		Subject:  s,
		Alert:    alert,
		Since:    p.now,
		Severity: severity,
		Cause:    s,
	}})
	slices.SortStableFunc(p.problems, func(a, b status.Problem) int { return int(b.Severity) - int(a.Severity) })
	return p
}

// because is what explains the newest of a subject's problems.
func (p *play) because(s, cause health.Subject) *play {
	for i := range p.problems {
		if p.problems[i].Subject == s {
			p.problems[i].Cause = cause
		}
	}
	return p
}

func (p *play) end(s health.Subject, alert string) *play {
	p.problems = slices.DeleteFunc(p.problems, func(o status.Problem) bool { return o.Subject == s && o.Alert == alert })
	return p
}

// pass lets a time pass.
func (p *play) pass(d time.Duration) *play {
	p.Helper()
	for end := p.now.Add(d); p.now.Before(end); p.now = p.now.Add(10 * time.Second) {
		p.look()
	}
	return p
}

func (p *play) look() {
	p.Helper()
	if p.forgets {
		raw, err := json.Marshal(p.book.threads)
		if err != nil {
			p.Fatal(err)
		}
		p.book.threads = nil
		if err := json.Unmarshal(raw, &p.book.threads); err != nil {
			p.Fatal(err)
		}
	}
	v := &View{
		Now:       p.now,
		Report:    &status.Report{Problems: slices.Clone(p.problems)},
		Incidents: p.incidents,
		Starting:  p.starting,
	}
	p.book.look(v)
	for i := range p.receivers {
		r := &p.receivers[i]
		for _, item := range p.book.newsFor(r, v, p.since) {
			m := item.message(p.now, &p.site)
			p.told = append(p.told, fmt.Sprintf("%s %s %s", p.now.Format("15:04:05"), r.Name, m.Title))
			p.texts = append(p.texts, m.Text)
		}
	}
	p.book.forget(p.now, func(name string) bool {
		return slices.ContainsFunc(p.receivers, func(r Receiver) bool { return r.Name == name })
	})
}

// want compares what was told.
func (p *play) want(lines ...string) {
	p.Helper()
	if got, want := strings.Join(p.told, "\n"), strings.Join(lines, "\n"); got != want {
		p.Errorf("told\n%s\nwant\n%s", got, want)
	}
}

var (
	web  = health.TargetSubject("web")
	api  = health.TargetSubject("api")
	db   = health.ContainerSubject("local", "db")
	most = health.ExporterSubject
)

func TestOneMessageForEachStep(t *testing.T) {
	p := newPlay(t)
	p.fire(web, health.AlertTargetDown, health.Warning).pass(3 * time.Minute)
	p.fire(web, health.AlertTargetDown, health.Critical).pass(10 * time.Minute)
	p.end(web, health.AlertTargetDown).pass(10 * time.Minute)
	p.want("10:01:00 all [WARNING] Web is down", "10:03:30 all [CRITICAL] Web is down", "10:14:00 all [RESOLVED] It was: Web is down")
}

func TestWhatIsSoonOverIsNotTold(t *testing.T) {
	p := newPlay(t)
	p.fire(web, health.AlertTargetDown, health.Warning).pass(50 * time.Second)
	p.end(web, health.AlertTargetDown).pass(10 * time.Minute)
	p.want()
	if len(p.book.threads) > 0 {
		t.Errorf("%d threads are left", len(p.book.threads))
	}
}

// TestEndThatDoesNotLastIsNotTold keeps the thread.
func TestEndThatDoesNotLastIsNotTold(t *testing.T) {
	p := newPlay(t)
	p.fire(web, health.AlertTargetDown, health.Critical).pass(time.Minute)
	p.end(web, health.AlertTargetDown).pass(50 * time.Second)
	p.fire(web, health.AlertTargetDown, health.Critical).pass(time.Minute)
	p.want("10:00:30 all [CRITICAL] Web is down")
}

func TestConsequencesAreToldWithTheirCause(t *testing.T) {
	p := newPlay(t)
	p.fire(web, health.AlertTargetDown, health.Warning).because(web, db).pass(30 * time.Second)
	p.fire(db, health.AlertContainerDown, health.Warning).pass(5 * time.Minute)
	p.fire(api, health.AlertTargetDown, health.Warning).because(api, db).pass(5 * time.Minute)
	p.end(db, health.AlertContainerDown).end(api, health.AlertTargetDown).pass(5 * time.Minute)
	p.end(web, health.AlertTargetDown).pass(5 * time.Minute)
	if len(p.told) != 2 {
		p.want("one message, and one of the end")
	}
}

// TestAnotherAlertOfTheSameTargetIsTold although a thread of that target has been there for days.
func TestAnotherAlertOfTheSameTargetIsTold(t *testing.T) {
	p := newPlay(t)
	p.fire(web, "TLSCertificateExpiry", health.Warning).pass(2 * time.Hour)
	p.fire(web, health.AlertTargetDown, health.Warning).pass(2 * time.Minute)
	if len(p.told) != 2 || !strings.Contains(p.told[1], "Web is down") {
		p.want("both")
	}
}

// TestOutageAfterAWarningIsTold of the same container.
func TestOutageAfterAWarningIsTold(t *testing.T) {
	p := newPlay(t)
	p.fire(db, health.AlertContainerUnhealthy, health.Warning).pass(time.Hour)
	p.end(db, health.AlertContainerUnhealthy).fire(db, health.AlertContainerDown, health.Warning).pass(2 * time.Minute)
	p.want("10:01:00 all [WARNING] Container db: its health check fails", "11:01:00 all [WARNING] Container db is not running")
}

func TestEverythingIsOneMessage(t *testing.T) {
	p := newPlay(t)
	p.fire(web, health.AlertTargetDown, health.Warning).fire(api, health.AlertTargetDown, health.Warning).pass(20 * time.Second)
	p.fire(most, health.AlertMostTargetsDown, health.Warning)
	for i := range p.problems {
		if p.problems[i].Subject == most {
			p.problems[i].Consequences = []health.Subject{web, api}
		}
	}
	p.pass(10 * time.Minute)
	if len(p.told) != 1 {
		p.want("one message")
	}
	p.end(most, health.AlertMostTargetsDown).end(web, health.AlertTargetDown).pass(5 * time.Minute)
	p.end(api, health.AlertTargetDown).pass(5 * time.Minute)
	if len(p.told) != 2 {
		p.want("one message, and one of the end")
	}
}

// TestRestartOfAnEngineIsOneMessage and its end another, however many containers it has.
func TestRestartOfAnEngineIsOneMessage(t *testing.T) {
	p := newPlay(t)
	names := []string{"api", "db", "web"}
	of := func(name string) health.Subject { return health.ContainerSubject("local", name) }
	for _, name := range names {
		p.fire(of(name), health.AlertContainerRestarts, health.Warning)
	}
	p.fire(health.ContainerSubject("other", "db"), health.AlertContainerRestarts, health.Warning)
	p.pass(10 * time.Minute)
	p.fire(of("db"), health.AlertContainerRestarts, health.Critical).pass(10 * time.Minute)
	for _, name := range names {
		p.end(of(name), health.AlertContainerRestarts)
	}
	p.pass(10 * time.Minute)
	p.want("10:01:00 all [WARNING] Container api was restarted, and 2 problems more",
		"10:01:00 all [WARNING] Container db was restarted",
		"10:10:30 all [CRITICAL] Container db was restarted",
		"10:21:00 all [RESOLVED] It was: Container api was restarted, and 2 problems more")
}

// TestNightIsQuiet but for what is critical, and the morning has the rest.
func TestNightIsQuiet(t *testing.T) {
	p := newPlay(t, Receiver{Name: "all", Least: health.Warning, Hours: config.Hours{From: 7*60 + 30, To: 22*60 + 30}})
	p.now = time.Date(2026, 5, 4, 22, 0, 0, 0, time.UTC)
	p.fire(api, health.AlertTargetDown, health.Warning).pass(time.Hour)
	p.end(api, health.AlertTargetDown)
	p.fire(web, health.AlertTargetDown, health.Warning).pass(time.Hour)
	p.end(web, health.AlertTargetDown).pass(time.Hour)
	p.fire(db, health.AlertContainerUnhealthy, health.Warning).pass(time.Hour)
	p.fire(web, health.AlertTargetDown, health.Critical).pass(time.Hour)
	p.end(web, health.AlertTargetDown).pass(6 * time.Hour)
	p.want("22:01:00 all [WARNING] Api is down", "02:00:30 all [CRITICAL] Web is down", "03:01:00 all [RESOLVED] It was: Web is down",
		"07:30:00 all [WARNING] Container db: its health check fails, and 2 problems more")
	if got, want := p.texts[len(p.texts)-1], "- Container db: its health check fails, since 01:00 UTC.\n"+
		"- Over: Api is down, from 2026-05-04 22:00 UTC to 2026-05-04 23:00 UTC.\n"+
		"- Over: Web is down, from 2026-05-04 23:00 UTC to 00:00 UTC."; got != want {
		t.Errorf("in the morning:\n%s\nwant\n%s", got, want)
	}
}

// TestReceiversAreToldWhatTheyAskFor by severity and by name.
func TestReceiversAreToldWhatTheyAskFor(t *testing.T) {
	p := newPlay(t, Receiver{Name: "pager", Least: health.Critical}, Receiver{Name: "dba", Least: health.Warning, Targets: []string{"db"}})
	p.fire(web, health.AlertTargetDown, health.Warning).fire(db, health.AlertContainerDown, health.Warning).pass(5 * time.Minute)
	p.fire(web, health.AlertTargetDown, health.Critical).pass(5 * time.Minute)
	p.problems = nil
	p.pass(5 * time.Minute)
	p.want("10:01:00 dba [WARNING] Container db is not running", "10:05:30 pager [CRITICAL] Web is down",
		"10:11:00 pager [RESOLVED] It was: Web is down", "10:11:00 dba [RESOLVED] It was: Container db is not running")
}

func TestCriticalIsRepeatedUntilSomebodyTakesCare(t *testing.T) {
	p := newPlay(t, Receiver{
		Name:   "all",
		Least:  health.Warning,
		Repeat: 2 * time.Hour,
		Notes:  true,
	})
	p.fire(web, health.AlertTargetDown, health.Critical).pass(3 * time.Hour)
	p.incidents = []*incident.Incident{{
		ID:           "1",
		Began:        ten,
		State:        incident.Open,
		Problems:     []incident.Problem{{Subject: web, Alert: health.AlertTargetDown}},
		Notes:        []incident.Note{{Time: p.now, Author: "ada", Text: "disk"}},
		Acknowledged: incident.Acknowledgement{Time: p.now.Add(time.Second), By: "bob"},
	}}
	p.pass(5 * time.Hour)
	p.want("10:00:30 all [CRITICAL] Web is down", "12:00:30 all [CRITICAL] Web is down", "13:00:00 all [NOTE] Web is down")
	if got, want := p.texts[2], "ada: disk\nbob: acknowledged: takes care of it"; got != want {
		t.Errorf("note %q, want %q", got, want)
	}
}

// TestOldProblemsAreOneSummary for who is told from now on.
func TestOldProblemsAreOneSummary(t *testing.T) {
	p := newPlay(t)
	p.fire(web, health.AlertTargetDown, health.Critical).fire(db, health.AlertContainerDown, health.Warning)
	p.now = p.now.Add(time.Hour)
	p.since = p.now
	p.pass(5 * time.Minute)
	p.want("11:01:00 all [CRITICAL] Web is down, and 1 problem more")
	p.problems = nil
	p.pass(5 * time.Minute)
	if len(p.told) != 3 {
		p.want("one summary, and two ends")
	}
}

// TestNothingEndsBeforeSomebodyHasLooked after a start without a memory.
func TestNothingEndsBeforeSomebodyHasLooked(t *testing.T) {
	p := newPlay(t)
	p.fire(web, health.AlertTargetDown, health.Critical).pass(5 * time.Minute)
	p.starting = true
	p.end(web, health.AlertTargetDown).pass(5 * time.Minute)
	p.fire(web, health.AlertTargetDown, health.Critical).pass(time.Minute)
	p.starting = false
	p.pass(5 * time.Minute)
	p.want("10:00:30 all [CRITICAL] Web is down")
}

// TestRestartsChangeNothing of what is told: whatever happens, who looks with what is in the file tells the same.
func TestRestartsChangeNothing(t *testing.T) {
	subjects := []health.Subject{web, api, db}
	alertsOf := map[string][]string{
		health.KindTarget:    {health.AlertTargetDown, "TLSCertificateExpiry", "TargetSlow"},
		health.KindContainer: {health.AlertContainerDown, health.AlertContainerRestarts, "ContainerMemory"},
	}
	for seed := range uint64(8) {
		var told [2][]string
		for forgets := range told {
			random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test
			p := newPlay(t, Receiver{
				Name:   "all",
				Least:  health.Warning,
				Repeat: time.Hour,
				Hours:  config.Hours{From: 7 * 60, To: 22 * 60},
			}, Receiver{Name: "pager", Least: health.Critical})
			p.forgets = forgets == 1
			for range 60 {
				s := subjects[random.IntN(len(subjects))]
				alert := alertsOf[s.Kind][random.IntN(3)]
				if random.IntN(2) == 0 {
					p.end(s, alert)
				} else {
					p.fire(s, alert, health.Severity(1+random.IntN(2)))
				}
				if s == web && random.IntN(3) == 0 {
					p.because(web, db)
				}
				p.pass(time.Duration(random.IntN(30)) * time.Minute)
			}
			told[forgets] = p.told
			p.problems = nil
			if p.pass(25 * time.Hour); len(p.book.threads) > 0 {
				t.Errorf("seed %d: %d threads are left when all is well", seed, len(p.book.threads))
			}
		}
		if !slices.Equal(told[0], told[1]) || len(told[0]) == 0 {
			t.Errorf("seed %d: without restarts\n%s\nwith\n%s", seed, strings.Join(told[0], "\n"), strings.Join(told[1], "\n"))
		}
	}
}

// TestThreadsThatJoinEndTogether each with a message for what was told.
func TestThreadsThatJoinEndTogether(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		p := newPlay(t)
		p.forgets = forgets
		p.fire(web, health.AlertTargetDown, health.Critical).fire(api, health.AlertTargetDown, health.Critical).pass(5 * time.Minute)
		p.because(web, db).because(api, db).pass(5 * time.Minute)
		p.fire(db, health.AlertContainerDown, health.Critical).pass(5 * time.Minute)
		p.end(web, health.AlertTargetDown).end(db, health.AlertContainerDown).pass(5 * time.Minute)
		p.end(api, health.AlertTargetDown).pass(5 * time.Minute)
		p.want("10:00:30 all [CRITICAL] Web is down", "10:00:30 all [CRITICAL] Api is down",
			"10:21:00 all [RESOLVED] It was: Web is down", "10:21:00 all [RESOLVED] It was: Api is down")
		if len(p.book.threads) > 0 {
			t.Errorf("%d threads are left", len(p.book.threads))
		}
	}
}
