package collectors

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// productWords are the words of advice for one product, and what its answers show of it.
var productWords = map[string]struct{ advice, shown *regexp.Regexp }{
	"Prosody": {
		regexp.MustCompile(
			`(?i)prosody|VirtualHost|http_(host|default_host|admin_api|openmetrics|status)|openmetrics_allow|\bmod_\w+|statistics = `),
		regexp.MustCompile(`(?i)p\.extra\{font-size|prosody_|realm="[^"]*/http_admin_api|No statistics provider configured`),
	},
	"UnrealIRCd": {regexp.MustCompile(`(?i)unreal|rpc-user|rpc-class|connect-flood`), regexp.MustCompile(`(?i)unreal|"module": ?"rpc/`)},
	"InspIRCd":   {regexp.MustCompile(`(?i)inspircd|connectban`), regexp.MustCompile(`(?i)inspircd`)},
	"ngIRCd":     {regexp.MustCompile(`(?i)ngircd|MaxConnectionsIP`), regexp.MustCompile(`(?i)ngircd`)},
	"Ergo":       {regexp.MustCompile(`\bErgo\b|ip-limits`), regexp.MustCompile(`(?i)\bergo\b`)},
	"Solanum":    {regexp.MustCompile(`(?i)solanum`), regexp.MustCompile(`(?i)solanum`)},
	"Atheme":     {regexp.MustCompile(`(?i)atheme|transport/jsonrpc`), regexp.MustCompile(`Server:Atheme|Server: Atheme`)},
	"Anope":      {regexp.MustCompile(`(?i)anope`), regexp.MustCompile(`(?i)anope`)},
	"ejabberd":   {regexp.MustCompile(`(?i)ejabberd`), regexp.MustCompile(`(?i)ejabberd`)},
	"nginx":      {regexp.MustCompile(`(?i)nginx`), regexp.MustCompile(`(?i)nginx`)},
	"Caddy":      {regexp.MustCompile(`(?i)caddy`), regexp.MustCompile(`(?i)caddy`)},
	"Apache":     {regexp.MustCompile(`\bApache\b`), regexp.MustCompile(`\bApache\b`)},
	"Openfire":   {regexp.MustCompile(`(?i)openfire`), regexp.MustCompile(`(?i)openfire`)},
	"Synapse":    {regexp.MustCompile(`(?i)synapse`), regexp.MustCompile(`(?i)synapse`)},
	"HAProxy":    {regexp.MustCompile(`(?i)haproxy`), regexp.MustCompile(`(?i)haproxy`)},
}

// aboutCredential matches advice about a credential that the server has seen.
var aboutCredential = regexp.MustCompile(`(?i)(accepts|rejects|refuses) (the|this) ` +
	`(credential|token|user|password|account)|(token|account) (was|has|may have) |correct (it|user|them)\b`)

// wantSeen holds that advice and notes claim only what the probe saw: they name no product but the one that answered, speak of no
// credential that was not sent, and ask for no key that is set.
func (c *serviceCase) wantSeen(t *testing.T, b *Batch, err error) (advice string) {
	t.Helper()
	advice = strings.Join(b.Notes, "\n")
	if err != nil {
		advice += "\n" + failure.AdviceOf(err, "it", "") + "\n" + failure.GuessOf(err)
	}
	said := fmt.Sprint(c.answer, c.RPC)
	for _, a := range c.Paths {
		said += fmt.Sprint(*a)
	}
	for product, words := range productWords {
		if named := words.advice.FindString(advice); named != "" && !words.shown.MatchString(said) {
			t.Errorf("%q is about %s, which did not answer:\n%s", named, product, advice)
		}
	}
	credential := slices.ContainsFunc([]string{"token", "password", "server_password", "headers", "token_file", "password_file"},
		func(key string) bool { return c.Target[key] != nil })
	if claim := aboutCredential.FindString(advice); claim != "" && !credential {
		t.Errorf("%q, but no credential was sent:\n%s", claim, advice)
	}
	for key := range c.Target {
		if regexp.MustCompile(`(?i)\b(set|enable) ` + key + `($|[,;:.]| (and|or) )`).MatchString(advice) {
			t.Errorf("%s is set:\n%s", key, advice)
		}
	}
	return advice
}

