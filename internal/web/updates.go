package web

import (
	_ "embed"
	"errors"
	"net/http"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
)

// updatable is how long after its end an incident is offered for updates, as long as the public page shows it.
const updatable = 14 * 24 * time.Hour

//go:embed updates.html
var updatesHTML string

var updatesPage = site.Parse("updates", updatesHTML, pageFuncs)

// updater adds to incidents what the public page says of them.
type updater interface {
	// AddUpdate adds an update for the users to an incident, as AddNote adds a note.
	AddUpdate(id, author, text string) (*incident.Incident, error)
	// Public returns the configuration of the public page.
	Public() *config.Public
}

// updateSource is what the form needs.
type updateSource interface {
	chronicle
	updater
}

// updateForm is the page that adds updates for users.
type updateForm struct {
	*forms

	source updateSource
	frames frames
}

// errNoPublicPage is why there is nothing to update.
var errNoPublicPage = errors.New("there is no page for users: set public.listen_address in exporter.yaml")

// updatesView is the data of the page.
type updatesView struct {
	frame
	// Refusal says why there is no form; Token is the user's.
	Refusal, Token string
	// Error says why nothing was added, Done what was.
	Error, Done string
	Incidents   []shownIncident
	// Incident and Text are the form's values.
	Incident, Text string
}

// show writes the page.
func (f *updateForm) show(w http.ResponseWriter, r *http.Request, status int, v updatesView) {
	user, refusal := f.user(r)
	if f.source.Public().ListenAddress == "" {
		refusal = upperFirst(errNoPublicPage.Error()) + "."
	}
	if v.Refusal = refusal; refusal == "" {
		v.Token = f.token(user)
	}
	title := "Updates for users"
	if v.Error != "" {
		title = "Error · " + title
	}
	now := time.Now()
	v.frame = f.frames.frame("./", title, "icon-unknown.svg")
	v.Incidents = listed(f.source.Incidents(), now.Add(-updatable), now)
	f.render(w, status, updatesPage, v)
}

// get shows the page, with the outcome of the form that led to it.
func (f *updateForm) get(w http.ResponseWriter, r *http.Request) {
	f.show(w, r, http.StatusOK, updatesView{Incident: r.URL.Query().Get("incident"), Done: f.outcome(r).text})
}

// post adds an update, and leads to the page with the outcome.
func (f *updateForm) post(w http.ResponseWriter, r *http.Request) {
	form, user, status, refusal := f.read(w, r, maxNoteBody)
	if refusal != "" {
		f.show(w, r, status, updatesView{Error: refusal})
		return
	}
	id, text := form.Get("incident"), form.Get("text")
	if _, err := f.add(id, user, text); err != nil {
		f.show(w, r, statusOf(err), updatesView{Error: upperFirst(err.Error()) + ".", Incident: id, Text: text})
		return
	}
	f.finish(w, "updates", outcome{text: "The update was added. The page for users shows it within 5 s."})
}

// add adds an update to an incident.
func (f *updateForm) add(id, author, text string) (*incident.Incident, error) {
	if f.source.Public().ListenAddress == "" {
		return nil, errNoPublicPage
	}
	i, err := f.source.AddUpdate(id, author, text)
	if err == nil {
		f.options.Log.Info("an update for users was added", "incident", i.ID, "user", author)
	}
	return i, err
}

// serveAdd adds an update to an incident, over the API.
func (f *updateForm) serveAdd(w http.ResponseWriter, r *http.Request) {
	serveAddText(w, r, "an update", f.add, f.options.Log)
}
