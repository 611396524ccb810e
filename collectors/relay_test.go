package collectors

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/chatstack-exporter/chatstack_exporter/internal/chat"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// relayed is a relay check of a simulated stack, in virtual time.
type relayed struct {
	t     *testing.T
	ctx   context.Context //nolint:containedctx // of the test, with its network
	stack *simstack.Stack
	relay *relayProbe
	lines [2]*breakable // IRC, XMPP
	batch *Batch
	err   error // of the last probe

	timeout, poll time.Duration
}

const relayPoll = 30 * time.Second

func relaySettings(stack *simstack.Stack) *Relay {
	s := newRelaySettings()
	s.Name = "bridge"
	s.IRC.IRCAccount = ircAccount(stack)
	s.IRC.Channel = simstack.RelayChannel
	s.XMPP.XMPPAccount = xmppAccount(stack)
	s.XMPP.Room = simstack.RelayRoom
	return s
}

func ircAccount(stack *simstack.Stack) IRCAccount {
	return IRCAccount{
		Endpoint: at(stack.IRCAddress()),
		Nick:     ircNick,
		User:     simstack.RelayUser,
		Password: config.NewSecret(simstack.RelayPassword),
		TLS:      config.TLS{CAFile: stack.CAFile()},
	}
}

func xmppAccount(stack *simstack.Stack) XMPPAccount {
	return XMPPAccount{
		Address:         stack.XMPPClientAddress(),
		User:            simstack.RelayUser + "@" + simstack.XMPPDomain,
		Password:        config.NewSecret(simstack.RelayPassword),
		SCRAMIterations: defaultSCRAMIterations,
		TLS:             config.TLS{CAFile: stack.CAFile()},
	}
}

// startStackInMemory starts a simulated stack in the virtual time of a test, and returns a context in which it can be reached.
func startStackInMemory(t *testing.T) (*simstack.Stack, context.Context) {
	t.Helper()
	var network simstack.Network
	stack, err := simstack.Start(simstack.Options{Network: &network, Slow: 15 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stack.Close(); err != nil {
			t.Error(err)
		}
	})
	return stack, exchange.WithDialer(t.Context(), network.Dial)
}

func startRelayed(t *testing.T) *relayed {
	t.Helper()
	r := prepareRelayed(t)
	r.follow()
	r.works()
	return r
}

// prepareRelayed makes a relay check without sessions.
func prepareRelayed(t *testing.T) *relayed {
	t.Helper()
	r := &relayed{t: t, timeout: newRelaySettings().Timeout.Std(), poll: relayPoll}
	r.stack, r.ctx = startStackInMemory(t)
	settings := relaySettings(r.stack)
	c, err := newRelay(settings, Deps{Log: slog.New(slog.DiscardHandler), State: &memory{}})
	if err != nil {
		t.Fatal(err)
	}
	r.relay = c.(*relayProbe)
	for i, account := range []chat.Account{
		settings.IRC.account(settings.IRC.Channel), settings.XMPP.account(settings.XMPP.Room, settings.XMPP.Nick),
	} {
		r.lines[i] = &breakable{Account: account}
		side := r.relay.sides[i]
		side.keeper = chat.NewKeeper(r.lines[i], side)
	}
	return r
}

// follow keeps the sessions until the end of the test.
func (r *relayed) follow() {
	ctx, stop := context.WithCancel(r.ctx)
	var following sync.WaitGroup
	following.Go(func() { r.relay.Follow(ctx, func() {}) })
	r.t.Cleanup(func() { stop(); following.Wait() })
}

// breakable is an account whose sessions a test can cut, and keep from joining.
type breakable struct {
	chat.Account
	mu     sync.Mutex
	end    context.CancelCauseFunc
	closed error
	joins  int
}

func (l *breakable) Run(ctx context.Context, r *exchange.Record, listener chat.Listener) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	l.mu.Lock()
	l.end = end
	l.joins++
	closed := l.closed
	l.mu.Unlock()
	if closed != nil {
		return closed
	}
	if err := l.Account.Run(ctx, r, listener); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// cut ends the session with that error.
