package public

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// fixed is a source that does not change.
type fixed struct {
	report *status.Report
	past   history.Report
	public *config.Public

	incidents []*incident.Incident
}

func (f *fixed) Incidents() []*incident.Incident { return f.incidents }

func (f *fixed) Report() *status.Report { return f.report }

func (f *fixed) Availability() *history.Report { return &f.past }

func (f *fixed) Public() *config.Public { return f.public }

func get(tb testing.TB, h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), method, "http://status.test/", http.NoBody)
	r.URL.Path = path
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// target is how a target is, and its worst alert.
type target struct {
	is    history.State
	level status.Level
}

// targetsAs are targets with the names a, b and so on. The one that is critical has that alert.
func targetsAs(alert string, list ...target) *targets {
	r, past := &status.Report{}, &history.Report{}
	for i, one := range list {
		name := string(rune('a' + i))
		r.Services = append(r.Services, status.Service{
			ServiceState: status.ServiceState{Name: name},
			Shown:        status.Shown{Level: one.level},
		})
		past.Subjects = append(past.Subjects, history.Subject{Kind: "service", Name: name, State: one.is})
		if one.level == status.Critical {
			p := status.Problem{}
			p.Subject, p.Alert, p.Severity = health.TargetSubject(name), alert, health.Critical
			r.Problems = append(r.Problems, p)
		}
	}
	return newTargets(r, past, time.Now())
}

func TestServiceIsAsItsTargetsAre(t *testing.T) {
	up, down := target{history.Up, status.OK}, target{history.Down, status.Pending}
	for _, c := range []struct {
		want    State
		targets []target
	}{
		{Operational, []target{up, up}},
		{Operational, []target{up, {history.Up, status.Pending}}},
		{Partly, []target{up, down}},
		{Degraded, []target{up, {history.Degraded, status.Warning}}},
		{Degraded, []target{up, {history.Up, status.Warning}}},
		{Partly, []target{up, {history.Degraded, status.Critical}}},
		{Outage, []target{down, {history.Down, status.Critical}}},
		{Maintenance, []target{{history.Maintenance, status.Maintenance}}},
		{Maintenance, []target{{history.Maintenance, status.Critical}, up}},
		{Partly, []target{{history.Maintenance, status.Maintenance}, down}},
		{Unknown, []target{{history.NotWatched, status.Unknown}, up}},
		{Outage, []target{{history.NotWatched, status.Unknown}, down}},
		{Unknown, []target{{history.NotWatched, status.OK}}},
	} {
		all, names := targetsAs("TargetUnstable", c.targets...), []string{"a", "b"}[:len(c.targets)]
		if got, _ := all.state(names); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.targets, got, c.want)
		}
		if got, _ := all.state(append(names, "unknown")); got == Operational {
			t.Errorf("%+v and an unknown target: got %s", c.targets, got)
		}
	}
}

func TestHeadlineIsOfTheWorst(t *testing.T) {
	for _, c := range []struct {
		want   string
		states []State
	}{
		{"All services work", []State{Operational, Operational}},
		{"Maintenance", []State{Operational, Maintenance}},
		{"Some services are not watched", []State{Maintenance, Unknown}},
		{"Some services have problems", []State{Degraded, Unknown}},
		{"Some services do not work", []State{Degraded, Partly}},
		{"Some services do not work", []State{Outage, Operational}},
		{"No service works", []State{Outage, Outage}},
	} {
		p := Page{State: Operational}
		for _, s := range c.states {
			p.Services, p.State = append(p.Services, Service{Name: "x", State: s}), worse(p.State, s)
		}
		if got := p.Headline(); got != c.want {
			t.Errorf("%v: got %q, want %q", c.states, got, c.want)
		}
	}
}

