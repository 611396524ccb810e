package alertpath

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/routing"
)

// rehearsal feeds a drill with observations, one each second.
type rehearsal struct {
	*testing.T
	plan *Plan
	*Progress
	now  time.Time
	seen Observation
	done bool
}

func rehearse(t *testing.T) *rehearsal {
	t.Helper()
	f := soundFacts(t)
	f.routing.Integrations["drill"] = map[string]int{"email": 1}
	before := Counters{Channel{"", "email"}: {Notifications: 5, Attempts: 5}, Channel{"", "webhook"}: {Notifications: 90, Attempts: 90}}
	plan := &Plan{
		Facts:  f,
		ID:     "a",
		Raised: noon,
		Until:  noon.Add(3 * time.Minute),
		Before: before,
	}
	r := &rehearsal{
		T:        t,
		plan:     plan,
		Progress: NewProgress(plan),
		now:      noon,
	}
	r.seen.Counters = maps.Clone(before)
	r.seen.Alerts = f.Alerts // Watchdog
	return r
}

// pass lets seconds pass without a change.
func (r *rehearsal) pass(seconds int) {
	for range seconds {
		r.now = r.now.Add(time.Second)
		o := r.seen
		o.At = r.now
		if r.done = r.See(&o); r.done {
			return
		}
	}
}

// arrive has Prometheus scrape the drill after 20 s, fire 10 s later, and Alertmanager receive it for receivers.
func (r *rehearsal) arrive(receivers ...string) {
	r.pass(20)
	r.seen.Sampled = true
	r.pass(10)
	r.seen.Alert = &Alert{State: "firing"}
	r.seen.Alerts = append(r.seen.Alerts, receivedBy(
		map[string]string{"alertname": "ChatstackDrill", "drill": "true", "id": "a", "stack": "chat", "severity": "none"}, receivers...))
	r.seen.Alerts[len(r.seen.Alerts)-1].StartsAt = r.now
	r.pass(1)
}

// groups puts alerts into groups of their receivers.
func groups(alerts ...Received) (groups []AlertGroup) {
	for _, a := range alerts {
		g := AlertGroup{Alerts: []Received{a}}
		g.Receiver = a.Receivers[0]
		groups = append(groups, g)
	}
	return groups
}

// count adds to the counters of an integration.
func (r *rehearsal) count(integration string, c Count) {
	key := Channel{"", integration}
	have := r.seen.Counters[key]
	r.seen.Counters = maps.Clone(r.seen.Counters) // earlier observations stay as they were
	r.seen.Counters[key] = Count{
		have.Notifications + c.Notifications,
		have.GivenUp + c.GivenUp,
		have.Attempts + c.Attempts,
		have.Failed + c.Failed,
	}
}

// end ends the drill and all that it caused.
func (r *rehearsal) end() {
	r.Ended(r.now)
	r.done = false
	r.seen.Sampled, r.seen.Alert, r.seen.Alerts = false, nil, r.seen.Alerts[:1]
	r.pass(1)
}

func (r *rehearsal) want(step string, state State, words ...string) {
	r.Helper()
	got := find(r.Steps(), step)
	if got.State != state {
		r.Errorf("%s is %+v, want %s", step, got, state)
	}
	for _, word := range words {
		if !strings.Contains(got.Text+got.Error+got.Hint+strings.Join(got.Notes, " "), word) {
			r.Errorf("%s is %+v, lacks %q", step, got, word)
		}
	}
}

func (r *rehearsal) wantDone(want bool) {
	r.Helper()
	if r.done != want {
		r.Errorf("done: %t, want %t", r.done, want)
	}
}

