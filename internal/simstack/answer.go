package simstack

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// exchange is one request and what its handler needs to know.
type exchange struct {
	ctx     context.Context //nolint:containedctx // lives as long as the request
	service *service
	req     *http.Request
	record  *Request
	conn    net.Conn
}

// maxBody bounds a request's body, in bytes.
const maxBody = 1 << 20

// body reads the request's body. It returns false if the client sends less than it announced.
func (x *exchange) body() ([]byte, bool) {
	body, err := io.ReadAll(io.LimitReader(x.req.Body, maxBody))
	return body, err == nil
}

// bearer reports whether the request has the token and the service still accepts it.
func (x *exchange) bearer(token string) bool {
	return x.req.Header.Get("Authorization") == "Bearer "+token && !x.service.on("wrong_credentials")
}

// watchClient returns a context that also ends when the client leaves, and a function that stops watching.
func (x *exchange) watchClient() (context.Context, func()) {
	ctx, cancel := context.WithCancel(x.ctx)
	done := make(chan struct{})
	_ = x.conn.SetReadDeadline(time.Time{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, x.conn)
		cancel()
	}()
	return ctx, func() {
		cancel()
		_ = x.conn.SetReadDeadline(time.Unix(1, 0))
		<-done
	}
}

// ending says what happens to the connection after an answer.
type ending int

const (
	endKeep   ending = iota // stays open for the next request, unless the header says otherwise
	endClose                // closed gracefully
	endSilent               // stays open, but silent
	endCut                  // cut off
)

// answer is the answer to one request. Without a status, nothing is sent.
type answer struct {
	status int
	// header has the header's lines in order. Content-Length and Date get their values when written.
	header []string
	body   []byte
	// missing is how many bytes the announced length exceeds the body.
	missing int
	// late makes the body after the header has been sent; false means silence.
	late func() ([]byte, bool)
	// tail writes what follows the body.
	tail func(io.Writer) error
	// headerOpen leaves out the empty line after the header.
	headerOpen bool
	end        ending
}

// reply is an answer with a content type, a length and the time.
func reply(status int, contentType, body string) *answer {
	return &answer{status: status, body: []byte(body), header: []string{"Content-Type: " + contentType, "Content-Length", "Date"}}
}

// set replaces or adds a header line.
func (a *answer) set(name, value string) *answer {
	line := name
	if value != "" {
		line += ": " + value
	}
	if i := slices.IndexFunc(a.header, named(name)); i >= 0 {
		a.header[i] = line
		return a
	}
	a.header = append(a.header, line)
	return a
}

func (a *answer) drop(name string) *answer {
	a.header = slices.DeleteFunc(a.header, named(name))
	return a
}

func named(name string) func(string) bool {
	return func(line string) bool {
		field, _, _ := strings.Cut(line, ":")
		return strings.EqualFold(field, name)
	}
}

// write sends the answer and reports whether the connection can take another request.
func (a *answer) write(conn net.Conn, req *http.Request) (again bool, err error) {
	if a.status == 0 {
		if a.end == endSilent {
			waitForClient(conn)
		}
		return false, nil
	}
	var out strings.Builder
	fmt.Fprintf(&out, "HTTP/1.1 %d %s\r\n", a.status, http.StatusText(a.status))
	again = !req.Close
	delimited := a.status == http.StatusNoContent
	for _, line := range a.header {
		switch line {
		case "Content-Length":
			delimited = true
			line += ": " + strconv.Itoa(len(a.body)+a.missing)
		case "Date":
			line += ": " + time.Now().UTC().Format(http.TimeFormat)
		case "Transfer-Encoding: chunked":
			delimited = true
		case "Connection: close":
			again = false
		}
		out.WriteString(line + "\r\n")
	}
	if !a.headerOpen {
		out.WriteString("\r\n")
	}
	if req.Method != http.MethodHead {
		out.Write(a.body)
	}
	if _, err := io.WriteString(conn, out.String()); err != nil {
		return false, err
	}
	if a.late != nil {
		body, ok := a.late()
		if !ok {
			waitForClient(conn)
			return false, nil
		}
		if _, err := conn.Write(body); err != nil {
			return false, err
		}
	}
	if a.tail != nil && (a.headerOpen || req.Method != http.MethodHead) {
		if err := a.tail(conn); err != nil {
			return false, err
		}
	}
	if a.end == endSilent {
		waitForClient(conn)
	}
	return again && delimited && a.end == endKeep, nil
}
