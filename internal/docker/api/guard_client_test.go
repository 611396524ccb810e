package api

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types"
)

// arguments returns one for each parameter of a method: a string that is a valid name, a reader with content, else a zero value.
func arguments(ctx context.Context, method reflect.Type) []reflect.Value {
	var all []reflect.Value
	for i := range method.NumIn() {
		if method.IsVariadic() && i == method.NumIn()-1 {
			break
		}
		in := method.In(i)
		arg := reflect.Zero(in)
		switch {
		case in == reflect.TypeFor[context.Context]():
			arg = reflect.ValueOf(ctx)
		case in == reflect.TypeFor[io.Reader]():
			arg = reflect.ValueOf(strings.NewReader("{}"))
		case in == reflect.TypeFor[types.Ping]():
			arg = reflect.ValueOf(types.Ping{APIVersion: "1.41"})
		case in.Kind() == reflect.String:
			arg = reflect.ValueOf("x").Convert(in)
		case in.Kind() == reflect.Pointer:
			arg = reflect.New(in.Elem())
		}
		all = append(all, arg)
	}
	return all
}

// TestNoMethodOfTheClientDoesMoreThanRead calls every method of the engine's own client, and the dialer that it hands out, at an
// engine that notes what arrives. A method that is new in the client fails the test if it gets through.
func TestNoMethodOfTheClientDoesMoreThanRead(t *testing.T) {
	want := []string{
		"ContainerInspect", "ContainerInspectWithRaw", "ContainerList", "ContainerLogs", "ContainerStats", "ContainerStatsOneShot",
		"Events", "NegotiateAPIVersion", "Ping",
	}
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			var (
				mu      sync.Mutex
				arrived []string
			)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				arrived = append(arrived, r.Method+" "+r.URL.RequestURI())
				mu.Unlock()
				w.Header().Set("Api-Version", "1.51")
				io.WriteString(w, "{}") //nolint:errcheck // the client's loss
			}))
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					mu.Lock()
					arrived = append(arrived, "connection")
					mu.Unlock()
				}
			}
			e := Endpoint{Network: network, Address: server.Listener.Addr().String()}
			if network == "unix" {
				e.Address = listenOnSocket(t, server)
			}
			server.Start()
			defer server.Close()
			s, err := (&Client{Host: "engine", Endpoint: e, Limit: 1 << 20}).Open(2)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var passed []string
			client := reflect.ValueOf(s.docker)
			for i := range client.NumMethod() {
				name := client.Type().Method(i).Name
				s.Close() // so that the next request makes a connection
				ctx, cancel := context.WithCancel(t.Context())
				results := client.Method(i).Call(arguments(ctx, client.Method(i).Type()))
				cancel() // ends the method's goroutines
				for _, result := range results {
					finish(t, name, result.Interface())
				}
				mu.Lock()
				for _, request := range arrived {
					method, uri, _ := strings.Cut(request, " ")
					if request != "connection" && !plainly(method, uri) {
						t.Errorf("%s: %s arrived", name, request)
					}
				}
				if len(arrived) > 0 {
					passed = append(passed, name)
				}
				arrived = nil
				mu.Unlock()
			}
			if !slices.Equal(passed, want) {
				t.Errorf("methods that reach the engine: %q, want %q", passed, want)
			}
		})
	}
}

// listenOnSocket moves a server to a Unix socket, and returns its path, which must be short.
func listenOnSocket(t *testing.T, server *httptest.Server) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "engine") //nolint:usetesting // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // a temporary directory
	socket := filepath.Join(dir, "docker.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server.Listener.Close() //nolint:errcheck,gosec // replaced by the socket
	server.Listener = l
	return socket
}

// finish ends what a method of the client returned, and tries a dialer.
func finish(t *testing.T, name string, result any) {
	t.Helper()
	switch result := result.(type) {
	case <-chan error:
		<-result //nolint:errcheck // only its end matters
	case func(context.Context) (net.Conn, error):
		if conn, err := result(t.Context()); err == nil {
			conn.Close() //nolint:errcheck,gosec // a test's connection
			t.Errorf("%s connects to the engine", name)
		}
	case io.ReadCloser:
		result.Close() //nolint:errcheck,gosec // a test's answer
	}
	if v := reflect.ValueOf(result); v.Kind() == reflect.Struct {
		if body := v.FieldByName("Body"); body.IsValid() && !body.IsZero() {
			finish(t, name, body.Interface())
		}
	}
}
