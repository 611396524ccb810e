package app

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// TestRemovedTargetAndForgottenContainerAreNotFixed on pages, in the feed and in the API.
func TestRemovedTargetAndForgottenContainerAreNotFixed(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		engine := startEngine(t, "irc", "web")
		target := "  - {kind: irc_services, url: \"http://127.0.0.1:1/\"}\n"
		e, path := startWithFile(t, nil, engineTarget(engine)+target, lifecycle)
		e.wait(t, "events flow", eventsFlow)
		engine.Container("web").Die(1)
		time.Sleep(20 * time.Minute)
		of := func(kind string) *incident.Incident {
			for _, i := range e.incidentsOf(t) {
				if i.Cause.Kind == kind {
					return &i
				}
			}
			return nil
		}
		for _, kind := range []string{health.KindTarget, health.KindContainer} {
			if i := of(kind); i == nil || i.State != incident.Open || i.Unwatched {
				t.Fatalf("%s: %+v", kind, i)
			}
		}
		rewrite(t, path, engineTarget(engine))
		must(t, e.app.Reload(t.Context()))
		engine.Container("web").Remove()
		e.reportWhen(t, "web missing", func(r *status.Report) bool {
			c := containerOf(r, "web")
			return c != nil && c.State == "missing"
		})
		if code, body := e.exchange(t, http.MethodDelete, "/api/v1/containers/local/web", ""); code != http.StatusOK {
			t.Fatalf("forget: %d, %s", code, body)
		}
		d := describe(t, e)
		for _, after := range []time.Duration{time.Minute, time.Hour} {
			time.Sleep(after)
			feed := string(e.get(t, "/incidents.atom", nil).body)
			for _, kind := range []string{health.KindTarget, health.KindContainer} {
				i := of(kind)
				if !i.Unwatched || i.Lasts() != (after == time.Minute) {
					t.Errorf("%s later, the %s: %+v", after, kind, i)
				}
				page := string(e.get(t, "/incidents/"+i.ID, nil).body)
				says(t, "the page", page, "no longer watched after", "nobody has seen it fixed", "no longer watched: ")
				says(t, "the feed", feed, "<title>No longer watched: "+i.Title)
				_, body := e.exchange(t, http.MethodGet, "/api/v1/incidents/"+i.ID, "")
				d.hold(t, schemaOf("/api/v1/incidents/{id}", "get", "200"), body)
				says(t, "the API", string(body), `"kind": "no_longer_watched"`)
			}
			if strings.Contains(feed, "Fixed") {
				t.Errorf("the feed calls something fixed:\n%s", feed)
			}
		}
	})
}

// TestAcknowledgedRemovalIsForgotten: somebody removed the container, and somebody says that it is known.
func TestAcknowledgedRemovalIsForgotten(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		engine := startEngine(t, "irc", "web")
		e, _ := startWithFile(t, nil, engineTarget(engine), lifecycle)
		e.wait(t, "events flow", eventsFlow)
		engine.Container("web").Remove()
		time.Sleep(45 * time.Minute)
		all := e.incidentsOf(t)
		if len(all) != 1 || all[0].Severity != health.Warning || all[0].State != incident.Open {
			t.Fatalf("a removal is a warning: %+v", all)
		}
		code, body := e.exchange(t, http.MethodPost, "/api/v1/incidents/"+all[0].ID+"/acknowledgement", `{"by": "Ann"}`)
		if code != http.StatusOK {
			t.Fatalf("acknowledge: %d, %s", code, body)
		}
		e.reportWhen(t, "web is forgotten", func(r *status.Report) bool { return containerOf(r, "web") == nil })
		time.Sleep(time.Hour)
		if i := e.incidentsOf(t)[0]; i.State != incident.Closed || !i.Unwatched {
			t.Errorf("got %+v", i)
		}
	})
}