// planted is a source whose every text but the public ones has the token.
func planted() *fixed {
	begin := time.Now().Add(-time.Hour)
	f := &fixed{public: &config.Public{
		Title:         "Our chat",
		ListenAddress: token,
		WebConfigFile: token,
		Services: []config.PublicService{
			{Name: "Chat", Targets: []string{token + "-up"}}, {Name: "Plants", Targets: []string{token + "-down"}},
		},
		Announcements: []config.Announcement{
			{From: begin, Until: begin.Add(2 * time.Hour), Text: "New rooms"},
			{From: begin.Add(2 * time.Hour), Until: begin.Add(3 * time.Hour), Text: token},
		},
		LogoFile: token,
		Logo:     config.Image{Type: "image/png", Data: []byte("a picture")},
		Colour:   "#ffd700",
		HomeURL:  "https://chat.example.org/",
	}}
	f.report = &status.Report{
		Edition: status.Edition{Version: token, Made: begin, Time: begin},
		Verdict: status.Verdict{Headline: token, Summary: token},
		Notices: status.Notices{
			PageTitle:   token,
			ConfigError: token,
			Stale:       token,
			Maintenance: []maintenance.Entry{
				{
					Kind:   "container",
					Name:   token,
					Until:  begin.Add(2 * time.Hour),
					Reason: token,
					Active: true,
				},
				{
					Kind:   "target",
					Name:   token + "-up",
					From:   begin,
					Until:  begin.Add(2 * time.Hour),
					Reason: token,
					Source: token,
				},
			},
			NotConfigured: []string{token},
			LeftToFirst:   []string{token},
		},
		Problems: []status.Problem{
			{Problem: health.Problem{Subject: health.TargetSubject(token), Alert: token, Of: token}, Text: token, Hint: token},
		},
		Causes: []status.Cause{{
			Title:    token,
			Text:     token,
			Loss:     token,
			Hint:     token,
			Affected: []string{token},
		}},
		Containers: []status.Container{
			{ContainerState: status.ContainerState{Name: token, DockerHost: token}, Shown: status.Shown{Text: token, Hint: token}},
		},
		Thresholds:  []status.Threshold{{Subject: token, Text: token}},
		Transitions: []status.Transition{{Name: token, Text: token}},
	}
	subject := health.Subject{Kind: "service", Host: token, Name: token}
	f.incidents = []*incident.Incident{{
		ID:         token,
		Title:      token,
		State:      incident.Open,
		Impact:     token,
		Cause:      subject,
		Began:      begin,
		Opened:     begin,
		Updated:    begin,
		MergedInto: token,
		Problems: []incident.Problem{
			{
				Subject: subject,
				Alert:   token,
				Of:      token,
				Text:    token,
				Excuse:  health.Excuse{Reason: token, Cause: token, Root: subject},
			},
			{
				Subject:  health.TargetSubject(token + "-down"),
				Alert:    token,
				Text:     token,
				Severity: health.Critical,
				First:    begin,
				Alerted:  begin,
				Since:    begin,
			},
		},
		Outages: []incident.Outage{
			{Subject: health.TargetSubject(token + "-down"), Title: token, Since: begin},
			{Subject: health.TargetSubject(token + "-other"), Title: token, Since: begin},
		},
		Timeline: []incident.Event{
			{
				Kind:    token,
				Subject: subject,
				Alert:   token,
				Of:      token,
				Text:    token,
			},
			{Time: begin.Add(2 * time.Minute), Kind: incident.EventAcknowledged, Text: "acknowledged by " + token},
		},
		Acknowledged: incident.Acknowledgement{Time: begin.Add(2 * time.Minute), By: token},
		Notes:        []incident.Note{{Time: begin.Add(time.Minute), Author: token, Text: token}},
		Updates:      []incident.Note{{Time: begin.Add(30 * time.Minute), Author: token, Text: "A new disk <b>is in</b>.\nWait."}},
		Links:        []health.Subject{subject},
	}}
	f.past.Subjects = []history.Subject{
		past(token+"-up", history.Up),
		past(token+"-down", history.Down),
		past(token+"-other", history.Down),
		{
			Key:        token,
			Kind:       "container",
			Name:       token,
			DockerHost: token,
		},
	}
	for name, state := range map[string]string{"-up": "up", "-down": "down", "-other": "down"} {
		s := status.Service{Notes: []string{token}, ServiceState: status.ServiceState{
			Name:            token + name,
			Kind:            token,
			Container:       token,
			ContainerOrigin: token,
			State:           state,
		}}
		s.Maintenance = token
		s.Text, s.Error, s.Hint, s.Reason = token, token, token, token
		s.Values, s.LastAttempt, s.Since = []status.Value{{Name: token, Text: token}}, begin, begin
		if state == "down" {
			s.Level = status.Critical
		}
		f.report.Services = append(f.report.Services, s)
	}
	return f
}

