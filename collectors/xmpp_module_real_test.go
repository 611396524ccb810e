//go:build realservers

package collectors

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

const (
	chatHost  = realstack.XMPPDomain
	otherHost = realstack.OtherDomain
	// measuring is our module, as the server calls it.
	measuring = "measure_chatstack"
)

// measuredProsody is an XMPP server with our module.
type measuredProsody struct {
	*realstack.Prosody
	t *testing.T
}

func startMeasuredProsody(t *testing.T, o realstack.ProsodyOptions) *measuredProsody {
	t.Helper()
	o.Modules = append(o.Modules, measuring)
	p := &measuredProsody{realstack.StartProsody(t, o), t}
	p.Register("bob", chatHost, "pw-bob")
	p.Register("carol", otherHost, "pw-carol")
	return p
}

// values are the canonical series that the exporter makes of the server's page, as they are served to a scraper.
func (p *measuredProsody) values() map[string]float64 {
	p.t.Helper()
	b, err := readXMPPMetrics(p.t, p.URL(), deps(&memory{}))
	if err != nil {
		p.t.Fatal(err)
	}
	wantReadable(p.t, b)
	values := map[string]float64{}
	for _, line := range canonicalSeries(b) {
		end := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[end+1:], 64)
		if err != nil {
			p.t.Fatal(err)
		}
		values[line[:end]] = value
	}
	return values
}

// of is the value of a family on a host; it must be there.
func (p *measuredProsody) of(values map[string]float64, family, host string) float64 {
	p.t.Helper()
	value, ok := values[fmt.Sprintf("%s{host=%q}", family, host)]
	if !ok {
		p.t.Fatalf("got %q, want %s of %s among them", slices.Sorted(maps.Keys(values)), family, host)
	}
	return value
}

// measuredFamilies are those that our module counts by host.
func measuredFamilies() []string {
	return []string{
		"xmpp_c2s_auth_failure_total", "xmpp_c2s_auth_success_total", "xmpp_messages_received_total", "xmpp_messages_sent_total",
		"xmpp_presence_received_total", "xmpp_presence_sent_total", "xmpp_storage_errors_total", "xmpp_storage_operations_total",
	}
}

// wantZero wants every family that our module counts on each host, and 0 of it.
func (p *measuredProsody) wantZero(when string, values map[string]float64) {
	p.t.Helper()
	for _, family := range measuredFamilies() {
		for _, host := range []string{chatHost, otherHost} {
			if got := p.of(values, family, host); got != 0 {
				p.t.Errorf("%s of %s: got %v %s, want 0", family, host, got, when)
			}
		}
	}
}

// get asks the server for a path and wants the status.
func (p *measuredProsody) get(path string, want int) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.URL()+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != want {
		p.t.Fatalf("%s: got status %d, %v, want %d", path, response.StatusCode, err, want)
	}
}

// wantSince compares how much families have risen on each host since values were read; one that is not named, by nothing.
func (p *measuredProsody) wantSince(before map[string]float64, want map[string]float64, families ...string) {
	p.t.Helper()
	after := p.values()
	got, full := map[string]float64{}, map[string]float64{}
	for _, family := range families {
		for _, host := range []string{chatHost, otherHost} {
			key := family + " " + host
			got[key] = p.of(after, family, host) - p.of(before, family, host)
			full[key] = want[key]
		}
	}
	for key := range want {
		if _, ok := full[key]; !ok {
			p.t.Fatalf("%s is compared to nothing", key)
		}
	}
	if diff := cmp.Diff(full, got); diff != "" {
		p.t.Errorf("rise (-want +got):\n%s", diff)
	}
}

// client is a client that is logged in, with a resource, where one is given; it is gone when the test ends.
func (p *measuredProsody) client(user, domain, resource string) *realstack.Client {
	p.t.Helper()
	c, err := p.Dial(p.t.Context(), domain)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Drop() }) //nolint:errcheck,gosec // a test's connection
	if err := c.Login(realstack.SCRAMSHA1, user, "pw-"+user); err != nil {
		p.t.Fatal(err)
	}
	if err := c.Bind(resource); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// failLogins fails to log in on one connection, so many times.