// The pages of products, as they answer. HAProxy names itself nowhere, and XMPP servers do not before a login.
const (
	prosodyPage = "Content-Type: text/html; charset=utf-8\r\n\r\n<!DOCTYPE html>\n<html><head><title>%[1]s</title>\n<style>\n" +
		"p.extra{font-size:large;font-family:courier}\n</style></head><body><h1>%[1]s</h1></body></html>\n"
	nginxPage = "Server: nginx/1.22.1\r\nContent-Type: text/html\r\n\r\n" +
		"<html><body><center><h1>%[1]s</h1></center><hr><center>nginx/1.22.1</center></body></html>\r\n"
	haproxyPage = "Cache-Control: no-cache\r\nContent-Type: text/html\r\n\r\n<html><body><h1>%[1]s</h1>\n" +
		"Request forbidden by administrative rules.\n</body></html>\n"
	ircNames   = ":irc.test NOTICE * :*** Looking up your hostname\r\n"
	xmppHeader = "<?xml version='1.0'?><stream:stream id='1' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' " +
		"from='chat.test' version='1.0'>"
	xmppError = xmppHeader + "<stream:error><%s xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>%s</stream:error></stream:stream>"
	xmppText  = "<text xmlns='urn:ietf:params:xml:ns:xmpp-streams'>%s</text>"
)

// answersOf are answers of each product by protocol; those of Openfire, Caddy, HAProxy, Apache, Anope and Ergo in the manner of theirs.
func answersOf() map[string]map[string][]string {
	return map[string]map[string][]string{"http": httpAnswersOf(), "irc": ircAnswersOf(), "xmpp": xmppAnswersOf()}
}

func httpAnswersOf() map[string][]string {
	http := map[string][]string{}
	for product, page := range map[string]string{
		"Prosody": prosodyPage, "nginx": nginxPage, "HAProxy": haproxyPage,
		"Prosody behind nginx": "Server: nginx/1.22.1\r\n" + prosodyPage,
		"ejabberd":             "Content-Type: application/json\r\n\r\n{\"status\":\"error\",\"code\":32,\"message\":\"%s\"}",
		"Caddy":                "Server: Caddy\r\nWww-Authenticate: Basic realm=\"restricted\"\r\n\r\n",
		"UnrealIRCd":           "Server: UnrealIRCd\r\nConnection: close\r\n\r\n%s\n",
		"Atheme":               "Server: Atheme/7.2.12\r\nContent-Type: text/plain\r\n\r\n%s\n",
		"Anope":                "Server: Anope-2.0.12\r\nContent-Type: text/html\r\n\r\n%s\n",
	} {
		for _, status := range []string{
			"401 Unauthorized", "403 Forbidden", "404 Not Found", "429 Too Many Requests", "500 Internal Server Error", "200 OK",
		} {
			said := page
			if strings.Contains(page, "%") {
				said = fmt.Sprintf(page, status)
			}
			http[product] = append(http[product], "HTTP/1.1 "+status+"\r\n"+said)
		}
		// An answer that is cut off.
		http[product] = append(http[product], "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n"+strings.ReplaceAll(page, "%[1]s", "200 OK"))
	}
	add := func(product, said string) { http[product] = append(http[product], said) }
	add("Prosody", "HTTP/1.1 401 Unauthorized\r\nAuthorization: Bearer realm=\"chat.test/http_admin_api\"\r\n\r\n")
	add("nginx", "HTTP/1.1 400 Bad Request\r\n"+strings.ReplaceAll(nginxPage, "%[1]s", "The plain HTTP request was sent to HTTPS port"))
	add("Caddy", "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	add("Apache",
		"HTTP/1.1 400 Bad Request\r\nServer: Apache\r\n\r\nReason: You're speaking plain HTTP to an SSL-enabled server port.<br />\n")
	const call = "\r\nContent-Type: application/json\r\n\r\n"
	for _, code := range []string{"-32000", "-32601", "-32603"} {
		for _, id := range []string{`1`, `"1"`} { // those of irc_rpc and irc_services, which servers repeat
			refused := call + `{"jsonrpc": "2.0", "id": ` + id + `, "error": {"code": ` + code + `, "message": "no"}}`
			add("UnrealIRCd", "HTTP/1.1 200 OK\r\nServer: UnrealIRCd"+refused)
			add("Anope", "HTTP/1.1 200 OK\r\nServer: Anope-2.1.0"+refused)
			add("Caddy", "HTTP/1.1 200 OK\r\nServer: Caddy"+refused) // before any of them
		}
	}
	add("Prosody", "HTTP/1.1 200 OK"+call+`{"chat.test":{}}`)
	add("Synapse", "HTTP/1.1 200 OK\r\nServer: Synapse/1.140.0"+call+`{"versions":["v1.12"]}`)
	add("Atheme", "HTTP/1.1 200 OK\r\nServer: Atheme/7.2.12"+call+`{"error":{"code":2,"message":"Invalid command"},"id":"1","result":null}`)
	return http
}