// past is a target that was up, and in another state for a quarter of the last day.
func past(name string, last history.State) history.Subject {
	share := 100.0
	if last == history.Down {
		share = 99.7222
	}
	w := history.Window{Name: "90d", Available: &share, Buckets: make([]history.Bucket, days)}
	for i := range w.Buckets {
		w.Buckets[i].Spent[history.Up] = 18 * time.Hour
	}
	w.Buckets[days-1].Spent[last] += 6 * time.Hour
	for i := range w.Buckets {
		for state, spent := range w.Buckets[i].Spent {
			w.Spent[state] += spent
		}
	}
	return history.Subject{
		Kind:    "service",
		Name:    name,
		State:   last,
		Windows: []history.Window{w},
	}
}

// runs are days in words.
func runs(states []history.State) string {
	var list []string
	for from, to := 0, 0; from < len(states); from = to {
		for to < len(states) && states[to] == states[from] {
			to++
		}
		list = append(list, fmt.Sprint(to-from, " ", states[from]))
	}
	return strings.Join(list, ", ")
}

// serviceOf is a service whose targets a, b and so on have these histories.
func serviceOf(names []string, histories ...*history.Subject) Service {
	all := &targets{now: map[string]*status.Service{}, before: map[string]*history.Subject{}, today: time.Unix(0, 0)}
	for i, h := range histories {
		all.before[string(rune('a'+i))] = h
	}
	return all.service("Chat", names)
}

func TestHistoryIsThatOfTheWorstTarget(t *testing.T) {
	a, b := past("a", history.Up), past("b", history.Down)
	s := serviceOf([]string{"a", "b"}, &a, &b)
	if got := s.Shares(); got != "last 24 h, 7 d, 30 d: not watched; last 90 d: 99.63 % of 67 days" {
		t.Errorf("got %q", got)
	}
	if got := runs(s.Days); got != "89 up, 1 down" {
		t.Errorf("got %v", got)
	}
}

func TestServiceIsNotGreenWhileATargetIsUnwatched(t *testing.T) {
	a, b := past("a", history.Down), past("b", history.Up)
	b.Windows[0].Available, b.Windows[0].Spent = nil, history.Times{history.NotWatched: days * 24 * time.Hour}
	for i := range b.Windows[0].Buckets {
		b.Windows[0].Buckets[i].Spent = history.Times{history.NotWatched: 24 * time.Hour}
	}
	const want = "89 not_watched, 1 down"
	for _, names := range [][]string{{"a", "b"}, {"b", "a"}, {"a", "unknown"}, {"unknown", "a"}} {
		s := serviceOf(names, &a, &b)
		if got := runs(s.Days); got != want || s.Shares() != "not watched" {
			t.Errorf("%v: got %v, %q", names, got, s.Shares())
		}
	}
}

func TestTargetThatCameLaterHidesNoDayBefore(t *testing.T) {
	a, b := past("a", history.Up), past("b", history.Down)
	for i := range days - 1 {
		b.Windows[0].Buckets[i].Spent = history.Times{history.NotWatched: 24 * time.Hour}
	}
	for _, names := range [][]string{{"a", "b"}, {"b", "a"}} {
		s := serviceOf(names, &a, &b)
		if got := runs(s.Days); got != "89 up, 1 down" {
			t.Errorf("%v: got %v", names, got)
		}
	}
}

