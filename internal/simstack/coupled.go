package simstack

import "slices"

// homes are the containers that a service needs, its own first.
var homes = map[string][]string{
	"xmpp":         {"xmpp"},
	"xmpp_c2s":     {"xmpp"},
	"xmpp_s2s":     {"xmpp"},
	"proxy":        {"xmpp-proxy"},
	"irc_rpc":      {"irc"},
	"irc_tls":      {"irc"},
	"irc_services": {"irc-services", "irc"}, // it shares irc's network
	"plant_store":  {"plant-store"},
	"identity":     {"identity"},
	"docs_search":  {"docs"},
	"web_irc":      {"web-irc"},
	"web_panel":    {"web-panel"},
	"log_viewer":   {"log-viewer"},
}

// switchCoupled switches a fault and its consequences: a service stops with its container, and vice versa.
func (k *Stack) switchCoupled(s *service, fault string, on bool) error {
	k.coupling.Lock()
	defer k.coupling.Unlock()
	if s.ended() {
		return errClosed
	}
	containers := homes[s.name]
	switch {
	case fault != "stopped" || containers == nil:
		if err := s.turn(fault, on); err != nil {
			return err
		}
	case on:
		if c := k.engine.Container(containers[0]); c != nil {
			c.Stop()
		}
	default:
		for _, c := range containers {
			if err := k.engine.startHome(c); err != nil {
				return err
			}
		}
	}
	return k.followContainers()
}

// followContainers switches the faults that follow from the containers' states when their cause begins or ends, so that a
// fault switched by hand stays as it is.
func (k *Stack) followContainers() error {
	follows := map[Fault]bool{{Service: "irc_rpc", Name: "services_unlinked"}: k.engine.ended("irc-services")}
	for service, containers := range homes {
		follows[Fault{Service: service, Name: "stopped"}] = slices.ContainsFunc(containers, k.engine.ended)
		follows[Fault{Service: service, Name: "hang"}] = k.engine.stateOf(containers[0]) == "paused"
	}
	for f, on := range follows {
		if k.followed[f] == on {
			continue
		}
		k.followed[f] = on
		if err := k.service(f.Service).turn(f.Name, on); err != nil {
			return err
		}
	}
	return nil
}

// stateOf returns the state of the named container, "" if there is none.
func (e *Engine) stateOf(name string) string {
	if c := e.Container(name); c != nil {
		return c.now().state
	}
	return ""
}

// ended reports whether nothing runs in a container, except between two crashes.
func (e *Engine) ended(name string) bool {
	state := e.stateOf(name)
	return name == crashing && e.service.on("crash_loop") || state != "running" && state != "paused"
}

// startHome ends the faults of a container and starts it unless it runs.
func (e *Engine) startHome(name string) error {
	for _, f := range containerFaults {
		if f.container == name {
			if err := e.service.turn(f.name, false); err != nil {
				return err
			}
		}
	}
	if c := e.Container(name); c != nil {
		c.do((*Engine).startWell)
	}
	return nil
}