func ircAnswersOf() map[string][]string {
	irc := map[string][]string{
		"UnrealIRCd": {
			"ERROR :Closing Link: [192.0.2.1] (Throttled: Reconnecting too fast - Email admin@irc.test for more information.)\r\n",
			ircNames + ":irc.test CAP * LS :unrealircd.org/json-log sasl=PLAIN\r\nERROR :Closing Link: [192.0.2.1] (Throttled)\r\n",
			ircNames + ":irc.test 464 * :Password incorrect\r\nERROR :Closing Link: [192.0.2.1] (Bad Password)\r\n",
			"ERROR :Closing Link: [192.0.2.1] (Server is full)\r\n",
		},
		"InspIRCd": {
			":irc.test 465 x :You're banned!\r\n" +
				"ERROR :Closing link: (x@192.0.2.1) [Z-lined: Your IP range has been attempting to connect too many times]\r\n",
			ircNames +
				":irc.test CAP * LS :inspircd.org/poison sasl\r\n:irc.test 465 x :You're banned!\r\nERROR :Closing link: [Z-lined: x]\r\n",
			ircNames + "ERROR :Closing link: (x@192.0.2.1) [Access denied by configuration]\r\n",
			"ERROR :Closing link: (x@192.0.2.1) [No more connections allowed from your host via this connect class (local)]\r\n",
		},
		"ngIRCd": {
			"ERROR :Connection refused, too many connections from your IP address\r\n",
			":irc.test CAP * LS :multi-prefix\r\n:irc.test 464 * :Password incorrect\r\nERROR :Access denied: Bad password?\r\n",
			":irc.test 002 x :Your host is irc.test, running version ngircd-26.1\r\n" +
				"ERROR :Connection refused, too many connections from your IP address\r\n",
			"ERROR :Server full\r\n",
		},
	}
	for product, capability := range map[string]string{
		"UnrealIRCd": "unrealircd.org/json-log", "InspIRCd": "inspircd.org/poison", "ngIRCd": "multi-prefix", "Ergo": "ergo.chat/nope",
	} {
		offers := ":irc.test CAP * LS :sasl=PLAIN " + capability + "\r\n"
		irc[product] = append(irc[product],
			ircNames, // and then it ends
			ircNames+offers+":irc.test 432 * x :Erroneous nickname\r\n",
			ircNames+":irc.test CAP * LS :"+capability+"\r\n:irc.test 001 x :Welcome\r\n",
		)
		if product != "ngIRCd" { // which has no SASL
			irc[product] = append(irc[product],
				offers+":irc.test CAP x ACK :sasl\r\nAUTHENTICATE +\r\n:irc.test 904 x :SASL authentication failed\r\n")
		}
	}
	return irc
}

