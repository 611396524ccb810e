// Package exchangetest has servers and certificates of every kind, for tests of conversations.
package exchangetest

import (
	"io"
	"net"
	"path/filepath"
	"testing"
)

// RawServer answers every connection with what answer writes, after it has read the head of a request.
func RawServer(t *testing.T, network string, answer func(net.Conn)) string {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, address) //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	return ServeEach(t, l, func(conn net.Conn) {
		buf := make([]byte, 4096)
		conn.Read(buf) //nolint:errcheck,gosec // whatever it is
		answer(conn)
	})
}

// ServeEach lets answer speak on one connection after the other, which it need not close, until the test ends.
func ServeEach(t *testing.T, l net.Listener, answer func(net.Conn)) string {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answer(conn)
			conn.Close() //nolint:errcheck,gosec // a test's server
		}
	}()
	t.Cleanup(func() {
		l.Close() //nolint:errcheck,gosec // a test's server
		<-ended
	})
	return l.Addr().String()
}

// Say returns an answer of these bytes.
func Say(s string) func(net.Conn) {
	return func(c net.Conn) { io.WriteString(c, s) } //nolint:errcheck // the client may be gone
}

// Hold reads until the client gives up.
func Hold(c net.Conn) { io.Copy(io.Discard, c) } //nolint:errcheck // the client is gone then

// Reset ends a connection with a reset.
func Reset(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0) //nolint:errcheck,gosec // close sends a reset
}