func (p *measuredProsody) failLogins(ctx context.Context, domain string, m realstack.Mechanism, user string, times int) error {
	c, err := p.Dial(ctx, domain)
	if err != nil {
		return err
	}
	for range times {
		var refused realstack.SASLError
		if err := c.Login(m, user, "wrong"); !errors.As(err, &refused) || refused != "not-authorized" {
			return errors.Join(fmt.Errorf("%s with %s: got %w, want not-authorized", user, m, err), c.Drop())
		}
	}
	return c.Close()
}

// TestRealModuleCountsLoginsExactly has real clients log in, and fail to, all at once, on two virtual hosts.
func TestRealModuleCountsLoginsExactly(t *testing.T) {
	for _, interval := range []string{"manual", "60"} {
		t.Run(interval, func(t *testing.T) {
			p := startMeasuredProsody(t, realstack.ProsodyOptions{StatisticsInterval: interval})
			before := p.values()
			p.wantZero("before the first client", before)
			users := map[string]string{chatHost: "bob", otherHost: "carol"}
			want, connections := map[string]float64{}, 0.
			var clients sync.WaitGroup
			ctx := t.Context()
			add := func(outcome, host string, times int, client func() error) {
				if outcome != "" {
					want["xmpp_c2s_auth_"+outcome+"_total "+host] += float64(times)
				}
				connections++
				clients.Go(func() {
					if err := client(); err != nil {
						t.Error(err)
					}
				})
			}
			for host, known := range users {
				for _, m := range []realstack.Mechanism{realstack.Plain, realstack.SCRAMSHA1} {
					for _, user := range []string{known, "nobody"} {
						for times := 1; times <= 3; times++ {
							add("failure", host, times, func() error { return p.failLogins(ctx, host, m, user, times) })
						}
					}
					add("success", host, 1, func() error {
						c, err := p.Dial(ctx, host)
						if err != nil {
							return err
						}
						return errors.Join(c.Login(m, known, "pw-"+known), c.Close())
					})
				}
			}
			// Of one host alone, so that a number that went to the wrong one would show.
			add("failure", chatHost, 5, func() error { return p.failLogins(ctx, chatHost, realstack.Plain, "nobody", 5) })
			// Neither failures nor successes: logins that are taken back, and clients that leave before they have begun.
			for host, known := range users {
				add("", host, 0, func() error {
					c, err := p.Dial(ctx, host)
					if err != nil {
						return err
					}
					return errors.Join(c.Abort(known), c.Abort(known), c.Close())
				})
				add("", host, 0, func() error {
					c, err := p.Dial(ctx, host)
					if err != nil {
						return err
					}
					return c.Drop()
				})
			}
			clients.Wait()
			p.wantSince(before, want, "xmpp_c2s_auth_failure_total", "xmpp_c2s_auth_success_total")
			if got := p.values()["xmpp_c2s_connections_total"] - before["xmpp_c2s_connections_total"]; got != connections {
				t.Errorf("connections: got %v, want %v", got, connections)
			}
		})
	}
}

// rehearse has the server do what no client here can bring about.
func (p *measuredProsody) rehearse(what string) {
	p.t.Helper()
	p.get("/rehearse/"+what, http.StatusNoContent)
}

// TestRealModuleCountsLoginsOfClientsAlone has the server tell of logins that are not over a client's connection, such as
// password grants over HTTP. One of each outcome is a client's.
func TestRealModuleCountsLoginsOfClientsAlone(t *testing.T) {
	p := startMeasuredProsody(t, realstack.ProsodyOptions{Modules: []string{realstack.Rehearse}})
	before := p.values()
	p.rehearse("logins")
	p.wantSince(before, map[string]float64{
		"xmpp_c2s_auth_failure_total " + chatHost: 1, "xmpp_c2s_auth_failure_total " + otherHost: 1,
		"xmpp_c2s_auth_success_total " + chatHost: 1, "xmpp_c2s_auth_success_total " + otherHost: 1,
	}, "xmpp_c2s_auth_failure_total", "xmpp_c2s_auth_success_total")
}

