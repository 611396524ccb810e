package collectors

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// loadDocker reads a configuration whose only kind is docker. file is the target's block after "kind: docker", if
// there is to be a file.
func loadDocker(t *testing.T, file string, env map[string]string, defaults func() *Docker) (*config.Config, error) {
	t.Helper()
	src := config.Source{
		Lookup: func(name string) (string, bool) {
			value, ok := env[name]
			return value, ok
		},
		Kinds: []config.Kind{{Row: config.Row{Name: "docker"}, Defaults: func() config.Settings { return defaults() }}},
	}
	if file != "" {
		src.File = filepath.Join(t.TempDir(), "exporter.yaml")
		content := "targets:\n  - kind: docker\n" + file
		if err := os.WriteFile(src.File, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config.Load(src)
}

func loadedDocker(t *testing.T, file string, env map[string]string) *Docker {
	t.Helper()
	cfg, err := loadDocker(t, file, env, newDockerSettings)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Targets) != 1 {
		t.Fatalf("targets: got %d, want 1", len(cfg.Targets))
	}
	s, ok := cfg.Targets[0].(*Docker)
	if !ok {
		t.Fatalf("target is a %T", cfg.Targets[0])
	}
	return s
}

func TestDockerHostIsUnderstood(t *testing.T) {
	for host, want := range map[string]api.Endpoint{
		"unix:///var/run/docker.sock":       {Network: "unix", Address: "/var/run/docker.sock"},
		"unix:///a b/%41":                   {Network: "unix", Address: "/a b/%41"},
		"tcp://proxy:2375":                  {Network: "tcp", Address: "proxy:2375"},
		"tcp://proxy":                       {Network: "tcp", Address: "proxy:2375"},
		"tcp://proxy/":                      {Network: "tcp", Address: "proxy:2375"},
		"tcp://[::1]:1":                     {Network: "tcp", Address: "[::1]:1"},
		"http://proxy":                      {Network: "tcp", Address: "proxy:2375"},
		"https://engine":                    {Network: "tcp", Address: "engine:2376", TLS: true},
		"https://engine:1":                  {Network: "tcp", Address: "engine:1", TLS: true},
		"tcp://engine insecure_skip_verify": {Network: "tcp", Address: "engine:2376", TLS: true},
		"unix:///x insecure_skip_verify":    {Network: "unix", Address: "/x"},
	} {
		host, key, file := strings.TrimSuffix(host, " insecure_skip_verify"), host, ""
		if host != key {
			file = "    insecure_skip_verify: true\n"
		}
		s := loadedDocker(t, file, map[string]string{"DOCKER_HOST": host})
		if got, err := s.endpoint(); err != nil || got != want {
			t.Errorf("host %s: got %+v, %v, want %+v", key, got, err, want)
		}
	}
}

// dockerFault is a configuration with faults. lines are the target's block, after its kind.
type dockerFault struct {
	lines string
	env   map[string]string
	want  []string // a part of each fault
}

func TestDockerFaultsSayWhatToDo(t *testing.T) {
	keyless := t.TempDir()
	leaf := exchangetest.Certificate{Names: []string{"engine"}, Authority: true}.Make(t)
	exchangetest.Write(t, filepath.Join(keyless, "ca.pem"), leaf)
	exchangetest.Write(t, filepath.Join(keyless, "cert.pem"), leaf)
	faults := []dockerFault{
		{"host: http://engine, insecure_skip_verify: true", nil, []string{
			"exporter.yaml:3: targets[0].host: begins with http://, but TLS settings are present",
		}},
		{`host: unix:///x, label: "", cert_file: /c, names: ["ok"; "["], exclude: [""], projects: [""], labels: ["=x"], ` +
			"roles: {a: XMPP}, parallelism: 65, chat_servers: {a/b: c/d}, chat_server: two words", nil, []string{
			"exporter.yaml:4: targets[0].label: is empty", "exporter.yaml:5: targets[0].cert_file: and key_file",
			`exporter.yaml:6: targets[0].names[1]: is "["`, `exporter.yaml:7: targets[0].exclude[0]: is ""`,
			"exporter.yaml:8: targets[0].projects[0]: is empty", `exporter.yaml:9: targets[0].labels[0]: is "=x"`,
			`exporter.yaml:10: targets[0].roles.a: is "XMPP"`, "exporter.yaml:11: targets[0].parallelism: is 65",
			`exporter.yaml:12: targets[0].chat_servers.a/b: is "c/d"`, `exporter.yaml:13: targets[0].chat_server: is "two words"`,
		}},
		{`host: unix:///x, names: ["chat-*"], exclude: ["*-test"], expected: [""; "chat-?"; "chat-a-test"; "irc"; "chat-a"], ` +
			"parallelism: 0, resources_parallelism: 0, missing_after: -1s, max_containers: 0", nil, []string{
			`expected[0]: is "", must be the name`, `expected[1]: is "chat-?", must be the name`,
			`expected[2]: is "chat-a-test", which names or exclude`, `expected[3]: is "irc", which names or exclude`,
			"parallelism: is 0, must be from 1 to 64", "resources_parallelism: is 0, must be from 1 to 1024",
			`missing_after: is "-1s", must be a duration`, "max_containers: is 0, must be above 0",
		}},
		{`host: unix:///x, projects: [chat], expected: [chat/web], ` +
			`expected_services: [chat/*; /web; web; other/web; chat/web; ""]`, nil, []string{
			`expected[0]: is "chat/web", which is a service, not a container; move it to expected_services`,
			`expected_services[0]: is "chat/*", but patterns are not supported; name one service, such as chat/web`,
			`expected_services[1]: is "/web", must be the name of one service`,
			`expected_services[2]: is "web", which belongs to none of projects; write the project too, such as chat/web`,
			`expected_services[3]: is "other/web", which projects filters out`,
			`expected_services[5]: is "", must be the name of one service`,
		}},
		{"host: unix:///x, missing_after: 30d, forget_after: 7", nil, []string{
			`forget_after: is "7", must be a duration such as 500ms, 30s, 5m or 14d; add a unit: 7s, 7m, 7h or 7d`,
		}},
		{"host: unix:///x, forget_after: 7s", nil, []string{"forget_after: is 7s, must be longer than missing_after, or 0 for never"}},
		{"host: unix:///x, resources_parallelism: 1025", nil, []string{"resources_parallelism: is 1025"}},
		{"host: unix:///x, resources: cadvisor", nil, []string{`resources: is "cadvisor", must be auto, cgroup, engine or none`}},
		{"host: tcp://engine, ca_file: /nowhere/ca, cert_file: /nowhere/c, key_file: /nowhere/k", nil, []string{
			"ca_file: read authorities: open /nowhere/ca", "cert_file: read client certificate: open /nowhere/c",
		}},
		{"insecure_skip_verify: true", verified("tcp://engine", "/nowhere"), []string{
			"insecure_skip_verify: is true, which disables ca_file",
			"DOCKER_CERT_PATH: targets[0].ca_file: read authorities: open /nowhere/ca.pem",
		}},
		{"", verified("tcp://engine", keyless), []string{
			"DOCKER_CERT_PATH: targets(docker).cert_file: read client certificate: open " + keyless + "/key.pem",
		}},
	}
	for host, want := range map[string]string{
		"ssh://me@host": "DOCKER_HOST: targets(docker).host: begins with ssh://, which runs commands over there and is not supported; " +
			"forward the socket with `ssh -L",
		"npipe:////./pipe/docker_engine":      "host: begins with npipe://, a Windows pipe",
		"engine:2375":                         "host: must begin with unix:// or tcp://",
		"/var/run/docker.sock":                "host: must begin with unix:// or tcp://",
		"fd://":                               "host: must begin with unix:// or tcp://",
		"tcp://a b":                           "host: is not a URL",
		"unix://docker.sock":                  "host: is not an absolute path",
		"unix:///" + strings.Repeat("x", 107): "host: has a path of 108 bytes, the system allows 107",
		"unix:///var/run/../docker.sock":      "host: has a path that contains .. or ends in /; write the path of the socket itself",
		"unix:///var/run/docker.sock/":        "host: has a path that contains .. or ends in /",
		"tcp://engine:99999":                  "host: has the port 99999, must be from 1 to 65535",
		"https://engine:0":                    "host: has the port 0, must be from 1 to 65535",
		"tcp://[::1%25lo]":                    "host: has an address with a zone, which is not supported",
		"tcp://:2375":                         "host: has no host",
		"tcp://engine/base":                   "host: has more than host and port",
		"tcp://me:hunter2@engine":             "host: contains credentials",
	} {
		faults = append(faults, dockerFault{"", map[string]string{"DOCKER_HOST": host}, []string{want}})
	}
	for _, tt := range faults {
		t.Run(tt.lines+tt.env["DOCKER_HOST"], func(t *testing.T) {
			_, err := loadDocker(t, block(tt.lines), tt.env, newDockerSettings)
			if err == nil {
				t.Fatal("got no fault")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %d faults, want %d without a password:\n%v", len(lines), len(tt.want), err)
			}
			for _, want := range tt.want {
				if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, want) }) {
					t.Errorf("no fault with %q in:\n%v", want, err)
				}
			}
		})
	}
}

