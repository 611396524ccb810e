package config

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

// CanonicalHost returns a host name or an IP address in the one spelling in which hosts are looked up and compared: names in lower case,
// without a final dot, and with A-labels such as xn--mller-kva.example for names that are not ASCII (RFC 5891).
func CanonicalHost(host string) string {
	host = strings.TrimSuffix(host, ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.String()
	}
	if strings.IndexFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) >= 0 {
		if ascii, err := idna.Lookup.ToASCII(host); err == nil {
			return ascii
		}
	}
	return strings.ToLower(host)
}

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