// TestRealModuleCountsClientsAlone has another server connect, a component talk to a client, and a client talk before it
// has logged in.
func TestRealModuleCountsClientsAlone(t *testing.T) {
	p := startMeasuredProsody(t, realstack.ProsodyOptions{Federation: true})
	before := p.values()
	desk := p.client("bob", chatHost, "desk")
	if err := errors.Join(desk.Send("<presence/>"), desk.Settle()); err != nil {
		t.Fatal(err)
	}
	hasty, err := p.Dial(t.Context(), chatHost)
	if err != nil {
		t.Fatal(err)
	}
	const early = "<presence/><message to='bob@chat.test/desk' type='chat'><body>too early</body></message>"
	if err := errors.Join(hasty.Send(early), hasty.Close()); err != nil {
		t.Fatal(err)
	}
	openServerStream(t, p.Prosody)
	bridge, err := realstack.DialComponent(t.Context(), p.ComponentAddr, realstack.ComponentHost, realstack.ComponentSecret)
	if err != nil {
		t.Fatal(err)
	}
	const from = "room@" + realstack.ComponentHost
	for range 3 {
		if err := bridge.Send("<message from='" + from + "' to='bob@chat.test/desk' type='chat'><body>hello</body></message>"); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(bridge.Settle(from, chatHost), desk.Settle(), bridge.Close()); err != nil {
		t.Fatal(err)
	}
	if got, want := desk.Messages, 3; got != want {
		t.Errorf("the client got %d messages, want %d of the component's", got, want)
	}
	p.wantSince(before, map[string]float64{
		"xmpp_messages_sent_total " + chatHost:     3,
		"xmpp_presence_received_total " + chatHost: 1,
		"xmpp_presence_sent_total " + chatHost:     1,
	}, "xmpp_messages_received_total", "xmpp_messages_sent_total", "xmpp_presence_received_total", "xmpp_presence_sent_total")
	const connections = "xmpp_c2s_connections_total"
	if got, want := p.values()[connections]-before[connections], 2.; got != want {
		t.Errorf("connections: got %v, want %v, those of clients", got, want)
	}
}

// openServerStream opens the stream of another server, and leaves it open until the test ends.
func openServerStream(t *testing.T, prosody *realstack.Prosody) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", prosody.ServerAddr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck,gosec // a test's connection
	if _, err := fmt.Fprintf(
		conn, "<stream:stream to='%s' version='1.0' xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams'>", chatHost,
	); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(conn).ReadString('>'); err != nil {
		t.Fatal(err)
	}
}

