package collectors

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"unicode"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// IRCRPC is the block of the IRC server's JSON-RPC.
type IRCRPC struct {
	config.Target `yaml:",inline"`
	config.HTTP   `yaml:",inline"` // the URL may also be unix:///path/to/rpc.socket
	// User and Password are sent as HTTP Basic; a Unix socket needs neither.
	User     string        `yaml:"user"`
	Password config.Secret `yaml:"password"`
}

func newIRCRPCSettings() *IRCRPC { return &IRCRPC{} }

// Environ implements config.Settings.
func (s *IRCRPC) Environ(e *config.Env) {
	e.String("url", "IRC_RPC_URL", &s.URL)
	e.String("user", "IRC_RPC_USER", &s.User)
	e.Secret("password", "IRC_RPC_PASSWORD", &s.Password)
	e.TLS("IRC_RPC", &s.TLS)
}

// Configured implements config.Settings.
func (s *IRCRPC) Configured() bool { return s.URL != "" }

// Distinction implements config.Distinct.
func (s *IRCRPC) Distinction() (key, value string) { return "", "" }

// Check implements config.Settings.
func (s *IRCRPC) Check(r *config.Report) {
	if strings.HasPrefix(s.URL, "unix:") {
		config.CheckURL(r, "url", s.URL, "unix")
		return
	}
	s.HTTP.Check(r)
}

// ircRPC calls rpc.info, the method that changes nothing and that the IRC server's own health check calls too.
type ircRPC struct {
	http     httpTarget
	socket   string // path; "" for HTTP
	user     string
	password config.Secret
	// lastID is the id of the last call. A server that echoes another one answers somebody else's question.
	lastID int64
}

func newIRCRPC(s *IRCRPC, d Deps) (Collector, error) {
	c := &ircRPC{http: httpTarget{s.HTTP, int64(d.Limits.Body), d.UserAgent}, user: s.User, password: s.Password}
	if path, ok := strings.CutPrefix(s.URL, "unix://"); ok {
		c.socket = path
	}
	return c, nil
}

// rpcInfo is the result of rpc.info.
type rpcInfo struct {
	Methods map[string]struct{} `json:"methods"`
}

// Collect implements Collector.
func (c *ircRPC) Collect(ctx context.Context, b *Batch) error {
	var info rpcInfo
	if err := c.call(ctx, b, "rpc.info", &info); err != nil {
		return err
	}
	if len(info.Methods) == 0 {
		return Failf(Mismatch, "rpc.info: the answer lists no methods")
	}
	return nil
}

type rpcRequest struct {
	JSONRPC string   `json:"jsonrpc"`
	Method  string   `json:"method"`
	Params  struct{} `json:"params"`
	ID      int64    `json:"id"`
}

type rpcResponse struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      *int64          `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// call makes one JSON-RPC 2.0 call without parameters and reads its result into v. An error object is RPCError, though
// it comes under HTTP 200.
func (c *ircRPC) call(ctx context.Context, b *Batch, method string, v any) error {
	c.lastID++
	request, err := json.Marshal(rpcRequest{JSONRPC: "2.0", Method: method, ID: c.lastID})
	if err != nil {
		return fmt.Errorf("%s: write request: %w", method, err)
	}
	var body []byte
	if c.socket != "" {
		body, err = c.overSocket(ctx, request)
	} else {
		body, err = c.overHTTP(ctx, b, request)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	var resp rpcResponse
	if err := json.Unmarshal(body, &resp); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && int(syntax.Offset) >= len(body) {
			// The IRC server gives no length, so an answer that was cut looks whole to HTTP.
			return Failf(Closed, "%s: the answer breaks off after %d bytes", method, len(body))
		}
		return Failf(Malformed, "%s: read answer: %w", method, err)
	}
	switch {
	case resp.Error != nil:
		return Failf(RPCError, "%s: error %d: %s", method, resp.Error.Code, foreignText(resp.Error.Message))
	case resp.ID == nil || *resp.ID != c.lastID:
		return Failf(Mismatch, "%s: the answer is to another call than number %d", method, c.lastID)
	case resp.Result == nil, string(resp.Result) == "null":
		return Failf(Malformed, "%s: the answer has neither result nor error", method)
	}
	if err := json.Unmarshal(resp.Result, v); err != nil {
		return Failf(Malformed, "%s: read result: %w", method, err)
	}
	return nil
}

func (c *ircRPC) overHTTP(ctx context.Context, b *Batch, request []byte) ([]byte, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	if c.user != "" || !c.password.IsZero() {
		auth := &http.Request{Header: header}
		auth.SetBasicAuth(c.user, c.password.Reveal())
	}
	a, err := c.http.do(ctx, b, http.MethodPost, c.http.settings.URL, header, bytes.NewReader(request))
	if err != nil {
		return nil, err
	}
	if a.status == http.StatusUnauthorized {
		return nil, statusError(http.MethodPost, c.http.settings.URL, a.status).
			WithHint("the IRC server says the same of a wrong password, an unknown rpc-user and an address that its rpc-user block does not match: look at all three")
	}
	if a.status != http.StatusOK {
		return nil, statusError(http.MethodPost, c.http.settings.URL, a.status)
	}
	return a.body, nil
}

// overSocket speaks the Unix socket's dialect: one line of JSON each way, no HTTP, no credentials.
func (c *ircRPC) overSocket(ctx context.Context, request []byte) ([]byte, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()                                      //nolint:errcheck // the answer is read or given up
	stop := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // wakes the reader
	defer stop()
	if _, err := conn.Write(append(request, '\n')); err != nil {
		return nil, inTime(ctx, fmt.Errorf("write to %s: %w", c.socket, err))
	}
	limited := &io.LimitedReader{R: conn, N: c.http.limit + 1}
	line, err := bufio.NewReader(limited).ReadBytes('\n')
	if limited.N <= 0 {
		return nil, Failf(TooLarge, "read from %s: more than %d bytes", c.socket, c.http.limit)
	}
	if err != nil {
		return nil, inTime(ctx, fmt.Errorf("read from %s: %w", c.socket, err))
	}
	return line, nil
}

// inTime returns the context's error in place of what closing a connection at its end looks like.
func inTime(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// maxForeignText bounds what is repeated of an error text that somebody else wrote.
const maxForeignText = 200

// foreignText makes text from elsewhere fit for a log line: control characters become spaces, and it is cut.
func foreignText(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > maxForeignText {
		s = string(runes[:maxForeignText]) + "…"
	}
	return s
}