func xmppAnswersOf() map[string][]string {
	const sasl = "<stream:features><mechanisms " +
		"xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism></mechanisms></stream:features><failure " +
		"xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><%s/>%s</failure>"
	xmpp := map[string][]string{
		"Prosody": {
			fmt.Sprintf(xmppError, "host-unknown", fmt.Sprintf(xmppText, "This server does not serve chat.test")),
			xmppHeader + "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></stream:features>",
			xmppHeader + "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:features><failure " +
				"xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>",
			xmppHeader + fmt.Sprintf(sasl,
				"not-authorized", "<text>Unable to authorize you with the authentication credentials you&apos;ve sent.</text>"),
			xmppHeader + fmt.Sprintf(sasl, "account-disabled", ""),
		},
		"ejabberd": {
			fmt.Sprintf(xmppError,
				"policy-violation", fmt.Sprintf(xmppText, "Too many (20) failed authentications from this IP address (::1)")),
			xmppHeader + fmt.Sprintf(sasl, "not-authorized", "<text xml:lang='en'>Invalid username or password</text>"),
			xmppHeader + fmt.Sprintf(sasl, "temporary-auth-failure", ""),
		},
		"Openfire": {xmppHeader + fmt.Sprintf(sasl, "not-authorized", "")},
	}
	for product := range xmpp {
		for _, condition := range []string{"host-unknown", "not-authorized", "conflict", "system-shutdown", "internal-server-error"} {
			xmpp[product] = append(xmpp[product], fmt.Sprintf(xmppError, condition, ""))
		}
		xmpp[product] = append(xmpp[product],
			xmppHeader+"<stream:features></stream:features>",
			strings.Replace(xmppHeader, "jabber:client", "jabber:server", 1)+"<stream:features></stream:features>",
			xmppHeader+"<stream:features>", // and then it ends
		)
	}
	return xmpp
}

// productKind is a kind that several products may answer.
type productKind struct {
	targets []map[string]any
	// fewer are the reasons for which fewer than three products have an answer, and why.
	fewer map[failure.Reason]string
}

const (
	nobody    = "nobody answers"
	silence   = "a server that says nothing shows no product"
	flood     = "no product sends more than the limit, which is for servers that have gone mad"
	fileOnly  = "it is about certificate_file alone"
	noLimit   = "ejabberd alone has words for it; Prosody and Openfire say nothing of a limit"
	oneHost   = "Prosody alone says which virtual host answers"
	ownOK     = "the identity service alone answers with ok"
	noChannel = "an IRC server misses channels, and irc_login joins none"
)

// because returns the reasons for which no kind has three products, and those of a kind.
func because(of map[failure.Reason]string) map[failure.Reason]string {
	all := map[failure.Reason]string{failure.DNS: nobody, failure.Refused: nobody, failure.Timeout: silence}
	maps.Copy(all, of)
	return all
}

