package public

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

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
	public config.Public

	incidents []*incident.Incident
}

func (f *fixed) Incidents() []*incident.Incident { return f.incidents }

func (f *fixed) Report() *status.Report { return f.report }

func (f *fixed) Availability() *history.Report { return &f.past }

func (f *fixed) Public() *config.Public { return &f.public }

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

func TestServiceIsAsItsTargetsAre(t *testing.T) {
	target := func(state string, l status.Level) *status.Service {
		return &status.Service{ServiceState: status.ServiceState{State: state}, Shown: status.Shown{Level: l}}
	}
	excused := target("down", status.Pending)
	excused.Excuse.Reason = health.ReasonContainer
	for _, c := range []struct {
		want    State
		targets []*status.Service
	}{
		{Operational, []*status.Service{target("up", status.OK), target("up", status.OK)}},
		{Operational, []*status.Service{target("up", status.OK), target("down", status.Pending)}},
		{Degraded, []*status.Service{target("up", status.OK), target("up", status.Warning)}},
		{Partly, []*status.Service{target("up", status.OK), target("up", status.Critical)}},
		{Partly, []*status.Service{target("up", status.OK), target("down", status.Warning)}},
		{Outage, []*status.Service{target("down", status.Warning), target("down", status.Critical)}},
		{Outage, []*status.Service{excused}},
		{Maintenance, []*status.Service{target("down", status.Maintenance)}},
		{Maintenance, []*status.Service{target("down", status.Maintenance), target("up", status.OK)}},
		{Partly, []*status.Service{target("down", status.Maintenance), target("down", status.Critical)}},
		{Unknown, []*status.Service{target("waiting", status.Unknown), target("up", status.OK)}},
		{Outage, []*status.Service{target("waiting", status.Unknown), target("down", status.Critical)}},
		{Unknown, []*status.Service{nil}},
	} {
		all := map[string]*status.Service{}
		for i, s := range c.targets {
			if s != nil {
				all[fmt.Sprint(i)] = s
			}
		}
		names := []string{"0", "1"}[:len(c.targets)]
		if got := stateOf(names, all); got != c.want {
			t.Errorf("%+v: got %s, want %s", slices.Collect(maps.Values(all)), got, c.want)
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
	f := &fixed{public: config.Public{
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
	}}
	f.report = &status.Report{
		Edition: status.Edition{Version: token, Made: begin, Time: begin},
		Verdict: status.Verdict{Headline: token, Summary: token},
		Notices: status.Notices{
			PageTitle:     token,
			ConfigError:   token,
			Stale:         token,
			Maintenance:   []maintenance.Entry{{Name: token, Reason: token, Active: true}},
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
		Cause:      subject,
		Began:      begin,
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
				Since:    begin,
			},
		},
		Outages: []incident.Outage{
			{Subject: health.TargetSubject(token + "-down"), Title: token, Since: begin},
			{Subject: health.TargetSubject(token + "-other"), Title: token, Since: begin},
		},
		Timeline: []incident.Event{{
			Kind:    token,
			Subject: subject,
			Alert:   token,
			Of:      token,
			Text:    token,
		}},
		Notes: []incident.Note{{Author: token, Text: token}},
		Links: []health.Subject{subject},
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
	return history.Subject{Kind: "service", Name: name, Windows: []history.Window{w}}
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

func TestHistoryIsThatOfTheWorstTarget(t *testing.T) {
	a, b := past("a", history.Up), past("b", history.Down)
	var s Service
	s.addHistory([]string{"a", "b"}, map[string]*history.Subject{"a": &a, "b": &b})
	if got := s.Shares(); got != "available 99.72 % in 90 d" {
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
		var s Service
		s.addHistory(names, map[string]*history.Subject{"a": &a, "b": &b})
		if got := runs(s.Days); got != want || s.Shares() != "not watched long enough" {
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
		var s Service
		s.addHistory(names, map[string]*history.Subject{"a": &a, "b": &b})
		if got := runs(s.Days); got != "89 up, 1 down" {
			t.Errorf("%v: got %v", names, got)
		}
	}
}

func TestShareIsOmittedIfMostWasUnwatched(t *testing.T) {
	for watched, want := range map[time.Duration]string{
		time.Minute:    "not watched long enough",
		11 * time.Hour: "not watched long enough",
		12 * time.Hour: "available 100 % in 24 h",
	} {
		all := 100.0
		h := history.Subject{Windows: []history.Window{
			{Name: "24h", Available: &all, Spent: history.Times{history.Up: watched, history.NotWatched: 24*time.Hour - watched}},
		}}
		var s Service
		s.addHistory([]string{"a"}, map[string]*history.Subject{"a": &h})
		if got := s.Shares(); got != want {
			t.Errorf("%s of a day watched: got %q, want %q", watched, got, want)
		}
	}
}

func TestSharesAreThoseOfThePrivatePage(t *testing.T) {
	s := Service{Available: map[string]float64{"24h": 64.1, "7d": 8.2, "30d": 16.4, "90d": 99.9999}}
	if got := s.Shares(); got != "available 64.1 % in 24 h, 8.2 % in 7 d, 16.4 % in 30 d, 99.99 % in 90 d" {
		t.Errorf("got %q", got)
	}
}

const token = "s3kr1t-t0ken"

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
		"/status.json":    `{"name":"Plants","state":"outage","available_percent":{"90d":99.7222},"days":["up",`,
		"/incidents.atom": "<title>Plants: not working</title>",
		"/public.css":     ".operational",
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
		"Plants: not working</span>",
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
