package exchangetest

import (
	"context"
	"errors"
	"net"
)

// WithoutNameServer makes every name unknown that is not in the machine's hosts file, for all tests of a program. A machine's own name
// server may know any name, hang or not be there.
func WithoutNameServer() {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("tests have no name server")
	}}
}
