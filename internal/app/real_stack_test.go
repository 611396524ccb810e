//go:build realservers

package app

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// realRig is an exporter before real servers, and before simulated ones where there is no package of the real one.
type realRig struct {
	*exporter
	prosody *realstack.Prosody
	nginx   *realstack.Nginx
	atheme  *realstack.Atheme
	engine  *realstack.Docker
	sim     *simstack.Stack
	// trusted are the files that the exporter is told to trust, or to show; a test may change what is in them.
	trusted string
}

// realTargets are the targets of a rig. The engine is asked twice: over its socket, and over TCP with TLS.
var realTargets = slices.Concat(withoutREST, []string{"docker_tls"})

// withoutREST are the targets without the XMPP server's REST API, whose module no package brings.
var withoutREST = slices.DeleteFunc(slices.Clone(allTargets), func(target string) bool { return target == "xmpp_rest" })

func startReal(t *testing.T) *realRig {
	t.Helper()
	r := &realRig{trusted: t.TempDir()}
	r.engine = realstack.StartDocker(t, realstack.DockerOptions{Own: true, TLS: true})
	r.engine.Containers().Create("xmpp")
	r.prosody = realstack.StartProsody(t, realstack.ProsodyOptions{})
	r.nginx = realstack.StartNginx(t, r.prosody.URL())
	r.atheme = realstack.StartAtheme(t)
	r.sim = startStack(t, simstack.Options{})
	r.trust(t, "proxy-ca.pem", contentOf(t, r.nginx.Authority.File))
	for _, name := range []string{"ca.pem", "cert.pem", "key.pem"} {
		r.trust(t, name, contentOf(t, filepath.Join(r.engine.CertPath, name)))
	}
	env := r.sim.Environ()
	delete(env, "DOCKER_HOST")
	delete(env, "XMPP_REST_TOKEN")
	maps.Copy(env, map[string]string{
		"XMPP_REST_URL": r.prosody.URL(), "IRC_SERVICES_JSONRPC_URL": r.atheme.URL() + "jsonrpc",
		"XMPP_PROXY_URL": r.nginx.URL() + "/health", "XMPP_PROXY_CA_FILE": filepath.Join(r.trusted, "proxy-ca.pem"),
	})
	r.exporter = startSlowly(t, env, canaryMode+fmt.Sprintf(`  - kind: docker
    host: %s
  - kind: docker
    name: docker_tls
    label: tls
    host: %s
    ca_file: %[3]s/ca.pem
    cert_file: %[3]s/cert.pem
    key_file: %[3]s/key.pem
`, r.engine.Host, r.engine.TLSHost, r.trusted))
	return r
}

// startSlowly starts an exporter that polls every second, so that a page shows every reading. Its deadline is longer than
// the interval: no target that is merely on a busy machine may be called hung.
func startSlowly(t *testing.T, env map[string]string, content string) *exporter {
	t.Helper()
	return startPatiently(t, env, content, 0)
}

// startPatiently is startSlowly with another deadline for all targets; 0 for that which each has by itself.
func startPatiently(t *testing.T, env map[string]string, content string, timeout time.Duration) *exporter {
	t.Helper()
	log := &logBuffer{}
	o := options(env, log).with(content)
	o.pace = func(string) (time.Duration, time.Duration) { return time.Second, timeout }
	return startApp(t, o, log)
}

// trust puts a file in place, whole.
func (r *realRig) trust(t *testing.T, name string, content []byte) {
	t.Helper()
	path := filepath.Join(r.trusted, name)
	must(t, os.WriteFile(path+".new", content, 0o600))
	must(t, os.Rename(path+".new", path))
}

// realFault is something that goes wrong with a server.
type realFault struct {
	name       string
	begin, end func(t *testing.T)
	// want is the verdict of each target that it may touch; "up" for one that it must leave up in the end.
	want map[string]string
}