func (l *breakable) cut(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(err)
}

// close makes joins fail with that error; nil opens the line again.
func (l *breakable) close(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = err
}

// probe waits for the next poll, runs a probe, and returns the reason of its failure, "" for none.
func (r *relayed) probe() failure.Reason {
	r.t.Helper()
	time.Sleep(time.Until(time.Now().Truncate(r.poll).Add(r.poll)))
	ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
	defer cancel()
	r.batch = &Batch{Target: "bridge"}
	r.err = r.relay.Collect(ctx, r.batch)
	return reasonOf(r.err)
}

// works probes until the messages arrive, which takes some polls if the sessions have to join again.
func (r *relayed) works() {
	r.t.Helper()
	for range 5 {
		if r.probe() == "" {
			return
		}
	}
	r.t.Fatalf("messages do not cross: %v", r.err)
}

func (r *relayed) fault(name string, on bool) {
	r.t.Helper()
	r.turn("bridge", name, on)
}

func (r *relayed) turn(service, fault string, on bool) {
	r.t.Helper()
	if err := r.stack.Switch(service, fault, on); err != nil {
		r.t.Fatal(err)
	}
}

// limits sets how long messages and probes may take.
func (r *relayed) limits(deadline, slow, timeout time.Duration) {
	r.relay.settings.Deadline, r.relay.settings.Slow, r.timeout = config.Duration(deadline), config.Duration(slow), timeout
}

// metrics are the values of a family on the last page, by their other labels, such as "irc xmpp lost".
func (r *relayed) metrics(name string) map[string]float64 {
	r.t.Helper()
	values := map[string]float64{}
	for _, m := range r.batch.Metrics(false) {
		if !strings.Contains(m.Desc().String(), `"`+name+`"`) {
			continue
		}
		labels, value := labelsAndValue(r.t, m)
		values[labels] = value
	}
	return values
}

// labelsAndValue returns the labels of a metric but its target's, and the value.
func labelsAndValue(t *testing.T, m prometheus.Metric) (labels string, value float64) {
	t.Helper()
	var sample dto.Metric
	if err := m.Write(&sample); err != nil {
		t.Fatal(err)
	}
	byName := map[string]string{}
	for _, l := range sample.GetLabel() {
		byName[l.GetName()] = l.GetValue()
	}
	var list []string
	for _, name := range []string{"side", "from", "to", "outcome", "at"} {
		if byName[name] != "" {
			list = append(list, byName[name])
		}
	}
	switch {
	case sample.Counter != nil:
		value = sample.GetCounter().GetValue()
	case sample.Histogram != nil:
		value = float64(sample.GetHistogram().GetSampleCount())
	default:
		value = sample.GetGauge().GetValue()
	}
	return strings.Join(list, " "), value
}

// outcomes are those of one way that are not 0, such as "delivered 2, lost 1".
func (r *relayed) outcomes(way string) string {
	r.t.Helper()
	counts := r.metrics("chatstack_relay_messages_total")
	var list []string
	for _, outcome := range relayOutcomes {
		if n := counts[way+" "+outcome]; n > 0 {
			list = append(list, fmt.Sprintf("%s %.0f", outcome, n))
		}
	}
	return strings.Join(list, ", ")
}

// holds are the conditions that hold, such as "BridgeNotRelaying irc to xmpp".
func (r *relayed) holds() (list []string) {
	for _, c := range r.batch.Conditions(r.err) {
		if c.Holds {
			list = append(list, c.Alert+" "+c.Of)
		}
	}
	return list
}

// attempts is how many sessions have begun.
func (l *breakable) attempts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.joins
}

const (
	toXMPP = sideIRC + " " + sideXMPP
	toIRC  = sideXMPP + " " + sideIRC
)

