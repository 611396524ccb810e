package web

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

const (
	// recentIncidents is how long the status page shows an incident that is over, and maxRecentIncidents how many it shows of them.
	recentIncidents    = 7 * 24 * time.Hour
	maxRecentIncidents = 8
	// incidentsPerPage and maxOpenProblems bound the list of all.
	incidentsPerPage = 50
	maxOpenProblems  = 10
	// These limit what a line of the list has, in characters.
	maxListedTitle = 100
	maxListedName  = 40
	maxListedText  = 200
	// maxNoteBody limits the body of a note, in bytes: 2,000 characters of which each is escaped.
	maxNoteBody = 32 << 10
)

//go:embed incidents.html
var incidentsHTML string

// incidentPages has the templates "incidents" of the status page, "incident list", "incident" and "feed entry".
var incidentPages = site.Parse("incidents", formsHTML+incidentsHTML, pageFuncs)

// chronicle has the incidents.
type chronicle interface {
	// Incidents lists them, newest first. They must not be changed.
	Incidents() []*incident.Incident
	// AddNote adds a note to an incident, or to the one that continues it. Warnings are for the user. The error wraps one of package
	// incident.
	AddNote(id, author, text string) (i *incident.Incident, warnings []string, err error)
	// AddUpdate adds an update for the users, as AddNote adds a note.
	AddUpdate(id, author, text string) (i *incident.Incident, warnings []string, err error)
	// Acknowledge says who takes care of an incident, and which user said so; warnings and error as there.
	Acknowledge(id, by, user string) (i *incident.Incident, warnings []string, err error)
}

// publisher has the page for users.
type publisher interface {
	// Public returns its configuration.
	Public() *config.Public
}

// errNoPublicPage is why there is nothing to update.
var errNoPublicPage = errors.New("there is no page for users: set public.listen_address in exporter.yaml")

// incidents serves the incidents.
type incidents struct {
	*forms
	source interface {
		chronicle
		historian
		probeHistory
		publisher
	}
	frames frames
	// externalURL returns the address of the status page as people reach it; "" if they cannot.
	externalURL func() string
}

// shownIncident is an incident on a page, at a moment. Up is the path from there to the status page.
type shownIncident struct {
	*incident.Incident
	Up  string
	now time.Time
}

func showIncident(i *incident.Incident, up string, now time.Time) shownIncident {
	return shownIncident{i.At(now), up, now}
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
	case incident.Merged:
		return "part of another incident"
	}
	text := "over"
	if i.Unwatched {
		text = "no longer watched"
	}
	text += " after " + i.Span()
	if i.State == incident.Watching && !i.Unwatched {
		text += ", still watched"
	}
	return text
}

// Headline is the title of an entry that is read by itself, with the state.
func (i shownIncident) Headline() string {
	switch {
	case i.State == incident.Merged:
		return "Part of another incident: " + i.Title
	case i.Unwatched:
		return "No longer watched: " + i.Title
	case i.State == incident.Watching:
		return "Over, still watched: " + i.Title
	case i.State == incident.Closed:
		return "Fixed: " + i.Title
	}
	return i.Title
}

// ListedTitle is the title as far as a list shows it.
func (i shownIncident) ListedTitle() string { return failure.Printable(i.Title, maxListedTitle) }

// Helper is who takes care of the incident, as far as a list shows it; "" if nobody does, or need not any more.
func (i shownIncident) Helper() string {
	if !i.Lasts() {
		return ""
	}
	return failure.Printable(i.Acknowledged.By, maxListedName)
}

// Runbook is the alert of the problem that explains the incident, "" if that is no longer known.
func (i shownIncident) Runbook() string {
	for n := range i.Problems {
		if p := &i.Problems[n]; p.Subject == i.Cause && p.Text == i.Title {
			return p.Alert
		}
	}
	return ""
}

// Unseen reports whether an outage ended only because the target is no longer watched.
func (i shownIncident) Unseen(o incident.Outage) bool {
	unwatched := func(p incident.Problem) bool { return p.Subject == o.Subject && p.Unwatched }
	return o.Since.IsZero() && slices.ContainsFunc(i.Problems, unwatched)
}

// Class is the class of the style sheet.
func (i shownIncident) Class() string {
	switch {
	case i.State == incident.Open || i.Lasts() && !i.Unwatched:
		return i.Severity.String()
	case i.Unwatched:
		return status.Unknown.String()
	}
	return status.OK.String()
}