// TestRealStackFaultsAreToldApart brings every server down in every way that it has, one at a time.
func TestRealStackFaultsAreToldApart(t *testing.T) {
	r := startReal(t)
	up := r.wait(t, "every target up", r.allUp)
	for _, target := range realTargets {
		if own := seriesOf(up, target); len(own) == 0 && distinctive(target) {
			t.Errorf("%s is up, and has no series of its own on the page", target)
		}
	}
	for _, f := range slices.Concat(r.processFaults(), r.prosodyFaults(), r.certificateFaults(), r.simulatedFaults()) {
		if testing.Short() && !strings.HasSuffix(f.name, " stopped") {
			continue // all of them take a minute and a half
		}
		t.Run(f.name, func(t *testing.T) { r.try(t, f) })
	}
	if plants := r.sim.Plants(); len(plants) > 1 { // one may be under way
		t.Errorf("plants left in the store: %v", plants)
	}
}

func (r *realRig) allUp(p page) bool {
	return !slices.ContainsFunc(realTargets, func(target string) bool { return p.Verdict(target) != "up" })
}

// processFaults are what may happen to any process.
func (r *realRig) processFaults() []realFault {
	var faults []realFault
	for _, server := range []struct {
		name    string
		process *realstack.Process
		targets []string
	}{
		{"prosody", r.prosody.Process, []string{"xmpp_status", "xmpp_metrics"}},
		{"nginx", r.nginx.Process, []string{"xmpp_proxy"}},
		{"atheme", r.atheme.Process, []string{"irc_services"}},
		{"docker", r.engine.Process, []string{"docker", "docker_tls"}},
	} {
		verdicts := func(reason string) map[string]string {
			want := map[string]string{}
			for _, target := range server.targets {
				want[target] = reason
			}
			return want
		}
		start := func(*testing.T) { server.process.Start() }
		faults = append(faults,
			realFault{
				server.name + " stopped",
				func(*testing.T) { server.process.Stop() },
				start,
				verdicts("refused"),
			},
			realFault{
				server.name + " killed",
				func(*testing.T) { server.process.Kill() },
				start,
				verdicts("refused"),
			},
			realFault{
				server.name + " hung",
				func(*testing.T) { server.process.Hang() },
				func(*testing.T) { server.process.Resume() },
				verdicts("timeout"),
			},
		)
	}
	return faults
}

// prosodyFaults are answers of a Prosody that is configured otherwise.
func (r *realRig) prosodyFaults() []realFault {
	var faults []realFault
	for _, f := range []struct {
		name            string
		options         realstack.ProsodyOptions
		status, metrics string
	}{
		{
			"prosody refuses metrics",
			realstack.ProsodyOptions{MetricsCIDR: realstack.Elsewhere},
			"up",
			"forbidden",
		},
		{
			"prosody refuses status",
			realstack.ProsodyOptions{StatusCIDR: realstack.Elsewhere},
			"forbidden",
			"up",
		},
		{
			"prosody without statistics",
			realstack.ProsodyOptions{NoStatistics: true},
			"up",
			"not_found",
		},
		{
			"prosody without status",
			realstack.ProsodyOptions{NoStatus: true},
			"not_found",
			"up",
		},
	} {
		faults = append(faults, realFault{
			f.name,
			func(*testing.T) { r.prosody.Reconfigure(f.options) },
			func(*testing.T) { r.prosody.Reconfigure(realstack.ProsodyOptions{}) },
			map[string]string{"xmpp_status": f.status, "xmpp_metrics": f.metrics},
		})
	}
	return faults
}

// certificateFaults are trust that is gone, on either side.
func (r *realRig) certificateFaults() []realFault {
	return []realFault{
		{
			"nginx by an unknown authority",
			func(t *testing.T) {
				t.Helper()
				r.trust(t, "proxy-ca.pem", contentOf(t, realstack.NewAuthority(t).File))
			},
			func(t *testing.T) {
				t.Helper()
				r.trust(t, "proxy-ca.pem", contentOf(t, r.nginx.Authority.File))
			},
			map[string]string{"xmpp_proxy": "tls"},
		},
		{
			"docker does not know the client",
			func(t *testing.T) {
				t.Helper()
				certificate, key := realstack.NewAuthority(t).Issue("client")
				r.trust(t, "cert.pem", certificate)
				r.trust(t, "key.pem", key)
			},
			func(t *testing.T) {
				t.Helper()
				for _, name := range []string{"cert.pem", "key.pem"} {
					r.trust(t, name, contentOf(t, filepath.Join(r.engine.CertPath, name)))
				}
			},
			map[string]string{"docker_tls": "tls"},
		},
	}
}

