package collectors

import (
	"testing"
	"time"
)

func readServices(t *testing.T, s *IRCServices, timeout time.Duration) (*Batch, error) {
	t.Helper()
	probe, err := newIRCServices(s, deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, probe, timeout)
}

func TestIRCServicesAddressesFollowTheVariable(t *testing.T) {
	for variable, want := range map[string][2]string{
		"http://irc:8081/jsonrpc": {"http://irc:8081/", "http://irc:8081/jsonrpc"},
		"http://irc:8081":         {"http://irc:8081/", "http://irc:8081/jsonrpc"},
		"http://irc:8081/x/rpc":   {"http://irc:8081/", "http://irc:8081/x/rpc"},
	} {
		cfg, err := loadTargets("- kind: irc_services\n", map[string]string{"IRC_SERVICES_JSONRPC_URL": variable})
		if err != nil {
			t.Fatal(err)
		}
		s := cfg.Targets[0].(*IRCServices)
		if got := [2]string{s.URL, s.JSONRPCURL}; got != want {
			t.Errorf("%s: got %v, want %v", variable, got, want)
		}
	}
	s := &IRCServices{}
	s.URL, s.JSONRPC = "http://irc:8081/health", true
	c := newProbe(t, newIRCServices, s)
	if got, want := c.(*ircServices).rpc, "http://irc:8081/jsonrpc"; got != want {
		t.Errorf("without jsonrpc_url got %s, want %s", got, want)
	}
}
