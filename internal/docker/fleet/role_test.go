package fleet

import (
	"slices"
	"strings"
	"testing"
)

func TestRoleIsInferredOnlyWhereItIsSure(t *testing.T) {
	for _, tt := range []struct {
		service, image, name string
		want                 string
	}{
		{"xmpp", "", "", "xmpp"},
		{"atl-xmpp-server", "", "", "xmpp"},
		{"", "prosody/prosody:13.0", "", "xmpp"},
		{"", "registry:5000/chat/prosody@sha256:0123", "", "xmpp"},
		{"", "ghcr.io/processone/ejabberd", "", "xmpp"},
		{"", "", "chat-xmpp-1", "xmpp"},
		{"", "", "chat_prosody_1", "xmpp"},
		{"xmpp-nginx", "nginx:1.22", "", "xmpp_proxy"},
		{"atl-xmpp-nginx", "atl-xmpp-nginx", "", "xmpp_proxy"},
		{"xmpp", "nginx:1.22", "", "xmpp_proxy"},
		{"nginx-xmpp", "", "", "xmpp_proxy"},
		{"xmpp-proxy", "", "", "xmpp_proxy"},
		{"irc", "", "", "irc"},
		{"irc-server", "", "", "irc"},
		{"", "unrealircd:6.1", "", "irc"},
		{"IRC_Server", "", "", "irc"},
		{"irc-services", "", "", "irc_services"},
		{"", "atheme/atheme", "", "irc_services"},
		{"chat-atheme", "", "", "irc_services"},
		{"bridge", "", "", "bridge"},
		{"discord-irc-bridge", "", "", "bridge"},
		{"", "42wim/matterbridge:stable", "", "bridge"},
		{"web-irc", "", "", "web_irc"},
		{"", "ghcr.io/thelounge/thelounge", "", "web_irc"},
		{"irc-webpanel", "", "", "web_panel"},
		{"", "unrealircd/unrealircd-webpanel", "", "web_panel"},
		{"docs", "nginx", "", "docs"},
		{"plant-store", "", "", "plant_store"},
		{"identity", "", "", "identity"},
		{"dozzle", "", "", "log_viewer"},
		// The service outweighs the image, the image the name.
		{"irc", "atheme", "chat-xmpp-1", "irc"},
		{"", "atheme", "chat-xmpp-1", "irc_services"},
		// None of these is what its name contains.
		{"nginx", "nginx", "chat-nginx-1", ""},
		{"xmpp-db", "postgres:16", "chat-xmpp-db-1", ""},
		{"xmpp", "postgres:16", "", ""},
		{"irc", "nginx", "", ""},
		{"prosody-exporter", "", "", ""},
		{"irc-bot", "", "", ""},
		{"irc-stats", "", "", ""},
		{"test-irc", "", "", ""},
		{"discord-xmpp", "", "", ""},
		{"bridge-db", "", "", ""},
		{"bridge-irc", "", "", ""},
		{"circ", "", "", ""},
		{"ircle", "", "", ""},
		{"", "certbot/certbot", "xmpp-certbot", ""},
		{"server", "", "1", ""},
		{"", "", "", ""},
	} {
		if got := inferRole(tt.service, tt.image, tt.name); got != tt.want {
			t.Errorf("service %q, image %q, name %q: got %q, want %q", tt.service, tt.image, tt.name, got, tt.want)
		}
	}
}

func TestRolePhrasesAreWrittenAsNamesAreRead(t *testing.T) {
	for phrase, role := range RolePhrases {
		if got := strings.Join(nameWords(phrase), " "); got != phrase {
			t.Errorf("phrase %q can never match: names are read as %q", phrase, got)
		}
		if n := len(nameWords(phrase)); n > longestPhrase {
			t.Errorf("phrase %q has %d words, longestPhrase is %d", phrase, n, longestPhrase)
		}
		if !ValidRole.MatchString(role) {
			t.Errorf("role %q of %q is none", role, phrase)
		}
	}
}

func TestDigitsArePartsOfWords(t *testing.T) {
	if got, want := nameWords("irc10_2a/9.b0"), []string{"irc10", "2a", "9", "b0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