// productKinds are the kinds of XMPP, IRC, HTTP and TLS that several products may answer. The others of the table are served by one
// product, or are settings and clients of these: web_irc, web_panel and log_viewer of http, relay of both logins.
var productKinds = map[string]productKind{
	"xmpp_status":  {[]map[string]any{{"url": "http://ADDRESS/status"}, {"url": "http://ADDRESS/other"}}, because(nil)},
	"xmpp_metrics": {[]map[string]any{{"url": "http://ADDRESS/metrics"}, {"url": "http://ADDRESS/other"}}, because(nil)},
	"xmpp_proxy": {
		[]map[string]any{{"url": "http://ADDRESS/health"}, {"url": "https://ADDRESS/health", "ca_file": "AUTHORITY"}},
		because(nil),
	},
	"xmpp_rest": {[]map[string]any{
		{"url": "http://ADDRESS"},
		{"url": "http://ADDRESS", "token": "sesame", "domain": "chat.test"},
		{"url": "http://ADDRESS", "user": "a@chat.test", "password": "sesame"},
		{"url": "http://ADDRESS", "path": "/api/status", "user": "a@chat.test", "password": "sesame"},
		{"url": "http://ADDRESS", "path": "/api/status"},
	}, because(map[failure.Reason]string{failure.Mismatch: oneHost})},
	"irc_rpc": {
		[]map[string]any{{"url": "http://ADDRESS/api"}, {"url": "http://ADDRESS/api", "user": "exporter", "password": "sesame"}},
		because(nil),
	},
	"irc_services": {[]map[string]any{{"url": "http://ADDRESS/", "jsonrpc": true}}, because(nil)},
	"identity": {[]map[string]any{
		{"url": "http://ADDRESS"},
		{"url": "http://ADDRESS", "token": "sesame"},
		{"url": "http://ADDRESS", "xmpp_jid": "a@chat.test", "must_match": true},
	}, because(map[failure.Reason]string{failure.Mismatch: ownOK})},
	"docs_search": {[]map[string]any{{"url": "http://ADDRESS"}}, because(nil)},
	"openmetrics": {
		[]map[string]any{{"url": "http://ADDRESS/metrics"}, {"url": "http://ADDRESS/metrics", "token": "sesame"}},
		because(nil),
	},
	"http": {[]map[string]any{
		{"url": "http://ADDRESS"},
		{"url": "http://ADDRESS", "token": "sesame"},
		{"url": "http://ADDRESS", "user": "a", "password": "sesame"},
		{"url": "http://ADDRESS", "expect_body": "welcome"},
		{"url": "https://ADDRESS", "ca_file": "AUTHORITY"},
	}, because(nil)},
	"xmpp_c2s": {
		[]map[string]any{{"address": "ADDRESS", "domain": "chat.test"}},
		because(map[failure.Reason]string{failure.Throttled: noLimit, failure.TooLarge: flood}),
	},
	"xmpp_login": {[]map[string]any{
		{"address": "ADDRESS", "user": "a@chat.test", "password": "sesame"},
		{
			"address": "ADDRESS", "user": "a@chat.test", "password": "sesame", "direct_tls": true, "server_name": "127.0.0.1",
			"ca_file": "AUTHORITY",
		},
	}, because(map[failure.Reason]string{failure.Throttled: noLimit, failure.Forbidden: fileOnly, failure.TooLarge: flood})},
	"irc_tls": {
		[]map[string]any{{"address": "ADDRESS"}, {"address": "ADDRESS", "ca_file": "AUTHORITY"}},
		because(map[failure.Reason]string{failure.TooLarge: flood}),
	},
	"irc_login": {[]map[string]any{
		{"address": "ADDRESS", "plain": true, "nick": "x"},
		{"address": "ADDRESS", "plain": true, "nick": "x", "server_password": "sesame"},
		{"address": "ADDRESS", "plain": true, "nick": "x", "user": "x", "password": "sesame"},
		{"address": "ADDRESS", "nick": "x"},
		{"address": "ADDRESS", "nick": "x", "ca_file": "AUTHORITY"},
	}, because(map[failure.Reason]string{failure.NotFound: noChannel, failure.TooLarge: flood})},
	"tls": {
		[]map[string]any{{"address": "ADDRESS"}, {"address": "ADDRESS", "starttls": "xmpp-client", "domain": "chat.test"}},
		because(map[failure.Reason]string{failure.Forbidden: fileOnly, failure.TooLarge: flood}),
	},
	"tcp": {
		[]map[string]any{{"address": "ADDRESS", "send": "hello", "expect": "^220 "}},
		because(map[failure.Reason]string{failure.Closed: silence}),
	},
}

// TestAdviceClaimsOnlyWhatTheProbeSaw has every product answer the targets of every kind, at the right port and at a wrong one. Every
// reason of the kind comes from three products, or is listed with why not.
func TestAdviceClaimsOnlyWhatTheProbeSaw(t *testing.T) {
	for kind, k := range productKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			seen := map[failure.Reason]map[string]bool{}
			see := func(reason failure.Reason, product string) {
				if seen[reason] == nil {
					seen[reason] = map[string]bool{}
				}
				seen[reason][product] = true
			}
			for _, target := range k.targets {
				for protocol, products := range answersOf() {
					for product, answers := range products {
						if !strings.Contains(protocolsOf(kind, target), protocol) {
							answers = answers[:min(2, len(answers))] // at a wrong port, one is like another
						}
						for _, said := range answers {
							see(adviseOn(t, kind, target, product, said, nil), product)
							if target["url"] != nil && strings.HasPrefix(said, "HTTP/1.1 200 OK") {
								see(adviseOn(t, kind, target, product, said, map[string]any{"body": 1, "metrics_body": 1}), product)
							}
						}
					}
				}
				adviseOn(t, kind, target, "nobody", "", nil)
			}
			listed, _ := KindOf(kind)
			for _, reason := range listed.Reasons {
				products, why := slices.Sorted(maps.Keys(seen[reason])), k.fewer[reason]
				switch {
				case len(products) < 3 && why == "":
					t.Errorf("%s: only the answers of %q give the reason %s", kind, products, reason)
				case len(products) >= 3 && why != "":
					t.Errorf("%s: the answers of %q give the reason %s, so that %q is not true", kind, products, reason, why)
				}
			}
		})
	}
}