func TestDrillThatArrives(t *testing.T) {
	r := rehearse(t)
	r.arrive("drill")
	r.pass(2)
	r.wantDone(false)
	r.count("email", Count{Notifications: 1, Attempts: 1})
	r.count("webhook", Count{Notifications: 3, Attempts: 3}) // the heartbeat's
	r.pass(1)
	r.wantDone(true)
	r.want(StepResolution, Unknown)
	r.end()
	r.wantDone(true)
	for name, seconds := range map[string]float64{StepSample: 21, StepAlert: 10, StepDelivery: 0, StepReceiver: 3, StepResolution: 1} {
		r.want(name, Works)
		if got := find(r.Steps(), name).Duration; got == nil || *got != seconds {
			t.Errorf("%s took %v, want %v", name, got, seconds)
		}
	}
	r.want(StepReceiver, Works, `sent to "drill" by email`)
	if steps := r.Steps(); Verdict(steps) != Works {
		t.Errorf("got %+v", steps)
	}
}

// TestMessageIsClaimedOnlyIfItWasTheOnlyOne has messages of others in the same counters.
func TestMessageIsClaimedOnlyIfItWasTheOnlyOne(t *testing.T) {
	for name, tt := range map[string]struct {
		others func(r *rehearsal)
		sent   float64
		sure   bool
	}{
		"alone":              {func(*rehearsal) {}, 1, true},
		"two were sent":      {func(*rehearsal) {}, 2, false},
		"others use webhook": {func(r *rehearsal) { r.seen.Alerts = append(r.seen.Alerts, receivedBy(nil, "heartbeat")) }, 1, true},
		"others use email":   {func(r *rehearsal) { r.seen.Alerts = append(r.seen.Alerts, receivedBy(nil, "page")) }, 1, false},
		"others use it, and Alertmanager names receivers": {func(r *rehearsal) {
			r.seen.Alerts = append(r.seen.Alerts, receivedBy(nil, "page"))
			r.seen.Counters[Channel{"drill", "email"}] = Count{}
		}, 1, true},
		"a resolved message of another alert came before": {
			func(r *rehearsal) { r.count("email", Count{Notifications: 1, Attempts: 1}) },
			1,
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rehearse(t)
			tt.others(r)
			r.arrive("drill")
			r.count("email", Count{Notifications: tt.sent, Attempts: tt.sent})
			if _, named := r.seen.Counters[Channel{"drill", "email"}]; named {
				r.seen.Counters[Channel{"drill", "email"}] = Count{Notifications: 1, Attempts: 1}
			}
			r.pass(16)
			r.wantDone(true)
			if tt.sure {
				r.want(StepReceiver, Works, "sent to")
			} else {
				r.want(StepReceiver, Unknown, `do not show whether one of them was to "drill"`, "receiver-name-in-metrics")
			}
		})
	}
}

// TestDrillIsNotEndedByMessagesOfOthers has a heartbeat in the counters each 10 s, before the page can be sent after 45 s.
func TestDrillIsNotEndedByMessagesOfOthers(t *testing.T) {
	r := rehearse(t)
	r.plan.Facts.routing.Integrations["page"] = map[string]int{"webhook": 1}
	r.arrive("page")
	r.seen.Alerts[1].Labels["severity"] = "critical"
	beat := func(times int) {
		for range times {
			r.pass(10)
			r.count("webhook", Count{Notifications: 1, Attempts: 1})
		}
	}
	beat(4)
	r.pass(3)
	r.wantDone(false)
	r.pass(10)
	r.wantDone(false) // no message since it could be sent
	r.count("webhook", Count{Notifications: 1, Attempts: 1})
	r.pass(10)
	r.wantDone(true)
	r.want(StepReceiver, Unknown, `Alertmanager has sent messages by webhook; its counters do not show whether one of them was to "page"`)
}