// TestRelayTellsWhatTheBridgeDoes switches each fault on for three polls, and off for three, and one after all outcomes are known.
func TestRelayTellsWhatTheBridgeDoes(t *testing.T) {
	const works = "delivered 8"
	slow := []string{"BridgeSlow irc to xmpp", "BridgeSlow xmpp to irc"}
	duplicates := []string{"BridgeDuplicates irc to xmpp", "BridgeDuplicates xmpp to irc"}
	both := []string{"BridgeNotRelaying irc to xmpp", "BridgeNotRelaying xmpp to irc"}
	for _, tt := range []struct {
		fault     string
		reason    failure.Reason // of each probe
		at        []string       // with the fault
		holds     []string       // with the fault
		xmpp, irc string         // outcomes afterwards, to XMPP and to IRC
		late      string         // a note afterwards
	}{
		{
			"frozen",
			failure.NotDelivered,
			[]string{toIRC + " bridge", toXMPP + " bridge"},
			both,
			"delivered 5, late 3",
			"delivered 5, late 3",
			"irc to xmpp: 3 late messages arrived, the last after 10s",
		},
		{
			"only_to_irc",
			failure.NotDelivered,
			[]string{toXMPP + " bridge"},
			both[:1],
			"delivered 5, lost 3",
			works,
			"",
		},
		{
			"only_to_xmpp",
			failure.NotDelivered,
			[]string{toIRC + " bridge"},
			both[1:],
			works,
			"delivered 5, lost 3",
			"",
		},
		{
			"late",
			failure.NotDelivered,
			[]string{toIRC + " bridge", toXMPP + " bridge"},
			slow,
			"delivered 5, late 3",
			"delivered 5, late 3",
			"irc to xmpp: 1 late message arrived, the last after 15s",
		},
		{
			"changes_text",
			"",
			nil,
			nil,
			works,
			works,
			"",
		},
		{
			"twice",
			"",
			nil,
			duplicates,
			works,
			works,
			"",
		},
		{
			"history",
			"",
			nil,
			nil,
			works,
			works,
			"",
		},
		{
			"throttled",
			failure.Throttled,
			[]string{toIRC + " xmpp", toXMPP + " irc"},
			[]string{"RelaySessionDown irc", "RelaySessionDown xmpp", "RelayUnwatched "},
			"delivered 5, not_sent 3",
			"delivered 5, not_sent 3",
			"",
		},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startRelayed(t)
				r.fault(tt.fault, true)
				for range 3 {
					if got := r.probe(); got != tt.reason {
						t.Errorf("reason %q, want %q: %v", got, tt.reason, r.err)
					}
				}
				r.wantState(tt.at, tt.holds)
				r.fault(tt.fault, false)
				if tt.fault == "late" {
					time.Sleep(relayPoll)
				}
				var notes []string
				for range 3 { // a copy of the last message may come after its report, which the next two count
					if got := r.probe(); got != "" {
						t.Errorf("afterwards: %v", r.err)
					}
					notes = append(notes, r.batch.Notes...)
				}
				r.wantState(nil, nil)
				r.wantSumOfOutcomes()
				if got := r.outcomes(toXMPP); got != tt.xmpp {
					t.Errorf("to XMPP: %s, want %s", got, tt.xmpp)
				}
				if got := r.outcomes(toIRC); got != tt.irc {
					t.Errorf("to IRC: %s, want %s", got, tt.irc)
				}
				if tt.late != "" && !slices.Contains(notes, tt.late) || tt.late == "" && len(notes) > 0 {
					t.Errorf("notes %q, want %q", notes, tt.late)
				}
			})
		})
	}
}

// wantState compares where messages stop, and the alerts' conditions.
func (r *relayed) wantState(at, holds []string) {
	r.t.Helper()
	var got []string
	for labels := range r.metrics("chatstack_relay_broken_at") {
		got = append(got, labels)
	}
	slices.Sort(got)
	slices.Sort(at)
	if !slices.Equal(got, at) {
		r.t.Errorf("broken at %q, want %q", got, at)
	}
	if got := r.holds(); !slices.Equal(got, holds) {
		r.t.Errorf("these conditions hold: %q, want %q", got, holds)
	}
	for _, way := range []string{toXMPP, toIRC} {
		broken := slices.ContainsFunc(at, func(place string) bool { return strings.HasPrefix(place, way) })
		if got := r.metrics("chatstack_relay_success")[way]; (got == 1) == broken {
			r.t.Errorf("success of %s is %v, but it is broken at %q", way, got, at)
		}
	}
}

