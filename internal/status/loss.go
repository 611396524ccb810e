package status

import (
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// losses are what users lose while a target of that kind is down, most first; "" if only operators notice.
var losses = []struct{ kind, text string }{
	{"xmpp_c2s", "Nobody can log in to the XMPP server."},
	{"relay", "Messages do not cross between IRC and XMPP."},
	{"xmpp_login", ""},
	{"xmpp_status", ""},
	{"irc_tls", "IRC clients cannot connect over TLS."},
	{"irc_login", ""},
	{"irc_rpc", ""},
	{"irc_services", "Nobody can log in to an account on IRC."},
	{"xmpp_proxy", "Web clients cannot reach the XMPP server."},
	{"identity", "The bridge cannot look up who somebody is."},
	{"web_irc", "The web IRC client does not open."},
	{"plant_store", "The plant store does not answer."},
}

// roleLosses order containers by what users lose, most first.
var roleLosses = []string{"xmpp", "irc", "irc_services", "bridge", "xmpp_proxy", "identity", "web_irc", "plant_store"}

// rank returns the index in a list, which counts only for what is not well; that keeps the order of names.
func rank(index, length int, level Level) int {
	switch {
	case level <= Unknown:
		return 0
	case index < 0:
		return length
	}
	return index
}

func lossOf(kind string) int {
	return slices.IndexFunc(losses, func(l struct{ kind, text string }) bool { return l.kind == kind })
}

func (s *Service) lossRank() int { return rank(lossOf(s.Kind), len(losses), s.Level) }

func (c *Container) lossRank() int {
	return rank(slices.Index(roleLosses, c.Role), len(roleLosses), c.Level)
}

// loss says what users lose first.
func loss(members []member) string {
	least := len(losses)
	for i := range members {
		m := &members[i]
		if m.service == nil || !m.isDown() ||
			m.service.Kind == "relay" && (m.problem == nil || m.problem.Alert != health.AlertBridgeNotRelaying) {
			continue
		}
		if k := lossOf(m.service.Kind); k >= 0 && losses[k].text != "" {
			least = min(least, k)
		}
	}
	if least == len(losses) {
		return ""
	}
	return losses[least].text
}
