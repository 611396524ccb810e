package fleet

import (
	"regexp"
	"slices"
	"strings"
)

// ValidRole matches the name of a role. The alert rules use the roles in RolePhrases.
var ValidRole = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// RolePhrases map the last words of a name to a role: "atl-irc-server-1" ends in irc, because server and the number are
// ignored, "irc-services" in irc services. The longest match applies.
var RolePhrases = map[string]string{
	"ejabberd":             "xmpp",
	"jabber":               "xmpp",
	"prosody":              "xmpp",
	"xmpp":                 "xmpp",
	"xmppserver":           "xmpp",
	"caddy prosody":        "xmpp_proxy",
	"caddy xmpp":           "xmpp_proxy",
	"nginx prosody":        "xmpp_proxy",
	"nginx xmpp":           "xmpp_proxy",
	"prosody caddy":        "xmpp_proxy",
	"prosody haproxy":      "xmpp_proxy",
	"prosody nginx":        "xmpp_proxy",
	"prosody proxy":        "xmpp_proxy",
	"xmpp caddy":           "xmpp_proxy",
	"xmpp haproxy":         "xmpp_proxy",
	"xmpp https proxy":     "xmpp_proxy",
	"xmpp nginx":           "xmpp_proxy",
	"xmpp proxy":           "xmpp_proxy",
	"inspircd":             "irc",
	"irc":                  "irc",
	"ircd":                 "irc",
	"ircserver":            "irc",
	"ngircd":               "irc",
	"unrealircd":           "irc",
	"anope":                "irc_services",
	"anope services":       "irc_services",
	"atheme":               "irc_services",
	"atheme services":      "irc_services",
	"irc services":         "irc_services",
	"ircservices":          "irc_services",
	"bridge":               "bridge",
	"chat bridge":          "bridge",
	"discord bridge":       "bridge",
	"discord irc bridge":   "bridge",
	"irc bridge":           "bridge",
	"matterbridge":         "bridge",
	"xmpp bridge":          "bridge",
	"gamja":                "web_irc",
	"irc web":              "web_irc",
	"irc web client":       "web_irc",
	"irc webclient":        "web_irc",
	"kiwi irc":             "web_irc",
	"kiwiirc":              "web_irc",
	"the lounge":           "web_irc",
	"thelounge":            "web_irc",
	"web irc":              "web_irc",
	"webirc":               "web_irc",
	"irc panel":            "web_panel",
	"irc web panel":        "web_panel",
	"irc webpanel":         "web_panel",
	"unrealircd webpanel":  "web_panel",
	"web panel":            "web_panel",
	"webpanel":             "web_panel",
	"docs":                 "docs",
	"docs search":          "docs",
	"docs site":            "docs",
	"documentation":        "docs",
	"plant store":          "plant_store",
	"plantstore":           "plant_store",
	"identity":             "identity",
	"identity api":         "identity",
	"identity app":         "identity",
	"identity application": "identity",
	"dozzle":               "log_viewer",
	"log viewer":           "log_viewer",
	"logviewer":            "log_viewer",
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
		if role, ok := RolePhrases[phrase]; ok {
			if containsAny(before, roleChangingWords) {
				return ""
			}
			return role
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
