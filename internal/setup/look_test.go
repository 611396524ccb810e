package setup

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
)

// inspected is a container as an engine describes it.
func inspected(id, name, mode string, n *container.NetworkSettings) *container.InspectResponse {
	return &container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{
			ID:         id,
			Name:       "/" + name,
			State:      &container.State{Status: "running"},
			HostConfig: &container.HostConfig{NetworkMode: container.NetworkMode(mode)},
		},
		Config: &container.Config{Image: "local", Labels: map[string]string{
			"com.docker.compose.project": "chat", "com.docker.compose.service": name, "com.docker.compose.project.working_dir": "/srv/chat",
			"com.docker.compose.project.environment_file": "/srv/chat/prod.env",
		}},
		NetworkSettings: n,
	}
}

func TestDescriptionsGiveAddresses(t *testing.T) {
	settings := &container.NetworkSettings{Networks: map[string]*network.EndpointSettings{
		"chat_default": {IPAddress: "172.18.0.2", Aliases: []string{"irc", "chat", "0123456789ab", "a b\n"}}, "gone": nil,
	}}
	irc := inspected("0123456789abcdef", "irc", "chat_default", settings)
	ports := `{"6697/tcp": [{"HostIp": "0.0.0.0", "HostPort": "16697"}], "8600/tcp": [{"HostIp": "10.1.2.3", "HostPort": "8600"}],
		"53/udp": [{"HostPort": "53"}], "113/tcp": null}`
	if err := json.Unmarshal([]byte(ports), &settings.Ports); err != nil {
		t.Fatal(err)
	}
	services := inspected("fedcba", "irc-services", "container:0123456789abcdef", nil)
	host := inspected("abc", "xmpp", "host", nil)
	host.Mounts = []container.MountPoint{{Source: "/var/run/docker.sock"}}
	all := map[string]*container.InspectResponse{irc.ID: irc}
	loopback := netip.MustParseAddr("127.0.0.1")
	reached := Container{
		Name:      "irc",
		Service:   "irc",
		Role:      "irc",
		Ports:     []int{113, 6697, 8600},
		Published: map[int]string{6697: "127.0.0.1:16697", 8600: "10.1.2.3:8600"},
		Hosts:     []string{"irc", "chat"},
		Networks:  []string{"chat_default"},
		Addresses: []netip.Addr{netip.MustParseAddr("172.18.0.2")},
	}
	shared := reached
	shared.Name, shared.Service, shared.Role, shared.Hosts = "irc-services", "irc-services", "irc_services",
		[]string{"irc-services", "irc", "chat"}
	for name, c := range map[string]struct {
		from *container.InspectResponse
		want Container
	}{
		"a network of Compose":  {irc, reached},
		"the network of a peer": {services, shared},
		"the host's network": {
			host,
			Container{
				Name:         "xmpp",
				Service:      "xmpp",
				Role:         "xmpp",
				EngineSocket: true,
				Published:    map[int]string{},
				Addresses:    []netip.Addr{loopback},
			},
		},
	} {
		c.want.Workload = "chat/" + c.want.Service
		c.want.Project, c.want.Image, c.want.State, c.want.Directory, c.want.EnvFile = "chat", "local", "running", "/srv/chat",
			"/srv/chat/prod.env"
		c.want.ID = c.from.ID
		got, ok := describe(c.from, all)
		if diff := gocmp.Diff(c.want, got, cmpopts.EquateComparable(netip.Addr{})); !ok || diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, broken := range []*container.InspectResponse{nil, {}, inspected("a", "bad\nname", "", nil)} {
		if _, ok := describe(broken, nil); ok {
			t.Errorf("%+v is a container", broken)
		}
	}
}

func TestOnlyWhatAcceptsAConnectionAnswers(t *testing.T) {
	dial := func(_ context.Context, _, address string) (net.Conn, error) {
		if address != "127.0.0.1:5222" {
			return nil, errors.New("refused")
		}
		ours, theirs := net.Pipe()
		return ours, theirs.Close()
	}
	lookup := func(name string) (string, bool) {
		if name == "IRC_RPC_PASSWORD_FILE" {
			return "/run/secrets/irc", true
		}
		return "", false
	}
	f, err := Look(t.Context(), Options{NoEngine: "none", Dial: dial, Lookup: lookup})
	if err != nil {
		t.Fatal(err)
	}
	want := &Facts{
		NoEngine:    "none",
		Answers:     map[string]bool{"127.0.0.1:5222": true},
		ServerNames: map[string]string{},
		Environment: []string{"IRC_RPC_PASSWORD"},
	}
	if diff := gocmp.Diff(want, f); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOneConnectionIsEnough holds that a server which counts connections is not asked at each of its addresses.
func TestOneConnectionIsEnough(t *testing.T) {
	var tried []string
	dial := func(_ context.Context, _, address string) (net.Conn, error) {
		tried = append(tried, address)
		if address == "a:1" {
			return nil, errors.New("refused")
		}
		ours, theirs := net.Pipe()
		return ours, theirs.Close()
	}
	f := &Facts{}
	f.knock(t.Context(), []door{{addresses: []string{"a:1", "b:1", "c:1"}, tls: true}}, dial)
	if want := map[string]bool{"b:1": true}; !maps.Equal(f.Answers, want) || !slices.Equal(tried, []string{"a:1", "b:1"}) {
		t.Errorf("%v answer, tried are %v", f.Answers, tried)
	}
}

// TestCertificatesGiveServerNames holds that a target which is reached under another name than that of its certificate verifies.
func TestCertificatesGiveServerNames(t *testing.T) {
	for name, c := range map[string]struct {
		names  []string
		domain string
		want   string
	}{
		"the address":            {[]string{"irc.example.org", "127.0.0.1"}, "", ""},
		"another name":           {[]string{"*.example.net", "irc.example.org"}, "chat.example.org", "irc.example.org"},
		"the domain":             {[]string{"irc.example.org", "chat.example.org"}, "chat.example.org", "chat.example.org"},
		"a pattern":              {[]string{"*.example.org"}, "", ""},
		"a pattern for a domain": {[]string{"*.example.org"}, "chat.example.org", "chat.example.org"},
		"nobody":                 {nil, "chat.example.org", ""},
	} {
		t.Run(name, func(t *testing.T) {
			made := exchangetest.Certificate{Names: c.names}.Make(t)
			server, err := tls.Listen("tcp", "127.0.0.1:0",
				&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{made.Cert.Raw}, PrivateKey: made.Key}}})
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			defer all.Wait()
			defer server.Close() //nolint:errcheck // it only listened
			all.Go(func() {
				for {
					conn, err := server.Accept()
					if err != nil {
						return
					}
					conn.Read(make([]byte, 1)) //nolint:errcheck,gosec // until the client leaves
					conn.Close()               //nolint:errcheck,gosec // it has left
				}
			})
			f, address := &Facts{Domain: c.domain}, server.Addr().String()
			f.knock(t.Context(), []door{{addresses: []string{address}, tls: true}}, (&net.Dialer{}).DialContext)
			if got := f.ServerNames[address]; got != c.want || !f.Answers[address] {
				t.Errorf("server name %q, answers %v; want %q", got, f.Answers, c.want)
			}
		})
	}
}

func TestLookEndsWhenItIsCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if _, err := Look(ctx, Options{Dial: dial, Lookup: func(string) (string, bool) { return "", false }}); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("error %v, want a deadline", err)
	}
}
