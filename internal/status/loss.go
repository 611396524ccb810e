package status

import "slices"

// kindLosses and roleLosses are what users lose first, most first: logins and messages, then what stands beside them.
var (
	kindLosses = []string{"xmpp_c2s", "xmpp_status", "irc_tls", "irc_rpc", "irc_services", "xmpp_proxy", "identity", "web_irc", "plant_store"}
	roleLosses = []string{"xmpp", "irc", "irc_services", "bridge", "xmpp_proxy", "identity", "web_irc", "plant_store"}
)

// loss is how early something that is wrong is told of beside others as bad; what is well stays in the order of names.
func loss(losses []string, what string, level Level) int {
	if level <= Unknown {
		return 0
	}
	if i := slices.Index(losses, what); i >= 0 {
		return i
	}
	return len(losses)
}

func (s *Service) loss() int { return loss(kindLosses, s.Kind, s.Level) }

func (c *Container) loss() int { return loss(roleLosses, c.Role, c.Level) }
