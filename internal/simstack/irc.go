package simstack

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// ircHeader is the header of every answer of the IRC server: no length, no type, no keep-alive.
var ircHeader = []string{"Server: UnrealIRCd", "Connection: close"}

// irc is the IRC server's JSON-RPC: UnrealIRCd's, over HTTPS and on a Unix socket.
type irc struct {
	service        *service
	user, password string
}

func newIRC(o Options, socket string) *service {
	i := &irc{user: o.User, password: o.Password}
	i.service = &service{
		name:      "irc_rpc",
		secure:    true,
		handle:    i.handle,
		endpoints: []*endpoint{{network: "unix", address: socket, staleSocket: true, lines: i.lines}},
		faults: []Fault{
			{Name: "wrong_credentials", Description: "the password was changed, or the rpc-user block matches another address: 401"},
			{Name: "forbidden", Description: "the account's class forbids every call: error -32000 under status 200"},
			{Name: "rpc_error", Description: "every call fails with error -32603 under status 200"},
			{Name: "other_id", Description: "every answer bears another id than the call"},
			{Name: "services_unlinked", Description: "the IRC services are not linked: the server counts only itself"},
		},
	}
	return i.service
}

func (i *irc) handle(x *exchange) *answer {
	user, password, _ := x.req.BasicAuth()
	if user != i.user || password != i.password || i.service.on("wrong_credentials") {
		return captured("irc_401")
	}
	if x.req.URL.Path != "/api" {
		return captured("irc_404")
	}
	if x.req.Method != http.MethodPost {
		return captured("irc_api")
	}
	// The real server sends the header before it has read the call, and is then silent until the call is whole.
	return &answer{status: http.StatusOK, header: ircHeader, late: func() ([]byte, bool) {
		body, whole := x.body()
		if !whole || len(body) == 0 {
			return nil, false
		}
		return i.call(body, x.calls), true
	}}
}