// wantSumOfOutcomes compares the outcomes with what the simulated servers accepted, once all of them are known.
func (r *relayed) wantSumOfOutcomes() {
	r.t.Helper()
	time.Sleep(relayLifetime)
	r.works()
	irc, xmpp := r.stack.RelayMessages()
	for way, accepted := range map[string]int{toXMPP: irc, toIRC: xmpp} {
		counts := r.metrics("chatstack_relay_messages_total")
		sent := counts[way+" delivered"] + counts[way+" late"] + counts[way+" lost"]
		if int(sent) != accepted {
			r.t.Errorf("%s: %v messages delivered, late or lost, but its server accepted %d", way, sent, accepted)
		}
		if got, want := r.metrics("chatstack_relay_delivery_seconds")[way], counts[way+" delivered"]+counts[way+" late"]; got != want {
			r.t.Errorf("%s: the histogram has %v messages, but %v arrived", way, got, want)
		}
	}
}

// TestRestartDoesNotEndAnOutage starts another process while the bridge hangs: its first failures say nothing new, neither good nor bad.
func TestRestartDoesNotEndAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := prepareRelayed(t)
		r.fault("frozen", true)
		r.follow()
		for n := 1; n <= relayFailuresLimit+1; n++ {
			r.probe()
			reported := slices.ContainsFunc(r.batch.Conditions(r.err),
				func(c health.Condition) bool { return c.Alert == health.AlertBridgeNotRelaying })
			if want := n > relayFailuresLimit; reported != want { // 70 s are not long enough
				t.Errorf("after failure %d, BridgeNotRelaying is reported: %t, want %t", n, reported, want)
			}
		}
		r.fault("frozen", false)
		r.works()
		r.wantNoAlert()
	})
}

// TestRelayCountsWhatIsLost loses each third message that the bridge gets.
func TestRelayCountsWhatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRelayed(t)
		r.fault("drops_third", true)
		for range 6 {
			r.probe()
			r.wantNoAlert()
		}
		r.fault("drops_third", false)
		r.works()
		r.wantSumOfOutcomes()
		counts := r.metrics("chatstack_relay_messages_total")
		if got := counts[toXMPP+" lost"] + counts[toIRC+" lost"]; got != 4 {
			t.Errorf("%v messages are lost, want 4: %v", got, counts)
		}
	})
}

func (r *relayed) wantNoAlert() {
	r.t.Helper()
	if got := r.holds(); len(got) > 0 {
		r.t.Errorf("these conditions hold: %q, want none", got)
	}
}

// TestRelayTellsThatTheBridgeIsSlow delays messages for less than the deadline.
func TestRelayTellsThatTheBridgeIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRelayed(t)
		r.limits(20*time.Second, 5*time.Second, 25*time.Second) // the fault takes 15 s
		for range 8 {
			r.works()
		}
		r.fault("late", true)
		holds := 0
		for range 20 {
			r.works()
			if len(r.holds()) > 0 {
				holds++
			}
		}
		// Nine messages were fast, so half of them are slow from the ninth slow one.
		if want := 12; holds != want {
			t.Errorf("BridgeSlow holds in %d of 20 polls, want the last %d", holds, want)
		}
		r.fault("late", false)
		time.Sleep(time.Hour)
		r.works()
		r.wantNoAlert()
	})
}

