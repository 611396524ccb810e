package web

import (
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

const (
	// recentIncidents is how long the status page shows an incident that is over, and maxRecentIncidents how many it shows of them.
	recentIncidents    = 7 * 24 * time.Hour
	maxRecentIncidents = 8
	// maxNoteBody limits the body of a note, in bytes: 2,000 characters of which each is escaped.
	maxNoteBody = 32 << 10
)

//go:embed incidents.html
var incidentsHTML string

// incidentPages has the templates "incidents" of the status page, "incident list", "incident" and "feed entry".
var incidentPages = site.Parse("incidents", incidentsHTML, pageFuncs)

// chronicle has the incidents.
type chronicle interface {
	// Incidents lists them, newest first. They must not be changed.
	Incidents() []*incident.Incident
	// AddNote adds a note to an incident, or to the one that continues it. The error wraps one of package incident.
	AddNote(id, author, text string) (*incident.Incident, error)
}

// incidents serves the incidents.
type incidents struct {
	source chronicle
	frames frames
	log    *slog.Logger
	// externalURL returns the address of the status page as people reach it; "" if they cannot.
	externalURL func() string
}

// shownIncident is an incident on a page, at a moment.
type shownIncident struct {
	*incident.Incident
	now time.Time
}

func showIncident(i *incident.Incident, now time.Time) shownIncident {
	return shownIncident{i.At(now), now}
}

// Span says how long the incident lasted or has lasted.
func (i shownIncident) Span() string {
	text, end := "", i.Ended
	if end.IsZero() {
		end = i.now
	}
	if i.BeganAtLeast {
		text = "at least "
	}
	if i.EndedAtLatest {
		text = "about "
	}
	return text + wording.Duration(end.Sub(i.Began))
}

// StateText says in a few words whether the incident lasts.
func (i shownIncident) StateText() string {
	switch i.State {
	case incident.Open:
		return "has lasted " + i.Span()
	case incident.Watching:
		return "over after " + i.Span() + ", still watched"
	case incident.Merged:
		return "part of another incident"
	}
	return "over after " + i.Span()
}

// Class is the class of the style sheet.
func (i shownIncident) Class() string {
	if i.Lasts() {
		return i.Severity.String()
	}
	return "ok"
}

// listed returns the incidents that began or lasted since a time, without those that others continue.
func listed(all []*incident.Incident, since, now time.Time) (list []shownIncident) {
	for _, i := range all {
		if i.State != incident.Merged && (i.Lasts() || !i.Ended.Before(since)) {
			list = append(list, showIncident(i, now))
		}
	}
	return list
}

// recent are the incidents of the status page: all that last, and the newest of those that are over.
func recent(all []*incident.Incident, now time.Time) []shownIncident {
	over := 0
	return slices.DeleteFunc(listed(all, now.Add(-recentIncidents), now), func(i shownIncident) bool {
		if !i.Lasts() {
			over++
		}
		return !i.Lasts() && over > maxRecentIncidents
	})
}

// OpenIncidents is the number of incidents that last.
func (v *view) OpenIncidents() (n int) {
	for _, i := range v.RecentIncidents {
		if i.State == incident.Open {
			n++
		}
	}
	return n
}

// find returns the incident with the id of the path.
func (s *incidents) find(r *http.Request) (*incident.Incident, error) {
	id := r.PathValue("id")
	all := s.source.Incidents()
	at := slices.IndexFunc(all, func(i *incident.Incident) bool { return i.ID == id })
	if at < 0 {
		return nil, fmt.Errorf("%w %q", incident.ErrUnknown, failure.Printable(id, 100))
	}
	return all[at], nil
}

// list serves the page with all incidents.
func (s *incidents) list(w http.ResponseWriter, _ *http.Request) {
	s.render(w, "incident list", s.frames.frame("./", "Incidents", "icon-unknown.svg"),
		listed(s.source.Incidents(), time.Time{}, time.Now()))
}

// page serves the page of one incident. One that another continues leads there.
func (s *incidents) page(w http.ResponseWriter, r *http.Request) {
	i, err := s.find(r)
	if err != nil {
		http.Error(w, err.Error()+": /incidents lists all incidents", http.StatusNotFound)
		return
	}
	if i.State == incident.Merged {
		redirect(w, http.StatusSeeOther, i.MergedInto)
		return
	}
	s.render(w, "incident", s.frames.frame("../", i.Title, "icon-unknown.svg"), showIncident(i, time.Now()))
}

func (s *incidents) render(w http.ResponseWriter, name string, f frame, of any) {
	render(w, incidentPages.Lookup(name), struct {
		frame
		Of any
	}{f, of}, s.log)
}

// incidentSummary is an incident in the API's list.
type incidentSummary struct {
	*incident.Incident
	// These are left out.
	Problems omitted `json:"problems,omitzero"`
	Timeline omitted `json:"timeline,omitzero"`
	LeftOut  omitted `json:"timeline_left_out,omitzero"`
	Notes    omitted `json:"notes,omitzero"`
	Updates  omitted `json:"updates,omitzero"`
	Links    omitted `json:"links,omitzero"`
	Dropped  omitted `json:"timeline_dropped,omitzero"`
}

// omitted is a key that is not written.
type omitted struct{}

// incidentDetail is an incident in the API.
type incidentDetail struct {
	Schema status.Schema `json:"schema"`
	*incident.Incident
	Links   omitted `json:"links,omitzero"`
	Dropped omitted `json:"timeline_dropped,omitzero"`
}

// incidentList is the body of the API's list.
type incidentList struct {
	Schema    status.Schema     `json:"schema"`
	Incidents []incidentSummary `json:"incidents"`
}

func detail(i *incident.Incident) incidentDetail { return incidentDetail{Incident: i.At(time.Now())} }

// serveList lists the incidents, without those that others continue.
func (s *incidents) serveList(w http.ResponseWriter) {
	list := incidentList{Incidents: []incidentSummary{}}
	for _, i := range listed(s.source.Incidents(), time.Time{}, time.Now()) {
		list.Incidents = append(list.Incidents, incidentSummary{Incident: i.Incident})
	}
	writeJSON(w, http.StatusOK, list, s.log)
}

func (s *incidents) serveOne(w http.ResponseWriter, r *http.Request) {
	i, err := s.find(r)
	if err != nil {
		writeError(w, statusOf(err), err, s.log)
		return
	}
	writeJSON(w, http.StatusOK, detail(i), s.log)
}

// withPassword wraps a handler of requests that only a user with a password of this exporter may send, as on the maintenance page: the
// user is the author of a note.
func (o Options) withPassword(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if o.Users == nil || len(o.Users()) == 0 {
			writeError(w, http.StatusForbidden, errors.New("nobody may add a note or an update, because this exporter has no password: "+
				"set basic_auth_users in the file of --web.config.file"), o.Log)
			return
		}
		if user, _, ok := r.BasicAuth(); !ok || !slices.Contains(o.Users(), user) { // the listener has checked the password
			writeError(w, http.StatusForbidden, errors.New("only a user with a password of this exporter may add a note or an update: "+
				"send the name and password of one in basic_auth_users"), o.Log)
			return
		}
		h(w, r)
	}
}

