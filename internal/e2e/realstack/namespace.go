//go:build realservers

package realstack

import (
	"strings"
	"testing"
)

// Namespace is a network of its own for one script: the addresses of 192.0.2.0/24 and 2001:db8::/64 are local (a server can bind
// 2001:db8::1), a dnsmasq is the only name server, and what the script starts ends with it.
type Namespace struct {
	*Process
	zone []string
}

// NewNamespace returns a namespace whose dnsmasq has these options, which say what it knows. It needs root and the Debian packages
// dnsmasq-base, iproute2 and iptables.
func NewNamespace(tb testing.TB, zone ...string) *Namespace {
	tb.Helper()
	for program, debian := range map[string]string{"dnsmasq": "dnsmasq-base", "ip": "iproute2", "iptables": "iptables"} {
		binary(tb, program, debian)
	}
	return &Namespace{newProcess(tb, "namespace", false), zone}
}

// prelude makes the network and starts the name server.
const prelude = `
ip link set lo up
ip addr add 192.0.2.0/24 dev lo
ip -6 addr add 2001:db8::1/64 dev lo nodad
ip -6 route add local 2001:db8::/64 dev lo
# A packet to these addresses is lost.
iptables -A INPUT -d 192.0.2.66 -j DROP
ip6tables -A INPUT -d 2001:db8::66 -j DROP
mount --bind resolv.conf /etc/resolv.conf
dnsmasq --keep-in-foreground --conf-file=dnsmasq.conf &
until [ -n "$(ss -Hlun sport = 53)" ]; do kill -0 $!; sleep 0.05; done
`

// Run runs a script of bash in the namespace, in a directory of its own, and returns what it prints. A script that fails fails the test.
func (n *Namespace) Run(script string) string {
	n.tb.Helper()
	options := append([]string{"no-resolv", "no-hosts", "bind-interfaces", "listen-address=127.0.0.1", "user=root", "pid-file="}, n.zone...)
	n.write("dnsmasq.conf", []byte(strings.Join(options, "\n")+"\n"))
	n.write("resolv.conf", []byte("nameserver 127.0.0.1\n"))
	cmd := n.command("timeout", "--signal=KILL", "60", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"bash", "-euc", prelude+script)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		n.tb.Fatalf("%v\n%s%s", err, out, errors.String())
	}
	return string(out)
}

// Check runs the check of an exporter's binary in the namespace, after a script, and returns its results.
func (n *Namespace) Check(exporter, script, config string) string {
	n.tb.Helper()
	n.write("exporter.yaml", []byte(config))
	return n.Run(script + "\n" + exporter + " check --config.file=exporter.yaml || [ $? = 1 ]\n")
}
