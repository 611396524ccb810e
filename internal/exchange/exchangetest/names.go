package exchangetest

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// WithoutNameServer makes every name unknown that is not in the machine's hosts file, for all tests of a program. A machine's own name
// server may know any name, hang or not be there.
func WithoutNameServer() {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("tests have no name server")
	}}
}

// Name is what a NameServer answers about one name.
type Name struct {
	// Addresses are its addresses of both families.
	Addresses []string
	// Fails is an answer of SERVFAIL, Silent none at all.
	Fails, Silent bool
}

// NameServer resolves names for the whole program until the test ends, so such a test must not run in parallel with others. It knows the
// names without a final dot; every other name does not exist.
func NameServer(t *testing.T, names map[string]Name) {
	t.Helper()
	before := net.DefaultResolver
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop() // a lookup goes on for seconds after whoever wanted it has gone
		net.DefaultResolver = before
	})
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		context.AfterFunc(ctx, func() { server.Close() }) //nolint:errcheck,gosec // a pipe
		go serveNames(server, names)
		return client, nil
	}}
}

// serveNames answers queries as over TCP, each after its length, until the client hangs up.
func serveNames(conn net.Conn, names map[string]Name) {
	defer conn.Close() //nolint:errcheck // a pipe
	for {
		var size uint16
		if binary.Read(conn, binary.BigEndian, &size) != nil {
			return
		}
		query := make([]byte, size)
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		answer := answerQuery(query, names)
		if answer == nil {
			continue
		}
		//nolint:gosec // it is short
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// answerQuery returns nil for a query that is not answered.
func answerQuery(query []byte, names map[string]Name) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	name, known := names[strings.TrimSuffix(q.Name.String(), ".")]
	if name.Silent {
		return nil
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}, Questions: m.Questions}
	switch {
	case name.Fails:
		reply.RCode = dnsmessage.RCodeServerFailure
	case !known:
		reply.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range name.Addresses {
		ip := netip.MustParseAddr(a)
		head := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
		switch {
		case ip.Is4() && q.Type == dnsmessage.TypeA:
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: ip.As4()}})
		case ip.Is6() && q.Type == dnsmessage.TypeAAAA:
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
		}
	}
	answer, err := reply.Pack()
	if err != nil {
		return nil
	}
	return answer
}
