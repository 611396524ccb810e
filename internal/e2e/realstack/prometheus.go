//go:build realservers

package realstack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// Prometheus is a Prometheus server with a storage of its own.
type Prometheus struct {
	*Process
	// Addr is host:port.
	Addr string
}

// StartPrometheus starts a Prometheus with the given configuration, as prometheus.yml has it.
func StartPrometheus(tb testing.TB, config string) *Prometheus {
	tb.Helper()
	return StartPrometheusWith(tb, config, nil)
}

// StartPrometheusWith starts one that finds files, such as those of rules, beside its configuration.
func StartPrometheusWith(tb testing.TB, config string, files map[string][]byte) *Prometheus {
	tb.Helper()
	program := binary(tb, "prometheus", "prometheus")
	p := &Prometheus{Process: newProcess(tb, "prometheus", true), Addr: address(port(tb, 0))}
	p.write("prometheus.yml", []byte(config))
	for name, content := range files {
		p.write(name, content)
	}
	p.mkdir("data")
	p.argv = []string{
		program,
		"--config.file=" + p.path("prometheus.yml"), "--storage.tsdb.path=" + p.path("data"),
		"--web.listen-address=" + p.Addr, "--log.level=debug",
	}
	p.ready = func(ctx context.Context) error { return succeeds(ctx, p.URL()+"/-/ready") }
	p.Start()
	return p
}

// URL is the server, without a slash at its end.
func (p *Prometheus) URL() string { return "http://" + p.Addr }

// succeeds asks for a URL once; only status 200 will do.
func succeeds(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("read answer of %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: status %d", url, resp.StatusCode)
	}
	return nil
}
