package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
)

// newUpdatable is a source with an open incident, one that has been over for long, and a page for users.
func newUpdatable() *chronicle {
	c := &chronicle{incidents: []*incident.Incident{
		newIncident(openID, incident.Open, "irc_rpc", ago(time.Hour)),
		newIncident(closedID, incident.Closed, "docs_search", ago(30*24*time.Hour)),
	}}
	c.public.ListenAddress = "127.0.0.1:9657"
	c.public.Services = []config.PublicService{{Name: "Chat", Targets: []string{"irc_rpc", "docs_search"}}}
	c.incidents[0].Updates = []incident.Note{{Time: ago(time.Minute), Author: "bob", Text: "We are on it,\n<b>soon</b>."}}
	return c
}

func TestUpdateForUsersIsAddedOnThePage(t *testing.T) {
	c := newUpdatable()
	h := c.handler(true, "alice")
	page := string(submitTo(t, h, openID, nil).body)
	holds(t, page, `<textarea id="update"`, "<b>bob</b>: We are on it,\n&lt;b&gt;soon&lt;/b&gt;.", "It cannot be changed or deleted.")
	token := tokenIn(t, []byte(page))
	answer := submitTo(t, h, openID, url.Values{"token": {token}, "update": {"A new disk is in."}})
	to, outcome, _ := strings.Cut(answer.Header.Get("Location"), "?")
	if answer.StatusCode != http.StatusSeeOther || to != openID || c.noted != "for users, alice: A new disk is in." {
		t.Fatalf("status %d to %q, added %q", answer.StatusCode, to, c.noted)
	}
	holds(t, string(visit{user: "alice", path: "/incidents/" + to, query: "?" + outcome}.send(t, h).body),
		"Your update was added.", "the disk is full")
	if page := string(submitTo(t, h, closedID, nil).body); strings.Contains(page, `id="update"`) {
		t.Error("an incident that the page for users no longer shows has a form for updates")
	}
}

// TestUpdateForUsersNeedsTheirPage, whether it is a form's or a program's, and keeps what was typed.
func TestUpdateForUsersNeedsTheirPage(t *testing.T) {
	c := newUpdatable()
	c.public.ListenAddress = ""
	h := c.handler(true, "alice")
	page := submitTo(t, h, openID, nil).body
	if strings.Contains(string(page), `id="update"`) {
		t.Error("without a page for users, there is a form")
	}
	form := url.Values{"token": {tokenIn(t, page)}, "update": {"A new disk is in."}}
	const want = "here is no page for users: set public.listen_address"
	if got := submitTo(t, h, openID, form); got.StatusCode != http.StatusConflict || !strings.Contains(string(got.body), want) {
		t.Errorf("a form: %d\n%s", got.StatusCode, got.body)
	}
	w := program{user: "alice", path: "/api/v1/incidents/" + openID + "/updates", body: `{"text": "A new disk is in."}`}.send(t, h)
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), want) || c.noted != "" {
		t.Errorf("a program: %d, added %q\n%s", w.Code, c.noted, w.Body)
	}
}

// TestUpdateForUsersIsRefusedAsANoteIs without lifecycle, to strangers, and without the token of the form.
func TestUpdateForUsersIsRefusedAsANoteIs(t *testing.T) {
	c := newUpdatable()
	form := url.Values{"update": {"No."}}
	for name, v := range map[string]struct {
		user      string
		lifecycle bool
		want      string
	}{
		"no token":          {"alice", true, "Send it again from here"},
		"a stranger":        {"mallory", true, "Only a user with a password"},
		"without lifecycle": {"alice", false, "--web.enable-lifecycle"},
	} {
		h := c.handler(v.lifecycle, "alice")
		got := visit{user: v.user, path: "/incidents/" + openID, form: form}.send(t, h)
		if got.StatusCode != http.StatusForbidden || c.noted != "" {
			t.Errorf("%s: status %d, added %q", name, got.StatusCode, c.noted)
		}
		holds(t, string(got.body), "Nothing was changed.", v.want)
	}
}

func TestUpdateForUsersIsAddedOverTheAPI(t *testing.T) {
	c := newUpdatable()
	post := program{user: "mallory", path: "/api/v1/incidents/" + openID + "/updates", body: `{"text": "A new disk is in."}`}
	if w := post.send(t, c.handler(true, "alice")); w.Code != http.StatusForbidden || c.noted != "" {
		t.Errorf("a stranger: status %d, added %q", w.Code, c.noted)
	}
	post.user = "alice"
	w := post.send(t, c.handler(true, "alice"))
	if w.Code != http.StatusCreated || c.noted != "for users, alice: A new disk is in." ||
		!strings.Contains(w.Body.String(), "the disk is full") {
		t.Errorf("status %d, added %q\n%s", w.Code, c.noted, w.Body)
	}
}

func TestUpdateThatNobodyReadsIsToldSo(t *testing.T) {
	for name, v := range map[string]struct{ id, target, want string }{
		"shown":             {openID, "irc_rpc", ""},
		"over for long":     {closedID, "docs_search", "no longer shows the incident"},
		"no public service": {openID, "docs_search", "affects no service on their page"},
	} {
		c := newUpdatable()
		c.public.Services[0].Targets = []string{v.target}
		w := program{user: "alice", path: "/api/v1/incidents/" + v.id + "/updates", body: `{"text": "A new disk is in."}`}.
			send(t, c.handler(true, "alice"))
		told := strings.Contains(w.Body.String(), "users do not see it")
		if w.Code != http.StatusCreated || told != (v.want != "") || !strings.Contains(w.Body.String(), v.want) {
			t.Errorf("%s: %d\n%s", name, w.Code, w.Body)
		}
	}
}

// TestUpdateIsInTheFeed of the operators too, since it updates the entry.
func TestUpdateIsInTheFeed(t *testing.T) {
	holds(t, string(fetch(t, newUpdatable().handler(false), "/incidents.atom").body), "Updates for users:", "We are on it,")
}
