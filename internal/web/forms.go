package web

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
)

// maxOutcomes is how many outcomes of forms are kept, for the pages that browsers load after a change.
const maxOutcomes = 64

// forms are what all pages with forms have in common. Only a browser with a password of this exporter may send a form: under a
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

func newForms(o Options) *forms {
	key := make([]byte, sha256.Size)
	rand.Read(key)
	return &forms{options: o, key: key}
}

// offersForms reports whether the pages have forms: lifecycle is enabled, and the exporter has passwords.
func (o *Options) offersForms() bool { return o.whyNoForms() == "" }

func (o *Options) whyNoForms() string {
	switch {
	case !o.Lifecycle:
		return "Changes over HTTP are not enabled. Start the exporter with --web.enable-lifecycle and a password."
	case o.Users == nil || len(o.Users()) == 0:
		return "Web pages may not change anything, because this exporter has no password. " +
			"Set basic_auth_users in the file of --web.config.file, or use a program such as curl."
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
		return "", "Only a user with a password of this exporter may change something. Load this page again, and log in."
	}
	return name, ""
}

func (f *forms) token(user string) string {
	mac := hmac.New(sha256.New, f.key)
	mac.Write([]byte(user))
	return hex.EncodeToString(mac.Sum(nil))
}

// read returns the fields of a form and who sent it, or why it is refused, with the status of the response.
func (f *forms) read(w http.ResponseWriter, r *http.Request, limit int64) (fields url.Values, user string, status int, refusal string) {
	if user, refusal = f.user(r); refusal != "" {
		return nil, "", http.StatusForbidden, refusal
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	if err := r.ParseForm(); err != nil {
		status = http.StatusBadRequest
		if _, long := errors.AsType[*http.MaxBytesError](err); long {
			status = http.StatusRequestEntityTooLarge
		}
		return nil, "", status, "The form is damaged or too long. Send it again with a shorter text."
	}
	if !hmac.Equal([]byte(r.PostForm.Get("token")), []byte(f.token(user))) {
		return nil, "", http.StatusForbidden,
			"The form is from another page, or the exporter has restarted since you loaded it. " +
				"Send it again from here, or load its page again."
	}
	return r.PostForm, user, 0, "" // without the query, which a link can set
}

// finish keeps the outcome of a form, and leads to the page that shows it.
func (f *forms) finish(w http.ResponseWriter, page string, done outcome) {
	done.id = rand.Text()
	f.mu.Lock()
	f.outcomes = append(f.outcomes[max(0, len(f.outcomes)-maxOutcomes+1):], done)
	f.mu.Unlock()
	redirect(w, http.StatusSeeOther, page+"?outcome="+done.id)
}

// outcome returns the outcome of the form that led to a page, if there was one.
func (f *forms) outcome(r *http.Request) outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.outcomes, func(o outcome) bool { return o.id == r.URL.Query().Get("outcome") }); i >= 0 {
		return f.outcomes[i]
	}
	return outcome{}
}

// render writes a page that has forms.
func (f *forms) render(w http.ResponseWriter, status int, page page, data any) {
	var b bytes.Buffer
	if err := page.Execute(&b, data); err != nil {
		f.options.Log.Error("page does not render", "page", page.Name(), "err", err)
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
