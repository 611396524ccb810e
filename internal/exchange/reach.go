package exchange

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// reach is how a connection came about: which of a host's addresses were tried, and which one answered.
type reach struct {
	// addresses is how many the lookup found; 0 without a lookup.
	addresses int
	tried     []attemptAt
	answered  string
}

type attemptAt struct {
	address string
	err     error // nil while it is under way
}

func (r *reach) begin(address string) { r.tried = append(r.tried, attemptAt{address: address}) }

func (r *reach) end(address string, err error) {
	i := slices.IndexFunc(r.tried, func(a attemptAt) bool { return a.address == address })
	switch {
	case i < 0 || r.answered != "": // the other attempts are cancelled
	case err == nil:
		r.answered, r.tried = address, r.tried[:i]
	default:
		r.tried[i].err = err
	}
}

// note notes which address answered, and those that were tried before it: their silence costs users seconds.
func (r *reach) note(record *Record) {
	if r.answered == "" || r.addresses < 2 {
		return
	}
	answered := hostOf(r.answered)
	record.NoteOnce(fmt.Sprintf("of %d addresses, %s answered", r.addresses, answered))
	for _, a := range r.tried {
		if errors.Is(a.err, syscall.ENETUNREACH) || errors.Is(a.err, syscall.EADDRNOTAVAIL) {
			continue // this machine has no way there
		}
		why := "no answer"
		if a.err != nil {
			why = reasonOfAttempt(a.err)
		}
		record.NoteOnce(fmt.Sprintf("the %s address %s does not work (%s): clients that try it first lose time before they reach %s",
			familyOf(a.address), hostOf(a.address), why, answered))
	}
}

// hostOf returns the IP address in an address with a port.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

func familyOf(address string) string {
	if ip, err := netip.ParseAddr(hostOf(address)); err == nil && ip.Is6() {
		return "IPv6"
	}
	return "IPv4"
}

// reasonOfAttempt returns why a connection failed, without its addresses.
func reasonOfAttempt(err error) string {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	return "no answer"
}
