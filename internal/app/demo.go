package app

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

//go:embed demo.yaml
var demoConfig string

const (
	// demoBasePort is the port of the simulated stack's switchboard; its services take the ports after it.
	demoBasePort = 9656
	// demoPatience is how long to wait for the first probe of every target before showing the addresses.
	demoPatience = 5 * time.Second
)

// RunDemo runs the exporter against a simulated stack of its own, on loopback, until ctx is done. Once every target was read, it
// writes to out what to open. It ignores the configuration file and the environment.
func RunDemo(ctx context.Context, o Options, out io.Writer) error {
	return runDemo(ctx, o, out, demoBasePort)
}

func runDemo(ctx context.Context, o Options, out io.Writer, basePort int) (err error) {
	stack, err := simstack.Start(simstack.Options{BasePort: basePort, Coupled: true}) //nolint:contextcheck // it ends with Close
	if err != nil {
		return fmt.Errorf("start the simulated stack: %w; another demo may be running", err)
	}
	defer func() { err = errors.Join(err, stack.Close()) }()
	data, err := os.MkdirTemp("", "chatstack-demo-")
	if err != nil {
		return fmt.Errorf("make the demo's directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	o = o.forDemo(stack, data)
	for i, address := range *o.Web.WebListenAddresses {
		if strings.HasPrefix(address, ":") {
			(*o.Web.WebListenAddresses)[i] = "127.0.0.1" + address
		}
	}
	quiet := &quietStart{Handler: o.Log.Handler(), over: &atomic.Bool{}}
	o.Log = slog.New(quiet)
	a, err := New(o) //nolint:contextcheck // its socket lives as long as the process
	if err != nil {
		return err
	}
	if addresses := a.Addresses(); len(addresses) > 0 && *o.Web.WebConfigFile == "" {
		stack.LinkStatusPage("http://" + net.JoinHostPort("localhost", portOf(addresses[0])) + "/")
	}
	shown := make(chan struct{})
	defer func() { <-shown }()
	showing, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer close(shown)
		a.waitUntilReady(showing, demoPatience)
		if showing.Err() == nil {
			_, _ = io.WriteString(out, a.demoAddresses(stack)) // a terminal that is gone has nothing to read
			quiet.over.Store(true)
		}
	}()
	return a.Run(ctx)
}

// forDemo returns options for the exporter of the demo, which keeps its data in a directory.
func (o Options) forDemo(stack *simstack.Stack, data string) Options {
	env := stack.Environ()
	o.ConfigFile, o.configContent = "demo.yaml", demoConfiguration(stack, data)
	o.Lookup = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	o.switchboard = switchboardURL(stack)
	return o
}

// switchboardURL is the switchboard's address as a browser on this machine opens it.
func switchboardURL(stack *simstack.Stack) string {
	return strings.Replace(stack.ControlURL(), "127.0.0.1", "localhost", 1)
}

// demoConfiguration fills in the addresses for which the stack has no environment variable.
func demoConfiguration(stack *simstack.Stack, data string) []byte {
	return []byte(strings.NewReplacer("XMPP_CLIENTS", stack.XMPPClientAddress(), "XMPP_SERVERS", stack.XMPPServerAddress(),
		"IRC_CLIENTS", stack.IRCAddress(), "WEB_IRC", stack.URL("web_irc"), "WEB_PANEL", stack.URL("web_panel"),
		"LOG_VIEWER", stack.URL("log_viewer"), "CA_FILE", stack.CAFile(), "RELAY_PASSWORD", simstack.RelayPassword, "DATA_DIRECTORY", data).
		Replace(demoConfig))
}

// waitUntilReady waits until every target was probed once, at most for the given time.
func (a *App) waitUntilReady(ctx context.Context, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !a.Ready() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// demoAddresses are the three addresses to open, in a box.
func (a *App) demoAddresses(stack *simstack.Stack) string {
	own := "(nowhere)"
	if addresses := a.Addresses(); len(addresses) > 0 {
		scheme := "http"
		if *a.options.Web.WebConfigFile != "" {
			scheme = "http(s)"
		}
		own = scheme + "://" + net.JoinHostPort("localhost", portOf(addresses[0]))
	}
	lines := []string{
		"The exporter watches a simulated chat stack. Open",
		"",
		fmt.Sprintf("  %-30s  the status page", own+"/"),
		fmt.Sprintf("  %-30s  what Prometheus scrapes", own+"/metrics"),
		fmt.Sprintf("  %-30s  the switchboard: %d stories, %d faults", switchboardURL(stack), len(simstack.Stories()), len(stack.Faults())),
		"",
		"Most faults show on the status page within 10 s, those of the bridge within 20 s. Restarts stay there for",
		"10 minutes, even after you switch all faults off. Stop with Ctrl-C.",
	}
	width := 0
	for _, line := range lines {
		width = max(width, len(line))
	}
	edge := "+" + strings.Repeat("-", width+4) + "+\n"
	var box strings.Builder
	box.WriteString("\n" + edge)
	for _, line := range lines {
		fmt.Fprintf(&box, "|  %-*s  |\n", width, line)
	}
	box.WriteString(edge + "\n")
	return box.String()
}

// quietStart drops log lines below warning until the start is over, unless the level is debug.
type quietStart struct {
	slog.Handler
	over *atomic.Bool
}

// Enabled implements slog.Handler.
func (q *quietStart) Enabled(ctx context.Context, level slog.Level) bool {
	return q.Handler.Enabled(ctx, level) && (level >= slog.LevelWarn || q.over.Load() || q.Handler.Enabled(ctx, slog.LevelDebug))
}

// WithAttrs implements slog.Handler.
func (q *quietStart) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &quietStart{q.Handler.WithAttrs(attrs), q.over}
}

// WithGroup implements slog.Handler.
func (q *quietStart) WithGroup(name string) slog.Handler {
	return &quietStart{q.Handler.WithGroup(name), q.over}
}

func portOf(a net.Addr) string {
	_, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return port
}