// TestOneIntegrationTellsTheMessageApart has webhooks, by which Watchdog is sent too, beside mail.
func TestOneIntegrationTellsTheMessageApart(t *testing.T) {
	for _, tt := range []struct {
		receiver string
		accepted float64
		want     State
	}{
		{"page", 2, Works}, {"page", 1, Unknown}, {"on-call", 2, Unknown},
	} {
		r := rehearse(t)
		r.plan.Facts.routing.Integrations["on-call"] = map[string]int{"webhook": 1}
		r.arrive("page", tt.receiver)
		r.seen.Alerts[1].Labels["severity"] = "critical"
		r.pass(45)
		r.count("email", Count{Notifications: 1, Attempts: 1})
		r.count("webhook", Count{Notifications: 2, Attempts: tt.accepted})
		r.pass(20)
		r.wantDone(true)
		r.want(StepReceiver, tt.want, "email", "webhook", tt.receiver)
	}
}

// TestMessageOfAnotherIsNotClaimed has a resolved message of another alert, which Alertmanager lists no more, before this one can be sent.
func TestMessageOfAnotherIsNotClaimed(t *testing.T) {
	r := rehearse(t)
	r.plan.Receivers = []string{"chat"}
	r.arrive("chat")
	r.seen.Alerts[1].Labels["severity"] = "warning" // waits for 90 s
	r.pass(4)
	r.count("slack", Count{Notifications: 1, Attempts: 1})
	r.pass(84)
	r.wantDone(false)
	r.count("slack", Count{Notifications: 1, Attempts: 1, Failed: 1})
	r.pass(20)
	r.wantDone(true)
	r.want(StepReceiver, Wrong, "probably fails: slack (1 of 1 attempts failed)")
}

// TestReceiverIsNotNotifiedByWhatIsUnclear has Watchdog go out by the same integration, while the drill's message gets stuck.
func TestReceiverIsNotNotifiedByWhatIsUnclear(t *testing.T) {
	for name, tt := range map[string]struct {
		drill Count
		state State
		want  string
	}{
		"accepted": {Count{Notifications: 1, Attempts: 1}, Unknown, "do not show whether one of them was to"},
		"refused": {
			Count{
				Notifications: 1,
				GivenUp:       1,
				Attempts:      1,
				Failed:        1,
			},
			Wrong,
			"probably fails: webhook (1 of 4 attempts failed)",
		},
		"no answer": {Count{Notifications: 1}, Unknown, "do not show whether one of them was to"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rehearse(t)
			r.plan.Facts.routing.Integrations["drill"] = map[string]int{"webhook": 1}
			r.arrive("drill")
			r.count("webhook", tt.drill)
			for range 3 {
				r.count("webhook", Count{Notifications: 1, Attempts: 1})
				r.pass(6)
			}
			r.wantDone(true)
			r.want(StepReceiver, tt.state, tt.want)
		})
	}
}

// TestEachChannelHasItsWait has a receiver that is notified at once beside one that waits.
func TestEachChannelHasItsWait(t *testing.T) {
	r := rehearse(t)
	r.plan.Facts.routing = shippedRouting(t, "alertmanager.yml", "'alertname=~\"BridgeNotRelaying", "'alertname=~\".*|BridgeNot")
	r.plan.Facts.routing.Integrations["page"] = map[string]int{"webhook": 1}
	r.seen.Alerts = nil // without Watchdog, nobody else uses webhooks
	r.arrive("page", "chat")
	r.seen.Alerts[0].Labels["severity"] = "critical"
	r.pass(45)
	r.count("webhook", Count{Notifications: 1, Attempts: 1})
	r.pass(20)
	r.wantDone(false)
	r.pass(25)
	r.count("slack", Count{Notifications: 1, Attempts: 1})
	r.pass(1)
	r.wantDone(true)
	r.want(StepReceiver, Works, `sent to "chat", "page" by slack, webhook`)
}

// TestMutedReceiverIsNotWaitedFor has a route that does not send at this hour beside one that does.
func TestMutedReceiverIsNotWaitedFor(t *testing.T) {
	r := rehearse(t)
	r.plan.Facts.routing = shippedRouting(t, "alertmanager.yml", "'drill!=\"true\"']", "'drill=\"true\"']")
	r.arrive("page", "chat")
	r.seen.Alerts[1].Labels["severity"] = "critical" // chat gets it at night
	r.pass(45)
	r.count("email", Count{Notifications: 1, Attempts: 1})
	r.count("webhook", Count{Notifications: 1, Attempts: 1})
	r.pass(61)
	r.wantDone(true)
	r.want(StepReceiver, Works, `sent to "page" by email, webhook`)
}

