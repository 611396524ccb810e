package exchange

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

// ASCIIHost returns a host name with A-labels, such as xn--mller-kva.example, if it is not ASCII (RFC 5891). DNS, TLS and HTTP know only
// these; XMPP addresses stay in Unicode.
func ASCIIHost(host string) string {
	if strings.IndexFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return host
	}
	ascii, err := idna.Lookup.ToASCII(host)
	if err != nil {
		return host // no host name; whoever looks it up reports that
	}
	return ascii
}

// IsIDN reports whether a host name has A-labels.
func IsIDN(host string) bool {
	return slices.ContainsFunc(strings.Split(CanonicalHost(host), "."), func(label string) bool { return strings.HasPrefix(label, "xn--") })
}

// CanonicalHost returns a host name or an IP address in the one spelling in which hosts are compared: names as of ASCIIHost, in lower case,
// without a final dot.
func CanonicalHost(host string) string {
	host = strings.TrimSuffix(host, ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.String()
	}
	return strings.ToLower(ASCIIHost(host))
}

// SameHost reports whether two host names or addresses are the same, however they are written.
func SameHost(a, b string) bool { return CanonicalHost(a) == CanonicalHost(b) }

// CanonicalAddress returns an address, host:port, with its host in canonical spelling.
func CanonicalAddress(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return CanonicalHost(address)
	}
	return net.JoinHostPort(CanonicalHost(host), port)
}

// CanonicalServer returns the address, host:port, that a URL leads to.
func CanonicalServer(u *url.URL) string {
	usual := map[string]string{"http": "80", "https": "443"}
	return net.JoinHostPort(CanonicalHost(u.Hostname()), cmp.Or(u.Port(), usual[u.Scheme]))
}
