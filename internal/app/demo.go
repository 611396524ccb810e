package app

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

//go:embed demo.yaml
var demoConfig string

// demoBasePort is the port of the simulated stack's switchboard; its services take the ports after it.
const demoBasePort = 9656

// RunDemo runs the exporter against a simulated stack of its own, on loopback, until ctx is done, and writes what to
// open to out. The configuration file and the environment are not looked at.
func RunDemo(ctx context.Context, o Options, out io.Writer) (err error) {
	stack, err := simstack.Start(simstack.Options{BasePort: demoBasePort}) //nolint:contextcheck // it ends with Close
	if err != nil {
		return fmt.Errorf("start the simulated stack: %w; another demo may be running", err)
	}
	defer func() { err = errors.Join(err, stack.Close()) }() //nolint:contextcheck // it ends after ctx
	env := stack.Environ()
	// No variable of the stack names these.
	o.ConfigFile, o.configContent = "demo.yaml", []byte(strings.NewReplacer("XMPP_CLIENTS", stack.XMPPClientAddress(),
		"XMPP_SERVERS", stack.XMPPServerAddress(), "IRC_CLIENTS", stack.IRCAddress(), "CA_FILE", stack.CAFile()).Replace(demoConfig))
	o.Lookup = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	for i, address := range *o.Web.WebListenAddresses {
		if strings.HasPrefix(address, ":") {
			(*o.Web.WebListenAddresses)[i] = "127.0.0.1" + address
		}
	}
	a, err := New(o)
	if err != nil {
		return err
	}
	scheme := "http"
	if *o.Web.WebConfigFile != "" {
		scheme = "https or http, as the web configuration has it"
	}
	for _, address := range a.Addresses() {
		own := scheme + "://" + net.JoinHostPort("localhost", portOf(address))
		//nolint:errcheck // a terminal that is gone has nothing to read
		fmt.Fprintf(out, "\nThe exporter watches a simulated chat stack. Open\n\n"+
			"  %s/          the status page\n"+
			"  %s/metrics   what Prometheus scrapes\n"+
			"  %s           the switchboard: switch faults on, and see what becomes of them within 10 s\n\n"+
			"Stop it with Ctrl-C.\n\n", own, own, strings.Replace(stack.ControlURL(), "127.0.0.1", "localhost", 1))
	}
	return a.Run(ctx)
}

func portOf(a net.Addr) string {
	_, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return port
}
