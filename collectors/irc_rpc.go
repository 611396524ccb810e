package collectors

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

var (
	ircUsersDesc = readDesc("chatstack_irc_users",
		"Users on the IRC network, without the services' bots.")
	ircChannelsDesc = readDesc("chatstack_irc_channels",
		"Channels on the IRC network.")
	ircServersDesc = readDesc("chatstack_irc_servers",
		"Servers of the IRC network, including the probed one and linked services.")
	ircOperatorsDesc = readDesc("chatstack_irc_operators",
		"IRC operators online.")
	ircLinkedDesc = readDesc("chatstack_irc_services_linked",
		"Whether IRC services are linked to the IRC server: the U-lined server named by services_server, "+
			"or any U-lined server if that is not set. Absent if the account may not see it.")
)

// IRCRPC is the block of the IRC server's JSON-RPC.
type IRCRPC struct {
	config.Target `yaml:",inline"`
	config.HTTP   `yaml:",inline"` // the URL may also be unix:///path/to/rpc.socket
	// User and Password are sent as HTTP Basic. A Unix socket needs neither.
	User     string        `yaml:"user"`
	Password config.Secret `yaml:"password"`
	// Pause is the time between two calls of a probe, 100 ms by default: the server serves nobody else while it writes a
	// long answer.
	Pause config.Duration `yaml:"pause"`
	// ServicesServer is the name of the services' server, or a pattern for path.Match. By default every U-lined server
	// counts as services, although a network may have other U-lined servers.
	ServicesServer string `yaml:"services_server"`
}

// ircRPCPath is where UnrealIRCd has its JSON-RPC.
const ircRPCPath = "/api"

func newIRCRPCSettings() *IRCRPC { return &IRCRPC{Pause: config.Duration(100 * time.Millisecond)} }

// Environ implements config.Settings.
func (s *IRCRPC) Environ(e *config.Env) {
	e.String("url", "IRC_RPC_URL", &s.URL)
	e.String("user", "IRC_RPC_USER", &s.User)
	e.Secret("password", "IRC_RPC_PASSWORD", &s.Password)
	e.TLS("IRC_RPC", &s.TLS)
}

// Check implements config.Settings.
func (s *IRCRPC) Check(r *config.Report) {
	if all := maxPauses * s.Pause.Std(); all >= s.Timeout.Std() {
		r.Faultf("pause", "is %s, and %d pauses use up the timeout (%s); make it shorter", s.Pause.Std(), maxPauses, s.Timeout.Std())
	}
	if _, err := path.Match(s.ServicesServer, ""); err != nil || strings.ContainsAny(s.ServicesServer, "/ ") {
		r.Faultf("services_server",
			"is %q, must be a server's name such as services.example.org, or a pattern such as services.*", s.ServicesServer)
	}
	if s.socket() {
		if s.Password.IsZero() {
			s.Password = config.Secret{} // an empty one is no mistake: whoever can open the socket can do everything
		}
		config.CheckURL(r, "url", s.URL, "unix")
		return
	}
	if strings.Contains(s.User, ":") {
		r.Faultf("user", "contains a colon, which HTTP Basic does not allow")
	}
	s.HTTP.Check(r)
}

// Warnings implements config.Settings.
func (s *IRCRPC) Warnings() []string {
	if s.socket() {
		return nil
	}
	warnings := s.TLS.Warnings()
	if s.User == "" || s.Password.IsZero() {
		warnings = append(warnings, "user or password is not set, but the IRC server requires both over HTTP; "+
			"set IRC_RPC_USER and IRC_RPC_PASSWORD, or use its Unix socket, which needs neither")
	}
	if strings.HasPrefix(s.URL, "http://") {
		warnings = append(warnings, "url begins with http://, but the IRC server's RPC port speaks TLS only, "+
			"and the password would be sent in the clear; write https:// in the url")
	}
	return warnings
}

func (s *IRCRPC) socket() bool { return strings.HasPrefix(s.URL, "unix:") }

