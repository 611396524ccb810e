package failure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// lookupAdvice says what a failed lookup of a host name means and what to do: the name server does not answer, it answers with an
// error, or it knows no address. Container is the one that the name should lead to; it may be empty.
func lookupAdvice(e *net.DNSError, container string) string {
	switch {
	case e.IsNotFound:
		return unresolved + ": the name server knows no address for it, so the name is wrong, or the service's container is stopped" +
			WhereToLook(DNS, "", container)
	case isUnanswered(e):
		return "the name server does not answer: check the network of the exporter or of its container, " +
			"and the name server in its /etc/resolv.conf"
	case container != "": // Docker's name server answers so for a stopped container, if no other name server knows the name
		return failingServer + "it is broken, or the container is stopped; run docker ps --all --filter name=" + container +
			", and read the name server's log"
	default:
		return failingServer + "it is broken, or a server that it asks is; read its log"
	}
}

const (
	unresolved    = "the host name does not resolve"
	failingServer = "the name server answers with an error such as SERVFAIL: "
)

// isUnanswered reports whether no answer came before the lookup was given up.
// The net package tells an answer with an error only by its text.
func isUnanswered(e *net.DNSError) bool {
	return e.IsTimeout || errors.Is(e, context.Canceled) || e.IsTemporary && e.Err != "server misbehaving"
}

// IsUnknownName reports whether an error says that no wanted address is known for a host name.
func IsUnknownName(err error) bool {
	lookup, ok := errors.AsType[*net.DNSError](err)
	return ok && lookup.IsNotFound || HasType[*net.AddrError](err)
}

// NoAddress returns the failure of a host name without an address of the wanted version of IP. Other is one that it has.
func NoAddress(host string, version int, other netip.Addr) *Error {
	return Errorf(DNS, "look up %s: no IPv%d address, only %s", host, version, other).
		WithHint(fmt.Sprintf("the host name has no IPv%d address: add one in the DNS, or remove ip_version from the target", version))
}

// UnansweredLookup is the error of a lookup whose end nobody awaited.
func UnansweredLookup(name string) error {
	return &net.DNSError{Err: "i/o timeout", Name: name, IsTimeout: true}
}
