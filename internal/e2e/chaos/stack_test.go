//go:build chaos

package chaos

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// subject is one target that faults are put before.
type subject struct {
	kind, name string
	language   language
	// network and upstream are where the service really is.
	network, upstream string
	// block is the rest of its block in exporter.yaml; %s is host:port of its proxy.
	block string
	// own are the beginnings of the names of what only this target has on the page, beside what bears its name as label.
	own []string
}

// host is the name that the subject has with the resolver.
func (s *subject) host() string { return strings.ReplaceAll(s.name, "_", "-") }

// subjects are a target of every kind that asks over a network.
func subjects(stack *simstack.Stack, caFile string) []subject {
	env := stack.Environ()
	at := func(variable string) string {
		u, err := url.Parse(env[variable])
		if err != nil {
			panic(err) // the stack's own addresses
		}
		return u.Host
	}
	trust := fmt.Sprintf("ca_file: %s, server_name: irc.test", caFile)
	web := "url: http://%s/status"
	return []subject{
		{
			kind:     "xmpp_status",
			upstream: at("XMPP_REST_URL"),
			block:    "url: http://%s/status",
			own:      []string{"chatstack_xmpp_module_", "chatstack_xmpp_component_"},
		},
		{
			kind:     "xmpp_metrics",
			upstream: at("XMPP_REST_URL"),
			block:    "url: http://%s/metrics",
			own:      []string{"prosody_", "xmpp_c2s_", "xmpp_process_"},
		},
		{
			kind:     "xmpp_proxy",
			language: speaksHTTPS,
			upstream: at("XMPP_PROXY_URL"),
			block:    "url: https://%s/health, " + trust,
		},
		{kind: "xmpp_rest", upstream: at("XMPP_REST_URL"), block: "url: http://%s, domain: chat.test, token: " + env["XMPP_REST_TOKEN"]},
		{
			kind:     "xmpp_c2s",
			language: speaksXMPP,
			upstream: stack.XMPPClientAddress(),
			block:    "address: %s, domain: chat.test, ca_file: " + caFile,
		},
		{
			kind:     "irc_rpc",
			language: speaksHTTPS,
			upstream: at("IRC_RPC_URL"),
			block:    fmt.Sprintf("url: https://%%s/api, user: %s, password: %s, %s", env["IRC_RPC_USER"], env["IRC_RPC_PASSWORD"], trust),
			own:      []string{"chatstack_irc_"},
		},
		{
			kind:     "irc_tls",
			language: speaksIRC,
			upstream: stack.IRCAddress(),
			block:    fmt.Sprintf("address: %%s, schedule: \"@every %s\", %s", interval, trust),
		},
		{
			kind:     "irc_login",
			language: speaksIRC,
			upstream: stack.IRCAddress(),
			block: fmt.Sprintf("address: %%s, schedule: \"@every %s\", nick: %s, password: %s, %s",
				interval, simstack.RelayUser, simstack.RelayPassword, trust),
		},
		{
			kind:     "xmpp_login",
			language: speaksXMPP,
			upstream: stack.XMPPClientAddress(),
			block: fmt.Sprintf("address: %%s, user: %s@%s, password: %s, ca_file: %s",
				simstack.RelayUser, simstack.XMPPDomain, simstack.RelayPassword, caFile),
		},
		{
			kind:     "irc_services",
			upstream: at("IRC_SERVICES_JSONRPC_URL"),
			block:    "url: http://%[1]s/, jsonrpc: true, jsonrpc_url: http://%[1]s/jsonrpc",
		},
		{kind: "plant_store", upstream: at("PLANT_STORE_URL"), block: "url: http://%s, mode: canary, token: " + env["PLANT_STORE_TOKEN"]},
		{kind: "identity", upstream: at("BRIDGE_IDENTITY_BASE_URL"), block: "url: http://%s, token: " + env["BRIDGE_IDENTITY_TOKEN"]},
		{kind: "docs_search", upstream: at("DOCS_SEARCH_URL"), block: "url: http://%s"},
		{kind: "web_irc", upstream: at("XMPP_REST_URL"), block: web},
		{kind: "web_panel", upstream: at("XMPP_REST_URL"), block: web},
		{kind: "log_viewer", upstream: at("XMPP_REST_URL"), block: web},
		{
			kind:     "http",
			language: speaksHTTPS,
			upstream: at("XMPP_PROXY_URL"),
			block:    "url: https://%s/health, " + trust,
		},
		{
			kind:     "tcp",
			language: isAccepted,
			upstream: at("XMPP_REST_URL"),
			block:    "address: %s",
		},
		{
			kind:     "openmetrics",
			upstream: at("XMPP_REST_URL"),
			block:    "url: http://%s/metrics, prefix: twin_",
			own:      []string{"twin_"},
		},
		{
			kind:     "tls",
			name:     "xmpp_s2s",
			language: speaksXMPP,
			upstream: stack.XMPPServerAddress(),
			block:    "address: %s, starttls: xmpp-server, domain: chat.test, ca_file: " + caFile,
		},
		{
			kind:     "tls",
			name:     "irc_certificate",
			language: speaksNoMore,
			upstream: stack.IRCAddress(),
			block:    "address: %s, " + trust,
		},
		{
			kind:     "docker",
			network:  "unix",
			upstream: strings.TrimPrefix(env["DOCKER_HOST"], "unix://"),
			block:    "host: \"tcp://%s\"",
			own:      []string{"chatstack_container_", "chatstack_docker_"},
		},
	}
}

// certificate makes a certificate that the exporters believe beside the stack's own, so that a proxy can speak in the
// place of a service within TLS, and writes a file of both authorities.
func certificate(t *testing.T, stack *simstack.Stack) (own *tls.Config, caFile string) {
	t.Helper()
	made := exchangetest.Certificate{
		Name:      "chaos",
		Names:     []string{"irc.test", "chat.test"},
		End:       time.Now().AddDate(0, 0, 60),
		Authority: true,
	}.Make(t)
	theirs, err := os.ReadFile(stack.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	ours, _ := made.PEM(t)
	if err := os.WriteFile(caFile, append(theirs, ours...), 0o600); err != nil {
		t.Fatal(err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{exchangetest.Chain(made)}}, caFile
}