// TestAnotherOfAClusterMayHaveSent asks one Alertmanager of two.
func TestAnotherOfAClusterMayHaveSent(t *testing.T) {
	r := rehearse(t)
	r.plan.Facts.Peers, r.plan.Facts.Asked = 2, 1
	r.arrive("drill")
	r.pass(20)
	r.wantDone(true)
	r.want(StepReceiver, Unknown, "sent nothing", "its cluster of 2 may have", "for each of them")
}

// TestClusterThatSentNothingIsWrong asks all of it.
func TestClusterThatSentNothingIsWrong(t *testing.T) {
	r := rehearse(t)
	r.plan.Facts.Peers, r.plan.Facts.Asked = 2, 2
	r.arrive("drill")
	r.pass(20)
	r.wantDone(true)
	r.want(StepReceiver, Wrong, "sent nothing")
}

// TestDrillIsNotFollowedBeyondItsEnd has a receiver that waits longer than the longest drill.
func TestDrillIsNotFollowedBeyondItsEnd(t *testing.T) {
	r := rehearse(t)
	r.plan.Facts.routing = shippedRouting(t, "alertmanager.yml", "id]\n      group_wait: 0s", "id]\n      group_wait: 1h")
	r.arrive("drill")
	r.pass(200)
	r.wantDone(true)
	r.want(StepReceiver, Unknown, "ended before a message was sent")
}

func TestDrillNamesWhereItGotStuck(t *testing.T) {
	for name, tt := range map[string]struct {
		goes  func(r *rehearsal)
		step  string
		words []string
	}{
		"not scraped": {func(r *rehearsal) { r.pass(200) }, StepSample, []string{"after 1m16s", "scrapes http://e/metrics"}},
		"does not fire": {func(r *rehearsal) {
			r.pass(20)
			r.seen.Sampled = true
			r.pass(200)
		}, StepAlert, []string{"1m16s after the scrape"}},
		"not delivered": {func(r *rehearsal) {
			r.seen.Sampled, r.seen.Alert = true, &Alert{State: "firing"}
			r.pass(200)
		}, StepDelivery, []string{"after 16s", "Prometheus sends to http://a/api/v2/alerts"}},
		"not delivered to another clock": {func(r *rehearsal) {
			r.plan.Facts.Alertmanager.Ahead = time.Hour
			r.seen.Sampled, r.seen.Alert = true, &Alert{State: "firing"}
			r.pass(200)
		}, StepDelivery, []string{"first set the clocks"}},
		"nowhere": {func(r *rehearsal) {
			r.plan.Facts.routing.Integrations["drill"] = nil
			r.arrive("drill")
		}, StepReceiver, []string{`sent to "drill" by another configuration`}},
		"to others": {func(r *rehearsal) {
			r.plan.Receivers = []string{"page"}
			r.arrive("drill")
			r.count("email", Count{Notifications: 1, Attempts: 1})
			r.pass(1)
		}, StepReceiver, []string{`sent to "drill" by another configuration`}},
		"silenced": {func(r *rehearsal) {
			r.arrive("drill")
			r.seen.Silences = []routing.Silence{silence(t, r.now, r.now.Add(time.Hour), "drill", "true")}
			r.pass(1)
		}, StepReceiver, []string{"silence s1 by anna"}},
		"inhibited": {func(r *rehearsal) {
			r.plan.Facts.routing = shippedRouting(t, "alertmanager.yml", "inhibit_rules:\n",
				"inhibit_rules:\n  - {source_matchers: [alertname=Watchdog], target_matchers: [drill=true]}\n")
			r.arrive("drill")
			r.pass(1)
		}, StepReceiver, []string{"inhibited by Watchdog"}},
		"suppressed by what is unknown": {func(r *rehearsal) {
			r.arrive("drill")
			r.seen.Alerts[1].Status.State = "suppressed"
			r.pass(1)
		}, StepReceiver, []string{"the alert is suppressed"}},
		"nothing is sent": {func(r *rehearsal) {
			r.arrive("drill")
			r.pass(200)
		}, StepReceiver, []string{"sent nothing", "within 15s"}},
		"fails": {func(r *rehearsal) {
			r.arrive("drill")
			r.count("email", Count{Notifications: 1, Attempts: 2, Failed: 2})
			r.pass(1)
		}, StepReceiver, []string{"email (2 of 2 attempts failed)"}},
		"is refused": {func(r *rehearsal) {
			r.arrive("drill")
			r.count("email", Count{
				Notifications: 1,
				GivenUp:       1,
				Attempts:      1,
				Failed:        1,
			})
			r.pass(1)
		}, StepReceiver, []string{"email (1 of 1 attempts failed)"}},
		"no answer": {func(r *rehearsal) {
			r.arrive("drill")
			r.count("email", Count{Notifications: 1})
			r.pass(200)
		}, StepReceiver, []string{"email does not answer"}},
		"one of two integrations fails": {func(r *rehearsal) {
			r.arrive("page")
			r.count("email", Count{Notifications: 1, Attempts: 1})
			r.count("webhook", Count{Notifications: 1, Attempts: 2, Failed: 2})
			r.pass(20)
		}, StepReceiver, []string{"webhook (2 of 2 attempts failed)"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := rehearse(t)
			tt.goes(r)
			r.wantDone(true)
			r.end()
			r.want(tt.step, Wrong, tt.words...)
			for _, step := range r.Steps() {
				if step.State == Wrong && step.Name != tt.step {
					t.Errorf("%s is wrong too: %+v", step.Name, step)
				}
				if step.State == Wrong && step.Hint == "" {
					t.Errorf("%s: no hint", step.Name)
				}
			}
		})
	}
}

