package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
)

// newUpdatable is a source with an incident, and its pages for alice.
func newUpdatable(lifecycle bool) (*chronicle, http.Handler) {
	c := &chronicle{incidents: []*incident.Incident{
		newIncident("20260501-00000001", incident.Open, "irc_rpc", ago(time.Hour)),
		newIncident("20260301-00000001", incident.Closed, "docs_search", ago(30*24*time.Hour)),
	}}
	c.public.ListenAddress = "127.0.0.1:9657"
	c.incidents[0].Updates = []incident.Note{{Time: ago(time.Minute), Author: "bob", Text: "We are on it,\n<b>soon</b>."}}
	return c, c.handler(lifecycle, "alice")
}

// sendUpdate sends the form of updates, or gets its page.
func sendUpdate(t *testing.T, h http.Handler, user, query string, form url.Values) reply {
	t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	r := httptest.NewRequestWithContext(t.Context(), method, "http://exporter.example/updates"+query, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://exporter.example")
	}
	if user != "" {
		r.SetBasicAuth(user, "checked by the listener")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return reply{w.Code, w.Header(), w.Body.Bytes()}
}

func TestUpdateForUsersIsAddedOnThePage(t *testing.T) {
	c, h := newUpdatable(true)
	page := sendUpdate(t, h, "alice", "?incident=20260501-00000001", nil)
	holds(t, string(page.body), `<option value="20260501-00000001" selected>`, "We are on it,\n&lt;b&gt;soon&lt;/b&gt;.", "bob")
	if strings.Contains(string(page.body), "20260301-00000001") {
		t.Error("an incident that the public page no longer shows can be updated")
	}
	if policy := page.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self'") {
		t.Errorf("policy %q", policy)
	}
	token := regexp.MustCompile(`name="token" value="([0-9a-f]{64})"`).FindSubmatch(page.body)
	if token == nil {
		t.Fatal("alice gets no form")
	}
	form := url.Values{"token": {string(token[1])}, "incident": {"20260501-00000001"}, "text": {"A new disk is in."}}
	answer := sendUpdate(t, h, "alice", "", form)
	location := answer.Header.Get("Location")
	if answer.StatusCode != http.StatusSeeOther || c.noted != "for users, alice: A new disk is in." {
		t.Fatalf("status %d to %q, added %q", answer.StatusCode, location, c.noted)
	}
	holds(t, string(sendUpdate(t, h, "alice", strings.TrimPrefix(location, "updates"), nil).body), "The update was added.")

	form.Set("incident", "other")
	answer = sendUpdate(t, h, "alice", "", form)
	if answer.StatusCode != http.StatusNotFound {
		t.Errorf("status %d for an unknown incident", answer.StatusCode)
	}
	holds(t, string(answer.body), "Nothing was added.", "Unknown incident", ">A new disk is in.</textarea>")
}

// TestUpdateForUsersIsRefused as maintenance is: without lifecycle, to strangers, and without the token of the form.
func TestUpdateForUsersIsRefused(t *testing.T) {
	c, h := newUpdatable(true)
	form := url.Values{"incident": {"20260501-00000001"}, "text": {"No."}}
	_, locked := newUpdatable(false)
	for name, a := range map[string]struct {
		answer reply
		want   string
	}{
		"no token":          {sendUpdate(t, h, "alice", "", form), "Send it again from here"},
		"a stranger":        {sendUpdate(t, h, "mallory", "", form), "Only a user with a password"},
		"without lifecycle": {sendUpdate(t, locked, "alice", "", form), "--web.enable-lifecycle"},
	} {
		if a.answer.StatusCode != http.StatusForbidden || c.noted != "" {
			t.Errorf("%s: status %d, added %q", name, a.answer.StatusCode, c.noted)
		}
		holds(t, string(a.answer.body), "Nothing was added.", a.want)
	}
	c.public.ListenAddress = ""
	page := string(sendUpdate(t, h, "alice", "", nil).body)
	holds(t, page, "There is no page for users: set public.listen_address")
	if strings.Contains(page, "<form") {
		t.Error("without a public page, there is a form")
	}
}

func TestUpdateForUsersIsAddedOverTheAPI(t *testing.T) {
	c, h := newUpdatable(true)
	post := func(user string) reply {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/incidents/20260501-00000001/updates",
			strings.NewReader(`{"text": "A new disk is in."}`))
		r.Header.Set("Content-Type", "application/json")
		if user != "" {
			r.SetBasicAuth(user, "checked by the listener")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return reply{w.Code, w.Header(), w.Body.Bytes()}
	}
	if got := post("mallory"); got.StatusCode != http.StatusForbidden || c.noted != "" {
		t.Errorf("a stranger: status %d, added %q", got.StatusCode, c.noted)
	}
	if got := post("alice"); got.StatusCode != http.StatusCreated || c.noted != "for users, alice: A new disk is in." {
		t.Errorf("status %d, added %q", got.StatusCode, c.noted)
	}
	c.public.ListenAddress = ""
	if got := post("alice"); got.StatusCode != http.StatusConflict {
		t.Errorf("without a public page: status %d", got.StatusCode)
	}
}