// block writes settings one a line, as a target's block. Semicolons become commas.
func block(settings string) string {
	if settings == "" {
		return ""
	}
	return strings.ReplaceAll("    "+strings.ReplaceAll(settings, ", ", "\n    "), ";", ",") + "\n"
}

// verified is the environment of the docker command for an engine with TLS.
func verified(host, path string) map[string]string {
	return map[string]string{"DOCKER_HOST": host, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": path}
}

func TestDockerTakesTheLeastAndTheMost(t *testing.T) {
	for _, settings := range []string{
		"parallelism: 1, resources_parallelism: 1, missing_after: 0s, forget_after: 0s", "parallelism: 64, resources_parallelism: 1024",
		"expected: [irc]", "expected: [irc], names: [i*], exclude: [xmpp]", "resources: cgroup, cgroup_root: /nowhere, proc_root: /nowhere",
	} {
		if _, err := loadDocker(t, block("host: unix:///x, "+settings), nil, newDockerSettings); err != nil {
			t.Errorf("%s: %v", settings, err)
		}
	}
}

func TestContainerIsWatchedThatFitsEveryKey(t *testing.T) {
	labels := map[string]string{fleet.ComposeProject: "chat", "tier": "front", "empty": ""}
	for _, tt := range []struct {
		name string
		s    Docker
		want bool
	}{
		{"no key", Docker{}, true},
		{"project", Docker{Projects: []string{"web", "chat"}}, true},
		{"another project", Docker{Projects: []string{"web"}}, false},
		{"label", Docker{Labels: []string{"tier", "empty"}}, true},
		{"label with its value", Docker{Labels: []string{"tier=front", "empty="}}, true},
		{"label with another value", Docker{Labels: []string{"tier", "tier=back"}}, false},
		{"label that it has not", Docker{Labels: []string{"tier=front", "zone"}}, false},
		{"no value of a label that it has not", Docker{Labels: []string{"zone="}}, false},
		{"name", Docker{Names: []string{"xmpp", "irc-?"}}, true},
		{"another name", Docker{Names: []string{"irc"}}, false},
		{"excluded", Docker{Names: []string{"irc-?"}, Exclude: []string{"*-1"}}, false},
	} {
		if got := tt.s.rules(nil, nil).Watches("irc-1", labels); got != tt.want {
			t.Errorf("%s: watched: %t, want %t", tt.name, got, tt.want)
		}
	}
	oneOff := Docker{}
	if oneOff.rules(nil, nil).Watches("irc-1", map[string]string{fleet.ComposeOneOff: "True"}) {
		t.Error("a container that somebody runs once is watched")
	}
}

func TestDockerIsUnconfiguredWithoutHost(t *testing.T) {
	cfg, err := loadDocker(t, "", map[string]string{"DOCKER_HOST": "", "DOCKER_TLS_VERIFY": "", "DOCKER_CERT_PATH": ""}, newDockerSettings)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"docker"}; len(cfg.Targets) != 0 || !slices.Equal(cfg.Unconfigured, want) {
		t.Errorf("got targets %v, unconfigured %q, want none and %q", cfg.Targets, cfg.Unconfigured, want)
	}
}