// TestTargetThatCameTodayHidesNoDayBefore: most of this day nobody watched it, and it says nothing of other days.
func TestTargetThatCameTodayHidesNoDayBefore(t *testing.T) {
	for _, state := range []history.State{history.Up, history.Maintenance} {
		a, b := past("a", history.Up), past("b", history.Up)
		for i := range days {
			b.Windows[0].Buckets[i].Spent = history.Times{history.NotWatched: 24 * time.Hour}
		}
		today := &b.Windows[0].Buckets[days-1].Spent
		today[state], today[history.NotWatched] = time.Minute, 14*time.Hour
		for _, names := range [][]string{{"a", "b"}, {"b", "a"}} {
			s := serviceOf(names, &a, &b)
			if got := runs(s.Days); got != "89 up, 1 not_watched" {
				t.Errorf("%s, %v: got %v", state, names, got)
			}
		}
	}
}

// TestPercentageStandsWithTheTimeWatched: of less than half of a window, it says too little.
func TestPercentageStandsWithTheTimeWatched(t *testing.T) {
	for watched, want := range map[time.Duration]string{
		0:               "not watched",
		5 * time.Minute: "5 min watched",
		11 * time.Hour:  "11 h watched",
		12 * time.Hour:  "100 % of 12 h",
		24 * time.Hour:  "100 % of 1 d",
	} {
		all := 100.0
		spent := history.Times{history.Up: watched, history.NotWatched: 24*time.Hour - watched}
		h := history.Subject{Windows: []history.Window{{Name: "24h", Available: &all, Spent: spent}}}
		s := serviceOf([]string{"a"}, &h)
		got := strings.TrimPrefix(strings.Split(s.Shares(), ";")[0], "last 24 h: ")
		if percent, known := s.Available["24h"]; got != want || known != strings.Contains(want, "%") || known && percent != 100 {
			t.Errorf("%s of a day watched: got %q, %v, want %q", watched, got, s.Available, want)
		}
		if s.Watched["24h"] != watched.Seconds() {
			t.Errorf("%s of a day watched: the JSON says %v", watched, s.Watched)
		}
		// Another target that was watched for a minute less.
		spent[history.Up] -= min(time.Minute, watched)
		less := history.Subject{Windows: []history.Window{{Name: "24h", Available: &all, Spent: spent}}}
		if s := serviceOf([]string{"a", "b"}, &h, &less); s.Watched["24h"] != spent[history.Up].Seconds() {
			t.Errorf("a target watched for a minute less: the JSON says %v", s.Watched)
		}
	}
}

func TestSharesOfTheFirstMinutesAreOne(t *testing.T) {
	var h history.Subject
	for _, name := range windows {
		spent := history.Times{history.Up: 5 * time.Minute, history.NotWatched: time.Hour}
		h.Windows = append(h.Windows, history.Window{Name: name, Spent: spent})
	}
	if s := serviceOf([]string{"a"}, &h); s.Shares() != "5 min watched" {
		t.Errorf("got %q", s.Shares())
	}
}

// TestDaysAreInWordsToo: what a pointer finds on the bars is text, with the outage of each day.
func TestDaysAreInWordsToo(t *testing.T) {
	a := past("a", history.Up)
	w := &a.Windows[0]
	w.Start = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	w.Buckets[10].Spent = history.Times{history.Up: 23 * time.Hour, history.Down: 34*time.Minute + time.Second}
	w.Buckets[11].Spent = history.Times{history.Up: 23 * time.Hour, history.Down: time.Hour}
	w.Buckets[20].Spent = history.Times{history.Maintenance: 24 * time.Hour}
	s := serviceOf([]string{"a"}, &a)
	var got []string
	at := 0
	for _, r := range s.Runs() {
		if r.At != at {
			t.Errorf("a run begins at day %d, want %d", r.At, at)
		}
		at += r.Width
		got = append(got, r.Text)
	}
	want := []string{
		"1 Feb 2026 to 10 Feb 2026: up", "11 Feb 2026: down for 35 min", "12 Feb 2026: down for 1 h",
		"13 Feb 2026 to 20 Feb 2026: up", "21 Feb 2026: maintenance", "22 Feb 2026 to 1 May 2026: up",
	}
	if !slices.Equal(got, want) || at != days {
		t.Errorf("got %q, to day %d", got, at)
	}
	if want := []DayOutage{{"2026-02-11", 2100}, {"2026-02-12", 3600}}; !slices.Equal(s.Outages, want) {
		t.Errorf("got %v, want %v", s.Outages, want)
	}
}

