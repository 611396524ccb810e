package config

import (
	"strings"
	"time"
)

// The methods of a heartbeat.
const (
	HeartbeatGet  = "get"
	HeartbeatPost = "post"
)

// leastHeartbeat is the least time between two heartbeats.
const leastHeartbeat = Duration(10 * time.Second)

// Heartbeat is a request to a service outside that raises the alarm when the requests stop.
type Heartbeat struct {
	// URL is where to send it, http or https; unset for no heartbeat. It contains the token.
	URL Secret `yaml:"url"`
	// Every is the time between two of them: 1 min by default, at least 10 s.
	Every Duration `yaml:"every"`
	// Method is HeartbeatGet by default, or HeartbeatPost.
	Method string `yaml:"method"`
}

// checkHeartbeat checks the heartbeat, and warns if it would fail with what it watches.
func (l *loader) checkHeartbeat(r *Report) {
	h := &l.cfg.Heartbeat
	if h.Method = strings.ToLower(h.Method); h.Method != HeartbeatGet && h.Method != HeartbeatPost {
		r.Faultf("method", "is %q, must be %s or %s", h.Method, HeartbeatGet, HeartbeatPost)
	}
	if !r.HasFault("every") {
		r.AtLeast("every", h.Every, leastHeartbeat, "")
	}
	if h.URL.IsZero() {
		written := func(key string) bool { return l.origins[join(r.path, key)] != "" }
		if (written("every") || written("method")) && !written("url") && !written("url_file") {
			r.Faultf("url", "is not set, so no heartbeat is sent; set url or url_file, or remove heartbeat")
		}
		return
	}
	u, ok := r.checkSecretURL("url", h.URL)
	if !ok {
		return
	}
	key := r.secretKey("url")
	if u.Scheme == "http" && !isThisMachine(u.Hostname()) {
		r.warnf(key, "begins with http://, so anybody on the way can read its token; write https://")
	}
	l.warnAboutOwnHost(r, key, u.Hostname(), "send it to a service that runs elsewhere")
}
