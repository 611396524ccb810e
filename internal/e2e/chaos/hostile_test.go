//go:build chaos

package chaos

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
)

const (
	// shippedMemory is the memory limit of everything in deploy/.
	shippedMemory = 256 << 20
	// shippedTimeout is how long a server can do harm in one probe, at the defaults.
	shippedTimeout = 10 * time.Second
)

// TestNoServerHarmsTheExporter puts each hostile server before an exporter with the shipped limit of memory, and then the worst of all
// before one. The exporter must live, another target must keep its rhythm, and each session must end.
func TestNoServerHarmsTheExporter(t *testing.T) {
	made := exchangetest.Certificate{
		Name:      "hostile",
		Names:     []string{"irc.test", "chat.test"},
		End:       time.Now().AddDate(0, 0, 60),
		Authority: true,
	}.Make(t)
	authority, _ := made.PEM(t)
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	own := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{exchangetest.Chain(made)}}
	kit := slices.Concat(httpKit(), metricsKit(), dockerKit(), tlsKit(own.Certificates[0]), ircKit(), xmppKit())
	if len(kit) < 60 {
		t.Errorf("the kit has %d servers, want 60", len(kit))
	}
	var worst []hostile
	for _, h := range kit {
		if h.worst {
			worst = append(worst, h)
		}
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			withstand(t, []hostile{h}, own, caFile)
		})
	}
	t.Run("the worst at once", func(t *testing.T) {
		t.Parallel()
		withstand(t, worst, own, caFile)
	})
}

// withstand runs an exporter before hostile servers and a healthy one.
func withstand(t *testing.T, servers []hostile, own *tls.Config, caFile string) {
	t.Helper()
	healthy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer healthy.Close()
	config := fmt.Sprintf("poll: {interval: %[1]s, timeout: %[1]s}\ntargets:\n"+
		"  - {kind: http, name: healthy, url: %[2]q, schedule: \"@every %[3]s\", timeout: %[3]s}\n",
		shippedTimeout, healthy.URL, interval)
	var sessions []*sessions
	for i, h := range servers {
		s := serveHostile(t, h, own)
		sessions = append(sessions, s)
		target := strings.ReplaceAll(fmt.Sprintf(h.target, s.listener.Addr()), "CA", caFile)
		target = strings.ReplaceAll(target, "hostile@", fmt.Sprintf("hostile%d@", i)) // targets that share an account share its waits
		config += fmt.Sprintf("  - {name: hostile_%d, %s}\n", i, target)
	}
	cmd := command(t, "", config, nil)
	kills := limitMemory(t, cmd, shippedMemory)
	e := start(t, cmd)
	const attempts, failures = "chatstack_probe_attempts_total", "chatstack_probe_failures_total"
	waiting := ""
	survived := exportertest.Eventually(2*patience, 200*time.Millisecond, func() bool {
		body, err := exportertest.Fetch(t.Context(), patience, e.url+"/metrics")
		if err != nil {
			return kills() > 0
		}
		p := parse(t, body, nil)
		done := p.Sum(attempts, "target", "healthy") >= 5
		waiting = ""
		for i, h := range servers {
			if p.Sum(attempts, "target", fmt.Sprintf("hostile_%d", i)) < 2 {
				waiting = h.name
			}
		}
		return done && waiting == ""
	})
	if n := kills(); n > 0 {
		t.Fatalf("the kernel killed it for want of memory")
	}
	if !survived {
		t.Fatalf("the probes do not go on: %q", waiting)
	}
	p := e.scrape(t)
	if n := p.Sum(failures, "target", "healthy"); n > 0 {
		t.Errorf("the healthy target failed %v times", n)
	}
	if n := p.Sum("chatstack_poll_overruns_total", "target", "healthy"); n > 0 {
		t.Errorf("%v probes of the healthy target were left out", n)
	}
	peak := e.peakMemory(t)
	for i, s := range sessions {
		if longest := s.longest(); longest > shippedTimeout+grace {
			t.Errorf("%s: a session took %s, past its deadline of %s", servers[i].name, longest, shippedTimeout)
		}
		if s.count() == 0 {
			t.Errorf("%s: nobody came", servers[i].name)
		}
	}
	e.stop(t)
	if n := kills(); n > 0 {
		t.Errorf("the kernel killed it %d times", n)
	}
	t.Logf("at most %d MiB resident; %v", peak>>20, p.Verdicts())
}

// sessions are the connections to a hostile server.
type sessions struct {
	listener net.Listener

	mu   sync.Mutex
	open map[net.Conn]time.Time
	most time.Duration // of those that have ended
	n    int
}

// serveHostile serves until the test ends.
func serveHostile(t *testing.T, h hostile, own *tls.Config) *sessions {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sessions{listener: listener, open: map[net.Conn]time.Time{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			s.begin(c)
			serving.Go(func() {
				defer s.end(c)
				peer := c
				if h.encrypted {
					encrypted := tls.Server(c, own)
					if encrypted.HandshakeContext(context.WithoutCancel(t.Context())) != nil {
						return
					}
					peer = encrypted
				}
				h.do(peer)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close() //nolint:errcheck // a test's listener
		s.mu.Lock()
		for c := range s.open {
			c.Close() //nolint:errcheck // so that its session ends
		}
		s.mu.Unlock()
		serving.Wait()
	})
	return s
}

func (s *sessions) begin(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c] = time.Now()
	s.n++
}

func (s *sessions) end(c net.Conn) {
	c.Close() //nolint:errcheck // it has ended
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = max(s.most, time.Since(s.open[c]))
	delete(s.open, c)
}

// longest is how long a session has taken at most, one that is open until now.
func (s *sessions) longest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.most
	for _, begun := range s.open {
		most = max(most, time.Since(begun))
	}
	return most
}

func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}
