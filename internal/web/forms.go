package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// maxOutcomes is how many outcomes of forms are kept, for the pages that browsers load after a change.
const maxOutcomes = 64

// formsHTML has the template "outcome" of every page with forms.
//
//go:embed forms.html
var formsHTML string

// forms is what pages have in common that change something. Only a browser with a password of this exporter may use them: under a
// foreign name, as in DNS rebinding, it sends none. The token stops foreign forms of browsers that do not say where a form is from.
type forms struct {
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

// formState is what a page with forms shows of them.
type formState struct {
	// Refusal says why there are no forms; Token is the user's.
	Refusal, User, Token string
	// Error says why nothing was changed, Done what was.
	Error, Done string
	Warnings    []string
}

func newForms(o Options) *forms {
	f := &forms{options: o, key: make([]byte, sha256.Size)}
	rand.Read(f.key)
	return f
}

// offersForms reports whether the pages have forms: lifecycle is enabled, and the exporter has passwords.
func (o *Options) offersForms() bool { return o.whyNoForms() == "" }

func (o *Options) whyNoForms() string {
	switch {
	case !o.Lifecycle:
		return "Changes over HTTP are not enabled. Start the exporter with --web.enable-lifecycle and a password."
	case o.Users == nil || len(o.Users()) == 0:
		return "Web pages may change nothing, because this exporter has no password. " +
			"Set basic_auth_users in the file of --web.config.file."
	}
	return ""
}

// user returns who sent the request, or why that user may change nothing.
func (f *forms) user(r *http.Request) (name, refusal string) {
	if refusal := f.options.whyNoForms(); refusal != "" {
		return "", refusal
	}
	name, _, ok := r.BasicAuth() // the listener has checked the password
	if !ok || !slices.Contains(f.options.Users(), name) {
		return "", "Only a user with a password of this exporter may change something here. Load this page again, and log in."
	}
	return name, ""
}

func (f *forms) token(user string) string {
	mac := hmac.New(sha256.New, f.key)
	mac.Write([]byte(user))
	return hex.EncodeToString(mac.Sum(nil))
}

// show completes what a page shows of its forms, with the outcome of the one that led to it. A user who may send some gets them.
func (f *forms) show(w http.ResponseWriter, r *http.Request, s formState) formState {
	s.User, s.Refusal = f.user(r)
	if s.Refusal == "" {
		s.Token = f.token(s.User)
		allowForms(w.Header())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.outcomes, func(o outcome) bool { return o.id == r.URL.Query().Get("outcome") }); i >= 0 && s.Error == "" {
		s.Done, s.Warnings = f.outcomes[i].text, f.outcomes[i].warnings
	}
	return s
}

// accept returns the values of a form of ours and its user, or the status and the text of a refusal.
func (f *forms) accept(w http.ResponseWriter, r *http.Request, limit int64) (form url.Values, user string, code int, refusal string) {
	if user, refusal = f.user(r); refusal != "" {
		return nil, "", http.StatusForbidden, refusal
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	if err := r.ParseForm(); err != nil {
		code := http.StatusBadRequest
		if _, long := errors.AsType[*http.MaxBytesError](err); long {
			code = http.StatusRequestEntityTooLarge
		}
		return nil, "", code, "The form is damaged or too long. Send it again with a shorter text."
	}
	// Not the query, which a link can set.
	if !hmac.Equal([]byte(r.PostForm.Get("token")), []byte(f.token(user))) {
		return nil, "", http.StatusForbidden,
			"The form is from another page, or the exporter has restarted since you loaded it. Send it again from here."
	}
	return r.PostForm, user, 0, ""
}

// finish keeps the outcome of a form, and leads to the page that shows it.
func (f *forms) finish(w http.ResponseWriter, page string, done outcome) {
	done.id = rand.Text()
	f.mu.Lock()
	f.outcomes = append(f.outcomes[max(0, len(f.outcomes)-maxOutcomes+1):], done)
	f.mu.Unlock()
	redirect(w, http.StatusSeeOther, page+"?outcome="+done.id)
}

// allowForms changes the headers of a page that has forms.
func allowForms(h http.Header) {
	site.Protect(h)
	h.Set("Content-Security-Policy", strings.Replace(site.Policy, "form-action 'none'", "form-action 'self'", 1))
	// With no-referrer, browsers send the forms with the origin null, which is refused.
	h.Set("Referrer-Policy", "same-origin")
}

// sentence makes a sentence of an error, with advice if the form itself is wrong.
func sentence(err error, wrong bool) string {
	text := status.UpperFirst(err.Error()) + "."
	if wrong {
		text += " Correct the form and send it again."
	}
	return text
}
