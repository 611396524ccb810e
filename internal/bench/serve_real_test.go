//go:build bench && realservers

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/chatstack-exporter/chatstack_exporter/internal/app"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// A server that is measured is a process of its own, so that its processor time can be told from the client's: this
// program again, with these variables.
const (
	serveVariable  = "CHATSTACK_BENCH_SERVE"
	seriesVariable = "CHATSTACK_BENCH_SERIES"
	// profileVariable, where it is set, begins the names of the files that profiles are written to.
	profileVariable = "CHATSTACK_BENCH_PROFILE"
	// configVariable is the file that an exporter is configured by.
	configVariable = "CHATSTACK_BENCH_CONFIG"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(serveVariable); kind != "" {
		if err := serve(kind, os.Getenv(seriesVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve serves until its input ends: a page of as many series, or what an exporter serves. It says its address on its
// output.
func serve(kind, series string) (err error) {
	if name := os.Getenv(profileVariable); name != "" {
		stop, err := profileTo(name)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	if kind == "exporter" {
		return serveExporter(os.Getenv(configVariable))
	}
	n, err := strconv.Atoi(series)
	if err != nil {
		return fmt.Errorf("%s: %w", seriesVariable, err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newSeriesCollector(n))
	poller, err := poll.New(nil, registry, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	handler, known := map[string]http.Handler{
		"ours":     web.New(source{poller: poller}, web.Options{}),
		"bare":     bare(poller.Snapshot().Page),
		"promhttp": promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}),
	}[kind]
	if !known {
		return fmt.Errorf("%s: there is no server %q", serveVariable, kind)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the process
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() {
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // its end is all that counts
		server.Close()                //nolint:errcheck,gosec // the process ends
	}()
	fmt.Println(l.Addr()) //nolint:forbidigo // for the parent
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// serveExporter is the program as it is shipped, but for its command line.
func serveExporter(config string) error {
	address, none := []string{"127.0.0.1:0"}, ""
	a, err := app.New(app.Options{
		ConfigFile: config, Lookup: func(string) (string, bool) { return "", false },
		Web: &toolkit.FlagConfig{WebListenAddresses: &address, WebConfigFile: &none}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // its end is all that counts
		cancel()
	}()
	fmt.Println(a.Addresses()[0]) //nolint:forbidigo // for the parent
	return a.Run(ctx)
}

// profileTo begins a profile of the processor's time in prefix.cpu; stop ends it, and tells in prefix.heap what memory is
// for.
func profileTo(prefix string) (stop func() error, err error) {
	cpu, err := os.Create(prefix + ".cpu") //nolint:gosec // the parent's choice
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		heap, err := os.Create(prefix + ".heap") //nolint:gosec // the parent's choice
		if err != nil {
			return err
		}
		runtime.GC()
		return errors.Join(pprof.WriteHeapProfile(heap), heap.Close(), cpu.Close())
	}, nil
}

// bare writes bytes that it has, and looks at nothing but the encoding.
func bare(page *exposition.Page) http.Handler {
	body := func(encoding string) exposition.Body {
		return page.Negotiate(http.Header{"Accept": {metricsAccept}, "Accept-Encoding": {encoding}})
	}
	identity, packed := body("identity"), body("gzip")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := identity
		if r.Header.Get("Accept-Encoding") == "gzip" {
			b = packed
			w.Header().Set("Content-Encoding", "gzip")
		}
		w.Header().Set("Content-Type", b.ContentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(b.Bytes)))
		w.Write(b.Bytes) //nolint:errcheck,gosec // the client's loss
	})
}
