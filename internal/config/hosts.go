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
	// User and Password are what the exporter asks these peers with, if it asks them: HTTP Basic; none if User is empty.
	User     string `yaml:"user"`
	Password Secret `yaml:"password"`
	// CAFile is a PEM file of authorities for that; they replace the system's.
	CAFile string `yaml:"ca_file" path:"file"`
}

// URLs are the addresses of the peers as the exporter asks them.
func (p *Peers) URLs() (list []string) {
	scheme := "http"
	if p.Labels["__scheme__"] == "https" {
		scheme = "https"
	}
	for _, address := range p.Targets {
		list = append(list, scheme+"://"+address)
	}
	return list
}

// peerLabel matches label names. Names that begin with __, such as __scheme__, configure the scrape.
var peerLabel = regexp.MustCompile(`^[a-zA-Z_]\w*$`)

func (l *loader) checkHosts(r *Report) {
	if p := l.cfg.Pair; p != "" && p != PairFirst && p != PairOther {
		r.Faultf("pair", "is %q, must be %s or %s, or empty for a single exporter", p, PairFirst, PairOther)
	}
	for i := range l.cfg.Peers {
		peers := &l.cfg.Peers[i]
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
		switch password := r.secretKey("password"); {
		case r.HasFault("user", password):
		case (peers.User == "") != peers.Password.IsZero():
			r.Faultf(password, "belongs to user; set both, or neither")
		default:
			r.checkSendable(password, peers.Password)
		}
		if _, err := (&TLS{CAFile: peers.CAFile}).Roots(); err != nil && !r.runs() {
			r.Faultf("ca_file", "%v", err)
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
