package status

import "slices"

// kindLosses and roleLosses order kinds and roles by what users lose, most first: logins and messages, then the rest.
var (
	kindLosses = []string{"xmpp_c2s", "relay", "xmpp_status", "irc_tls", "irc_rpc", "irc_services", "xmpp_proxy", "identity", "web_irc", "plant_store"}
	roleLosses = []string{"xmpp", "irc", "irc_services", "bridge", "xmpp_proxy", "identity", "web_irc", "plant_store"}
)

// lossRank orders what is equally bad by what users lose. What is well keeps the order of names.
func lossRank(losses []string, what string, level Level) int {
	if level <= Unknown {
		return 0
	}
	if i := slices.Index(losses, what); i >= 0 {
		return i
	}
	return len(losses)
}

func (s *Service) lossRank() int { return lossRank(kindLosses, s.Kind, s.Level) }

func (c *Container) lossRank() int { return lossRank(roleLosses, c.Role, c.Level) }