// TestRealModuleCountsStanzasExactly has clients talk, and compares the server's numbers with theirs.
func TestRealModuleCountsStanzasExactly(t *testing.T) {
	p := startMeasuredProsody(t, realstack.ProsodyOptions{Modules: []string{"carbons", "smacks"}})
	before := p.values()
	desk, phone := p.client("bob", chatHost, "desk"), p.client("bob", chatHost, "phone")
	carol := p.client("carol", otherHost, "desk")
	send := func(c *realstack.Client, text string, times int) {
		t.Helper()
		for range times {
			if err := c.Send(text); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Settle(); err != nil {
			t.Fatal(err)
		}
	}
	// Each tells the other, and itself, that it is there.
	send(desk, "<presence/>", 1)
	send(phone, "<presence/>", 1)
	send(carol, "<presence/>", 1)
	for _, c := range []*realstack.Client{desk, phone} {
		if kind, err := c.Request("set", "<enable xmlns='urn:xmpp:carbons:2'/>"); err != nil || kind != "result" {
			t.Fatalf("enable carbons: %s, %v", kind, err)
		}
	}
	send(desk, "<presence><show>away</show></presence>", 2)
	// The other one of bob's gets a copy of each.
	send(desk, "<message to='carol@other.test/desk' type='chat'><body>hello</body></message>", 7)
	send(carol, "<message to='bob@chat.test/phone' type='chat'><body>hello</body></message>", 4)
	// Of what cannot be delivered, an error comes back.
	send(carol, "<message to='nobody@chat.test' type='chat'><body>hello</body></message>", 3)
	send(carol, "<iq type='get' id='x'><query xmlns='jabber:iq:roster'/></iq>", 5)
	for _, c := range []*realstack.Client{desk, phone, carol} {
		send(c, "", 0)
	}
	type tally struct{ messages, presences int }
	got := map[string]tally{
		"desk":  {desk.Messages, desk.Presences},
		"phone": {phone.Messages, phone.Presences},
		"carol": {carol.Messages, carol.Presences},
	}
	if diff := cmp.Diff(map[string]tally{"desk": {4, 4}, "phone": {4 + 7, 4}, "carol": {7 + 3, 1}}, got,
		cmp.AllowUnexported(tally{})); diff != "" {
		t.Errorf("what the clients got (-want +got):\n%s", diff)
	}
	p.wantSince(before, map[string]float64{
		"xmpp_messages_received_total " + chatHost:  7,
		"xmpp_messages_received_total " + otherHost: 4 + 3,
		"xmpp_presence_received_total " + chatHost:  4,
		"xmpp_presence_received_total " + otherHost: 1,
		"xmpp_messages_sent_total " + chatHost:      float64(desk.Messages + phone.Messages),
		"xmpp_messages_sent_total " + otherHost:     float64(carol.Messages),
		"xmpp_presence_sent_total " + chatHost:      float64(desk.Presences + phone.Presences),
		"xmpp_presence_sent_total " + otherHost:     float64(carol.Presences),
	}, "xmpp_messages_received_total", "xmpp_messages_sent_total", "xmpp_presence_received_total", "xmpp_presence_sent_total")
}

// TestRealModuleCountsWhatIsSentAgain loses a client's connection: what the server keeps for it is counted when it is sent.
func TestRealModuleCountsWhatIsSentAgain(t *testing.T) {
	p := startMeasuredProsody(t, realstack.ProsodyOptions{Modules: []string{"smacks"}})
	lost, carol := p.client("bob", chatHost, "desk"), p.client("carol", otherHost, "desk")
	token, err := lost.Keep()
	if err != nil {
		t.Fatal(err)
	}
	send := func(times int) {
		t.Helper()
		for range times {
			if err := carol.Send("<message to='bob@chat.test/desk' type='chat'><body>hello</body></message>"); err != nil {
				t.Fatal(err)
			}
		}
		if err := carol.Settle(); err != nil {
			t.Fatal(err)
		}
	}
	const sent = "xmpp_messages_sent_total"
	before := p.values()
	send(2)
	p.wantSince(before, map[string]float64{sent + " " + chatHost: 2}, sent)
	if err := lost.Drop(); err != nil {
		t.Fatal(err)
	}
	noticed := func() bool { return p.values()[fmt.Sprintf("xmpp_c2s_sessions{host=%q,type=\"c2s\"}", chatHost)] == 0 }
	for end := time.Now().Add(realDeadline); !noticed(); {
		if time.Now().After(end) {
			t.Fatal("the server has not noticed that the client is gone")
		}
	}
	send(3)
	p.wantSince(before, map[string]float64{sent + " " + chatHost: 2}, sent)
	found, err := p.Dial(t.Context(), chatHost)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(found.Login(realstack.Plain, "bob", "pw-bob"), found.Resume(token), found.Settle()); err != nil {
		t.Fatal(err)
	}
	send(1)
	if err := found.Settle(); err != nil {
		t.Fatal(err)
	}
	if got, want := found.Messages, 2+3+1; got != want {
		t.Errorf("got %d messages after the loss, want %d", got, want)
	}
	p.wantSince(before, map[string]float64{sent + " " + chatHost: 2 + 2 + 3 + 1}, sent)
	if err := found.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRealModuleCountsStorageExactly has a client keep its card, while the server may write and while it may not.
func TestRealModuleCountsStorageExactly(t *testing.T) {
	p := startMeasuredProsody(t, realstack.ProsodyOptions{Modules: []string{"vcard", "admin_shell"}})
	bob := p.client("bob", chatHost, "desk")
	request := func(kind, want string, times int) {
		t.Helper()
		for range times {
			if got, err := bob.Request(kind, "<vCard xmlns='vcard-temp'><FN>Bob</FN></vCard>"); err != nil || got != want {
				t.Fatalf("%s card: got %s, %v, want %s", kind, got, err, want)
			}
		}
	}
	families := []string{"xmpp_storage_operations_total", "xmpp_storage_errors_total"}
	before := p.values()
	request("set", "result", 3)
	request("get", "result", 4)
	p.wantSince(before, map[string]float64{"xmpp_storage_operations_total " + chatHost: 7}, families...)

	before = p.values()
	allow := p.Forbid(chatHost, "vcard")
	request("set", "error", 2)
	allow()
	request("set", "result", 1)
	p.wantSince(before, map[string]float64{
		"xmpp_storage_operations_total " + chatHost: 3,
		"xmpp_storage_errors_total " + chatHost:     2,
	}, families...)

	p.Module("reload", measuring)
	before = p.values()
	request("get", "result", 5)
	p.wantSince(before, map[string]float64{"xmpp_storage_operations_total " + chatHost: 5}, families...)
}

// TestRealModuleCountsOperationsNotTheirParts uses stores in ways that make more than one call of it, and gets answers
// that are neither data nor errors.
func TestRealModuleCountsOperationsNotTheirParts(t *testing.T) {
	p := startMeasuredProsody(t, realstack.ProsodyOptions{Modules: []string{realstack.Rehearse}, ArchiveLimit: 2})
	const operations, errs = "xmpp_storage_operations_total ", "xmpp_storage_errors_total"
	families := []string{strings.TrimSpace(operations), errs}
	// Three are added, of which one is too many, and one is looked for, which the archive does with a search of its own.
	before := p.values()
	p.rehearse("archive")
	p.wantSince(before, map[string]float64{operations + chatHost: 4, operations + otherHost: 4}, families...)
	// The driver has no maps: to write is to read and to write.
	before = p.values()
	p.rehearse("map")
	p.wantSince(before, map[string]float64{operations + chatHost: 3, operations + otherHost: 3}, families...)
}

// TestRealModuleCountsHTTPExactly asks for pages that there are and pages that there are not.
func TestRealModuleCountsHTTPExactly(t *testing.T) {
	p := startMeasuredProsody(t, realstack.ProsodyOptions{})
	// A reading is counted before it is answered, and its time afterwards.
	before := p.values()
	for path, want := range map[string]int{"/status": http.StatusOK, "/nowhere": http.StatusNotFound, "/metrics": http.StatusOK} {
		p.get(path, want)
	}
	after := p.values()
	for _, name := range []string{
		"xmpp_http_requests_total", "xmpp_http_request_duration_seconds_count", `xmpp_http_request_duration_seconds_bucket{le="+Inf"}`,
	} {
		if got, want := after[name]-before[name], 4.; got != want {
			t.Errorf("%s rose by %v, want %v", name, got, want)
		}
	}
	if got := after["xmpp_http_request_duration_seconds_sum"] - before["xmpp_http_request_duration_seconds_sum"]; got <= 0 {
		t.Errorf("sum of durations rose by %v, want something", got)
	}
	if got := after["xmpp_memory_usage_bytes"]; got < 1e6 || got > 1e9 {
		t.Errorf("memory: got %v bytes, want those of a small server", got)
	}
	if was, is := before["xmpp_cpu_usage_seconds_total"], after["xmpp_cpu_usage_seconds_total"]; was <= 0 || is <= was {
		t.Errorf("CPU time: got %v s, then %v s, want it to rise", was, is)
	}
}

// TestRealModuleSurvivesReloadAndRestart counts on after a reload, with the sessions that were open, and starts from 0,
// with every series there, after a restart: rate() takes that for what it is.
func TestRealModuleSurvivesReloadAndRestart(t *testing.T) {
	p := startMeasuredProsody(t, realstack.ProsodyOptions{Modules: []string{"admin_shell"}})
	families := []string{
		"xmpp_c2s_auth_failure_total", "xmpp_c2s_auth_success_total", "xmpp_messages_received_total", "xmpp_messages_sent_total",
	}
	before := p.values()
	bob := p.client("bob", chatHost, "desk")
	talk := func() {
		t.Helper()
		if err := p.failLogins(t.Context(), chatHost, realstack.SCRAMSHA1, "bob", 2); err != nil {
			t.Fatal(err)
		}
		if err := bob.Send("<message to='bob@chat.test/desk'><body>to myself</body></message>"); err != nil {
			t.Fatal(err)
		}
		if err := bob.Settle(); err != nil {
			t.Fatal(err)
		}
	}
	// One of bob's, and one for each time to talk. The server's shell, which reloads the module, is no client.
	const connections = "xmpp_c2s_connections_total"
	wantConnections := func(want float64) {
		t.Helper()
		if got := p.values()[connections] - before[connections]; got != want {
			t.Errorf("connections: got %v, want %v", got, want)
		}
	}
	want := func(rounds float64) map[string]float64 {
		return map[string]float64{
			"xmpp_c2s_auth_failure_total " + chatHost:  2 * rounds,
			"xmpp_c2s_auth_success_total " + chatHost:  1,
			"xmpp_messages_received_total " + chatHost: rounds,
			"xmpp_messages_sent_total " + chatHost:     rounds,
		}
	}
	talk()
	p.wantSince(before, want(1), families...)
	p.Module("reload", measuring)
	p.wantSince(before, want(1), families...)
	talk()
	p.Module("reload", measuring)
	p.Module("reload", measuring)
	talk()
	p.wantSince(before, want(3), families...)
	wantConnections(1 + 3)

	p.Stop()
	p.Start()
	after := p.values()
	p.wantZero("after a restart", after)
	if err := p.failLogins(t.Context(), otherHost, realstack.Plain, "carol", 3); err != nil {
		t.Fatal(err)
	}
	p.wantSince(after, map[string]float64{"xmpp_c2s_auth_failure_total " + otherHost: 3}, families...)
}

// TestRealModuleThatIsUnloadedCountsNothing has the module go, in each way that it can: what nobody counts any more has no
// source, rather than numbers that stand still. When it is loaded again, everything begins from 0.
func TestRealModuleThatIsUnloadedCountsNothing(t *testing.T) {
	p := startMeasuredProsody(t, realstack.ProsodyOptions{Modules: []string{"admin_shell"}})
	const failures = "xmpp_c2s_auth_failure_total"
	talk := func() {
		t.Helper()
		for host, user := range map[string]string{chatHost: "bob", otherHost: "carol"} {
			c := p.client(user, host, "desk")
			err := errors.Join(c.Send("<presence/><message to='"+user+"@"+host+"/desk'><body>to myself</body></message>"),
				c.Settle(), c.Close(),
				p.failLogins(t.Context(), host, realstack.Plain, user, 2))
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	measured := func() (names []string) {
		t.Helper()
		b, err := readXMPPMetrics(t, p.URL(), deps(&memory{}))
		if err != nil {
			t.Fatal(err)
		}
		names = availableFamilies(t, b)
		for _, line := range canonicalSeries(b) {
			names = append(names, line[:strings.IndexAny(line, "{ ")])
		}
		// What Prosody counts itself stays, of course.
		names = slices.DeleteFunc(names,
			func(name string) bool { return strings.HasPrefix(name, "xmpp_s2s_") || name == "xmpp_c2s_sessions" })
		slices.Sort(names)
		names = slices.Compact(names)
		noted := slices.ContainsFunc(b.Notes, func(n string) bool {
			return strings.Contains(n, "nothing counts failed logins, so no alert covers them")
		})
		if has := slices.Contains(names, failures); noted == has {
			t.Errorf("%s: there %v, noted as missing %v", failures, has, noted)
		}
		return names
	}
	all := measured()
	if !slices.Contains(all, failures) {
		t.Fatalf("got %q, want %s among them", all, failures)
	}
	for _, c := range []struct {
		name string
		away func()
	}{
		{"everywhere", func() { p.Module("unload", measuring) }},
		// The part that hosts share goes as well, and without it the other host counts nothing.
		{"on one host", func() { p.Module("unload", measuring, otherHost) }},
		{"by a reload that fails", func() { p.FailToReload(measuring) }},
	} {
		talk()
		c.away()
		talk()
		if got := measured(); len(got) > 0 {
			t.Errorf("unloaded %s: got %q, want none of the module's", c.name, got)
		}
		p.Module("load", measuring)
		if diff := cmp.Diff(all, measured()); diff != "" {
			t.Errorf("loaded again (-want +got):\n%s", diff)
		}
		before := p.values()
		p.wantZero("when loaded again after it was unloaded "+c.name, before)
		talk()
		p.wantSince(before, map[string]float64{
			failures + " " + chatHost: 2, failures + " " + otherHost: 2,
			"xmpp_messages_received_total " + chatHost: 1, "xmpp_messages_received_total " + otherHost: 1,
		}, failures, "xmpp_messages_received_total")
	}
}

// TestRealModuleForgetsHostsThatAreGone has the server serve a virtual host no longer: what was counted for it goes, and
// nothing else does.
func TestRealModuleForgetsHostsThatAreGone(t *testing.T) {
	p := startMeasuredProsody(t, realstack.ProsodyOptions{Modules: []string{"admin_shell"}})
	const failures = "xmpp_c2s_auth_failure_total"
	fail := func(host string) {
		t.Helper()
		if err := p.failLogins(t.Context(), host, realstack.Plain, "nobody", 2); err != nil {
			t.Fatal(err)
		}
	}
	fail(chatHost)
	fail(otherHost)
	p.Host("deactivate", otherHost)
	fail(chatHost)
	gone := p.values()
	for _, family := range measuredFamilies() {
		p.of(gone, family, chatHost)
		if got, ok := gone[fmt.Sprintf("%s{host=%q}", family, otherHost)]; ok {
			t.Errorf("%s: got %v for a host that is gone, want no series", family, got)
		}
	}
	if got, want := p.of(gone, failures, chatHost), 4.; got != want {
		t.Errorf("failures of the host that stays: got %v, want %v", got, want)
	}
	p.Host("activate", otherHost)
	fail(otherHost)
	again := p.values()
	if got, want := p.of(again, failures, otherHost), 2.; got != want {
		t.Errorf("failures of the host that came back: got %v, want %v", got, want)
	}
	if got, want := p.of(again, failures, chatHost), 4.; got != want {
		t.Errorf("failures of the host that stayed: got %v, want %v", got, want)
	}
}

// TestRealModuleForgetsHostsWithoutIt has the module go on one host alone, while the server goes on to serve it.
func TestRealModuleForgetsHostsWithoutIt(t *testing.T) {
	p := startMeasuredProsody(t, realstack.ProsodyOptions{Modules: []string{realstack.Rehearse}})
	p.rehearse("unload_part")
	for host, user := range map[string]string{chatHost: "bob", otherHost: "carol"} {
		c := p.client(user, host, "desk")
		err := errors.Join(c.Send("<presence/><message to='"+user+"@"+host+"/desk'><body>to myself</body></message>"), c.Settle(),
			p.failLogins(t.Context(), host, realstack.Plain, user, 2))
		if err != nil {
			t.Fatal(err)
		}
		if c.Messages != 1 {
			t.Errorf("%s: got %d messages, want 1", host, c.Messages)
		}
	}
	after := p.values()
	for _, family := range measuredFamilies() {
		if got := p.of(after, family, chatHost); got == 0 && family != "xmpp_storage_errors_total" {
			t.Errorf("%s: got 0 for the host that has the module, want more", family)
		}
		if got, ok := after[fmt.Sprintf("%s{host=%q}", family, otherHost)]; ok {
			t.Errorf("%s: got %v for the host without the module, want no series", family, got)
		}
	}
}
