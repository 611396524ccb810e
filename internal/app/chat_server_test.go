package app

import (
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// The rules group messages by what these series name.
func TestPageNamesTheServerOfEveryTargetAndContainer(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		engine := simstacktest.StartEngine(t, networkOf(t))
		for _, service := range []string{"prosody", "xmpp-nginx", "sql", "web", "db"} {
			engine.Add(instanceOf(service))
		}
		log := &logBuffer{}
		o := options(nil, log).with(engineTarget(engine, "chat_servers: {chat/sql: xmpp, chat-web-1: shop}") +
			"  - {kind: xmpp_c2s, address: '127.0.0.1:1', domain: a.test}\n" +
			"  - {kind: xmpp_proxy, url: 'https://127.0.0.1:1'}\n" +
			"  - {kind: tcp, name: s2s, address: '127.0.0.1:1', chat_server: xmpp}\n" +
			"  - {kind: tcp, name: other, address: '127.0.0.1:1'}\n")
		e := startApp(t, o, log)
		e.wait(t, "events flow", eventsFlow)
		p := e.scrape(t)
		// Rules that are loaded join the judged series by all labels but a few.
		for name, family := range p {
			for _, m := range family.GetMetric() {
				if exportertest.Label(m, "chat_server") != "" && !strings.HasSuffix(name, "_chat_server") {
					t.Errorf("%s has the label chat_server", name)
				}
			}
		}
		for label, want := range map[string]map[string]string{
			"target": {
				"xmpp_c2s":   "xmpp",
				"xmpp_proxy": "xmpp", // it fails with the XMPP server
				"s2s":        "xmpp",
				"docker":     "docker",
				"other":      "", // the rules know its container
			},
			"container": {"chat-prosody-1": "xmpp", "chat-xmpp-nginx-1": "xmpp", "chat-sql-1": "xmpp"},
			"workload":  {"chat/web": "shop", "chat/db": "db"},
		} {
			for name, want := range want {
				family := "chatstack_container_chat_server"
				if label == "target" {
					family = "chatstack_target_chat_server"
				}
				got := ""
				for _, m := range p.Samples(family, label, name) {
					got += exportertest.Label(m, "chat_server")
				}
				if got != want {
					t.Errorf("the server of %s is %q, want %q", name, got, want)
				}
			}
		}
	})
}
