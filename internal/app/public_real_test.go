//go:build realservers

package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// TestRealThousandAddressesLockNobodyOut holds more connections than the public listener has, from addresses of 127.1.0.0/16: some
// silent, some with half of a request. Each one that is closed is opened again.
func TestRealThousandAddressesLockNobodyOut(t *testing.T) {
	const addresses, perAddress, visits = 1000, 2, 100
	stack := startStack(t, simstack.Options{})
	e := startExporter(t, only(stack, "IRC_SERVICES_"),
		"public:\n  listen_address: 127.0.0.1:0\n  services: [{name: Services, targets: [irc_services]}]\n")
	e.wait(t, "up", func(p page) bool { return p.Up("irc_services") })
	public := e.app.public.listener.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	var attackers, first sync.WaitGroup
	defer attackers.Wait()
	defer stop()
	for i := range addresses * perAddress {
		first.Add(1)
		opened := sync.OnceFunc(first.Done)
		attackers.Go(func() {
			defer opened()
			from := &net.TCPAddr{IP: net.IPv4(127, 1, byte(i%addresses/250), byte(1+i%addresses%250))}
			for ctx.Err() == nil {
				c, err := (&net.Dialer{LocalAddr: from, Timeout: patience}).DialContext(ctx, "tcp", public)
				if err != nil {
					continue
				}
				if i%2 == 0 {
					fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n") //nolint:errcheck // the connection may be closed already
				}
				opened()
				release := context.AfterFunc(ctx, func() { c.Close() }) //nolint:errcheck,gosec // the test ends
				c.Read(make([]byte, 1))                                 //nolint:errcheck,gosec // returns at the connection's end
				release()
				c.Close() //nolint:errcheck,gosec // nothing was answered
				exportertest.Pause(ctx, 500*time.Millisecond)
			}
		})
	}
	first.Wait()
	for i := range visits {
		for _, from := range []string{"127.0.0.1", "127.2.0.1"} {
			transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext}
			visitor := &exporter{url: "http://" + public, client: http.Client{Transport: transport, Timeout: patience}}
			if code, body := visitor.text(t, "/status.json"); code != http.StatusOK || !strings.Contains(body, `"state":"operational"`) {
				t.Fatalf("visit %d from %s: status %d: %s", i, from, code, body)
			}
			transport.CloseIdleConnections()
		}
		if code, _ := e.text(t, "/metrics"); code != http.StatusOK {
			t.Fatalf("visit %d: a scrape has status %d", i, code)
		}
	}
}
