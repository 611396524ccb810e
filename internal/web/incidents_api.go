package web

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

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
}

// omitted is a key that is not written.
type omitted struct{}

// incidentDetail is an incident in the API. Warnings are about a change.
type incidentDetail struct {
	Schema status.Schema `json:"schema"`
	*incident.Incident
	Warnings []string `json:"warnings,omitempty"`
	Links    omitted  `json:"links,omitzero"`
}

// incidentList is the body of the API's list.
type incidentList struct {
	Schema    status.Schema     `json:"schema"`
	Incidents []incidentSummary `json:"incidents"`
	// Problems belong to no incident yet.
	Problems []status.Problem `json:"problems"`
}

func detail(i *incident.Incident, warnings []string) incidentDetail {
	return incidentDetail{Incident: i.At(time.Now()), Warnings: warnings}
}

// serveList lists the incidents, without those that others continue.
func (s *incidents) serveList(w http.ResponseWriter) {
	all := s.source.Incidents()
	list := incidentList{Incidents: []incidentSummary{}, Problems: append([]status.Problem{}, unlisted(s.frames.reports.Report(), all)...)}
	for _, i := range listed(all, time.Time{}, time.Now()) {
		list.Incidents = append(list.Incidents, incidentSummary{Incident: i.Incident})
	}
	writeJSON(w, http.StatusOK, list, s.options.Log)
}

func (s *incidents) serveOne(w http.ResponseWriter, r *http.Request) {
	i, err := s.find(r)
	if err != nil {
		writeError(w, statusOf(err), err, s.options.Log)
		return
	}
	writeJSON(w, http.StatusOK, detail(i, nil), s.options.Log)
}

// withPassword wraps a handler of requests that only a user with a password of this exporter may send, as on the maintenance page, since
// it shows who sent it. A local user needs none.
func (o Options) withPassword(what string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, _, ok := r.BasicAuth() // the listener has checked the password
		switch {
		case isLocal(r):
			h(w, r)
		case o.Users == nil || len(o.Users()) == 0:
			writeError(w, http.StatusForbidden, errors.New("nobody may "+what+", because this exporter has no password: "+
				"set basic_auth_users in the file of --web.config.file"), o.Log)
		case !ok || !slices.Contains(o.Users(), user):
			writeError(w, http.StatusForbidden, errors.New("only a user with a password of this exporter may "+what+": "+
				"send the name and password of one in basic_auth_users"), o.Log)
		default:
			h(w, r)
		}
	}
}

// serveAddNote adds a note to an incident.
func (s *incidents) serveAddNote(w http.ResponseWriter, r *http.Request) {
	s.serveAddText(w, r, "a note", s.source.AddNote)
}

// serveAddUpdate adds an update for the users to an incident.
func (s *incidents) serveAddUpdate(w http.ResponseWriter, r *http.Request) {
	s.serveAddText(w, r, "an update", s.addUpdate)
}

// serveAddText adds what the body says to an incident. Its author is the user.
func (s *incidents) serveAddText(
	w http.ResponseWriter, r *http.Request, what string, add func(id, author, text string) (*incident.Incident, []string, error),
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
		writeError(w, code, err, s.options.Log)
		return
	}
	author, _, _ := r.BasicAuth() // withPassword has checked it
	i, warnings, err := add(r.PathValue("id"), author, note.Text)
	if err != nil {
		writeError(w, statusOf(err), err, s.options.Log)
		return
	}
	writeJSON(w, http.StatusCreated, detail(i, warnings), s.options.Log)
}

// serveAcknowledge says who takes care of an incident: the user, unless the body names somebody else.
func (s *incidents) serveAcknowledge(w http.ResponseWriter, r *http.Request) {
	user, _, _ := r.BasicAuth() // withPassword has checked it
	var body struct {
		As *string `json:"as"`
	}
	form := bodyForm{
		what:    "an acknowledgement",
		limit:   maxMaintenanceBody,
		example: `{"as": "Ann"}`,
		keys:    "as",
	}
	if r.ContentLength != 0 {
		if code, err := form.read(w, r, &body); err != nil {
			writeError(w, code, err, s.options.Log)
			return
		}
	}
	i, warnings, err := s.acknowledge(r, *cmp.Or(body.As, &user), user)
	if err != nil {
		writeError(w, statusOf(err), err, s.options.Log)
		return
	}
	writeJSON(w, http.StatusOK, detail(i, warnings), s.options.Log)
}