func TestDefaultSocketCountsOnlyWhereItExists(t *testing.T) {
	there := filepath.Join(t.TempDir(), "s") // short, since a socket's path has at most 107 bytes
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ socket, env, want string }{
		{there, "", "unix://" + there},
		{there + "x", "", ""},
		{there + "/x", "", "unix://" + there + "/x"}, // nobody may look whether it is there
		{there, "tcp://engine:1", "tcp://engine:1"},
	} {
		cfg, err := loadDocker(t, "", map[string]string{"DOCKER_HOST": tt.env}, func() *Docker {
			s := newDockerSettings()
			s.UseDefaultSocket(tt.socket)
			return s
		})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, target := range cfg.Targets {
			got = target.(*Docker).Host
		}
		if got != tt.want {
			t.Errorf("%s, and %q in the environment: got host %q, want %q", tt.socket, tt.env, got, tt.want)
		}
	}
	s := dockerSettings("tcp://engine:1")
	if s.UseDefaultSocket(there); s.Host != "tcp://engine:1" {
		t.Errorf("host: got %q, want the one that was set", s.Host)
	}
}

// certPath makes a directory as DOCKER_CERT_PATH names one, with or without a certificate for the exporter.
func certPath(t *testing.T, by *exchangetest.Certified, withPair bool) string {
	t.Helper()
	dir := t.TempDir()
	exchangetest.Write(t, filepath.Join(dir, "ca.pem"), by)
	if !withPair {
		return dir
	}
	pair := exchangetest.Certificate{By: by, Name: "exporter"}.Make(t)
	exchangetest.Write(t, filepath.Join(dir, "cert.pem"), pair)
	_, key := pair.PEM(t)
	if err := os.WriteFile(filepath.Join(dir, "key.pem"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// startTLSEngine starts an engine on loopback that wants a client certificate of the authority, and speaks TLS up to a version.
func startTLSEngine(t *testing.T, by *exchangetest.Certified, version uint16) (host string) {
	t.Helper()
	clients := x509.NewCertPool()
	clients.AddCert(by.Cert)
	server := httptest.NewUnstartedServer(&engine{})
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{exchangetest.Chain(exchangetest.Certificate{By: by, Names: []string{"localhost"}}.Make(t))},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clients,
		MaxVersion:   version,
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return "tcp://" + strings.Replace(server.Listener.Addr().String(), "127.0.0.1", "localhost", 1)
}

// newAuthority makes one that issues certificates for one test.
func newAuthority(t *testing.T) *exchangetest.Certified {
	t.Helper()
	return exchangetest.Certificate{Name: "authority", Authority: true}.Make(t)
}

func TestDockerOverTLS(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	host := startTLSEngine(t, ours, tls.VersionTLS13)
	plain := httptest.NewServer(&engine{})
	defer plain.Close()
	good := certPath(t, ours, true)
	home := t.TempDir()
	if err := os.CopyFS(filepath.Join(home, ".docker"), os.DirFS(good)); err != nil {
		t.Fatal(err)
	}
	at := func(host string) map[string]string { return map[string]string{"DOCKER_HOST": host} }
	pair := "cert_file: " + good + "/cert.pem, key_file: " + good + "/key.pem"
	try := func(name string, env map[string]string, settings string, reason failure.Reason, hint string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			_, err := readDocker(t, loadedDocker(t, block(settings), env))
			if reason != "" {
				wantDockerFailure(t, err, reason, hint)
			} else if err != nil {
				t.Errorf("got error %v, want none", err)
			}
		})
	}
	try("as the docker command has it", verified(host, good), "", "", "")
	try("the home directory", map[string]string{"DOCKER_HOST": host, "DOCKER_TLS_VERIFY": "1", "HOME": home}, "", "", "")
	try("the docker command's configuration",
		map[string]string{"DOCKER_HOST": host, "DOCKER_TLS_VERIFY": "1", "DOCKER_CONFIG": good, "HOME": "/nowhere"}, "", "", "")
	try("keys", at(host), "ca_file: "+good+"/ca.pem, "+pair, "", "")
	try("verification is not off because nobody demanded it", at(host), pair, failure.TLS, "is not trusted")
	try("verification is off once it is written out", at(host), "insecure_skip_verify: true, "+pair, "", "")
	try("another authority", verified(host, certPath(t, others, true)), "", failure.TLS, "is not trusted")
	try("another name", verified(strings.Replace(host, "localhost", "127.0.0.1", 1), good), "", failure.TLS, "another name")
	try("no TLS to a port with TLS", map[string]string{"DOCKER_HOST": host, "DOCKER_CERT_PATH": good}, "", failure.TLS,
		"DOCKER_TLS_VERIFY=1")
	try("TLS to a port without", at("https://"+plain.Listener.Addr().String()), "", failure.TLS, "write http:// in the host")
	try("no TLS on both sides", at(plain.URL), "", "", "")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		host, name := startTLSEngine(t, ours, version), tls.VersionName(version)
		foreign, trusted := certPath(t, others, true), "ca_file: "+good+"/ca.pem"
		try(name+", no client certificate", at(host), trusted, failure.TLS, "set cert_file and key_file")
		try(name+", a foreign one", at(host), trusted+", cert_file: "+foreign+"/cert.pem, key_file: "+foreign+"/key.pem", failure.TLS,
			"refuses the certificate in cert_file")
	}
	try("no certificate for the docker command", verified(host, certPath(t, ours, false)), "", failure.TLS, "set cert_file and key_file")
}