// simulatedFaults are those of the services that have no real server here.
func (r *realRig) simulatedFaults() []realFault {
	var faults []realFault
	for _, service := range []string{"irc_rpc", "plant_store", "identity"} {
		for _, f := range [][2]string{{"stopped", "refused"}, {"hang", "timeout"}, {"wrong_credentials", "unauthorized"}} {
			fault, reason := f[0], f[1]
			turn := func(on bool) func(*testing.T) {
				return func(t *testing.T) {
					t.Helper()
					must(t, r.sim.Switch(service, fault, on))
				}
			}
			faults = append(faults, realFault{
				service + " " + fault,
				turn(true),
				turn(false),
				map[string]string{service: reason},
			})
		}
	}
	return faults
}

// try brings a fault about and takes it back. Meanwhile the targets that it touches have the verdicts that it wants and
// nothing left of their old values, and the others do not notice.
func (r *realRig) try(t *testing.T, f realFault) {
	t.Helper()
	before := r.scrape(t)
	ended := false
	f.begin(t)
	defer func() {
		if !ended {
			f.end(t)
		}
	}()
	during := r.verdictsWithinOneReading(t, f)
	for _, target := range realTargets {
		if _, touched := f.want[target]; touched {
			continue
		}
		if missing := difference(seriesOf(before, target), seriesOf(during, target)); len(missing) > 0 {
			t.Errorf("%s lost series: %q", target, missing)
		}
	}
	f.end(t)
	ended = true
	if slices.Contains(slices.Collect(maps.Values(f.want)), "unauthorized") {
		must(t, r.app.Reload(t.Context())) // ends the wait after refused credentials
	}
	after := r.wait(t, "recovery", func(p page) bool {
		orphans, _ := p.Value("chatstack_plant_store_orphans")
		return r.allUp(p) && orphans == 0
	})
	for _, target := range realTargets {
		if _, touched := f.want[target]; touched {
			if distinctive(target) && len(seriesOf(after, target)) == 0 {
				t.Errorf("%s is up again, and its series are not", target)
			}
			continue
		}
		if got, want := after.Sum("chatstack_probe_failures_total", "target", target),
			before.Sum("chatstack_probe_failures_total", "target", target); got != want {
			t.Errorf("%s failed %v times meanwhile, want not once", target, got-want)
		}
	}
}

// verdictsWithinOneReading waits until every target has the verdict that a fault which has just begun wants of it, or
// is still up though it was asked meanwhile. A reading counts when it begins, and the page may be a little older than the
// fault: the next reading may have begun before the fault. The one after it must tell, which has ended when a third has begun.
func (r *realRig) verdictsWithinOneReading(t *testing.T, f realFault) page {
	t.Helper()
	const tellsAfter = 3
	begun := r.scrape(t)
	missing := map[string]bool{}
	for _, target := range realTargets {
		missing[target] = true
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); exportertest.Pause(t.Context(), 20*time.Millisecond) {
		p := r.scrape(t)
		for target := range missing {
			first, now := attempts(begun, target), attempts(p, target)
			want := "up"
			if reason, touched := f.want[target]; touched {
				want = reason
			}
			switch got := p.Verdict(target); {
			case got != want && now >= first+tellsAfter:
				t.Fatalf("%s is %q after %v readings, want %q", target, got, now-first, want)
			case got != want:
			case want == "up" && now >= first+tellsAfter:
				delete(missing, target)
			case want != "up":
				// A reading that the fault met halfway keeps what it had learnt until then.
				wrong := staleOn(p, target, want)
				if len(wrong) == 0 {
					delete(missing, target)
				} else if now >= first+tellsAfter {
					t.Fatalf("after %v readings: %s", now-first, strings.Join(wrong, "; "))
				}
			}
		}
		if len(missing) == 0 {
			return p
		}
	}
	t.Fatalf("no verdict on %v", slices.Sorted(maps.Keys(missing)))
	return nil
}

// distinctive reports whether a target has families that no other one has.
func distinctive(target string) bool {
	return slices.Contains([]string{"xmpp_status", "xmpp_metrics", "docker", "docker_tls", "plant_store"}, target)
}

