package app

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// checkOf is the table of a check of these targets.
func checkOf(t *testing.T, targets string) string {
	t.Helper()
	o := options(nil, &logBuffer{})
	o.Timeout = time.Second
	o.configContent, o.ConfigFile = []byte(targets), "exporter.yaml"
	return tableOf(t, check(t, o))
}

// deaf reads what clients say and never answers, as an IRC server's port for TLS does to plain HTTP. It returns its address.
func deaf(t *testing.T) string {
	t.Helper()
	l := listenOnLoopback(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(io.Discard, conn) //nolint:errcheck // until the client gives up
				conn.Close()              //nolint:errcheck,gosec // a test's server
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close() //nolint:errcheck,gosec // a test's server
		<-ended
	})
	return l.Addr().String()
}

func TestCheckNamesNoPageThatNobodyServes(t *testing.T) {
	table := checkOf(t, "targets:\n  - kind: xmpp_proxy\n    url: http://127.0.0.1:1/\n  - kind: irc_services\n"+
		"    url: http://127.0.0.1:1/\n    container: irc-1\n")
	if strings.Contains(table, "/debug/") || strings.Count(table, "read the service's log\n") != 1 ||
		strings.Count(table, "docker logs --tail 50 irc-1\n") != 1 {
		t.Errorf("got\n%s\nwant where to look, and no page of an exporter that does not run", table)
	}
}

// TestContainerThatNoEngineHasIsTold has a target name one of two that are not there, and another target no container at all.
func TestContainerThatNoEngineHasIsTold(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		engine := startEngine(t, "irc")
		content := engineTarget(engine) + "  - {kind: irc_services, url: \"http://127.0.0.1:1/\", container: dcos}\n" +
			"  - {kind: xmpp_proxy, url: \"http://127.0.0.1:1/\", container: irc}\n  - {kind: docs_search, url: \"http://127.0.0.1:1/\"}\n"
		const unseen = "container dcos does not exist on any engine"
		table := checkOf(t, content)
		for _, want := range []string{
			"note: " + unseen + "\n", "read the service's log\n", "docker logs --tail 50 irc\n",
			"note: no container found for docs_search; if one",
		} {
			if !strings.Contains(table, want) {
				t.Errorf("the table lacks %q:\n%s", want, table)
			}
		}
		if strings.Contains(table, "docker logs --tail 50 dcos") || strings.Contains(table, "container irc is not seen") {
			t.Errorf("got\n%s", table)
		}
		e := startExporter(t, nil, content)
		e.waitForPage(t, unseen)
		const logged = `msg="container does not exist on any engine" target=irc_services container=dcos`
		if n := strings.Count(e.log.String(), "does not exist on any engine"); n != 1 || !strings.Contains(e.log.String(), logged) {
			t.Errorf("the log has it %d times, want once:\n%s", n, e.log)
		}
		if _, body := e.exchange(t, http.MethodGet, "/", ""); strings.Contains(string(body), "docker logs --tail 50 dcos") {
			t.Error("the page sends people to the log of a container that is not there")
		}
	})
}

func TestCheckGivesAdviceOnce(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		failing := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		for target, advice := range map[string][]string{
			"  - kind: irc_rpc\n    url: http://" + deaf(t) + "/api\n    user: a\n    password: b\n": {
				"write https://", "plain HTTP", "TLS",
			},
			"  - kind: xmpp_proxy\n    url: " + failing + "\n": {"log"},
		} {
			table := checkOf(t, "targets:\n"+target)
			table, _, _ = strings.Cut(table, "not configured")
			for _, text := range advice {
				if n := strings.Count(table, text); n != 1 {
					t.Errorf("%q stands there %d times, want once:\n%s", text, n, table)
				}
			}
		}
	})
}

// TestSilenceMayBeTheOtherScheme has servers that never say a word, as most do that are asked in the wrong one.
func TestSilenceMayBeTheOtherScheme(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		address := deaf(t)
		table := checkOf(t, "targets:\n  - kind: http\n    name: plain\n    url: http://"+address+
			"/\n  - kind: http\n    name: secure\n    url: https://"+address+"/\n")
		for _, want := range []string{
			"if the port speaks TLS, write https:// in the url", "if the port speaks plain HTTP, write http:// in the url",
		} {
			if strings.Count(table, want) != 1 {
				t.Errorf("the table lacks %q:\n%s", want, table)
			}
		}

		var silent atomic.Bool
		silent.Store(true)
		server := serve(t, func(http.ResponseWriter, *http.Request) {
			if silent.Load() {
				panic(http.ErrAbortHandler)
			}
		})
		e := startExporter(t, nil, "targets:\n  - kind: http\n    name: web\n    url: "+server+"/\n")
		e.wait(t, "silence", func(p page) bool { return p.Verdict("web") == "closed" })
		if guess := "if the port speaks TLS"; !strings.Contains(e.log.String(), guess) {
			t.Errorf("the log lacks %q:\n%s", guess, e.log)
		}
		silent.Store(false)
		e.wait(t, "an answer", func(p page) bool { return p.Verdict("web") == "up" })
		silent.Store(true)
		e.wait(t, "silence again", func(p page) bool { return p.Verdict("web") == "closed" })
		if n := strings.Count(e.log.String(), "if the port speaks TLS"); n != 1 {
			t.Errorf("the scheme is doubted %d times, want only before the first answer:\n%s", n, e.log)
		}
	})
}