// script is a random run of probes of the targets a and b, in which alerts and maintenance come and go.
type script struct {
	rng     *rand.Rand
	judge   *health.Judge
	history *history.History
	facts   health.Facts
	// down are the targets whose last probe failed, apart from maintenance.
	down map[string]bool
}

// step makes one observation, and returns what the page is made of.
func (s *script) step() (*status.Report, *history.Report) {
	s.facts.Now = s.facts.Now.Add(time.Duration(1+s.rng.IntN(40)) * time.Second)
	s.facts.Maintenance, s.down = nil, map[string]bool{}
	r := &status.Report{}
	for i := range s.facts.Targets {
		x := &s.facts.Targets[i]
		if s.rng.IntN(3) == 0 {
			x.Read, x.Up = s.rng.IntN(8) > 0, s.rng.IntN(2) == 0
		}
		x.ReadAt = s.facts.Now.Add(-time.Duration(s.rng.IntN(3)) * time.Second)
		row := status.Service{ServiceState: status.ServiceState{Name: x.Name}}
		row.Level = status.Level(s.rng.IntN(int(status.Critical) + 1))
		if s.rng.IntN(10) == 0 {
			s.facts.Maintenance = append(s.facts.Maintenance, health.TargetSubject(x.Name))
		} else {
			s.down[x.Name] = x.Read && !x.Up
		}
		r.Services = append(r.Services, row)
	}
	facts := s.facts
	facts.Targets = slices.Clone(facts.Targets)
	s.history.Apply(&s.judge.Judge(&facts).Round)
	return r, s.history.Report(s.facts.Now)
}

// TestServiceThatIsDownIsNeverOperational: its state follows the probes as its bar does, whatever its alerts are.
func TestServiceThatIsDownIsNeverOperational(t *testing.T) {
	c := &config.Public{Services: []config.PublicService{{Name: "a", Targets: []string{"a"}}, {Name: "both", Targets: []string{"a", "b"}}}}
	settings := alerts.Defaults()
	for seed := range uint64(200) {
		s := &script{
			rng:     rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // a test's
			judge:   health.NewJudge(alerts.Rules(&settings)),
			history: history.New(),
		}
		s.facts.Now = time.Date(2026, 5, 1, 23, 50, 0, 0, time.UTC)
		s.facts.Targets = []health.Target{{Name: "a", Every: 15 * time.Second}, {Name: "b", Every: 15 * time.Second}}
		red, wasDown := map[string]time.Duration{}, map[string]bool{}
		for range 60 {
			r, past := s.step()
			for i, service := range makePage(c, r, past, s.facts.Now).Services {
				down := slices.ContainsFunc(c.Services[i].Targets, func(name string) bool { return s.down[name] })
				if down && service.State != Partly && service.State != Outage {
					t.Fatalf("seed %d: %s is %s while a target is down", seed, service.Name, service.State)
				}
			}
			for _, target := range past.Subjects {
				spent := target.Windows[0].Spent[history.Down]
				if spent > red[target.Name] && !s.down[target.Name] && !wasDown[target.Name] {
					t.Fatalf("seed %d: the bar of %s turned red without an outage", seed, target.Name)
				}
				red[target.Name] = spent
			}
			wasDown = s.down
		}
		// Nobody has observed for two minutes.
		later := s.facts.Now.Add(2 * time.Minute)
		if p := makePage(c, &status.Report{}, s.history.Report(later), later); p.State != Unknown {
			t.Fatalf("seed %d: what nobody watches is %s", seed, p.State)
		}
	}
}

