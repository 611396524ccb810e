//go:build realservers

package realstack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// Program is a server that listens on one address for HTTP.
type Program struct {
	*Process
	// Addr is host:port.
	Addr string
}

// StartProgram starts a server with the command line that argv returns, and returns when it answers a GET of path with status
// 200. Environ has additional variables, NAME=VALUE.
func StartProgram(tb testing.TB, name, path string, environ []string, argv func(p *Program) []string) *Program {
	tb.Helper()
	p := newProgram(tb, name, false)
	p.environ = environ
	p.serve(path, argv(p)...)
	return p
}

// FreeAddress is an address of loopback where nothing listens.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	return address(freePort(tb))
}

func newProgram(tb testing.TB, name string, drop bool) *Program {
	tb.Helper()
	return &Program{newProcess(tb, name, drop), address(freePort(tb))}
}

// serve starts the server with a command line.
func (p *Program) serve(path string, argv ...string) {
	p.tb.Helper()
	p.argv = argv
	p.ready = func(ctx context.Context) error {
		_, err := exportertest.Fetch(ctx, readyWithin, p.URL()+path)
		return err
	}
	p.Start()
}

// URL returns the server's URL, without a slash at its end.
func (p *Program) URL() string { return "http://" + p.Addr }

// Ask sends JSON to the server. An answer without success fails the test.
func (p *Program) Ask(method, path, body string) {
	p.tb.Helper()
	req, err := http.NewRequestWithContext(p.tb.Context(), method, p.URL()+path, strings.NewReader(body))
	if err != nil {
		p.tb.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.tb.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // its status says all
	if resp.StatusCode/100 != 2 {
		p.tb.Fatalf("%s %s: status %d", method, path, resp.StatusCode)
	}
}

// API decodes the data of one answer of a Prometheus, which must have no warnings.
func (p *Program) API(ctx context.Context, path string, query url.Values, data any) error {
	body, err := exportertest.Fetch(ctx, readyWithin, p.URL()+path+"?"+query.Encode())
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Warnings      []string
		Data          any
	}{Data: data}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status != "success" || len(answer.Warnings) > 0 {
		return fmt.Errorf("get %s %v: %w, %s %s %v", path, query, err, answer.Status, answer.Error, answer.Warnings)
	}
	return nil
}

// Query evaluates an expression in a Prometheus now, and returns the values by labels.
func (p *Program) Query(ctx context.Context, expression string) (map[string]float64, error) {
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	if err := p.API(ctx, "/api/v1/query", url.Values{"query": {expression}}, &data); err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for _, r := range data.Result {
		v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			return nil, err
		}
		values[fmt.Sprint(r.Metric)] = v
	}
	return values, nil
}

// StartPrometheus starts a Prometheus with empty storage, a prometheus.yml with the given content, and files by their paths relative
// to it, and more flags.
func StartPrometheus(tb testing.TB, config string, files map[string][]byte, flags ...string) *Program {
	tb.Helper()
	program := binary(tb, "prometheus", "prometheus")
	p := newConfigured(tb, "prometheus", config, files)
	p.serve("/-/ready", append([]string{
		program, "--config.file=" + p.path("prometheus.yml"), "--storage.tsdb.path=" + p.path("data"), "--web.listen-address=" + p.Addr,
		"--log.level=debug",
	}, flags...)...)
	return p
}

// StartAlertmanager is StartPrometheus for an Alertmanager. It has no peers, unless the flags name some.
func StartAlertmanager(tb testing.TB, config string, files map[string][]byte, flags ...string) *Program {
	tb.Helper()
	program := binary(tb, "prometheus-alertmanager", "prometheus-alertmanager")
	a := newConfigured(tb, "alertmanager", config, files)
	if len(flags) == 0 {
		flags = []string{"--cluster.listen-address="}
	}
	a.serve("/-/ready", append([]string{
		program, "--config.file=" + a.path("alertmanager.yml"), "--storage.path=" + a.path("data"),
		"--web.listen-address=" + a.Addr, "--web.external-url=" + a.URL(), "--log.level=debug",
	}, flags...)...)
	return a
}

// newConfigured creates the directory of a server with its configuration, other files, and data/.
func newConfigured(tb testing.TB, name, config string, files map[string][]byte) *Program {
	tb.Helper()
	p := newProgram(tb, name, true)
	p.write(name+".yml", []byte(config))
	made := map[string]bool{".": true}
	for file, content := range files {
		if dir := filepath.Dir(file); !made[dir] {
			p.mkdir(dir)
			made[dir] = true
		}
		p.write(file, content)
	}
	p.mkdir("data")
	return p
}