// ircRPC calls read-only methods of the IRC server's JSON-RPC. rpc.info, which the server's own health check calls too,
// decides whether the target is up. The other methods provide numbers. If one of them returns an error or an unexpected
// result, the target is up without those numbers, with a note. If it gets no JSON-RPC answer, the target is down.
type ircRPC struct {
	settings *IRCRPC
	http     exchange.HTTP
	path     string // of the Unix socket; "" for HTTP
	services string // the services' server or a pattern, in lower case; "" if any U-lined server counts
	// mostULined is the most U-lined servers ever linked at once.
	mostULined int64
	// lastID is the id of the last call, which its answer must repeat.
	lastID  int64
	refused refusals
	// putOff is true while a refused method is not tried, reloaded if the next probe must try all methods.
	putOff, reloaded atomic.Bool
}

func newIRCRPC(s *IRCRPC, d Deps) (Collector, error) {
	c := &ircRPC{
		settings: s,
		http:     d.http(s.HTTP),
		services: strings.ToLower(s.ServicesServer),
		refused:  refusals{},
	}
	if path, ok := strings.CutPrefix(s.URL, "unix://"); ok {
		c.path = path
	}
	return c, nil
}

// Collect implements Collector.
func (c *ircRPC) Collect(ctx context.Context, b *Batch) error {
	r := &ircReading{ircRPC: c, b: b}
	defer r.close()
	if c.reloaded.Swap(false) {
		clear(c.refused)
		c.mostULined = 0
	}
	err := r.read(ctx)
	if err != nil {
		clear(c.refused) // whoever mends the server may have changed its permissions too
	}
	c.putOff.Store(len(c.refused) > 0)
	return err
}

// Reloaded implements Reloader.
func (c *ircRPC) Reloaded() bool {
	c.reloaded.Store(true)
	return c.putOff.Load()
}

// refusals remember when the server refused a method, and by which error, so that retries do not fill its log.
type refusals map[string]refusal

type refusal struct {
	at   time.Time
	code int
}

// refusedFor is how long a refused method is not tried again.
const refusedFor = 5 * time.Minute

// tooRecent reports whether the method was refused less than refusedFor ago.
func (r refusals) tooRecent(method string) bool {
	known, refused := r[method]
	return refused && time.Since(known.at) < refusedFor
}

// ircReading is one reading of the IRC server.
type ircReading struct {
	*ircRPC
	b       *Batch
	methods map[string]struct{}
	line    *ircLine
	// product is the server's software, if an answer showed it.
	product exchange.Product
}

// maxPauses is the maximum number of calls of a probe after the first: stats.get and three lists.
const maxPauses = 4

// ircGrant says which permissions the exporter's account needs on UnrealIRCd.
const ircGrant = "give the account an rpc-class with these permissions: " +
	"rpc-class chatstack { permissions { rpc { info; } stats; server { list; } channel { list; } } }"

// remedy says what to do about a refused method. Another product may mean something else by the first code.
func (r *ircReading) remedy(code int) string {
	switch {
	case code == rpcUnknown:
		return "the server does not support it: check its modules"
	case r.product == exchange.UnrealIRCd:
		return ircGrant
	}
	return "permit it to the exporter"
}

