package web

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
)

// maxOutcomes is how many outcomes of forms are kept, for the pages that browsers load after a change.
const maxOutcomes = 64

//go:embed maintenance.html
var maintenanceHTML string

var maintenancePage = site.Parse("maintenance", maintenanceHTML, pageFuncs)

// maintenanceForms is the page that sets and ends maintenance. Only a browser with a password of this exporter may use it: under a
// foreign name, as in DNS rebinding, it sends none. The token stops foreign forms of browsers that do not say where a form is from.
type maintenanceForms struct {
	source  maintainer
	frames  frames
	options Options
	key     []byte

	mu       sync.Mutex
	outcomes []outcome // oldest first
}

// outcome is the result of a form, which the browser loads as another page, so that a reload does not send the form again.
type outcome struct {
	id, text string
	warnings []string
}

func newMaintenanceForms(source maintainer, f frames, o Options) *maintenanceForms {
	key := make([]byte, sha256.Size)
	rand.Read(key)
	return &maintenanceForms{
		source:  source,
		frames:  f,
		options: o,
		key:     key,
	}
}

// offersForms reports whether the pages have forms: lifecycle is enabled, and the exporter has passwords.
func (o *Options) offersForms() bool { return o.whyNoForms() == "" }

func (o *Options) whyNoForms() string {
	switch {
	case !o.Lifecycle:
		return "Maintenance over HTTP is not enabled. Start the exporter with --web.enable-lifecycle and a password, " +
			"or set maintenance in exporter.yaml."
	case o.Users == nil || len(o.Users()) == 0:
		return "Web pages may not change maintenance, because this exporter has no password. " +
			"Set basic_auth_users in the file of --web.config.file, or use a program such as curl."
	}
	return ""
}

// user returns who sent the request, or why that user may change nothing.
func (f *maintenanceForms) user(r *http.Request) (name, refusal string) {
	if refusal := f.options.whyNoForms(); refusal != "" {
		return "", refusal
	}
	name, _, ok := r.BasicAuth() // the listener has checked the password
	if !ok || !slices.Contains(f.options.Users(), name) {
		return "", "Only a user with a password of this exporter may change maintenance. Load this page again, and log in."
	}
	return name, ""
}

func (f *maintenanceForms) token(user string) string {
	mac := hmac.New(sha256.New, f.key)
	mac.Write([]byte(user))
	return hex.EncodeToString(mac.Sum(nil))
}

// maintenanceView is the data of the page.
type maintenanceView struct {
	frame
	// Refusal says why there are no forms; Token is the user's.
	Refusal, Token string
	// Error says why nothing was changed, Done what was.
	Error, Done string
	Warnings    []string
	Current     []maintenance.Entry
	Announced   []maintenance.Entry
	Targets     []string
	Containers  []string
	// Subject, Duration and Reason are the form's values.
	Subject, Duration, Reason string
}

// FromAPI reports whether a form can end the entry.
func (maintenanceView) FromAPI(e maintenance.Entry) bool { return e.Source == maintenance.FromAPI }