// serveAddNote adds a note to an incident.
func (s *incidents) serveAddNote(w http.ResponseWriter, r *http.Request) {
	serveAddText(w, r, "a note", s.source.AddNote, s.log)
}

// serveAddText adds what the body says to an incident.
func serveAddText(
	w http.ResponseWriter, r *http.Request, what string, add func(id, author, text string) (*incident.Incident, error), log *slog.Logger,
) {
	var note struct {
		Text string `json:"text"`
	}
	form := bodyForm{
		what:    what,
		limit:   maxNoteBody,
		example: `{"text": "The disk was full."}`,
		keys:    "text",
	}
	if code, err := form.read(w, r, &note); err != nil {
		writeError(w, code, err, log)
		return
	}
	author, _, _ := r.BasicAuth() // withPassword has checked it
	i, err := add(r.PathValue("id"), author, note.Text)
	if err != nil {
		writeError(w, statusOf(err), err, log)
		return
	}
	writeJSON(w, http.StatusCreated, detail(i), log)
}

// errIncidents are the statuses of the errors of notes.
var errIncidents = map[error]int{
	incident.ErrUnknown: http.StatusNotFound, incident.ErrInvalid: http.StatusBadRequest, incident.ErrTooMany: http.StatusConflict,
}

// statusOfIncident returns the status of an error of package incident, 0 for any other.
func statusOfIncident(err error) int {
	for known, code := range errIncidents {
		if errors.Is(err, known) {
			return code
		}
	}
	return 0
}
