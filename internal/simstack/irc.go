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
	service  *service
	password string
	// people is the number of users, without the services' bots.
	people int
}

func newIRC(o Options, socket string) *service {
	i := &irc{password: o.Password, people: o.IRCUsers}
	i.service = &service{
		name:      "irc_rpc",
		secure:    true,
		handle:    i.handle,
		listening: listening{endpoints: []*endpoint{{network: "unix", address: socket, lines: i.lines}}},
	}
	return i.service
}

func (i *irc) handle(x *exchange) *answer {
	user, password, _ := x.req.BasicAuth()
	if user != ircUser || password != i.password || i.service.on("wrong_credentials") {
		return captured("irc_401")
	}
	if x.req.URL.Path != "/api" {
		return captured("irc_404")
	}
	if x.req.Method != http.MethodPost {
		return captured("irc_api")
	}
	// The real server sends the header before it has read the call, then waits for the whole call.
	return &answer{status: http.StatusOK, header: ircHeader, late: func() ([]byte, bool) {
		body, whole := x.body()
		if !whole || len(body) == 0 {
			return nil, false
		}
		return i.call(body, x.record), true
	}}
}

// lines speaks the Unix socket's dialect: a line of JSON each way, as many as the client likes.
func (i *irc) lines(ctx context.Context, conn net.Conn) {
	s := i.service
	calls := bufio.NewReader(conn)
	for {
		call, err := calls.ReadBytes('\n')
		if err != nil || !s.hold(ctx) || !s.delay(ctx) {
			return
		}
		r := &Request{}
		out := i.call(call, r)
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
}

// call answers one call and records its method. Errors have the texts of the real server.
func (i *irc) call(raw []byte, record *Request) []byte {
	if !json.Valid(raw) {
		return ircError("", nil, -32700, "Unparsable JSON data")
	}
	var c rpcCall
	if err := json.Unmarshal(raw, &c); err != nil || c.JSONRPC != "2.0" {
		return ircError("", nil, -32600, "Only JSON-RPC version 2.0 is supported")
	}
	i.service.setRPC(record, c.Method)
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
	case i.service.on("numbers_forbidden") && c.Method != "rpc.info":
		return ircError(c.Method, c.ID, -32000, "Your API account is not authorized to make this API call")
	}
	result := i.result(c.Method)
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

// result returns the result of a method, at level 0 if the method has levels; nil if the method is unknown.
func (i *irc) result(method string) []byte {
	unlinked := i.service.on("services_unlinked")
	switch method {
	case "rpc.info":
		return ircInfo(i.service.on("no_stats"))
	case "stats.get":
		if i.service.on("no_stats") {
			return nil
		}
		return i.stats(unlinked)
	case "server.list":
		return i.servers(unlinked)
	case "user.list":
		return i.users(unlinked)
	case "channel.list":
		return ircChannels()
	default:
		return nil
	}
}

// ircCapture is the result of a captured answer.
func ircCapture(method string) []byte {
	_, result, _ := bytes.Cut(captured("irc_"+method).body, []byte(`"result": `))
	return bytes.TrimSuffix(bytes.TrimSpace(result), []byte("}"))
}

// ircInfo is the result of rpc.info; an older server's has no stats.get.
func ircInfo(noStats bool) []byte {
	all := ircCapture("rpc.info")
	if !noStats {
		return all
	}
	var info struct {
		Methods map[string]any `json:"methods"`
	}
	parse(all, &info)
	delete(info.Methods, "stats.get")
	return mustJSON(info)
}

// parse decodes a capture's JSON.
func parse(capture []byte, v any) {
	if err := json.Unmarshal(capture, v); err != nil {
		panic(err) // a programming error: the capture is part of the binary
	}
}

func (i *irc) stats(unlinked bool) []byte {
	stats := strings.Replace(string(ircCapture("stats.get")), `, "countries": []`, "", 1)
	servers, bots := `{"total": 2, "ulined": 1}`, ircBots
	if unlinked {
		servers, bots = `{"total": 1, "ulined": 0}`, 0
	}
	stats = strings.Replace(stats, `{"total": 2, "ulined": 1}`, servers, 1)
	stats = strings.Replace(stats, `"record": 7`, fmt.Sprintf(`"record": %d`, i.people+ircBots), 1)
	return []byte(strings.Replace(stats, `{"total": 7, "ulined": 4`, fmt.Sprintf(`{"total": %d, "ulined": %d`, i.people+bots, bots), 1))
}

func (i *irc) servers(unlinked bool) []byte {
	var servers struct {
		List []map[string]any `json:"list"`
	}
	parse(ircCapture("server.list"), &servers)
	servers.List = slices.DeleteFunc(servers.List, func(s map[string]any) bool { return unlinked && s["name"] == "services."+ircName })
	for _, s := range servers.List {
		if own, ok := s["server"].(map[string]any); ok && s["name"] == ircName {
			own["num_users"] = i.people
		}
	}
	return mustJSON(servers)
}

const (
	// ircUser is the account of the RPC.
	ircUser = "exporter"
	// ircPeople is the number of users on the captured server, ircBots the number of the services' bots.
	ircPeople = 3
	ircBots   = 4
)

// users lists names and ids: people first, then the services' bots unless these are not linked.
func (i *irc) users(unlinked bool) []byte {
	list := []map[string]string{}
	add := func(name, id string) { list = append(list, map[string]string{"name": name, "id": id}) }
	for n := i.people - 1; n >= 0; n-- {
		add(fmt.Sprintf("user%05d", n), fmt.Sprintf("001X%05d", n))
	}
	for n, bot := range []string{"ChanServ", "NickServ", "OperServ", "SaslServ"} {
		if !unlinked {
			add(bot, "00AAAAAA"+string(rune('B'+n)))
		}
	}
	return mustJSON(map[string]any{"list": list})
}

// ircChannels lists the names of channels.
func ircChannels() []byte {
	var channels struct {
		List []struct {
			Name string `json:"name"`
		} `json:"list"`
	}
	parse(ircCapture("channel.list"), &channels)
	return mustJSON(channels)
}
