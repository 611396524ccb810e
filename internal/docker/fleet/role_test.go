package fleet

import (
	"slices"
	"strings"
	"testing"
)

func TestRoleIsInferredOnlyWhereItIsSure(t *testing.T) {
	for want, containers := range map[string][]string{ // service|image|name
		"xmpp": {
			"xmpp", "atl-xmpp-server", "|prosody/prosody:13.0", "|registry:5000/chat/prosody@sha256:0123", "|ghcr.io/processone/ejabberd",
			"||chat-xmpp-1", "||chat_prosody_1",
		},
		"xmpp_proxy": {"xmpp-nginx|nginx:1.22", "atl-xmpp-nginx|atl-xmpp-nginx", "xmpp|nginx:1.22", "nginx-xmpp", "xmpp-proxy"},
		// The service outweighs the image, the image the name.
		"irc":          {"irc", "irc-server", "|unrealircd:6.1", "IRC_Server", "irc|atheme|chat-xmpp-1"},
		"irc_services": {"irc-services", "|atheme/atheme", "chat-atheme", "|atheme|chat-xmpp-1"},
		"bridge":       {"bridge", "discord-irc-bridge", "|42wim/matterbridge:stable"},
		"web_irc":      {"web-irc", "|ghcr.io/thelounge/thelounge"},
		"web_panel":    {"irc-webpanel", "|unrealircd/unrealircd-webpanel"},
		"docs":         {"docs|nginx"},
		"plant_store":  {"plant-store"},
		"identity":     {"identity"},
		"log_viewer":   {"dozzle"},
		// None of these is what its name contains.
		"": {
			"nginx|nginx|chat-nginx-1", "xmpp-db|postgres:16|chat-xmpp-db-1", "xmpp|postgres:16", "irc|nginx", "prosody-exporter",
			"irc-bot", "irc-stats", "test-irc", "discord-xmpp", "bridge-db", "bridge-irc", "circ", "ircle", "|certbot/certbot|xmpp-certbot",
			"server||1", "",
		},
	} {
		for _, c := range containers {
			of := strings.Split(c+"||", "|")
			if got := inferRole(of[0], of[1], of[2]); got != want {
				t.Errorf("%s: got %q, want %q", c, got, want)
			}
		}
	}
}

func TestRolePhrasesAreWrittenAsNamesAreRead(t *testing.T) {
	roles := map[string]string{}
	for role, phrases := range RolePhrases {
		for _, phrase := range phrases {
			words := nameWords(phrase)
			if strings.Join(words, " ") != phrase || len(words) > longestPhrase {
				t.Errorf("phrase %q can never match: names are read as up to %d words, as %q", phrase, longestPhrase, words)
			}
			if roles[phrase] != "" || !ValidRole.MatchString(role) {
				t.Errorf("role %q of %q is none, or not the only one", role, phrase)
			}
			roles[phrase] = role
		}
	}
	if got, want := nameWords("irc10_2a/9.b0"), []string{"irc10", "2a", "9", "b0"}; !slices.Equal(got, want) {
		t.Errorf("words with digits: got %q, want %q", got, want)
	}
}