// show writes the page with the present maintenance.
func (f *maintenanceForms) show(w http.ResponseWriter, r *http.Request, status int, v maintenanceView) {
	user, refusal := f.user(r)
	if v.Refusal = refusal; refusal == "" {
		v.Token = f.token(user)
	}
	title := "Maintenance"
	if v.Error != "" {
		title = "Error · " + title
	}
	v.frame, v.Duration = f.frames.frame("./", title, "icon-maintenance.svg"), cmp.Or(v.Duration, "1h")
	for _, e := range f.source.Maintenance() {
		if e.Active {
			v.Current = append(v.Current, e)
		} else {
			v.Announced = append(v.Announced, e)
		}
	}
	report := f.frames.reports.Report()
	for i := range report.Services {
		v.Targets = append(v.Targets, report.Services[i].Name)
	}
	for i := range report.Containers {
		v.Containers = append(v.Containers, report.Containers[i].Name)
	}
	slices.Sort(v.Targets)
	slices.Sort(v.Containers)
	v.Containers = slices.Compact(v.Containers) // engines may have containers of one name, and maintenance covers all of them
	var b bytes.Buffer
	if err := maintenancePage.Execute(&b, v); err != nil {
		f.options.Log.Error("page does not render", "page", maintenancePage.Name(), "err", err)
		http.Error(w, "the page does not render: see the exporter's log", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	allowForms(h)
	pageHeader(h)
	w.WriteHeader(status)
	w.Write(b.Bytes()) //nolint:errcheck // the browser is gone
}

// allowForms changes the headers of a page that has forms.
func allowForms(h http.Header) {
	site.Protect(h)
	h.Set("Content-Security-Policy", strings.Replace(site.Policy, "form-action 'none'", "form-action 'self'", 1))
	// With no-referrer, browsers send the forms with the origin null, which is refused.
	h.Set("Referrer-Policy", "same-origin")
}

// get shows the page, with the outcome of the form that led to it.
func (f *maintenanceForms) get(w http.ResponseWriter, r *http.Request) {
	v := maintenanceView{Subject: r.URL.Query().Get("subject")}
	f.mu.Lock()
	if i := slices.IndexFunc(f.outcomes, func(o outcome) bool { return o.id == r.URL.Query().Get("outcome") }); i >= 0 {
		v.Done, v.Warnings = f.outcomes[i].text, f.outcomes[i].warnings
	}
	f.mu.Unlock()
	f.show(w, r, http.StatusOK, v)
}

// post sets or ends maintenance, and leads to the page with the outcome.
func (f *maintenanceForms) post(w http.ResponseWriter, r *http.Request) {
	user, refusal := f.user(r)
	if refusal != "" {
		f.show(w, r, http.StatusForbidden, maintenanceView{Error: refusal})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxMaintenanceBody)
	if err := r.ParseForm(); err != nil {
		status := http.StatusBadRequest
		if _, long := errors.AsType[*http.MaxBytesError](err); long {
			status = http.StatusRequestEntityTooLarge
		}
		f.show(w, r, status, maintenanceView{Error: "The form is damaged or too long. Send it again with a shorter reason."})
		return
	}
	form := r.PostForm // without the query, which a link can set
	if !hmac.Equal([]byte(form.Get("token")), []byte(f.token(user))) {
		f.show(w, r, http.StatusForbidden, maintenanceView{
			Error: "The form is from another page, or the exporter has restarted since you loaded it. Send it again from here.",
		})
		return
	}
	change := f.set
	if form.Has("end") {
		change = f.end
	}
	done, err := change(form)
	if err != nil {
		text := upperFirst(err.Error()) + "."
		if errors.Is(err, maintenance.ErrInvalid) {
			text += " Correct the form and send it again."
		}
		f.show(w, r, statusOf(err), maintenanceView{
			Error:    text,
			Subject:  form.Get("subject"),
			Duration: form.Get("duration"),
			Reason:   form.Get("reason"),
		})
		return
	}
	f.options.Log.Info("maintenance was changed on the status page", "change", done.text, "user", user)
	done.id = rand.Text()
	f.mu.Lock()
	f.outcomes = append(f.outcomes[max(0, len(f.outcomes)-maxOutcomes+1):], done)
	f.mu.Unlock()
	redirect(w, http.StatusSeeOther, "maintenance?outcome="+done.id)
}

func (f *maintenanceForms) set(form url.Values) (outcome, error) {
	kind, name, _ := strings.Cut(form.Get("subject"), "/")
	if name == "" {
		return outcome{}, fmt.Errorf("%w: no target or container is selected", maintenance.ErrInvalid)
	}
	request := maintenanceRequest{Duration: strings.TrimSpace(form.Get("duration"))}
	if request.Duration == "" {
		return outcome{}, fmt.Errorf("%w: the duration is empty, it must be one such as 30m, 2h or 1d12h", maintenance.ErrInvalid)
	}
	until, err := request.end(time.Now())
	if err != nil {
		return outcome{}, fmt.Errorf("%w: %w", maintenance.ErrInvalid, err)
	}
	entry, _, warnings, err := f.source.SetMaintenance(kind, name, strings.TrimSpace(form.Get("reason")), until)
	if err != nil {
		return outcome{}, err
	}
	return outcome{
		text:     fmt.Sprintf("The %s %s is under maintenance until %s.", kind, name, entry.Until.UTC().Format("2 Jan 15:04 UTC")),
		warnings: warnings,
	}, nil
}

func (f *maintenanceForms) end(form url.Values) (outcome, error) {
	kind, name, _ := strings.Cut(form.Get("end"), "/")
	if kind != config.MaintenanceTarget && kind != config.MaintenanceContainer || name == "" {
		return outcome{}, fmt.Errorf("%w: it is unknown what to end", maintenance.ErrInvalid)
	}
	warnings, err := f.source.EndMaintenance(kind, name)
	if err != nil {
		return outcome{}, err
	}
	return outcome{text: fmt.Sprintf("Maintenance of the %s %s has ended.", kind, name), warnings: warnings}, nil
}

func upperFirst(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