func (r *ircReading) read(ctx context.Context) error {
	var info struct {
		Methods map[string]struct{} `json:"methods"`
	}
	result, err := r.call(ctx, "rpc.info", rpcParams{})
	if said, ok := errors.AsType[*rpcError](err); ok {
		return failure.Errorf(failure.RPCError, "%w", err).WithHint(r.notAnswered(said.Code))
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(result, &info); err != nil {
		return failure.Errorf(failure.Malformed, "rpc.info: read result: %w", err)
	}
	if len(info.Methods) == 0 {
		return failure.Errorf(failure.Mismatch, "rpc.info: the answer lists no methods")
	}
	r.methods = info.Methods
	return r.numbers(ctx)
}

// notAnswered says what to do about an error instead of the list of methods.
func (r *ircReading) notAnswered(code int) string {
	if r.product == exchange.UnrealIRCd && code == rpcForbidden {
		return "the server forbids every call to this account: " + ircGrant
	}
	return "the server does not list its methods: permit that to the exporter, or correct the path or the port of the url if another " +
		"service answers"
}

// ircStats is the result of stats.get. Missing values are nil.
type ircStats struct {
	Server  struct{ Total, Ulined *int64 }
	User    struct{ Total, Ulined, Oper *int64 }
	Channel struct{ Total *int64 }
}

// users returns the number of users without the services' bots.
func (s *ircStats) users() *int64 {
	if s.User.Total == nil || s.User.Ulined == nil {
		return nil
	}
	return new(*s.User.Total - *s.User.Ulined)
}

// ircServers is the result of server.list. Servers of services have ulined set.
type ircServers struct{ List []ircServer }

type ircServer struct {
	Name   string
	ID     string
	Server struct {
		Users  *int64 `json:"num_users"`
		Synced bool
		Ulined bool
	}
}

// linked reports whether a synced U-lined server matches the pattern; "" matches any name.
func (s *ircServers) linked(pattern string) bool {
	return slices.ContainsFunc(s.List, func(l ircServer) bool {
		fits, err := path.Match(pattern, strings.ToLower(l.Name))
		return l.Server.Ulined && l.Server.Synced && (pattern == "" || err == nil && fits)
	})
}

// ulined returns the names of the U-lined servers.
func (s *ircServers) ulined() []string {
	var names []string
	for _, l := range s.List {
		if l.Server.Ulined {
			names = append(names, failure.OneLine(l.Name))
		}
	}
	slices.Sort(names)
	return names
}

// users returns the number of users on all servers but those of services.
func (s *ircServers) users() *int64 {
	if len(s.List) == 0 {
		return nil
	}
	var sum int64
	for _, l := range s.List {
		if l.Server.Users == nil {
			return nil
		}
		if !l.Server.Ulined {
			sum += *l.Server.Users
		}
	}
	return &sum
}

// bot reports whether the user of this id is on a server of services: a user's id begins with the server's id.
func (s *ircServers) bot(id string) bool {
	return slices.ContainsFunc(s.List, func(l ircServer) bool {
		return l.Server.Ulined && l.ID != "" && strings.HasPrefix(id, l.ID)
	})
}

// numbers counts users, channels and servers: with stats.get, a few hundred bytes, or else from the long lists.
func (r *ircReading) numbers(ctx context.Context) error {
	level0 := rpcParams{Level: new(int)}
	stats, err := ask[ircStats](ctx, r, "stats.get", level0)
	if err != nil {
		return err
	}
	servers, err := ask[ircServers](ctx, r, "server.list", rpcParams{})
	if err != nil {
		return err
	}
	users, channels, total := cmp.Or(stats.users(), servers.users()), stats.Channel.Total, stats.Server.Total
	if users == nil {
		if users, err = r.countUsers(ctx, level0, &servers); err != nil {
			return err
		}
	}
	if channels == nil {
		if channels, err = r.countChannels(ctx, level0); err != nil {
			return err
		}
	}
	if total == nil && len(servers.List) > 0 {
		total = new(int64(len(servers.List)))
	}
	for _, g := range []struct {
		desc   *prometheus.Desc
		value  *int64
		figure Figure
	}{
		{ircUsersDesc, users, Figure{Name: "users", Chart: true}},
		{ircChannelsDesc, channels, Figure{Name: "channels"}},
		{ircServersDesc, total, Figure{Name: "servers"}},
		{ircOperatorsDesc, stats.User.Oper, Figure{}},
	} {
		if g.value == nil || *g.value < 0 {
			continue
		}
		g.figure.Value = float64(*g.value)
		r.b.Gauge(g.desc, g.figure.Value)
		if g.figure.Name != "" {
			r.b.Figure(g.figure)
		}
	}
	r.reportServices(&servers, stats.Server.Ulined)
	return nil
}

// reportServices reports whether services are linked. Without a list of servers, ulined is the number of U-lined ones, or nil.
func (r *ircReading) reportServices(servers *ircServers, ulined *int64) {
	names := servers.ulined()
	switch {
	case len(servers.List) > 0:
		ulined = new(int64(len(names)))
		linked := servers.linked(r.services)
		r.b.Gauge(ircLinkedDesc, boolValue(linked))
		r.b.Condition(health.AlertServicesUnlinked, "", !linked)
		switch {
		case linked:
		case r.services == "":
			r.b.Note("the IRC services are not linked to the IRC server: no U-lined server is synced")
		default:
			r.b.Note(fmt.Sprintf("the IRC services are not linked to the IRC server: "+
				"no synced U-lined server is called %s (services_server); U-lined: %s",
				r.services, listed(names)))
		}
	case ulined != nil && (r.services == "" || *ulined == 0):
		r.b.Gauge(ircLinkedDesc, boolValue(*ulined > 0))
		r.b.Condition(health.AlertServicesUnlinked, "", *ulined == 0)
	default:
		r.b.Impair("unknown whether services are linked")
	}
	if ulined != nil {
		r.mostULined = max(r.mostULined, *ulined)
	}
	if r.services == "" && r.mostULined > 1 {
		r.b.Note(fmt.Sprintf("up to %d U-lined servers were linked, and each counts as services: "+
			"set services_server to the name of the services' server; U-lined now: %s",
			r.mostULined, listed(names)))
		r.b.Impair("unknown which U-lined server is the services")
	}
}

// maxListed is how many names a note lists.
const maxListed = 5

// listed joins names with commas, up to maxListed.
func listed(names []string) string {
	shown := strings.Join(names[:min(len(names), maxListed)], ", ")
	switch more := len(names) - maxListed; {
	case len(names) == 0:
		return "none known"
	case more > 0:
		return fmt.Sprintf("%s and %d more", shown, more)
	}
	return shown
}

// countUsers counts user.list, without the bots if server.list is known.
func (r *ircReading) countUsers(ctx context.Context, level0 rpcParams, servers *ircServers) (*int64, error) {
	users, err := ask[struct{ List []struct{ ID string } }](ctx, r, "user.list", level0)
	if err != nil || users.List == nil {
		return nil, err
	}
	if len(servers.List) == 0 {
		r.b.Note("the user count includes the services' bots: without server.list they cannot be excluded")
	}
	var n int64
	for _, u := range users.List {
		if !servers.bot(u.ID) {
			n++
		}
	}
	return &n, nil
}

func (r *ircReading) countChannels(ctx context.Context, level0 rpcParams) (*int64, error) {
	channels, err := ask[struct{ List []struct{} }](ctx, r, "channel.list", level0)
	if err != nil || channels.List == nil {
		return nil, err
	}
	return new(int64(len(channels.List))), nil
}

// ask calls a method that does not decide whether the server is up. It returns nothing, with a note, if the server lacks the
// method, refuses it, or returns an unusable result; the last two impair the target.
func ask[T any](ctx context.Context, r *ircReading, method string, params rpcParams) (answer T, err error) {
	if _, there := r.methods[method]; !there {
		r.b.Note("the server has no method " + method)
		return answer, nil
	}
	if r.refused.tooRecent(method) {
		r.impair(method, "is refused", "is refused"+r.postponed(r.refused[method].code))
		return answer, nil
	}
	select {
	case <-time.After(r.settings.Pause.Std()):
	case <-ctx.Done():
		return answer, fmt.Errorf("%s: %w", method, ctx.Err())
	}
	result, err := r.call(ctx, method, params)
	if err != nil {
		return answer, r.excuse(method, err)
	}
	var got T
	if json.Unmarshal(result, &got) != nil {
		r.impair(method, "cannot be read", "returned a result of an unexpected shape")
		return answer, nil //nolint:nilerr // the server is up, and there is a note
	}
	return got, nil
}

// excuse notes an error that shows that the server is up without what a method tells, and returns any other. Its notes never
// repeat the server's text, which may contain names.
func (r *ircReading) excuse(method string, err error) error {
	said, answered := errors.AsType[*rpcError](err)
	switch {
	case answered && (said.Code == rpcForbidden || said.Code == rpcUnknown):
		r.refused[method] = refusal{time.Now(), said.Code}
		r.impair(method, "is refused", fmt.Sprintf("is refused with error %d%s", said.Code, r.postponed(said.Code)))
	case answered:
		r.impair(method, "fails", fmt.Sprintf("was answered with error %d", said.Code))
	case failure.ReasonOf(err) == failure.TooLarge:
		r.impair(method, "is too long", fmt.Sprintf("has more than %d bytes: raise limits.body in exporter.yaml", r.http.Limit))
	default:
		return err
	}
	return nil
}

// impair says in short what is wrong with a method, and notes why.
func (r *ircReading) impair(method, what, why string) {
	r.b.Note(method + " " + why)
	r.b.Impair(method + " " + what)
}

// postponed says when a refused method is tried again, and what to do until then.
func (r *ircReading) postponed(code int) string {
	return fmt.Sprintf("; the exporter retries it every %d minutes and after a reload: %s", int(refusedFor.Minutes()), r.remedy(code))
}

// Codes of JSON-RPC errors that refuse a method: to this account, or to everybody.
const (
	rpcForbidden = -32000
	rpcUnknown   = -32601
)

type rpcParams struct {
	// Level is how detailed the answer is; nil is the method's default.
	Level *int `json:"object_detail_level,omitempty"`
}

type rpcRequest struct {
	JSONRPC string    `json:"jsonrpc"`
	Method  string    `json:"method"`
	Params  rpcParams `json:"params"`
	ID      int64     `json:"id"`
}

// rpcResponse is an answer. Its type has a name, since the decoder's errors show it.
type rpcResponse[ID comparable] struct {
	ID     *ID             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// rpcError is the error object of an answer.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string {
	return fmt.Sprintf("error %d: %s", e.Code, failure.OneLine(e.Message))
}

// call makes one JSON-RPC 2.0 call and returns its result. An error object has reason RPCError, although the HTTP status is
// 200, and wraps the *rpcError.
func (r *ircReading) call(ctx context.Context, method string, params rpcParams) (json.RawMessage, error) {
	r.lastID++
	request, err := json.Marshal(rpcRequest{
		JSONRPC: "2.0",
		Method:  method,
		Params:  params,
		ID:      r.lastID,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: write request: %w", method, err)
	}
	var body []byte
	if r.path != "" {
		body, err = r.overSocket(ctx, method, request)
	} else {
		body, err = r.overHTTP(ctx, request)
		r.b.Exchanges[len(r.b.Exchanges)-1].Request += " " + method
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	r.product = cmp.Or(exchange.ProductOf(r.b.Exchanges[len(r.b.Exchanges)-1].Header, body), r.product)
	result, err := rpcResult(method, body, r.lastID, fmt.Sprintf("does not belong to call %d", r.lastID))
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && int(syntax.Offset) >= len(body) {
		// The IRC server sends no length, so HTTP cannot detect a truncated answer.
		return nil, failure.Errorf(failure.Closed, "%s: the answer ends early, after %s", method, wording.Count(len(body), "byte"))
	}
	return result, err
}

// rpcResult returns the result in an answer of JSON-RPC to the call with this id. foreign says that it is one to another call.
func rpcResult[ID comparable](method string, body []byte, id ID, foreign string) (json.RawMessage, error) {
	var answer rpcResponse[ID]
	err := json.Unmarshal(body, &answer)
	switch {
	case err != nil:
		return nil, failure.Errorf(failure.Malformed, "%s: read answer: %w", method, err)
	case answer.Error != nil:
		return nil, failure.Errorf(failure.RPCError, "%s: %w", method, answer.Error)
	case answer.ID == nil || *answer.ID != id:
		return nil, failure.Errorf(failure.Mismatch, "%s: the answer %s", method, foreign)
	case answer.Result == nil, string(answer.Result) == "null":
		return nil, failure.Errorf(failure.Malformed, "%s: the answer has neither result nor error", method)
	}
	return answer.Result, nil
}

func (r *ircReading) overHTTP(ctx context.Context, request []byte) ([]byte, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	url, user, password := r.settings.URL, r.settings.User, r.settings.Password
	given := user != "" || !password.IsZero()
	if given {
		(&http.Request{Header: header}).SetBasicAuth(user, password.Reveal())
	}
	a, err := r.http.Do(ctx, &r.b.Record, http.MethodPost, url, header, bytes.NewReader(request))
	switch {
	case err != nil && strings.HasPrefix(url, "http://") && failure.ReasonOf(err) == failure.Timeout:
		return nil, failure.Errorf(failure.Timeout, "%w", err).
			WithHint("this port does not answer plain HTTP: write https:// in the url; if that does not help, the IRC server hangs")
	case err != nil:
		return nil, err
	case a.Status == http.StatusUnauthorized && !given:
		return nil, a.Refusal().
			WithHint("neither user nor password is set, and the server requires both: set IRC_RPC_USER and IRC_RPC_PASSWORD" +
				a.IfFrom(exchange.UnrealIRCd, " to an rpc-user of the IRC server"))
	case a.Status == http.StatusUnauthorized:
		return nil, a.Refusal().
			WithHint(cmp.Or(
				a.IfFrom(exchange.UnrealIRCd, "the password is wrong, the rpc-user is unknown, "+
					"or its rpc-user block does not match this address; the IRC server does not say which: check all three"),
				"the server refuses user and password, and does not show that it is an IRC server, so it may be a proxy: correct them, "+
					"or check what answers at "+exchange.PrintableURL(a.URL),
			))
	}
	return a.Body, a.WantOK(hintsForPage("url", url, ircRPCPath, ""))
}

// ircLine is a connection to the Unix socket. Its protocol is one line of JSON each way, without HTTP or credentials, for
// any number of calls.
type ircLine struct {
	conn    net.Conn
	limited *io.LimitedReader
	reader  *bufio.Reader
	// wake stops the function that closes conn when the probe times out.
	wake func() bool
}

func (r *ircReading) overSocket(ctx context.Context, method string, request []byte) (answer []byte, err error) {
	ctx, timing := r.b.Begin(ctx, method+" over unix://"+r.path)
	defer func() {
		if err != nil {
			r.close() // the connection may still deliver the rest of this answer
		}
		timing.End("body", err)
	}()
	if r.line == nil {
		if err := r.connect(ctx); err != nil {
			return nil, err
		}
	}
	if _, err := r.line.conn.Write(append(request, '\n')); err != nil {
		return nil, exchange.PreferContextError(ctx, fmt.Errorf("write to %s: %w", r.path, err))
	}
	r.line.limited.N = r.http.Limit + 1
	answer, err = r.line.reader.ReadBytes('\n')
	if err != nil && r.line.limited.N <= 0 {
		return nil, failure.Errorf(failure.TooLarge, "read from %s: more than %d bytes", r.path, r.http.Limit)
	}
	if err != nil {
		return nil, exchange.PreferContextError(ctx, fmt.Errorf("read from %s: %w", r.path, err))
	}
	return answer, nil
}

// hintRPCSocket recommends https:// first, because no permissions restrict the socket.
const hintRPCSocket = "this user may not open the RPC socket, through which whoever can open it can do everything: " +
	"use https:// with an account that may only read, or let the IRC server create the socket with a mode and group that admit this " +
	"user; SECURITY.md has the settings"

func (r *ircReading) connect(ctx context.Context) error {
	conn, err := exchange.Dial(ctx, config.Connection{}, "unix", r.path)
	if err != nil && failure.ReasonOf(err) == failure.Forbidden {
		return failure.Errorf(failure.Forbidden, "%w", err).WithHint(hintRPCSocket)
	}
	if err != nil {
		return err
	}
	limited := &io.LimitedReader{R: conn}
	r.line = &ircLine{
		conn:    conn,
		limited: limited,
		reader:  bufio.NewReader(limited),
		wake:    context.AfterFunc(ctx, func() { conn.Close() }), //nolint:errcheck // wakes the reader
	}
	return nil
}

// close closes the connection to the Unix socket, if there is one.
func (r *ircReading) close() {
	if r.line == nil {
		return
	}
	r.line.wake()
	r.line.conn.Close() //nolint:errcheck,gosec // the answers are read or given up
	r.line = nil
}