// listed returns the incidents that began or lasted since a time, without those that others continue.
func listed(all []*incident.Incident, since, now time.Time) (list []shownIncident) {
	for _, i := range all {
		if i.State != incident.Merged && (i.Lasts() || !i.Ended.Before(since)) {
			list = append(list, showIncident(i, "", now))
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

// openProblem is a problem that belongs to no incident yet. Row is that of its subject on the status page.
type openProblem struct {
	status.Problem
	Name, Row, Text, Lasting string
}

// unlisted returns the problems of a report that belong to no incident which lasts.
func unlisted(r *status.Report, all []*incident.Incident) []status.Problem {
	known := map[health.Subject][]incident.Problem{}
	for _, i := range all {
		if !i.Lasts() {
			continue
		}
		for _, p := range i.Problems {
			if p.Cleared.IsZero() { // the report has printable names
				s := health.Subject{Kind: p.Kind, Host: p.Host, Name: failure.Printable(p.Name, maxName)}
				known[s] = append(known[s], p)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(r.Problems), func(p status.Problem) bool {
		return slices.ContainsFunc(known[p.Subject], func(k incident.Problem) bool {
			return k.Alert == p.Alert && failure.Printable(k.Of, maxName) == p.Of
		})
	})
}

// maxName limits the names of subjects in a report, in characters.
const maxName = 255

// incidentsView is the data of the page with all incidents.
type incidentsView struct {
	frame
	// Problems are the worst that belong to no incident yet; MoreProblems is how many others there are.
	Problems     []openProblem
	MoreProblems int
	// Open are the incidents of this page that last, Over the others.
	Open, Over  []shownIncident
	Page, Pages int
}

// Newer and Older are the numbers of the pages before and after, 0 without one.
func (v *incidentsView) Newer() int { return v.Page - 1 }

// Older is the number of the next page, 0 without one.
func (v *incidentsView) Older() int {
	if v.Page == v.Pages {
		return 0
	}
	return v.Page + 1
}

// list serves a page of all incidents: what is open now, then what is over.
func (s *incidents) list(w http.ResponseWriter, r *http.Request) {
	all, now := s.source.Incidents(), time.Now()
	shown := listed(all, time.Time{}, now)
	slices.SortStableFunc(shown, func(a, b shownIncident) int { return cmp.Compare(b.lasting(), a.lasting()) })
	v := &incidentsView{Page: 1, Pages: max(1, (len(shown)+incidentsPerPage-1)/incidentsPerPage)}
	if wanted := r.URL.Query().Get("page"); wanted != "" {
		var err error
		if v.Page, err = strconv.Atoi(wanted); err != nil || v.Page < 1 || v.Page > v.Pages {
			http.Error(w, fmt.Sprintf("no such page: /incidents?page=1 to %d", v.Pages), http.StatusNotFound)
			return
		}
	}
	for _, i := range shown[min((v.Page-1)*incidentsPerPage, len(shown)):min(v.Page*incidentsPerPage, len(shown))] {
		if i.Lasts() {
			v.Open = append(v.Open, i)
		} else {
			v.Over = append(v.Over, i)
		}
	}
	v.frame = s.frames.frame("./", "Incidents", "icon-unknown.svg")
	if v.Page == 1 {
		v.addProblems(s.frames.reports.Report(), all, now)
	}
	render(w, incidentPages.Lookup("incident list"), v, s.options.Log)
}

// lasting is 1 for an incident that lasts.
func (i shownIncident) lasting() int {
	if i.Lasts() {
		return 1
	}
	return 0
}

// addProblems adds the problems that belong to no incident yet.
func (v *incidentsView) addProblems(r *status.Report, all []*incident.Incident, now time.Time) {
	kinds := map[string]string{}
	for i := range r.Services {
		kinds[r.Services[i].Name] = r.Services[i].Kind
	}
	problems := unlisted(r, all)
	for _, p := range problems[:min(len(problems), maxOpenProblems)] {
		name := status.UpperFirst(status.HumanName(p.Subject, kinds[p.Name]))
		v.Problems = append(v.Problems, openProblem{
			p,
			failure.Printable(name, maxListedTitle),
			rowID(p.Subject),
			failure.Printable(p.Text, maxListedText),
			wording.Duration(now.Sub(p.Since)),
		})
	}
	v.MoreProblems = len(problems) - len(v.Problems)
}

// incidentView is the data of the page of one incident.
type incidentView struct {
	frame
	formState
	Of       shownIncident
	Affected []affected
	// Script shows times in the reader's time zone too.
	Script string
	// Published says that users read updates of the incident.
	Published bool
	// As, Text and Update are the forms' values.
	As, Text, Update string
}

// page serves the page of one incident. One that another continues leads there.
func (s *incidents) page(w http.ResponseWriter, r *http.Request) {
	i, err := s.find(r)
	switch {
	case err != nil:
		http.Error(w, err.Error()+": /incidents lists all incidents", http.StatusNotFound)
	case i.State == incident.Merged:
		redirect(w, http.StatusSeeOther, i.MergedInto)
	default:
		s.write(w, r, http.StatusOK, i, incidentView{})
	}
}

// write writes the page of an incident.
func (s *incidents) write(w http.ResponseWriter, r *http.Request, code int, i *incident.Incident, v incidentView) {
	v.formState = s.show(w, r, v.formState)
	title := i.Title
	if v.Error != "" {
		title = "Error · " + title
	}
	v.frame = s.frames.frame("../", title, "icon-unknown.svg")
	v.Script = v.Up + s.frames.assets.link("zones.js")
	v.As = cmp.Or(v.As, v.User)
	v.Of = showIncident(i, v.Up, time.Now())
	v.Affected = s.affected(&v.Of)
	v.Published = s.source.Public().ListenAddress != "" && shownToUsers(i)
	renderWith(w, code, incidentPages.Lookup("incident"), v, s.options.Log)
}

// post acknowledges an incident or adds a text to it, and leads to its page with the outcome.
func (s *incidents) post(w http.ResponseWriter, r *http.Request) {
	form, user, code, refusal := s.accept(w, r, maxNoteBody)
	i, err := s.find(r)
	switch {
	case err != nil:
		http.Error(w, err.Error()+": /incidents lists all incidents", http.StatusNotFound)
		return
	case refusal != "":
		s.write(w, r, code, i, incidentView{formState: formState{Error: refusal}})
		return
	}
	done := outcome{text: "Your note was added."}
	var changed *incident.Incident
	switch {
	case form.Has("acknowledge"):
		changed, done.warnings, err = s.acknowledge(r, form.Get("as"), user)
		done.text = "You have acknowledged the incident."
	case form.Has("update"):
		changed, done.warnings, err = s.addUpdate(i.ID, user, form.Get("update"))
		done.text = "Your update was added. The page for users shows it within 5 s, if the incident affects one of its services."
	default:
		changed, done.warnings, err = s.source.AddNote(i.ID, user, form.Get("text"))
	}
	if err != nil {
		s.write(w, r, statusOf(err), i, incidentView{
			formState: formState{Error: sentence(err, errors.Is(err, incident.ErrInvalid))},
			As:        form.Get("as"),
			Text:      form.Get("text"),
			Update:    form.Get("update"),
		})
		return
	}
	s.finish(w, changed.ID, done)
}

// addUpdate adds an update for the users.
func (s *incidents) addUpdate(id, author, text string) (*incident.Incident, []string, error) {
	if s.source.Public().ListenAddress == "" {
		return nil, nil, errNoPublicPage
	}
	i, warnings, err := s.source.AddUpdate(id, author, text)
	if err != nil {
		return nil, nil, err
	}
	s.options.Log.Info("an update for users was added", "id", i.ID, "user", author)
	switch {
	case !shownToUsers(i):
		warnings = append(warnings, "users do not see it: their page no longer shows the incident, which ended over 14 days ago")
	case !s.affectsUsers(i):
		warnings = append(warnings, "users do not see it: the incident affects no service on their page")
	}
	return i, warnings, nil
}

// shownToUsers reports whether the page for users shows an incident, if that affects one of its services.
func shownToUsers(i *incident.Incident) bool {
	return i.Lasts() || time.Since(i.Ended) <= incident.ShownToUsers
}

// affectsUsers reports whether the page for users shows a service that needs a target of the incident.
func (s *incidents) affectsUsers(i *incident.Incident) bool {
	return slices.ContainsFunc(i.Problems, func(p incident.Problem) bool {
		return p.Kind == health.KindTarget && slices.ContainsFunc(s.source.Public().Services, func(service config.PublicService) bool {
			return slices.Contains(service.Targets, p.Name)
		})
	})
}

// acknowledge says that somebody takes care of the incident of the path.
func (s *incidents) acknowledge(r *http.Request, by, user string) (*incident.Incident, []string, error) {
	i, warnings, err := s.source.Acknowledge(r.PathValue("id"), by, user)
	if err == nil {
		s.options.Log.Info("incident was acknowledged", "id", i.ID, "by", i.Acknowledged.By, "user", user)
	}
	return i, warnings, err
}
