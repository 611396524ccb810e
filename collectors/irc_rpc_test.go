package collectors

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// ircOf is a collector of the simulated stack's IRC server, over HTTPS or over its Unix socket.
func ircOf(t *testing.T, stack *simstack.Stack, network string) *ircRPC {
	t.Helper()
	env := stack.Environ()
	s := newIRCRPCSettings()
	s.URL, s.User, s.Password = env["IRC_RPC_URL"], env["IRC_RPC_USER"], config.NewSecret(env["IRC_RPC_PASSWORD"])
	s.CAFile = env["IRC_RPC_CA_FILE"]
	if network == "unix" {
		s.URL, s.User, s.Password = "unix://"+stack.IRCSocket(), "", config.Secret{}
	}
	s.Pause = 0
	return ircProbe(t, s)
}

func ircProbe(t *testing.T, s *IRCRPC) *ircRPC {
	t.Helper()
	return newProbe(t, newIRCRPC, s).(*ircRPC)
}

func TestIRCNumbers(t *testing.T) {
	stack := simstacktest.Start(t, simstack.Options{})
	for _, c := range []struct{ fault, notes string }{
		{"", ""},
		{"services_unlinked", "the IRC services are not linked"},
		{"no_stats", "the server has no method stats.get"},
		{"numbers_forbidden", "server { list; } channel { list; }"},
	} {
		for _, network := range []string{"unix", "tcp"} {
			t.Run(c.fault+"/"+network, func(t *testing.T) {
				name := "healthy"
				if c.fault != "" {
					name = c.fault
					if err := stack.Switch("irc_rpc", c.fault, true); err != nil {
						t.Fatal(err)
					}
				}
				b, err := read(t, ircOf(t, stack, network), 10*time.Second)
				if err := stack.Reset(); err != nil {
					t.Fatal(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				if network == "unix" {
					goldenPage(t, "irc_rpc/"+name, b)
				} else { // which also shows the certificate of the day
					wantSamples(t, "irc_rpc/"+name, b)
				}
				if notes := strings.Join(b.Notes, "\n"); (notes == "") != (c.notes == "") || !strings.Contains(notes, c.notes) {
					t.Errorf("notes %q, want %q", notes, c.notes)
				}
			})
		}
	}
}

// wantSamples compares the numbers of the IRC server, and nothing else on the page, with those of a golden page.
func wantSamples(t *testing.T, name string, b *Batch) {
	t.Helper()
	golden, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name)+".prom"))
	if err != nil {
		t.Fatal(err)
	}
	sample := regexp.MustCompile(`(?m)^chatstack_irc_.*$`)
	if diff := cmp.Diff(sample.FindAllString(string(golden), -1), sample.FindAllString(string(pageOf(t, b, true)), -1)); diff != "" {
		t.Errorf("samples of %s (-want +got):\n%s", name, diff)
	}
}

// ircFake is an IRC server with an answer for each of its methods. An empty answer is none at all.
type ircFake struct {
	answers map[string]string

	mu    sync.Mutex
	calls []string
	ids   []int64
}

// asked returns the methods that were called since it was asked last.
func (f *ircFake) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

// answer is what the server answers; false is nothing.
func (f *ircFake) answer(request []byte) (string, bool) {
	var call struct {
		Method string
		ID     int64
	}
	if err := json.Unmarshal(request, &call); err != nil {
		return "", false
	}
	f.mu.Lock()
	f.calls, f.ids = append(f.calls, call.Method), append(f.ids, call.ID)
	f.mu.Unlock()
	answer, ok := f.answers[call.Method]
	if call.Method == "rpc.info" && !ok {
		methods := map[string]any{"rpc.info": struct{}{}}
		for method := range f.answers {
			methods[method] = struct{}{}
		}
		info, err := json.Marshal(methods)
		if err != nil {
			return "", false
		}
		answer = ircResult(`{"methods": ` + string(info) + `}`)
	}
	return strings.ReplaceAll(answer, "%ID%", fmt.Sprint(call.ID)), answer != ""
}

func (f *ircFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	answer, ok := f.answer(body)
	if !ok {
		<-r.Context().Done()
		return
	}
	io.WriteString(w, answer) //nolint:errcheck // a test's server
}