// seriesOf are the series that are on a page only while a target is up, as text.
func seriesOf(p page, target string) []string {
	var own []string
	for name, family := range p {
		for _, m := range family.GetMetric() {
			if isOwn(target, name, m) {
				own = append(own, name+fmt.Sprint(m.GetLabel()))
			}
		}
	}
	slices.Sort(own)
	return own
}

func isOwn(target, family string, m *dto.Metric) bool {
	labelled := func(name, value string) bool {
		return slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == name && l.GetValue() == value })
	}
	switch {
	case strings.HasPrefix(family, "chatstack_upstream_"):
		return labelled("target", target)
	case family == "chatstack_xmpp_family_available":
		return target == "xmpp_metrics" && !labelled("family", "xmpp_module_status")
	case family == "chatstack_xmpp_sessions":
		return target == "xmpp_metrics"
	case strings.HasPrefix(family, "chatstack_xmpp_"), family == "xmpp_module_status":
		return target == "xmpp_status"
	case exportertest.Judged(family):
		return false
	case strings.HasPrefix(family, "chatstack_container_"):
		return target == "docker" && labelled("docker_host", "local") || target == "docker_tls" && labelled("docker_host", "tls")
	case family == "chatstack_plant_store_operation_success":
		// That a plant could not be created is news, that one was deleted is not.
		return target == "plant_store" && labelled("operation", "delete")
	case slices.ContainsFunc([]string{"chatstack_", "go_", "process_"},
		func(prefix string) bool { return strings.HasPrefix(family, prefix) }):
		return false
	default:
		return target == "xmpp_metrics"
	}
}

// staleOn is what a page still has of a target that is down for a reason, or says otherwise than that reason does.
func staleOn(p page, target, reason string) (wrong []string) {
	if stale := seriesOf(p, target); len(stale) > 0 {
		wrong = append(wrong, fmt.Sprintf("%s is down, and still on the page: %q", target, stale))
	}
	success, ok := p.Value("chatstack_plant_store_operation_success", "operation", "create")
	// A probe deletes what an earlier one left before it creates anything.
	left, _ := p.Value("chatstack_plant_store_orphans")
	if target == "plant_store" && (success != 0 || !ok && left == 0) {
		wrong = append(wrong, fmt.Sprintf("success of creating a plant = %v, %v, want 0", success, ok))
	}
	status, ok := p.Value("chatstack_probe_http_status_code", "target", target)
	want := map[string]float64{
		"unauthorized": http.StatusUnauthorized, "forbidden": http.StatusForbidden, "not_found": http.StatusNotFound,
	}[reason]
	if status != want || ok != (want != 0) {
		wrong = append(wrong, fmt.Sprintf("%s: HTTP status on the page = %v, %v, want %v", target, status, ok, want))
	}
	return wrong
}

// difference is what of a is not in b.
func difference(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

// TestRealContainersHealthIsOnThePage watches one container become unhealthy and healthy again.
func TestRealContainersHealthIsOnThePage(t *testing.T) {
	engine := realstack.StartDocker(t, realstack.DockerOptions{})
	containers := engine.Containers()
	e := startSlowly(t, nil, fmt.Sprintf("targets:\n  - kind: docker\n    host: %s\n    projects: [%s]\n", engine.Host, containers.Name))
	e.wait(t, "the engine up", func(p page) bool { return p.Verdict("docker") == "up" })
	name := containers.Run("irc-services")
	for i, want := range []string{"healthy", "unhealthy", "healthy"} {
		if i > 0 {
			containers.Turn(name)
		}
		containers.Await(name, realstack.HealthStatus, want)
		begun := attempts(e.scrape(t), "docker")
		var got []string
		e.wait(t, "two readings", func(p page) bool {
			got = nil
			for _, state := range []string{"healthy", "none", "starting", "unhealthy"} {
				if v, _ := p.Value("chatstack_container_health", "container", name, "health", state); v == 1 {
					got = append(got, state)
				}
			}
			return slices.Equal(got, []string{want}) || attempts(p, "docker") >= begun+3 // two have ended
		})
		if !slices.Equal(got, []string{want}) {
			t.Errorf("health of %s on the page = %q, want %s alone", name, got, want)
		}
	}
}