func TestMaintenanceOfPublicServicesIsShown(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 30, 0, time.UTC)
	c := &config.Public{Services: []config.PublicService{
		{Name: "Chat", Targets: []string{"xmpp", "web"}}, {Name: "Plants", Targets: []string{"store"}},
	}}
	r := &status.Report{Services: []status.Service{
		{ServiceState: status.ServiceState{Name: "xmpp", Container: "chat-xmpp-1"}},
		{ServiceState: status.ServiceState{Name: "web"}},
		{ServiceState: status.ServiceState{Name: "store", Container: "db"}},
	}}
	entry := func(kind, name string, from, until time.Duration) maintenance.Entry {
		return maintenance.Entry{
			Kind:   kind,
			Name:   name,
			From:   now.Add(from),
			Until:  now.Add(until),
			Reason: token,
		}
	}
	r.Maintenance = []maintenance.Entry{
		entry("container", "chat-xmpp-1", time.Hour, 2*time.Hour),
		entry("container", "other", time.Hour, 2*time.Hour),
		entry("container", "xmpp", time.Hour, 2*time.Hour),
		entry("target", "other", -time.Hour, time.Hour),
		entry("target", "store", -time.Hour, 24*time.Hour),
		entry("target", "store", time.Hour, 2*time.Hour),
		entry("target", "web", time.Hour, 2*time.Hour),
		entry("target", "web", -2*time.Hour, -time.Hour),
		entry("target", "web", 15*24*time.Hour, 16*24*time.Hour),
	}
	var got []string
	for _, m := range makePage(c, r, &history.Report{}, now).Maintenance {
		got = append(got, m.Text())
	}
	if want := []string{"Plants: until 2 May 2026 12:00 UTC", "Chat, Plants: 1 May 2026 13:00 to 14:00 UTC"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}

	// The clock was set back by a month.
	r.Maintenance = []maintenance.Entry{entry("target", "store", 30*24*time.Hour, 31*24*time.Hour)}
	r.Maintenance[0].Active = true
	list := makePage(c, r, &history.Report{}, now).Maintenance
	if len(list) != 1 || list[0].Text() != "Plants: until 1 Jun 2026 12:00 UTC" {
		t.Errorf("got %+v, want what is active", list)
	}
}

const token = "s3kr1t-t0ken"

// TestEverythingOfAnIncidentIsPlanted: what is new in one must be shown to stay away from users.
func TestEverythingOfAnIncidentIsPlanted(t *testing.T) {
	for field, value := range reflect.ValueOf(*planted().incidents[0]).Fields() {
		kind := value.Kind()
		if (kind == reflect.String || kind == reflect.Slice || kind == reflect.Struct && field.Name != "Ended" && field.Name != "Closed") &&
			value.IsZero() {
			t.Errorf("%s is empty", field.Name)
		}
	}
}

// wantNoToken fails if a response has the token, in its body or in a header.
func wantNoToken(tb testing.TB, what string, w *httptest.ResponseRecorder) {
	tb.Helper()
	text := w.Body.String() + fmt.Sprint(w.Header())
	if strings.Contains(strings.ToLower(text), token) {
		tb.Errorf("%s: status %d tells %s", what, w.Code, text)
	}
	for _, name := range []string{"Last-Modified", "Server", "Date", "Location"} {
		if w.Header().Get(name) != "" {
			tb.Errorf("%s: has the header %s", what, name)
		}
	}
}

