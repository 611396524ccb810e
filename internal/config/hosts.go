package config

import (
	"cmp"
	"fmt"
	"net"
	"regexp"
	"strings"
)

// The roles of an exporter in a pair.
const (
	// PairFirst does what only one exporter of a pair may do.
	PairFirst = "first"
	// PairOther leaves that to the first.
	PairOther = "other"
)

// Peers are exporters with the same labels: one entry of Prometheus' HTTP service discovery.
type Peers struct {
	// Targets are addresses, host:port.
	Targets []string `yaml:"targets"`
	// Labels are the labels that Prometheus adds to these targets.
	Labels map[string]string `yaml:"labels"`
}

// peerLabel matches label names. Names that begin with __, such as __scheme__, configure the scrape.
var peerLabel = regexp.MustCompile(`^[a-zA-Z_]\w*$`)

func (l *loader) checkHosts(r *Report) {
	if p := l.cfg.Pair; p != "" && p != PairFirst && p != PairOther {
		r.Faultf("pair", "is %q, must be %s or %s, or empty for a single exporter", p, PairFirst, PairOther)
	}
	for i, peers := range l.cfg.Peers {
		r := r.In(fmt.Sprintf("peers[%d]", i))
		if len(peers.Targets) == 0 {
			r.Faultf("", "has no targets; write targets: [host:9655]")
		}
		for n, address := range peers.Targets {
			key := fmt.Sprintf("targets[%d]", n)
			if fault := cmp.Or(spaceAround(address), BareIPv6(address)); fault != "" {
				r.Faultf(key, "%s", fault)
			} else if !isAddress(address) {
				// The value is not shown: it may be a URL with a password.
				r.Faultf(key, "must be host:port without a scheme, such as docker-a.example.org:9655")
			}
		}
		for name := range peers.Labels {
			if !peerLabel.MatchString(name) || name == "__address__" {
				r.Faultf("labels."+name, "is not a label name that can be set; use letters, digits and _")
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
