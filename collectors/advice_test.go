package collectors

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
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
	"UnrealIRCd": {
		regexp.MustCompile(`(?i)unreal|rpc-user|rpc-class|connect-flood`),
		regexp.MustCompile(`(?i)unreal|"code": ?-32(000|601)`),
	},
	"InspIRCd": {regexp.MustCompile(`(?i)inspircd|connectban`), regexp.MustCompile(`(?i)inspircd`)},
	"ngIRCd":   {regexp.MustCompile(`(?i)ngircd|MaxConnectionsIP`), regexp.MustCompile(`(?i)ngircd`)},
	"Ergo":     {regexp.MustCompile(`\bErgo\b|ip-limits`), regexp.MustCompile(`(?i)\bergo\b`)},
	"Solanum":  {regexp.MustCompile(`(?i)solanum`), regexp.MustCompile(`(?i)solanum`)},
	"Atheme":   {regexp.MustCompile(`(?i)atheme|transport/jsonrpc`), regexp.MustCompile(`Server:Atheme|Server: Atheme`)},
	"Anope":    {regexp.MustCompile(`(?i)anope`), regexp.MustCompile(`(?i)anope`)},
	"ejabberd": {regexp.MustCompile(`(?i)ejabberd`), regexp.MustCompile(`(?i)ejabberd`)},
	"nginx":    {regexp.MustCompile(`(?i)nginx`), regexp.MustCompile(`(?i)nginx`)},
	"Caddy":    {regexp.MustCompile(`(?i)caddy`), regexp.MustCompile(`(?i)caddy`)},
	"HAProxy":  {regexp.MustCompile(`(?i)haproxy`), regexp.MustCompile(`(?i)haproxy`)},
}

// aboutCredential matches advice about a credential that the server has seen.
var aboutCredential = regexp.MustCompile(`(?i)(accepts|rejects|refuses) (the|this) ` +
	`(credential|token|user|password|account)|(token|account) (was|has|may have) |correct (it|user|them)\b`)

// wantSeen holds that advice and notes claim only what the probe saw: they name no product but the one that answered, speak of no
// credential that was not sent, and ask for no key that is set.
func (c *serviceCase) wantSeen(t *testing.T, b *Batch, err error) {
	t.Helper()
	advice := strings.Join(b.Notes, "\n")
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
}

// The pages of products, as they answer. HAProxy names itself nowhere.
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

