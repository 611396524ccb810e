package config

import (
	"net"
	"regexp"
	"strconv"
	"strings"
)

// What an exporter is among several that ask the same targets.
const (
	// PairFirst does what only one of them may do.
	PairFirst = "first"
	// PairOther leaves that to the first.
	PairOther = "other"
)

// Peers are exporters with the same labels, as Prometheus' HTTP service discovery has them: one entry of its list.
type Peers struct {
	// Targets are addresses, host:port.
	Targets []string `yaml:"targets"`
	// Labels are put to what Prometheus says of these targets.
	Labels map[string]string `yaml:"labels"`
}

// peerLabel is a label's name. Those that begin with __ are read by Prometheus, such as __scheme__.
var peerLabel = regexp.MustCompile(`^[a-zA-Z_]\w*$`)

func (l *loader) checkHosts(r *Report) {
	if p := l.cfg.Pair; p != "" && p != PairFirst && p != PairOther {
		r.Faultf("pair", "is %q, must be %s or %s, or empty for an exporter that is alone", p, PairFirst, PairOther)
	}
	for i, peers := range l.cfg.Peers {
		key := "peers[" + strconv.Itoa(i) + "]"
		if len(peers.Targets) == 0 {
			r.Faultf(key, "names no targets; write targets: [host:9655]")
		}
		for n, address := range peers.Targets {
			if !isAddress(address) {
				// It is not repeated: it may be a URL with a password in it.
				r.Faultf(key+".targets["+strconv.Itoa(n)+"]", "must be host:port without a scheme, such as docker-a.example.org:9655")
			}
		}
		for name := range peers.Labels {
			if !peerLabel.MatchString(name) || name == "__address__" {
				r.Faultf(key+".labels."+name, "is no name of a label that can be set; use letters, digits and _")
			}
		}
	}
}

func isAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.ContainsAny(host, "/@?# ") {
		return false
	}
	return isPort(port)
}
