package app

import (
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// instanceOf is the first container of a service of Compose's.
func instanceOf(service string) simstack.ContainerSpec {
	return simstack.ContainerSpec{
		Name:    "chat-" + service + "-1",
		Image:   "chat:1",
		Service: service,
		Restart: "always",
	}
}

func TestTargetFollowsItsServiceThroughARollout(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		engine := simstacktest.StartEngine(t, networkOf(t))
		old := instanceOf("web")
		engine.Add(old)
		log := &logBuffer{}
		o := options(nil, log).with(engineTarget(engine) + "  - {kind: tcp, name: web, address: '127.0.0.1:1', service: chat/web}\n" +
			"  - {kind: tcp, name: mistyped, address: '127.0.0.1:1', service: web}\n")
		e := startApp(t, o, log)
		servedBy := func(name string) func(p page) bool {
			return func(p page) bool {
				info := p.Samples("chatstack_target_info", "target", "web")
				return len(info) == 1 && exportertest.Label(info[0], "container") == name
			}
		}
		e.wait(t, "events flow", eventsFlow)
		e.wait(t, "the first instance", servedBy("chat-web-1"))
		next := old
		next.Name = "chat-web-2"
		engine.Add(next)
		engine.Container(old.Name).Remove()
		e.wait(t, "the second instance", servedBy("chat-web-2"))
		says(t, "check", tableOf(t, check(t, o)), "note: container chat-web-2 (of the service chat/web)\n",
			"service web does not exist on any engine; did you mean the service chat/web?")
		if n := strings.Count(log.String(), `msg="service does not exist on any engine" target=mistyped service=web`); n != 1 {
			t.Errorf("the log warns %d times, want once:\n%s", n, log)
		}
	})
}

func TestCheckSaysWhichExpectedServicesDoNotExist(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		engine := simstacktest.StartEngine(t, networkOf(t))
		engine.Add(instanceOf("web"))
		engine.Add(instanceOf("irc"))
		keys := "expected: [irc, chat-web-1], expected_services: [chat/web, web, chat-irc-1, chat/xmpp]"
		o := options(nil, &logBuffer{}).with(engineTarget(engine, keys))
		results := check(t, o)
		says(t, "check", tableOf(t, results),
			"expected names irc, which does not exist; did you mean the service chat/irc?",
			"expected_services names web, which does not exist; did you mean the service chat/web?",
			"expected_services names chat-irc-1, which does not exist; that is a container; its service is chat/irc",
			"expected_services names chat/xmpp, which does not exist; the services are chat/irc, chat/web",
			": chat/xmpp: does not exist\n",
		)
		if got := len(results[0].Problems); got != 4 {
			t.Errorf("%d problems, want 4: %+v", got, results[0].Problems)
		}
	})
}
