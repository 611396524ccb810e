package status

// kindNames are the human names of the kinds of targets.
var kindNames = map[string]string{
	"xmpp_status": "XMPP server", "xmpp_metrics": "XMPP server metrics", "xmpp_proxy": "XMPP over HTTPS",
	"xmpp_rest": "XMPP server REST API", "xmpp_c2s": "XMPP server login port", "irc_rpc": "IRC server", "irc_tls": "IRC server TLS port",
	"irc_login": "IRC login", "xmpp_login": "XMPP login", "relay": "bridge between IRC and XMPP",
	"irc_services": "IRC services", "plant_store": "plant store", "identity": "identity API", "docs_search": "documentation search",
	"web_irc": "web IRC client", "web_panel": "web panel", "log_viewer": "log viewer", "http": "HTTP service", "tcp": "TCP service",
	"openmetrics": "metrics endpoint", "volume": "data volume", "backup": "backup", "tls": "TLS certificate", "docker": "Docker Engine",
}

// roleNames are the human names of the roles of containers.
var roleNames = map[string]string{
	"xmpp": "XMPP server", "xmpp_proxy": "XMPP over HTTPS", "irc": "IRC server", "irc_services": "IRC services", "bridge": "bridge",
	"identity": "identity API", "plant_store": "plant store", "web_irc": "web IRC client", "web_panel": "web panel",
	"log_viewer": "log viewer", "docs": "documentation",
}

// RoleName returns the human name of a container's role, "" for an unknown role.
func RoleName(role string) string { return roleNames[role] }

// KindName returns the human name of a kind of target, "" for an unknown kind.
func KindName(kind string) string { return kindNames[kind] }

// HasDefaultName reports whether the target has its kind's default name, so that KindName is its human name.
func (s *Service) HasDefaultName() bool { return s.Name == s.Kind && KindName(s.Kind) != "" }
