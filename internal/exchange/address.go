package exchange

import (
	"cmp"
	"net"
	"strconv"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// WithPort adds the usual port to an address without one. An IPv6 address needs its brackets, else its end may be a port.
func WithPort(address, port string) string {
	if _, _, err := net.SplitHostPort(address); err == nil || address == "" || config.BareIPv6(address) != "" {
		return address
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), port)
}

// CheckAddress reports a fault unless address is host:port. With a usual port, a host alone is valid, too.
func CheckAddress(r *config.Report, address, usualPort string) {
	if fault := config.BareIPv6(address); fault != "" {
		r.Faultf("address", "%s", fault)
		return
	}
	if _, rest, found := strings.Cut(address, "://"); found {
		rest = rest[strings.LastIndex(rest, "@")+1:] // what is before may be a password
		if end := strings.IndexAny(rest, "/?#"); end >= 0 {
			rest = rest[:end]
		}
		r.Faultf("address", "is %q, must be host:port without a scheme; write %s",
			address, cmp.Or(WithPort(rest, cmp.Or(usualPort, "PORT")), "host:port"))
		return
	}
	if usualPort != "" {
		address = WithPort(address, usualPort)
	}
	host, port, err := net.SplitHostPort(address)
	n, numberErr := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || strings.ContainsAny(host, "/@ ") || numberErr != nil || n == 0 {
		r.Faultf("address", "is %q, must be host:port such as irc.example.org:6697", address)
	}
}

// CheckDomain reports a fault if domain cannot be a virtual host.
func CheckDomain(r *config.Report, domain string) {
	if strings.ContainsAny(domain, "/@:<>&'\" \t\r\n") {
		r.Faultf("domain", "is %q, must be a virtual host such as chat.example.org", domain)
	}
}
