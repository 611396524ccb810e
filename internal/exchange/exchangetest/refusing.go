package exchangetest

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// Refusing is a connection to a server that has said its words and gone before the client writes: writes fail, and then the words are
// read.
type Refusing struct {
	// Words are what the server has said.
	Words string
	// Write is the error of each write, End that after the words, io.EOF by default.
	Write, End error
}

// Dial returns the connection, as exchange.DialFunc.
func (r Refusing) Dial(context.Context, string, string) (net.Conn, error) {
	return &refusing{words: strings.NewReader(r.Words), how: r, wrote: make(chan struct{})}, nil
}

type refusing struct {
	words *strings.Reader
	how   Refusing
	once  sync.Once
	wrote chan struct{} // closed by the first write, or the end
}

func (c *refusing) Read(b []byte) (int, error) {
	<-c.wrote
	n, err := c.words.Read(b)
	if err == io.EOF && c.how.End != nil {
		err = c.how.End
	}
	return n, err
}

func (c *refusing) Write([]byte) (int, error) {
	c.once.Do(func() { close(c.wrote) })
	return 0, &net.OpError{Op: "write", Net: "tcp", Err: c.how.Write}
}

func (c *refusing) Close() error {
	c.once.Do(func() { close(c.wrote) })
	return nil
}

func (*refusing) LocalAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
}

func (*refusing) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2}
}

func (*refusing) SetDeadline(time.Time) error      { return nil }
func (*refusing) SetReadDeadline(time.Time) error  { return nil }
func (*refusing) SetWriteDeadline(time.Time) error { return nil }