// lines speaks the Unix socket's dialect: a line of JSON each way, as many as the client likes.
func (i *irc) lines(ctx context.Context, s *service, conn net.Conn) {
	calls := bufio.NewReader(conn)
	for {
		call, err := calls.ReadBytes('\n')
		if err != nil || !s.hold(ctx) || !s.delay(ctx) {
			return
		}
		r := &Request{}
		out := i.call(call, func(method string) { r.RPC = method })
		s.remember(r)
		switch {
		case s.on("malformed"):
			out = []byte("{\"<html> it works!\n")
		case s.on("truncated"):
			_, _ = conn.Write(out[:len(out)/2])
			return
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

// rpcCall is a JSON-RPC call as the IRC server reads it.
type rpcCall struct {
	JSONRPC string          `json:"jsonrpc"`
	Method  string          `json:"method"`
	ID      json.RawMessage `json:"id"`
	Params  struct {
		Level  *int   `json:"object_detail_level"`
		Server string `json:"server"`
	} `json:"params"`
}

// call answers one call and tells note its method. Errors have the texts of the real server.
func (i *irc) call(raw []byte, note func(method string)) []byte {
	if !json.Valid(raw) {
		return ircError("", nil, -32700, "Unparsable JSON data")
	}
	var c rpcCall
	if err := json.Unmarshal(raw, &c); err != nil || c.JSONRPC != "2.0" {
		return ircError("", nil, -32600, "Only JSON-RPC version 2.0 is supported")
	}
	note(c.Method)
	if len(c.ID) == 0 {
		return ircError(c.Method, nil, -32600, "Missing 'id'")
	}
	if i.service.on("other_id") {
		c.ID = json.RawMessage("424242")
	}
	switch {
	case i.service.on("forbidden"):
		return ircError(c.Method, c.ID, -32000, "Your API account is not authorized to make this API call")
	case i.service.on("rpc_error"):
		return ircError(c.Method, c.ID, -32603, "Internal error")
	}
	result := i.result(&c)
	if result == nil {
		return ircError(c.Method, c.ID, -32601, "Unsupported method")
	}
	return fmt.Appendf(nil, "{\"jsonrpc\": \"2.0\", \"method\": %q, \"id\": %s, \"result\": %s}\n", c.Method, c.ID, result)
}

func ircError(method string, id json.RawMessage, code int, message string) []byte {
	out := []byte(`{"jsonrpc": "2.0", `)
	if method != "" {
		out = fmt.Appendf(out, `"method": %q, `, method)
	}
	if id != nil {
		out = fmt.Appendf(out, `"id": %s, `, id)
	}
	return fmt.Appendf(out, "\"error\": {\"code\": %d, \"message\": %q}}\n", code, message)
}

// result is what a method returns; nil for one that there is not.
func (i *irc) result(c *rpcCall) []byte {
	level := func(standard int) int {
		if c.Params.Level != nil {
			return *c.Params.Level
		}
		return standard
	}
	unlinked := i.service.on("services_unlinked")
	switch c.Method {
	case "rpc.info", "server.get":
		return ircCapture(c.Method)
	case "stats.get":
		return ircStats(level(1), unlinked)
	case "server.list":
		return ircServers(unlinked)
	case "user.list":
		return ircUsers(level(2), unlinked)
	case "channel.list":
		return ircChannels(level(1))
	case "server.rehash":
		return []byte("true")
	default:
		return nil
	}
}

// ircCapture is the result of a captured answer.
func ircCapture(method string) []byte {
	_, result, _ := bytes.Cut(captured("irc_"+method).body, []byte(`"result": `))
	return bytes.TrimSuffix(bytes.TrimSpace(result), []byte("}"))
}

func ircStats(level int, unlinked bool) []byte {
	stats := string(ircCapture("stats.get"))
	if level == 0 {
		stats = strings.Replace(stats, `, "countries": []`, "", 1)
	}
	if unlinked {
		stats = strings.Replace(stats, `{"total": 2, "ulined": 1}`, `{"total": 1, "ulined": 0}`, 1)
		stats = strings.Replace(stats, `{"total": 7, "ulined": 4`, `{"total": 3, "ulined": 0`, 1)
	}
	return []byte(stats)
}

func ircServers(unlinked bool) []byte {
	all := ircCapture("server.list")
	if !unlinked {
		return all
	}
	var servers struct {
		List []map[string]any `json:"list"`
	}
	if err := json.Unmarshal(all, &servers); err != nil {
		panic(err) // a slip of ours: the capture is part of the binary
	}
	servers.List = slices.DeleteFunc(servers.List, func(s map[string]any) bool { return s["name"] == "services."+ircName })
	return mustJSON(servers)
}

// ircPeople are who is on the IRC server: three people and the services' bots.
var ircPeople = []struct{ name, id, server string }{
	{"user00002", "001XBX11I", ircName},
	{"user00001", "001VZEN1H", ircName},
	{"user00000", "0014UCR1G", ircName},
	{"SaslServ", "00AAAAAAE", "services." + ircName},
	{"OperServ", "00AAAAAAD", "services." + ircName},
	{"NickServ", "00AAAAAAC", "services." + ircName},
	{"ChanServ", "00AAAAAAB", "services." + ircName},
}

const ircSince = "2026-11-20T15:59:28.000Z"

// ircUsers lists users; each level adds to those below it.
func ircUsers(level int, unlinked bool) []byte {
	list := []map[string]any{}
	for _, p := range ircPeople {
		if unlinked && p.server != ircName {
			continue
		}
		u := map[string]any{"name": p.name, "id": p.id}
		if level >= 1 {
			u["hostname"], u["ip"], u["details"] = "127.0.0.1", "127.0.0.1", p.name+"!user@127.0.0.1"
		}
		if level >= 2 {
			u["connected_since"], u["idle_since"] = ircSince, ircSince
			u["user"] = map[string]any{"username": "user", "realname": "Real Name", "servername": p.server, "reputation": 0, "modes": "iwx", "security-groups": []string{"unknown-users"}}
		}
		if user, ok := u["user"].(map[string]any); ok && level >= 4 {
			user["channels"] = []map[string]string{{"name": "#chan", "level": "o"}}
		}
		list = append(list, u)
	}
	return mustJSON(map[string]any{"list": list})
}

// ircChannels lists channels; each level adds to those below it.
func ircChannels(level int) []byte {
	var channels struct {
		List []map[string]any `json:"list"`
	}
	if err := json.Unmarshal(ircCapture("channel.list"), &channels); err != nil {
		panic(err) // a slip of ours: the capture is part of the binary
	}
	for _, c := range channels.List {
		if level == 0 {
			delete(c, "creation_time")
			delete(c, "num_users")
			delete(c, "modes")
		}
		if level >= 3 {
			c["members"] = []map[string]string{{"name": "user00000", "id": "0014UCR1G", "level": "o"}}
		}
	}
	return mustJSON(channels)
}