// TestDrillWaitsForItsGroup has an alert of the same group that was sent before: the next message comes after group_interval.
func TestDrillWaitsForItsGroup(t *testing.T) {
	r := rehearse(t)
	r.arrive("drill")
	earlier := receivedBy(map[string]string{"alertname": "ChatstackDrill", "id": "earlier"}, "drill")
	earlier.StartsAt = noon.Add(-time.Minute)
	r.seen.Groups = groups(r.seen.Alerts[1])
	r.seen.Groups[0].Alerts = append(r.seen.Groups[0].Alerts, earlier)
	r.pass(100)
	r.wantDone(false)
	r.pass(100)
	r.wantDone(true)
	r.want(StepReceiver, Unknown, "sends the next one within 5m", "add id to group_by")
}

// TestGroupThatIsNotNewDoesNotWait has such a group send within the wait of a new one.
func TestGroupThatIsNotNewDoesNotWait(t *testing.T) {
	r := rehearse(t)
	r.arrive("chat")
	r.seen.Alerts[1].Labels["severity"] = "warning" // a new group waits for 90 s
	r.seen.Groups = groups(r.seen.Alerts[1])
	r.seen.Groups[0].Alerts = append(r.seen.Groups[0].Alerts, receivedBy(map[string]string{"id": "earlier"}, "chat"))
	r.pass(10)
	r.count("slack", Count{Notifications: 1, Attempts: 1})
	r.pass(1)
	r.wantDone(true)
	r.want(StepReceiver, Works, `sent to "chat" by slack`)
}