func TestNothingButWhatIsConfiguredIsPublic(t *testing.T) {
	h := New(planted(), slog.New(slog.DiscardHandler))
	for path, want := range map[string]string{
		"/":               "Some services do not work",
		"/status.json":    `{"name":"Plants","state":"outage","available_percent":{"90d":99.`,
		"/incidents.atom": "<title>Plants: not working</title>",
		"/public.css":     ".brand { --brand: #ffd700; --on-brand: #000000; }",
		"/public.js":      "DOMParser",
		"/logo":           "a picture",
	} {
		w := get(t, h, http.MethodGet, path)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: status %d, %s", path, w.Code, w.Body)
		}
		wantNoToken(t, path, w)
		again := get(t, h, http.MethodGet, path, "If-None-Match", w.Header().Get("ETag"))
		if again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("%s: status %d for its own tag", path, again.Code)
		}
		packed := get(t, h, http.MethodGet, path, "Accept-Encoding", "gzip")
		if packed.Header().Get("Content-Encoding") != "gzip" || packed.Header().Get("ETag") == w.Header().Get("ETag") {
			t.Errorf("%s: headers %v", path, packed.Header())
		}
	}
	page := get(t, h, http.MethodGet, "/").Body.String()
	for _, want := range []string{
		"Our chat", "New rooms", "Chat</span> <b class=\"state\">operational", "Plants</span> <b class=\"state\">outage",
		"Plants: not working</span>", "A new disk &lt;b&gt;is in&lt;/b&gt;.\nWait.", `<img src="logo" alt="">`,
		`<a href="https://chat.example.org/">Back to chat.example.org</a>`, "90 days ago", "today", `<b class="state">Now</b> Chat: until `,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q: %s", want, page)
		}
	}
	for _, path := range []string{
		"/metrics", "/api/v1/status", "/debug/targets/" + token, "/-/healthy", "/" + token, "//", "/index.html", "", "/..", "/status.json/",
	} {
		w := get(t, h, http.MethodGet, path)
		if w.Code != http.StatusNotFound {
			t.Errorf("%q: status %d", path, w.Code)
		}
		wantNoToken(t, path, w)
	}
	for _, method := range []string{http.MethodPost, http.MethodDelete, http.MethodOptions, http.MethodTrace, "X"} {
		w := get(t, h, method, "/")
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: status %d", method, w.Code)
		}
		wantNoToken(t, method, w)
	}
}

func TestPageThatDoesNotRenderTellsNothing(t *testing.T) {
	kept := pageTemplate
	defer func() { pageTemplate = kept }()
	pageTemplate = pageTemplate.New("broken")
	var log strings.Builder
	w := get(t, New(planted(), slog.New(slog.NewTextHandler(&log, nil))), http.MethodGet, "/")
	if w.Code != http.StatusInternalServerError || !strings.Contains(log.String(), "public page does not render") {
		t.Errorf("status %d, log %s", w.Code, log.String())
	}
	wantNoToken(t, "500", w)
}

func TestPageIsMadeOncePerAge(t *testing.T) {
	f := planted()
	h := New(f, slog.New(slog.DiscardHandler)).(*handler)
	now := time.Now()
	h.now = func() time.Time { return now }
	before := get(t, h, http.MethodGet, "/").Body.String()
	f.public.Title = "Another"
	now = now.Add(pageAge - 1)
	if got := get(t, h, http.MethodGet, "/").Body.String(); got != before {
		t.Error("the page was made again too early")
	}
	now = now.Add(1)
	if got := get(t, h, http.MethodGet, "/").Body.String(); !strings.Contains(got, "Another") {
		t.Errorf("the page was not made again: %s", got)
	}
	reloaded := *f.public
	reloaded.Title = "A third"
	f.public = &reloaded
	if got := get(t, h, http.MethodGet, "/").Body.String(); !strings.Contains(got, "A third") {
		t.Errorf("after a reload, the page was not made again: %s", got)
	}
}

func FuzzRequestsLearnNothing(f *testing.F) {
	for _, path := range []string{"/", "/status.json", "/incidents.atom", "/api/v1/incidents/../../status.json", "/%2e%2e/metrics"} {
		f.Add(http.MethodGet, path, "gzip", "*")
	}
	h := New(planted(), slog.New(slog.DiscardHandler))
	f.Fuzz(func(t *testing.T, method, path, accept, tag string) {
		if strings.Contains(strings.ToLower(path+method+accept+tag), token) {
			t.Skip("the request has the token itself")
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://status.test/", http.NoBody)
		r.Method, r.URL.Path = method, path
		r.Header.Set("Accept-Encoding", accept)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Header().Get("Content-Encoding") != "gzip" {
			wantNoToken(t, path, w)
		}
		if _, err := io.Copy(io.Discard, w.Body); err != nil {
			t.Fatal(err)
		}
	})
}
