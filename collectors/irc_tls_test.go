package collectors

import (
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

func ircTLSProbe(t *testing.T, address string, trust config.TLS) Collector {
	t.Helper()
	s := &IRCTLS{}
	s.Address, s.TLS = address, trust
	return newProbe(t, newIRCTLS, s)
}

// TestStockIRCServerThrottlesTheFourthConnection has the simulated server count connections as a stock UnrealIRCd does.
func TestStockIRCServerThrottlesTheFourthConnection(t *testing.T) {
	stack := simstacktest.Start(t, simstack.Options{})
	if err := stack.Switch("irc_tls", "connect_flood", true); err != nil {
		t.Fatal(err)
	}
	probe := ircTLSProbe(t, stack.IRCAddress(), config.TLS{CAFile: stack.CAFile()})
	for i, want := range []failure.Reason{"", "", "", "throttled", "throttled"} {
		if _, err := readNamed(t, probe); reasonOrNone(err) != want {
			t.Errorf("connection %d: got %v, want reason %q", i+1, err, want)
		}
	}
}

// TestIRCPortIsAskedEvery30SecondsAtMost unless its own schedule says otherwise, which is warned of.
func TestIRCPortIsAskedEvery30SecondsAtMost(t *testing.T) {
	for _, c := range []struct{ poll, target, want, warning string }{
		{
			"30s",
			"",
			"@every 30s",
			"",
		},
		{
			"10s",
			"",
			"@every 30s",
			"",
		},
		{
			"1m",
			"",
			"@every 1m0s",
			"",
		},
		{
			"30s",
			`, schedule: "@every 10s"`,
			"@every 10s",
			"3 connections per address in 60 s",
		},
		{
			"10s",
			`, schedule: "@every 45s"`,
			"@every 45s",
			"",
		},
		{
			"30s",
			`, schedule: "* * * * *"`,
			"* * * * *",
			"",
		},
		{
			"30s",
			`, schedule: "@every 10s", insecure_skip_verify: true`,
			"@every 10s",
			"3 connections per address in 60 s",
		},
		{
			"30s",
			", insecure_skip_verify: true",
			"@every 30s",
			"every certificate",
		},
	} {
		for address, throttles := range map[string]bool{
			"irc.test": true, "127.0.0.1:6697": false, "localhost": false, "'[::1]:6697'": false,
		} {
			content := "poll: {interval: " + c.poll + "}\ntargets:\n  - {kind: irc_tls, address: " + address + c.target + "}\n"
			cfg, err := config.Load(config.Source{
				File:    "exporter.yaml",
				Content: []byte(content),
				Kinds:   ConfigKinds(),
				Lookup:  func(string) (string, bool) { return "", false },
			})
			if err != nil {
				t.Fatal(err)
			}
			s := cfg.Targets[0]
			if got := s.Common().Schedule; got != c.want {
				t.Errorf("%s: schedule %q, want %q", content, got, c.want)
			}
			warnings := strings.Join(s.Warnings(), "\n")
			want := c.warning
			if !throttles && strings.Contains(want, "60 s") {
				want = ""
			}
			if !strings.Contains(warnings, want) || (want == "") != (warnings == "") && !strings.Contains(c.target, "insecure") {
				t.Errorf("%s: warnings %q, want %q", content, warnings, want)
			}
		}
	}
}

// TestAdviceNamesAProductThatHasShownItself has a server that shows its product, and then refuses the address without showing it.
func TestAdviceNamesAProductThatHasShownItself(t *testing.T) {
	var memory productMemory
	banned := func() error { return failure.Errorf(failure.Throttled, "banned").WithHint(exchange.LimitHint("")) }
	if hint := failure.HintOf(memory.advise(&Batch{}, banned())); strings.Contains(hint, "InspIRCd") {
		t.Errorf("a product that nothing has shown: %s", hint)
	}
	seen := &Batch{}
	seen.Product = exchange.InspIRCd
	if err := memory.advise(seen, nil); err != nil {
		t.Error(err)
	}
	if hint := failure.HintOf(memory.advise(&Batch{}, banned())); !strings.Contains(hint, "useconnectban") {
		t.Errorf("the advice is not for InspIRCd: %s", hint)
	}
	if down := memory.advise(&Batch{}, failure.Errorf(failure.Refused, "refused")); strings.Contains(failure.HintOf(down), "InspIRCd") {
		t.Errorf("another failure has the advice: %s", failure.HintOf(down))
	}
}