func TestDrillShowsThatTheAlertWasPending(t *testing.T) {
	r := rehearse(t)
	r.plan.Facts.Groups[0].Rules[0].Duration = 60
	r.pass(1)
	r.seen.Sampled, r.seen.Alert = true, &Alert{State: "pending"}
	r.pass(60)
	r.seen.Alert = &Alert{State: "firing"}
	r.pass(1)
	r.want(StepAlert, Works, "pending for 1m, since its rule has for: 1m")
}

func TestDrillOutlivesRequestsThatFail(t *testing.T) {
	r := rehearse(t)
	r.seen.Err = errors.New("refused")
	r.pass(120)
	r.wantDone(false)
	r.pass(200)
	r.wantDone(true)
	if last := r.Steps(); !strings.Contains(strings.Join(last[len(last)-2].Notes, " "), "a request failed last: refused") {
		t.Errorf("got %+v", last)
	}
}

func TestAlertThatDoesNotEndIsWrong(t *testing.T) {
	r := rehearse(t)
	r.arrive("drill")
	r.count("email", Count{Notifications: 1, Attempts: 1})
	r.pass(1)
	r.Ended(r.now)
	r.pass(200)
	r.wantDone(true)
	r.want(StepResolution, Wrong, "has not ended 2m16s after the drill")
}

func TestDrillLastsAsLongAsTheChainNeeds(t *testing.T) {
	f := soundFacts(t)
	for severity, want := range map[string]time.Duration{
		"none": 2 * time.Minute, "warning": 3 * time.Minute, "critical": 135 * time.Second,
	} {
		if got := f.Lasts(severity); got != want {
			t.Errorf("%s: %s, want %s", severity, got, want)
		}
	}
	f.routing = nil
	if got := f.Lasts("none"); got != 2*time.Minute {
		t.Errorf("without routes: %s, want two minutes", got)
	}
	f.Targets[0].Interval = "1h"
	if got := f.Lasts("none"); got != 10*time.Minute {
		t.Errorf("of a slow chain: %s, want ten minutes", got)
	}
}

// TestStepsNeverTakeLessThanNothing has Alertmanager show the alert before Prometheus calls it firing: it was asked a moment later.
func TestStepsNeverTakeLessThanNothing(t *testing.T) {
	r := rehearse(t)
	r.pass(1)
	r.seen.Alert = &Alert{State: "pending"}
	r.arrive("drill")
	r.seen.Alert = &Alert{State: "pending"}
	r.pass(3)
	r.seen.Alert = &Alert{State: "firing"}
	r.count("email", Count{Notifications: 1, Attempts: 1})
	r.pass(1)
	r.end()
	for _, s := range r.Steps() {
		if s.Duration != nil && *s.Duration < 0 {
			t.Errorf("%s took %g s", s.Name, *s.Duration)
		}
	}
	if step := works(StepAlert, "x").took(-time.Second); *step.Duration != 0 {
		t.Errorf("a clock that was set back: %g s", *step.Duration)
	}
}

// TestCountersNeedAllOfACluster has each of two Alertmanagers stop to show them in turn: a sum of fewer is lower than before.
func TestCountersNeedAllOfACluster(t *testing.T) {
	client := func(status int) *Client {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, "alertmanager_notifications_total{integration=\"email\"} 1\n") //nolint:errcheck // the client is gone
		}))
		t.Cleanup(server.Close)
		return NewClient("alertmanager", exchange.HTTP{Settings: config.HTTP{URL: server.URL}}, exchange.Credentials{})
	}
	sound, broken := client(http.StatusOK), client(http.StatusServiceUnavailable)
	for _, p := range []Path{{Alertmanager: broken, Others: []*Client{sound}}, {Alertmanager: sound, Others: []*Client{broken}}} {
		if sum, err := p.counters(t.Context()); err == nil {
			t.Errorf("no error, but %v", sum)
		}
	}
	p := Path{Alertmanager: sound, Others: []*Client{sound}}
	if sum, err := p.counters(t.Context()); err != nil || sum[Channel{"", "email"}].Notifications != 2 {
		t.Errorf("%v, %v; want two messages", sum, err)
	}
}
