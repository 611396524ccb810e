package feeds

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mmcdole/gofeed/atom"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/public"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// stack is a public.Source.
type stack struct {
	settings  config.Public
	incidents []*incident.Incident
}

func (s *stack) Report() *status.Report          { return &status.Report{} }
func (s *stack) Availability() *history.Report   { return &history.Report{} }
func (s *stack) Public() *config.Public          { return &s.settings }
func (s *stack) Incidents() []*incident.Incident { return s.incidents }

func TestPublicFeedIsRead(t *testing.T) {
	began := time.Now().UTC().Add(-2 * time.Hour).Truncate(time.Minute)
	s := &stack{settings: config.Public{Title: hostile, Services: []config.PublicService{{Name: hostile, Targets: []string{"web"}}}}}
	web := health.TargetSubject("web")
	down := incident.Problem{
		Subject:  web,
		Alert:    "TargetDown",
		Severity: health.Critical,
		Since:    began,
		Alerted:  began,
	}
	over := down
	over.Cleared = began.Add(time.Hour)
	s.incidents = []*incident.Incident{
		{
			ID:       "1",
			Began:    began,
			Problems: []incident.Problem{down},
			Outages:  []incident.Outage{{Subject: web, Since: began}},
			Updates:  []incident.Note{{Time: began, Author: "author", Text: hostile}},
			Notes:    []incident.Note{{Time: began, Author: "author", Text: "a note"}},
		},
		{
			ID:       "2",
			Began:    began,
			Ended:    over.Cleared,
			Problems: []incident.Problem{over},
			Outages:  []incident.Outage{{Subject: web, Seconds: 3600, Until: over.Cleared}},
		},
	}
	w := httptest.NewRecorder()
	public.New(s, slog.New(slog.DiscardHandler)).
		ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/incidents.atom", nil))
	feed, err := (&atom.Parser{}).Parse(strings.NewReader(w.Body.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(feed.Entries) != 2 || !strings.HasPrefix(feed.ID, "urn:uuid:") || feed.UpdatedParsed == nil || len(feed.Authors) != 1 ||
		len(feed.Links) != 2 {
		t.Fatalf("got %+v", feed)
	}
	for n, want := range []time.Time{began, began.Add(time.Hour)} {
		if e := feed.Entries[n]; !e.UpdatedParsed.Equal(want) || !strings.HasPrefix(e.ID, "urn:uuid:") ||
			!strings.Contains(e.Title, "<b>&amp;") {
			t.Errorf("entry %d: %+v", n, e)
		}
	}
	if text := feed.Entries[0].Content.Value; !strings.Contains(text, "&lt;b&gt;&amp;") || strings.Contains(text, "note") ||
		strings.Contains(text, "author") {
		t.Errorf("the content of the first entry is %q", text)
	}
	if feed.Entries[0].ID == feed.Entries[1].ID {
		t.Error("two incidents have one id")
	}
}