// TestRelayTellsWhyItCannotSpeak switches on faults that end the sessions. No message may be sent meanwhile.
func TestRelayTellsWhyItCannotSpeak(t *testing.T) {
	for _, tt := range []struct {
		fault   string
		reasons []failure.Reason
		sides   string // whose sessions are down
	}{
		{"banned", []failure.Reason{failure.Forbidden}, "RelaySessionDown irc, RelaySessionDown xmpp, RelayUnwatched "},
		{"destroyed", []failure.Reason{failure.Forbidden}, "RelaySessionDown irc, RelaySessionDown xmpp, RelayUnwatched "},
		{"kicked", []failure.Reason{failure.Forbidden}, "RelaySessionDown irc, RelaySessionDown xmpp, RelayUnwatched "},
		{"wrong_password", []failure.Reason{failure.Unauthorized}, "RelaySessionDown irc, RelaySessionDown xmpp, RelayUnwatched "},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startRelayed(t)
				time.Sleep(15 * time.Second) // so that a poll comes before the next session
				r.fault(tt.fault, true)
				if tt.fault == "wrong_password" { // it matters to the next session only
					r.fault("kicked", true)
					r.probe()
					time.Sleep(time.Minute)
				}
				if got := r.probe(); !slices.Contains(tt.reasons, got) {
					t.Errorf("reason %q, want any of %q: %v", got, tt.reasons, r.err)
				}
				if got := strings.Join(r.holds(), ", "); got != tt.sides {
					t.Errorf("these conditions hold: %s, want %s", got, tt.sides)
				}
				if got := r.metrics("chatstack_relay_session_up"); got[sideIRC]+got[sideXMPP] != 0 {
					t.Errorf("sessions up: %v, want none", got)
				}
				r.fault(tt.fault, false)
				r.fault("kicked", false)
				r.works()
				r.wantState(nil, nil)
				r.wantSumOfOutcomes()
			})
		})
	}
}

// TestRelayBlamesTheServer stops one server after the other: nothing is the bridge's fault.
func TestRelayBlamesTheServer(t *testing.T) {
	for service, side := range map[string]string{"irc_tls": sideIRC, "xmpp_c2s": sideXMPP} {
		t.Run(service, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startRelayed(t)
				r.turn(service, "stopped", true)
				for range 10 {
					if got := r.probe(); got == "" {
						t.Error("a probe succeeded without the server")
					}
				}
				r.wantState([]string{toIRC + " " + side, toXMPP + " " + side}, []string{"RelaySessionDown " + side, "RelayUnwatched "})
				r.turn(service, "stopped", false)
				r.works()
				r.wantState(nil, nil)
				r.wantSumOfOutcomes()
			})
		})
	}
}

// TestRelayADay switches random faults for a day. Each message that a server accepted has one outcome.
func TestRelayADay(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // which faults come does not matter
	synctest.Test(t, func(t *testing.T) {
		r := startRelayed(t)
		begin := time.Now()
		for time.Since(begin) < 24*time.Hour {
			name := relayFaults[random.IntN(len(relayFaults))]
			time.Sleep(time.Duration(random.Int64N(int64(relayPoll))))
			r.turn(name[0], name[1], true)
			for range random.IntN(30) {
				r.probe()
			}
			time.Sleep(time.Duration(random.Int64N(int64(relayPoll))))
			r.turn(name[0], name[1], false)
			for range random.IntN(20) {
				r.probe()
			}
		}
		for range 5 {
			r.works()
		}
		r.wantState(nil, nil)
		r.wantSumOfOutcomes()
		t.Logf("to XMPP: %s; to IRC: %s", r.outcomes(toXMPP), r.outcomes(toIRC))
	})
}

var relayFaults = [][2]string{
	{"bridge", "frozen"},
	{"bridge", "only_to_irc"},
	{"bridge", "only_to_xmpp"},
	{"bridge", "late"},
	{"bridge", "drops_third"},
	{"bridge", "changes_text"},
	{"bridge", "twice"},
	{"bridge", "loops"},
	{"bridge", "history"},
	{"bridge", "kicked"},
	{"bridge", "banned"},
	{"bridge", "destroyed"},
	{"bridge", "wrong_password"},
	{"bridge", "throttled"},
	{"irc_tls", "stopped"},
	{"xmpp_c2s", "stopped"},
}
