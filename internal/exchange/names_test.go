package exchange

import (
	"net/url"
	"testing"
)

func TestHostHasOneSpelling(t *testing.T) {
	for want, spellings := range map[string][]string{
		"chat.example.org": {"chat.example.org", "Chat.Example.ORG", "chat.example.org."},
		"xn--mller-kva.example": {
			"müller.example", "MÜLLER.example", "mu\u0308ller.example", "xn--mller-kva.example", "XN--Mller-KVA.example", "müller。example",
		},
		"chat_irc_1":            {"chat_irc_1", "Chat_IRC_1"}, // a container's name, no host name by the rules
		"xn--strae-oqa.example": {"straße.example"},
		"2001:db8::1":           {"2001:db8::1", "2001:DB8:0:0::1"},
		"192.0.2.1":             {"192.0.2.1"},
		"a\u00fc_b":             {"a\u00fc_b", "A\u00dc_B"}, // no name, but it compares
		"":                      {"", "."},
	} {
		for _, s := range spellings {
			if got := CanonicalHost(s); got != want {
				t.Errorf("%q: got %q, want %q", s, got, want)
			}
		}
	}
	if CanonicalHost("a.test") == CanonicalHost("b.test") || CanonicalHost("muller.test") == CanonicalHost("müller.test") {
		t.Error("two names have one spelling")
	}
}

func TestServerOfAURLHasItsPort(t *testing.T) {
	for raw, want := range map[string]string{
		"http://Chat.test":       "chat.test:80",
		"https://chat.test./x?y": "chat.test:443",
		"https://chat.test:8443": "chat.test:8443",
		"https://[2001:DB8::1]/": "[2001:db8::1]:443",
		"http://müller.test:80/": "xn--mller-kva.test:80",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := CanonicalServer(u); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
	for address, want := range map[string]string{
		"MÜLLER.test:5223": "xn--mller-kva.test:5223", "[::1]:1": "[::1]:1", "Chat.test": "chat.test",
	} {
		if got := CanonicalAddress(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}
