package simstack

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryStoryHasFaultsOfTheStack also holds the sentence of each story to the times of what it announces.
func TestEveryStoryHasFaultsOfTheStack(t *testing.T) {
	k := started(t, Options{Coupled: true})
	known := map[Fault]bool{}
	for _, f := range k.Faults() {
		known[Fault{Service: f.Service, Name: f.Name}] = true
	}
	if n := len(Stories()); n != 10 {
		t.Errorf("%d stories, want 10", n)
	}
	times := regexp.MustCompile(`\b(Within|after) (\d+ (?:s|min))\b`)
	for _, s := range Stories() {
		if s.ID == "" || s.Title == "" || len(s.Faults) == 0 || len(s.Shows) == 0 {
			t.Errorf("the story %+v lacks something", s)
		}
		for _, f := range s.faults() {
			if !known[f] {
				t.Errorf("%s: %s has no fault %s", s.ID, f.Service, f.Name)
			}
		}
		var said, announced []string
		for _, found := range times.FindAllStringSubmatch(s.Watch, -1) {
			said = append(said, strings.ToLower(found[1])+" "+found[2])
		}
		for _, a := range s.Shows {
			if (a.Within == 0) == (a.After == 0) {
				t.Errorf("%s: %+v needs either within or after", s.ID, a)
			}
			if a.Within > 0 {
				announced = append(announced, fmt.Sprintf("within %.0f s", a.Within.Seconds()))
			} else {
				announced = append(announced, fmt.Sprintf("after %.0f min", a.After.Minutes()))
			}
		}
		for _, list := range []*[]string{&said, &announced} {
			slices.Sort(*list)
			*list = slices.Compact(*list)
		}
		if !slices.Equal(said, announced) {
			t.Errorf("%s: the sentence says %q, the announcements %q", s.ID, said, announced)
		}
	}
}

func (k *Stack) mustTell(t *testing.T, id string, on bool) {
	t.Helper()
	if err := k.SwitchStory(id, on); err != nil {
		t.Fatal(err)
	}
}

func (k *Stack) mustSwitch(t *testing.T, f Fault, on bool) {
	t.Helper()
	if err := k.Switch(f.Service, f.Name, on); err != nil {
		t.Fatal(err)
	}
}

// TestStoryRestoresWhatWasOn switches each story on and off: alone, with one of its faults on before, and around another story.
func TestStoryRestoresWhatWasOn(t *testing.T) {
	k := started(t, Options{Coupled: true})
	for _, s := range Stories() {
		for _, before := range [][]Fault{nil, {s.faults()[0]}, {{Service: "identity", Name: "status_500"}}} {
			for _, f := range before {
				k.mustSwitch(t, f, true)
			}
			want := k.Active()
			k.mustTell(t, s.ID, true)
			k.mustTell(t, s.ID, true)
			if got := k.ActiveStories(); !slices.Equal(got, []string{s.ID}) {
				t.Errorf("%s is on, got %v", s.ID, got)
			}
			k.mustTell(t, s.ID, false)
			k.mustTell(t, s.ID, false)
			if got := k.Active(); !slices.Equal(got, want) {
				t.Errorf("%s: after it, %v are on, want %v", s.ID, got, want)
			}
			if got := k.ActiveStories(); len(got) > 0 {
				t.Errorf("%s is off, got %v", s.ID, got)
			}
			for _, f := range before {
				k.mustSwitch(t, f, false)
			}
			if got := k.Active(); len(got) > 0 {
				t.Errorf("%s: %v are left", s.ID, got)
			}
		}
		for _, other := range Stories() {
			if other.ID == s.ID {
				continue
			}
			k.mustTell(t, s.ID, true)
			k.mustTell(t, other.ID, true)
			k.mustTell(t, s.ID, false)
			if got := k.ActiveStories(); !slices.Equal(got, []string{other.ID}) {
				t.Errorf("after %s, %v are on, want %s", s.ID, got, other.ID)
			}
			k.mustTell(t, other.ID, false)
			if got := k.Active(); len(got) > 0 {
				t.Errorf("%s around %s: %v are left", s.ID, other.ID, got)
			}
		}
	}
	for _, service := range Services {
		k.mustBeWell(t, service)
	}
}

// TestStoriesThatShareAFaultEndInAnyOrder: the fault ends with the last of them.
func TestStoriesThatShareAFaultEndInAnyOrder(t *testing.T) {
	k := started(t, Options{})
	k.mustTell(t, "network_dead", true)
	k.mustSwitch(t, Fault{Service: "identity", Name: "hang"}, false)
	if got := k.ActiveStories(); len(got) > 0 {
		t.Errorf("a fault of it is off, and %v is on", got)
	}
	k.mustTell(t, "network_dead", true)
	k.mustTell(t, "slow_store", true)
	if got := len(k.ActiveStories()); got != 2 {
		t.Errorf("%d stories are on, want 2", got)
	}
	if err := k.Reset(); err != nil {
		t.Fatal(err)
	}
	if stories, faults := k.ActiveStories(), k.Active(); len(stories)+len(faults) > 0 {
		t.Errorf("after a reset, %v and %v are on", stories, faults)
	}
}

func TestStoryLeadsBackToItselfAndTheStatusPage(t *testing.T) {
	k := started(t, Options{})
	k.LinkStatusPage("http://localhost:9655/")
	ask := func(method, path string, form url.Values) *httptest.ResponseRecorder {
		r, w := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form.Encode())), httptest.NewRecorder()
		r.Header = http.Header{"Accept": {"text/html"}, "Content-Type": {"application/x-www-form-urlencoded"}}
		k.switchboard().ServeHTTP(w, r)
		return w
	}
	w := ask("POST", "/stories/bridge_freezes/on", url.Values{"open": {"xmpp", "identity"}})
	if got, want := w.Header().Get("Location"), "/?open=identity&open=xmpp#story-bridge_freezes"; w.Code != http.StatusSeeOther ||
		got != want {
		t.Errorf("got %d to %q, want %s", w.Code, got, want)
	}
	page := ask("GET", "/?open=identity&open=xmpp", nil).Body.String()
	for _, want := range []string{
		`<li id="story-bridge_freezes" class="active">`, `formaction="/stories/bridge_freezes/off"`, `formaction="/stories/crash_loop/on"`,
		`<a href="http://localhost:9655/">the status page</a>`, `name="open" value="xmpp"`, `name="open" value="identity"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if w := ask("GET", "/stories", nil); !strings.Contains(w.Body.String(), `"story":"bridge_freezes"`) ||
		!strings.Contains(w.Body.String(), `"active":true`) {
		t.Errorf("the list of stories is %s", w.Body)
	}
}
