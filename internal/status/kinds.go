package status

// kindNames are the human names of the kinds of targets.
var kindNames = map[string]string{
	"xmpp_status": "XMPP server", "xmpp_metrics": "XMPP server metrics", "xmpp_proxy": "XMPP over HTTPS",
	"xmpp_rest": "XMPP server REST API", "xmpp_c2s": "XMPP server login port", "irc_rpc": "IRC server", "irc_tls": "IRC server TLS port",
	"irc_login": "IRC login", "xmpp_login": "XMPP login", "relay": "bridge between IRC and XMPP",
	"irc_services": "IRC services", "plant_store": "plant store", "identity": "identity API", "docs_search": "documentation search",
	"web_irc": "web IRC client", "web_panel": "web panel", "log_viewer": "log viewer", "http": "HTTP service", "tcp": "TCP service",
	"openmetrics": "metrics endpoint", "volume": "data volume", "tls": "TLS certificate", "docker": "Docker Engine",
}

// KindName returns the human name of a kind of target, "" for an unknown kind.
func KindName(kind string) string { return kindNames[kind] }

// HasDefaultName reports whether the target has its kind's default name, so that KindName is its human name.
func (s *Service) HasDefaultName() bool { return s.Name == s.Kind && KindName(s.Kind) != "" }

// fullName is the human name with the target's own name, if they differ.
func (s *Service) fullName() string {
	if s.HasDefaultName() {
		return KindName(s.Kind) + " (" + s.Name + ")"
	}
	return s.Name
}