// protocolsOf are the protocols of the servers that a target is for.
func protocolsOf(kind string, target map[string]any) string {
	protocol, _, _ := strings.Cut(kind, "_")
	switch {
	case target["url"] != nil:
		return "http"
	case target["starttls"] != nil:
		return "xmpp"
	case protocol == "irc", protocol == "xmpp":
		return protocol
	}
	return "irc http"
}

// adviseOn makes one probe of a server that says this, and returns the reason of its failure.
func adviseOn(t *testing.T, kind string, target map[string]any, product, said string, limits map[string]any) failure.Reason {
	t.Helper()
	c := &serviceCase{
		answer: answer{Says: []caseText{caseText(said)}},
		Target: maps.Clone(target),
		Limits: limits,
		Over:   "tcp",
	}
	c.Target["kind"] = kind
	if target["ca_file"] != nil {
		c.Over = "tls"
	}
	server := &caseServer{serviceCase: c}
	address, authority := server.start(t)
	collector, name := c.collector(t, strings.NewReplacer("ADDRESS", address, "AUTHORITY", authority))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	b := &Batch{Target: name}
	err := collector.Collect(ctx, b)
	failed := t.Failed()
	advice := c.wantSeen(t, b, err)
	for name, words := range productWords {
		if named := words.advice.FindString(advice); named != "" && !strings.Contains(product, name) {
			t.Errorf("%q is about %s, but %s answered:\n%s", named, name, product, advice)
		}
	}
	if t.Failed() && !failed {
		t.Logf("of %s by %v: %v", said, c.Target, err)
	}
	if err == nil {
		return ""
	}
	return failure.ReasonOf(err)
}

// evidence is what shows a product where a text names it without Answer.IfFrom and outside of exchange's exemptions, by a part of the text.
var evidence = map[string]string{
	"the IRC server is InspIRCd":           "its capabilities or version, in RecogniseIRCServer",
	"load the services' module transport/": "the header Server, in ison",
	"give the account an rpc-class":        "the header Server or the list of methods, in remedy and notAnswered",
	"set http_host = %q in its Virtual":    "the page of an unknown host, in HostHint",
	"statistics are switched off":          "the page that says so in the server's own words",
	"rpc-class chatstack {":                "the same",
	"Exempt the exporter's address by <co": "as its beginning",
	"such as /var/backups/prosody-*":       "none: an example in a message about the configuration",
	"# TYPE prosody_mod_c2s__connections":  "none: it is compared with a page",
	"a stock UnrealIRCd allows":            "none: a warning of the configuration, about what a product does, of no server",
}

// TestTextsThatNameAProductHaveEvidence finds every text of probes that names a product or its settings.
func TestTextsThatNameAProductHaveEvidence(t *testing.T) {
	used := map[string]bool{}
	for _, pattern := range []string{"*.go", "../internal/exchange/*.go", "../internal/chat/*.go", "../internal/failure/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			// The remarks there are METRICS.md's, and no target's.
			if !strings.HasSuffix(file, "_test.go") && file != "xmpp_canonical.go" {
				checkTexts(t, file, used)
			}
		}
	}
	for part := range evidence {
		if !used[part] {
			t.Errorf("no text has %q any more", part)
		}
	}
}

// checkTexts checks the texts of a file: strings of several words.
func checkTexts(t *testing.T, file string, used map[string]bool) {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if call, ok := n.Fun.(*ast.SelectorExpr); ok && call.Sel.Name == "IfFrom" {
				return false
			}
		case *ast.ValueSpec:
			return n.Names[0].Name != "exemptions"
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if n.Kind != token.STRING || err != nil || len(strings.Fields(text)) < 4 {
				return true
			}
			for product, words := range productWords {
				known := slices.ContainsFunc(slices.Collect(maps.Keys(evidence)),
					func(part string) bool { return strings.Contains(text, part) })
				if words.advice.MatchString(text) && !known {
					t.Errorf("%s names %s without evidence: %q", files.Position(n.Pos()), product, text)
				}
			}
			for part := range evidence {
				used[part] = used[part] || strings.Contains(text, part)
			}
		}
		return true
	})
}