// answersOf are answers of each product by protocol.
func answersOf() map[string]map[string][]string {
	http, irc, xmpp := map[string][]string{}, map[string][]string{}, map[string][]string{}
	for _, status := range []string{
		"401 Unauthorized", "403 Forbidden", "404 Not Found", "429 Too Many Requests", "500 Internal Server Error", "200 OK",
	} {
		for product, page := range map[string]string{
			"Prosody": prosodyPage, "nginx": nginxPage, "HAProxy": haproxyPage,
			"Prosody behind nginx": "Server: nginx/1.22.1\r\n" + prosodyPage,
			"ejabberd":             "Content-Type: application/json\r\n\r\n{\"status\":\"error\",\"code\":32,\"message\":\"%s\"}",
			"Caddy":                "Server: Caddy\r\nWww-Authenticate: Basic realm=\"restricted\"\r\n\r\n",
			"UnrealIRCd":           "Server: UnrealIRCd\r\nConnection: close\r\n\r\n%s\n",
			"Atheme":               "Server: Atheme/7.2.12\r\nContent-Type: text/plain\r\n\r\n%s\n",
			"Anope":                "Server: Anope-2.0.12\r\nContent-Type: text/html\r\n\r\n%s\n",
		} {
			if strings.Contains(page, "%") {
				page = fmt.Sprintf(page, status)
			}
			http[product] = append(http[product], "HTTP/1.1 "+status+"\r\n"+page)
		}
	}
	http["Prosody"] = append(http["Prosody"],
		"HTTP/1.1 401 Unauthorized\r\nAuthorization: Bearer realm=\"chat.test/http_admin_api\"\r\n\r\n")
	irc["UnrealIRCd"] = []string{
		"ERROR :Closing Link: [192.0.2.1] (Throttled: Reconnecting too fast - Email admin@irc.test for more information.)\r\n",
		ircNames + ":irc.test CAP * LS :unrealircd.org/json-log sasl=PLAIN\r\nERROR :Closing Link: [192.0.2.1] (Throttled)\r\n",
		ircNames + ":irc.test 464 * :Password incorrect\r\nERROR :Closing Link: [192.0.2.1] (Bad Password)\r\n",
	}
	irc["InspIRCd"] = []string{
		":irc.test 465 x :You're banned!\r\n" +
			"ERROR :Closing link: (x@192.0.2.1) [Z-lined: Your IP range has been attempting to connect too many times]\r\n",
		ircNames +
			":irc.test CAP * LS :inspircd.org/poison sasl\r\n:irc.test 465 x :You're banned!\r\nERROR :Closing link: [Z-lined: x]\r\n",
		ircNames + "ERROR :Closing link: (x@192.0.2.1) [Access denied by configuration]\r\n",
	}
	irc["ngIRCd"] = []string{
		"ERROR :Connection refused, too many connections from your IP address\r\n",
		":irc.test CAP * LS :multi-prefix\r\n:irc.test 464 * :Password incorrect\r\nERROR :Access denied: Bad password?\r\n",
		":irc.test 002 x :Your host is irc.test, running version ngircd-26.1\r\n" +
			"ERROR :Connection refused, too many connections from your IP address\r\n",
	}
	irc["Ergo"] = []string{
		":ergo.test CAP * LS :sasl=PLAIN,SCRAM-SHA-256 ergo.chat/nope\r\n:ergo.test 904 * :SASL authentication failed\r\n",
	}
	xmpp["Prosody"] = []string{
		fmt.Sprintf(xmppError, "host-unknown", fmt.Sprintf(xmppText, "This server does not serve chat.test")),
		fmt.Sprintf(xmppError, "not-authorized", ""),
		xmppHeader + "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></stream:features>",
		xmppHeader + "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:features><failure " +
			"xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>",
	}
	xmpp["ejabberd"] = []string{
		fmt.Sprintf(xmppError, "host-unknown", ""),
		fmt.Sprintf(xmppError,
			"policy-violation", fmt.Sprintf(xmppText, "Too many (20) failed authentications from this IP address (::1)")),
		fmt.Sprintf(xmppError, "system-shutdown", ""),
		xmppHeader + "<stream:features></stream:features>",
	}
	return map[string]map[string][]string{"http": http, "irc": irc, "xmpp": xmpp}
}

