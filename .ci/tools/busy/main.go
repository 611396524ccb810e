//go:build linux

// Command busy runs a command on a machine that is as unkind as one can be: it holds every second ephemeral port of loopback, keeps four
// loops running, knows every name as loopback's, and has an environment that means another stack. .ci/busy-test gives it a network
// of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/dns/dnsmessage"
)

// environment points at servers that are not there, and at a home that cannot be made.
var environment = []string{
	"HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1", "http_proxy=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1",
	"ALL_PROXY=http://127.0.0.1:1",
	"NO_PROXY=", "DOCKER_HOST=tcp://127.0.0.1:1", "DOCKER_TLS_VERIFY=1", "DOCKER_CERT_PATH=/proc/none", "NOTIFY_URL=http://127.0.0.1:1/",
	"XMPP_REST_URL=http://127.0.0.1:1",
	"XMPP_REST_TOKEN=another", "XMPP_DOMAIN=another.test", "IRC_RPC_URL=https://127.0.0.1:1/api", "PLANT_STORE_URL=http://127.0.0.1:1",
	"DOCS_SEARCH_URL=http://127.0.0.1:1",
	"HOME=/proc/none", "XDG_CONFIG_HOME=/proc/none", "NO_COLOR=", "TZ=Pacific/Chatham", "COLUMNS=40",
	"RUNTIME_DIRECTORY=/proc/none", "STATE_DIRECTORY=/proc/none", "NOTIFY_SOCKET=/proc/none/notify", "WATCHDOG_USEC=1000000",
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "busy:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: busy COMMAND...")
	}
	ports, err := holdPorts()
	if err != nil {
		return err
	}
	names, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		return fmt.Errorf("be a name server: %w", err)
	}
	var ended atomic.Bool
	var loops sync.WaitGroup
	loops.Go(func() { serveNames(names) })
	const busyLoops = 4
	runtime.GOMAXPROCS(busyLoops + 1)
	for range busyLoops {
		loops.Go(func() {
			for !ended.Load() {
			}
		})
	}
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err = cmd.Run()
	ended.Store(true)
	err = errors.Join(err, names.Close())
	loops.Wait()
	for _, l := range ports {
		err = errors.Join(err, l.Close())
	}
	return err
}

// serveNames answers every question for an address with 127.0.0.1, as the name servers of some providers do for names that are not there.
func serveNames(conn net.PacketConn) {
	question := make([]byte, 512)
	for {
		n, from, err := conn.ReadFrom(question)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(question[:n]) != nil || len(m.Questions) == 0 {
			continue
		}
		m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{
					Name:  q.Name,
					Type:  q.Type,
					Class: q.Class,
					TTL:   1,
				},
				Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			}}
		}
		if answer, err := m.Pack(); err == nil {
			_, _ = conn.WriteTo(answer, from) // whoever asked asks again
		}
	}
}

// holdPorts listens on every second port that the system gives to whoever asks for any. One that is in use is held already.
func holdPorts() (held []net.Listener, err error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return nil, err
	}
	var first, last int
	if _, err := fmt.Fscan(strings.NewReader(string(text)), &first, &last); err != nil {
		return nil, fmt.Errorf("read the range of ports: %w", err)
	}
	for port := first; port <= last; port += 2 {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err != nil {
			return nil, fmt.Errorf("hold every second port, which takes that many open files: %w", err)
		}
		held = append(held, l)
	}
	fmt.Fprintf(os.Stderr, "busy: holding %d ports of %d to %d\n", len(held), first, last)
	return held, nil
}
