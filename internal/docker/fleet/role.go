package fleet

import (
	"regexp"
	"slices"
	"strings"
)

// ValidRole matches the name of a role. The alert rules use the roles in RolePhrases.
var ValidRole = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// RolePhrases are the last words of names that mean a role: "atl-irc-server-1" ends in irc, because server and the number are
// ignored, "irc-services" in irc services. The longest match applies.
var RolePhrases = map[string][]string{
	"xmpp": {"ejabberd", "jabber", "prosody", "xmpp", "xmppserver"},
	"xmpp_proxy": {
		"caddy prosody", "caddy xmpp", "nginx prosody", "nginx xmpp", "prosody caddy", "prosody haproxy", "prosody nginx",
		"prosody proxy", "xmpp caddy", "xmpp haproxy", "xmpp https proxy", "xmpp nginx", "xmpp proxy",
	},
	"irc":          {"inspircd", "irc", "ircd", "ircserver", "ngircd", "unrealircd"},
	"irc_services": {"anope", "anope services", "atheme", "atheme services", "irc services", "ircservices"},
	"bridge":       {"bridge", "chat bridge", "discord bridge", "discord irc bridge", "irc bridge", "matterbridge", "xmpp bridge"},
	"web_irc": {
		"gamja", "irc web", "irc web client", "irc webclient", "kiwi irc", "kiwiirc", "the lounge", "thelounge", "web irc", "webirc",
	},
	"web_panel":   {"irc panel", "irc web panel", "irc webpanel", "unrealircd webpanel", "web panel", "webpanel"},
	"docs":        {"docs", "docs search", "docs site", "documentation"},
	"plant_store": {"plant store", "plantstore"},
	"identity":    {"identity", "identity api", "identity app", "identity application"},
	"log_viewer":  {"dozzle", "log viewer", "logviewer"},
}

// longestPhrase is the number of words in the longest of RolePhrases.
const longestPhrase = 3

// ignoredSuffixes are ignored at the end of a name.
var ignoredSuffixes = []string{"server", "daemon", "main", "prod", "production", "staging", "dev"}

// roleChangingWords before a phrase mean that the role does not apply: a proxy, test or database of an XMPP server is not an
// XMPP server.
var roleChangingWords = []string{
	"bot", "bridge", "caddy", "db", "discord", "exporter", "fake", "gateway", "haproxy", "init", "matrix", "mock",
	"nginx", "no", "proxy", "sim", "telegram", "test", "traefik", "web",
}

// proxyImages and storeImages are the last path elements of images whose container may have another role than its name suggests.
var (
	proxyImages = []string{"caddy", "envoy", "haproxy", "nginx", "traefik"}
	storeImages = []string{"mariadb", "memcached", "mongo", "mysql", "postgres", "postgresql", "redis", "valkey"}
)

// proxiedRoles map the role in a proxy's name to the proxy's own role: it forwards to a server of that role, or serves that
// role's files itself. Other roles do not apply to a proxy.
var proxiedRoles = map[string]string{
	"xmpp": "xmpp_proxy", "xmpp_proxy": "xmpp_proxy", "docs": "docs", "web_irc": "web_irc", "web_panel": "web_panel",
}

// IsProxy reports whether an image is that of a proxy.
func IsProxy(image string) bool { return containsAny(nameWords(imageName(image)), proxyImages) }

// RoleOf returns the role that a container has without a configuration, or "".
func RoleOf(labels map[string]string, image, name string) string {
	return roleOfContainer(labels[roleLabel], labels[ComposeService], image, name)
}

func roleOfContainer(label, service, image, name string) string {
	if ValidRole.MatchString(label) {
		return label
	}
	return inferRole(service, image, name)
}

// inferRole guesses a container's role from its compose service, else its image, else its name. It returns "" in doubt, since a
// wrong role is worse than none.
func inferRole(service, image, name string) string {
	repository := imageName(image)
	base := nameWords(repository)
	if containsAny(base, storeImages) {
		return ""
	}
	for _, s := range []string{service, repository, name} {
		role := roleOf(nameWords(s))
		if role == "" {
			continue
		}
		if containsAny(base, proxyImages) {
			return proxiedRoles[role]
		}
		return role
	}
	return ""
}

func roleOf(w []string) string {
	for len(w) > 0 && (isNumber(w[len(w)-1]) || slices.Contains(ignoredSuffixes, w[len(w)-1])) {
		w = w[:len(w)-1]
	}
	for n := min(longestPhrase, len(w)); n > 0; n-- {
		before, phrase := w[:len(w)-n], strings.Join(w[len(w)-n:], " ")
		for role, phrases := range RolePhrases {
			switch {
			case !slices.Contains(phrases, phrase):
			case containsAny(before, roleChangingWords):
				return ""
			default:
				return role
			}
		}
	}
	return ""
}

// nameWords splits a name at everything that is neither letter nor digit.
func nameWords(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

func isNumber(word string) bool { return strings.Trim(word, "0123456789") == "" }

func containsAny(w, set []string) bool {
	return slices.ContainsFunc(w, func(word string) bool { return slices.Contains(set, word) })
}

// imageName returns the last path element of an image reference, without tag and digest.
func imageName(reference string) string {
	reference, _, _ = strings.Cut(reference, "@")
	reference = reference[strings.LastIndexByte(reference, '/')+1:]
	reference, _, _ = strings.Cut(reference, ":")
	return reference
}