// productKinds are targets of kinds that several products may answer, with the reasons that the answers of at least three must give.
var productKinds = map[string]struct {
	targets []map[string]any
	reasons []failure.Reason
}{
	"xmpp_status":  {[]map[string]any{{"url": "http://ADDRESS/status"}, {"url": "http://ADDRESS/other"}}, httpAnswers},
	"xmpp_metrics": {[]map[string]any{{"url": "http://ADDRESS/metrics"}, {"url": "http://ADDRESS/other"}}, httpAnswers},
	"xmpp_proxy": {
		[]map[string]any{{"url": "http://ADDRESS/health"}, {"url": "https://ADDRESS/health", "ca_file": "AUTHORITY"}},
		httpAnswers,
	},
	"xmpp_rest": {[]map[string]any{
		{"url": "http://ADDRESS"},
		{"url": "http://ADDRESS", "token": "sesame", "domain": "chat.test"},
		{"url": "http://ADDRESS", "user": "a@chat.test", "password": "sesame"},
		{"url": "http://ADDRESS", "path": "/api/status", "user": "a@chat.test", "password": "sesame"},
		{"url": "http://ADDRESS", "path": "/api/status"},
	}, httpAnswers},
	"irc_rpc": {
		[]map[string]any{{"url": "http://ADDRESS/api"}, {"url": "http://ADDRESS/api", "user": "exporter", "password": "sesame"}},
		httpAnswers,
	},
	"irc_services": {[]map[string]any{{"url": "http://ADDRESS/", "jsonrpc": true}}, []failure.Reason{failure.NotFound, failure.HTTPStatus}},
	"identity": {
		[]map[string]any{{"url": "http://ADDRESS"}, {"url": "http://ADDRESS", "token": "sesame"}},
		[]failure.Reason{failure.Unauthorized, failure.Forbidden, failure.HTTPStatus},
	},
	"docs_search": {[]map[string]any{{"url": "http://ADDRESS"}}, httpAnswers},
	"openmetrics": {[]map[string]any{{"url": "http://ADDRESS/metrics"}, {"url": "http://ADDRESS/metrics", "token": "sesame"}}, httpAnswers},
	"http": {[]map[string]any{
		{"url": "http://ADDRESS"},
		{"url": "http://ADDRESS", "token": "sesame"},
		{"url": "http://ADDRESS", "user": "a", "password": "sesame"},
		{"url": "https://ADDRESS", "ca_file": "AUTHORITY"},
	}, httpAnswers},
	"xmpp_c2s": {[]map[string]any{{"address": "ADDRESS", "domain": "chat.test"}}, []failure.Reason{failure.Malformed}},
	"xmpp_login": {[]map[string]any{
		{"address": "ADDRESS", "user": "a@chat.test", "password": "sesame"},
		{"address": "ADDRESS", "user": "a@chat.test", "password": "sesame", "direct_tls": true, "ca_file": "AUTHORITY"},
	}, []failure.Reason{failure.Malformed}},
	"irc_tls": {
		[]map[string]any{{"address": "ADDRESS"}, {"address": "ADDRESS", "ca_file": "AUTHORITY"}},
		[]failure.Reason{failure.Throttled, failure.TLS, failure.Malformed},
	},
	"irc_login": {[]map[string]any{
		{"address": "ADDRESS", "plain": true, "nick": "x"},
		{"address": "ADDRESS", "plain": true, "nick": "x", "server_password": "sesame"},
		{"address": "ADDRESS", "plain": true, "nick": "x", "user": "x", "password": "sesame"},
	}, []failure.Reason{failure.Throttled}},
	"tls": {
		[]map[string]any{{"address": "ADDRESS"}, {"address": "ADDRESS", "starttls": "xmpp-client", "domain": "chat.test"}},
		[]failure.Reason{failure.TLS, failure.Malformed},
	},
	"tcp": {[]map[string]any{{"address": "ADDRESS", "send": "hello", "expect": "^220 "}}, []failure.Reason{failure.Mismatch}},
}

var httpAnswers = []failure.Reason{failure.Unauthorized, failure.Forbidden, failure.NotFound, failure.Throttled, failure.HTTPStatus}

// TestAdviceClaimsOnlyWhatTheProbeSaw has every product answer the targets of every kind, at the right port and at a wrong one.
func TestAdviceClaimsOnlyWhatTheProbeSaw(t *testing.T) {
	for kind, k := range productKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			seen := map[failure.Reason]map[string]bool{}
			for _, target := range k.targets {
				for _, products := range answersOf() {
					for product, answers := range products {
						for _, said := range answers {
							reason := adviseOn(t, kind, target, said)
							if seen[reason] == nil {
								seen[reason] = map[string]bool{}
							}
							seen[reason][product] = true
						}
					}
				}
			}
			for _, reason := range k.reasons {
				if len(seen[reason]) < 3 {
					t.Errorf("only the answers of %v give the reason %s", slices.Collect(maps.Keys(seen[reason])), reason)
				}
			}
		})
	}
}

// adviseOn makes one probe of a server that says this, and returns the reason of its failure.
func adviseOn(t *testing.T, kind string, target map[string]any, said string) failure.Reason {
	t.Helper()
	c := &serviceCase{answer: answer{Says: []caseText{caseText(said)}}, Target: maps.Clone(target), Over: "tcp"}
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
	c.wantSeen(t, b, err)
	if t.Failed() && !failed {
		t.Logf("of %s by %v: %v", said, c.Target, err)
	}
	if err == nil {
		return ""
	}
	return failure.ReasonOf(err)
}