func (f *ircFake) start(t *testing.T) *IRCRPC {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	s := newIRCRPCSettings()
	s.URL, s.Pause = server.URL+"/api", 0
	return s
}

func ircResult(result string) string {
	return `{"jsonrpc": "2.0", "id": %ID%, "result": ` + result + `}`
}

func ircRefusal(code int) string {
	return fmt.Sprintf(`{"jsonrpc": "2.0", "id": %%ID%%, "error": {"code": %d, "message": "not for secretnick"}}`, code)
}

const (
	ircStatsAnswer = `{"server": {"total": 2, "ulined": 1}, "user": {"total": 7, "ulined": 4, "oper": 1, "record": 9}, "channel": ` +
		`{"total": 4}}`
	ircChannels = `{"list": [{"name": "#secretchannel"}, {"name": "#room"}]}`
)

// TestIRCCallsHaveIDsOfTheirOwn: an answer that comes too late must not be taken for that of a later call, in whatever reading.
func TestIRCCallsHaveIDsOfTheirOwn(t *testing.T) {
	fake := &ircFake{answers: map[string]string{"stats.get": ircResult(ircStatsAnswer)}}
	probe := ircProbe(t, fake.start(t))
	readUp(t, probe)
	readUp(t, probe)
	slices.Sort(fake.ids)
	if different := slices.Compact(slices.Clone(fake.ids)); len(fake.ids) < 4 || len(different) != len(fake.ids) {
		t.Errorf("ids of two readings: got %v, want at least four, all different", fake.ids)
	}
}

func TestIRCMethodThatIsRefusedIsLeftAlone(t *testing.T) {
	fake := &ircFake{answers: map[string]string{"stats.get": ircResult(ircStatsAnswer), "server.list": ircRefusal(-32000)}}
	probe := ircProbe(t, fake.start(t))
	all, fewer := []string{"rpc.info", "stats.get", "server.list"}, []string{"rpc.info", "stats.get"}
	for n, want := range [][]string{all, fewer, fewer} {
		b := readUp(t, probe)
		if got := fake.asked(); !slices.Equal(got, want) {
			t.Errorf("reading %d asked %v, want %v", n, got, want)
		}
		if len(b.Notes) != 1 || !strings.Contains(b.Notes[0], "rpc-class") {
			t.Errorf("reading %d: notes %q do not say what to grant", n, b.Notes)
		}
	}
	healthy := fake.answers["stats.get"]
	fake.answers["stats.get"] = "<html>"
	mustFail(t, probe, failure.Malformed)
	fake.answers["stats.get"] = healthy
	fake.asked()
	readUp(t, probe)
	if got := fake.asked(); !slices.Equal(got, all) {
		t.Errorf("after a failure asked %v, want %v", got, all)
	}
}

func TestIRCRefusalIsForgottenAfterFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := refusals{}
		if r.tooRecent("stats.get") {
			t.Error("held before it was refused")
		}
		r.add("stats.get")
		<-time.After(5*time.Minute - time.Second)
		if !r.tooRecent("stats.get") || r.tooRecent("server.list") {
			t.Error("a refusal does not hold for five minutes, or holds for another method")
		}
		<-time.After(time.Second)
		if r.tooRecent("stats.get") {
			t.Error("held after five minutes")
		}
	})
}

// counted is a relay before address that counts what passes through it, in both directions.
func counted(t *testing.T, address string) (relay string, bytes func() int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	var all sync.WaitGroup
	pass := func(to, from net.Conn) {
		passed, _ := io.Copy(to, from)
		n.Add(passed)
		to.Close()   //nolint:errcheck,gosec // the other side has ended
		from.Close() //nolint:errcheck,gosec // it has ended
	}
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
			if err != nil {
				client.Close() //nolint:errcheck,gosec // nobody is there
				return
			}
			all.Go(func() { pass(server, client) })
			all.Go(func() { pass(client, server) })
		}
	})
	return l.Addr().String(), func() int64 {
		l.Close() //nolint:errcheck,gosec // the reading is over
		all.Wait()
		return n.Load()
	}
}

// TestIRCReadingOfACrowdIsLight weighs one reading of a server with 10,000 users, with TLS and headers: under 1 MB also
// where nothing but user.list tells how many there are.
func TestIRCReadingOfACrowdIsLight(t *testing.T) {
	const crowd = 10_000
	list := make([]string, crowd)
	for i := range list {
		list[i] = fmt.Sprintf(`{"name": "user%05d", "id": "001X%05d"}`, i, i)
	}
	lists := &ircFake{answers: map[string]string{
		"user.list":    ircResult(`{"list": [` + strings.Join(list, ", ") + `]}`),
		"channel.list": ircResult(ircChannels),
	}}
	stack := simstacktest.Start(t, simstack.Options{IRCUsers: crowd})
	for name, c := range map[string]struct {
		fault string
		most  int64
	}{
		"stats":  {"", 30_000},
		"lists":  {"no_stats", 30_000},
		"spec's": {"lists", 1_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			var s *IRCRPC
			switch c.fault {
			case "lists":
				s = lists.start(t)
			default:
				if c.fault != "" {
					if err := stack.Switch("irc_rpc", c.fault, true); err != nil {
						t.Fatal(err)
					}
				}
				env := stack.Environ()
				s = newIRCRPCSettings()
				s.URL, s.User, s.Password, s.CAFile = env["IRC_RPC_URL"], env["IRC_RPC_USER"], config.NewSecret(env["IRC_RPC_PASSWORD"]),
					env["IRC_RPC_CA_FILE"]
			}
			scheme, rest, _ := strings.Cut(s.URL, "://")
			address, _, _ := strings.Cut(rest, "/")
			relay, weigh := counted(t, address)
			s.URL = scheme + "://" + relay + "/api"
			b, err := read(t, ircProbe(t, s), 10*time.Second)
			if n := weigh(); n < 1000 || n > c.most {
				t.Errorf("one reading moved %d bytes, want at most %d", n, c.most)
			}
			if err != nil {
				t.Fatal(err)
			}
			if page := string(pageOf(t, b, true)); !strings.Contains(page, "\nchatstack_irc_users 10000\n") {
				t.Errorf("page counts other users:\n%s", page)
			}
			if err := stack.Reset(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestHintAboutTheRPCSocketSaysWhatItGivesAway(t *testing.T) {
	path := engineSocket(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // a test's listener
	if err := os.Chmod(path, 0o000); err != nil {
		t.Fatal(err)
	}
	asNobody(t)
	s := newIRCRPCSettings()
	s.URL = "unix://" + path
	_, err = readFails(t, ircProbe(t, s), failure.Forbidden)
	for _, want := range []string{"mode 0700", "rpc-class", "listen block", "can do everything"} {
		if hint := failure.HintOf(err); !strings.Contains(hint, want) {
			t.Errorf("hint %q lacks %q", hint, want)
		}
	}
}

// ircWith is a collector of a fake server, with more keys in its block.
func ircWith(t *testing.T, fake *ircFake, keys string) Collector {
	t.Helper()
	cfg, err := loadTargets("- {kind: irc_rpc, url: '"+fake.start(t).URL+"', pause: 0s"+keys+"}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	kind, _ := KindOf("irc_rpc")
	c, err := kind.New(cfg.Targets[0], deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestIRCWarningOfSeveralULinedServersOutlivesTheServices: that one is left does not say that it is the services.
func TestIRCWarningOfSeveralULinedServersOutlivesTheServices(t *testing.T) {
	const services, stats = `{"name": "services.irc.test", "server": {"synced": true, "ulined": true}}`,
		`{"name": "stats.irc.test", "server": {"synced": true, "ulined": true}}`
	fake := &ircFake{answers: map[string]string{"stats.get": ircResult(ircStatsAnswer)}}
	probe := ircWith(t, fake, "")
	for i, c := range []struct {
		servers string
		warned  bool
	}{{services, false}, {services + "," + stats, true}, {stats, true}} {
		fake.answers["server.list"] = ircResult(`{"list": [` + c.servers + `]}`)
		b := readUp(t, probe)
		if got := strings.Contains(strings.Join(b.Notes, "\n"), "services_server"); got != c.warned {
			t.Errorf("reading %d: notes %q, want a warning: %t", i+1, b.Notes, c.warned)
		}
	}
	probe.(Reloader).Reloaded()
	if b, err := read(t, probe, 10*time.Second); err != nil || strings.Contains(strings.Join(b.Notes, "\n"), "services_server") {
		t.Errorf("after a reload: notes %q, %v, want no warning of what was before", b.Notes, err)
	}
}
