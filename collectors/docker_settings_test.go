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
	for _, tt := range []struct {
		host string
		want api.Endpoint
		file string
	}{
		{host: "unix:///var/run/docker.sock", want: api.Endpoint{Network: "unix", Address: "/var/run/docker.sock", TLS: false}},
		{host: "unix:///a b/%41", want: api.Endpoint{Network: "unix", Address: "/a b/%41", TLS: false}},
		{host: "tcp://proxy:2375", want: api.Endpoint{Network: "tcp", Address: "proxy:2375", TLS: false}},
		{host: "tcp://proxy", want: api.Endpoint{Network: "tcp", Address: "proxy:2375", TLS: false}},
		{host: "tcp://proxy/", want: api.Endpoint{Network: "tcp", Address: "proxy:2375", TLS: false}},
		{host: "tcp://[::1]:1", want: api.Endpoint{Network: "tcp", Address: "[::1]:1", TLS: false}},
		{host: "http://proxy", want: api.Endpoint{Network: "tcp", Address: "proxy:2375", TLS: false}},
		{host: "https://engine", want: api.Endpoint{Network: "tcp", Address: "engine:2376", TLS: true}},
		{host: "https://engine:1", want: api.Endpoint{Network: "tcp", Address: "engine:1", TLS: true}},
		{
			host: "tcp://engine",
			file: "    insecure_skip_verify: true\n",
			want: api.Endpoint{Network: "tcp", Address: "engine:2376", TLS: true},
		},
		{host: "unix:///x", file: "    insecure_skip_verify: true\n", want: api.Endpoint{Network: "unix", Address: "/x", TLS: false}},
	} {
		s := loadedDocker(t, tt.file, map[string]string{"DOCKER_HOST": tt.host})
		got, err := s.endpoint()
		if err != nil {
			t.Errorf("host %s: %v", tt.host, err)
		}
		if got != tt.want {
			t.Errorf("host %s: got %+v, want %+v", tt.host, got, tt.want)
		}
	}
}

func TestDockerFaultsSayWhatToDo(t *testing.T) {
	keyless := t.TempDir()
	leaf := exchangetest.Certificate{Names: []string{"engine"}, Authority: true}.Make(t)
	exchangetest.Write(t, filepath.Join(keyless, "ca.pem"), leaf)
	exchangetest.Write(t, filepath.Join(keyless, "cert.pem"), leaf)
	at := func(host string) map[string]string { return map[string]string{"DOCKER_HOST": host} }
	for _, tt := range []struct {
		name, file string
		env        map[string]string
		want       []string // a part of each fault
	}{
		{name: "ssh", env: at("ssh://me@host"), want: []string{"DOCKER_HOST: targets(docker).host: begins with ssh://, " +
			"which runs commands over there and is not supported; forward the socket with `ssh -L"}},
		{name: "npipe", env: at("npipe:////./pipe/docker_engine"), want: []string{"host: begins with npipe://, a Windows pipe"}},
		{name: "no scheme", env: at("engine:2375"), want: []string{"host: must begin with unix:// or tcp://"}},
		{name: "bare path", env: at("/var/run/docker.sock"), want: []string{"host: must begin with unix:// or tcp://"}},
		{name: "descriptor", env: at("fd://"), want: []string{"host: must begin with unix:// or tcp://"}},
		{name: "no URL", env: at("tcp://a b"), want: []string{"host: is not a URL"}},
		{name: "relative socket", env: at("unix://docker.sock"), want: []string{"host: is not an absolute path"}},
		{
			name: "long socket",
			env:  at("unix:///" + strings.Repeat("x", 107)),
			want: []string{"host: has a path of 108 bytes, the system allows 107"},
		},
		{
			name: "socket above another directory",
			env:  at("unix:///var/run/../docker.sock"),
			want: []string{"host: has a path that contains .. or ends in /; write the path of the socket itself"},
		},
		{
			name: "socket of a directory",
			env:  at("unix:///var/run/docker.sock/"),
			want: []string{"host: has a path that contains .. or ends in /"},
		},
		{name: "port beyond the last", env: at("tcp://engine:99999"), want: []string{"host: has the port 99999, must be from 1 to 65535"}},
		{name: "port before the first", env: at("https://engine:0"), want: []string{"host: has the port 0, must be from 1 to 65535"}},
		{name: "zone", env: at("tcp://[::1%25lo]"), want: []string{"host: has an address with a zone, which is not supported"}},
		{name: "no host", env: at("tcp://:2375"), want: []string{"host: has no host"}},
		{name: "path", env: at("tcp://engine/base"), want: []string{"host: has more than host and port"}},
		{name: "credentials", env: at("tcp://me:hunter2@engine"), want: []string{"host: contains credentials"}},
		{
			name: "http with TLS",
			file: "    host: http://engine\n    insecure_skip_verify: true\n",
			want: []string{"exporter.yaml:3: targets[0].host: begins with http://, but TLS settings are present"},
		},
		{
			name: "everything at once",
			file: "    host: unix:///x\n    label: \"\"\n    cert_file: /c\n    names: [\"ok\", \"[\"]\n    exclude: [\"\"]\n" +
				"    projects: [\"\"]\n    labels: [\"=x\"]\n    roles: {a: XMPP}\n    parallelism: 65\n" +
				"    chat_servers: {a/b: c/d}\n    chat_server: \"two words\"\n",
			want: []string{
				"exporter.yaml:4: targets[0].label: is empty", "exporter.yaml:5: targets[0].cert_file: and key_file",
				"exporter.yaml:6: targets[0].names[1]: is \"[\"", "exporter.yaml:7: targets[0].exclude[0]: is \"\"",
				"exporter.yaml:8: targets[0].projects[0]: is empty", "exporter.yaml:9: targets[0].labels[0]: is \"=x\"",
				"exporter.yaml:10: targets[0].roles.a: is \"XMPP\"", "exporter.yaml:11: targets[0].parallelism: is 65",
				"exporter.yaml:12: targets[0].chat_servers.a/b: is \"c/d\"", "exporter.yaml:13: targets[0].chat_server: is \"two words\"",
			},
		},
		{
			name: "numbers and names at their limits",
			file: "    host: unix:///x\n    names: [\"chat-*\"]\n    exclude: [\"*-test\"]\n" +
				"    expected: [\"\", \"chat-?\", \"chat-a-test\", \"irc\", \"chat-a\"]\n    parallelism: 0\n" +
				"    resources_parallelism: 0\n    missing_after: -1s\n    max_containers: 0\n",
			want: []string{
				"targets[0].expected[0]: is \"\", must be the name", "targets[0].expected[1]: is \"chat-?\", must be the name",
				"targets[0].expected[2]: is \"chat-a-test\", which names or exclude",
				"targets[0].expected[3]: is \"irc\", which names or exclude",
				"targets[0].parallelism: is 0, must be from 1 to 64", "targets[0].resources_parallelism: is 0, must be from 1 to 1024",
				"targets[0].missing_after: is \"-1s\", must be a duration", "targets[0].max_containers: is 0, must be above 0",
			},
		},
		{
			name: "services",
			file: "    host: unix:///x\n    projects: [chat]\n    expected: [chat/web]\n" +
				"    expected_services: [chat/*, /web, web, other/web, chat/web, \"\"]\n",
			want: []string{
				"expected[0]: is \"chat/web\", which is a service, not a container; move it to expected_services",
				"expected_services[0]: is \"chat/*\", but patterns are not supported; name one service, such as chat/web",
				"expected_services[1]: is \"/web\", must be the name of one service",
				"expected_services[2]: is \"web\", which belongs to none of projects; write the project too, such as chat/web",
				"expected_services[3]: is \"other/web\", which projects filters out",
				"expected_services[5]: is \"\", must be the name of one service",
			},
		},
		{
			name: "a time without its unit",
			file: "    host: unix:///x\n    missing_after: 30d\n    forget_after: 7\n",
			want: []string{
				"targets[0].forget_after: is \"7\", must be a duration such as 500ms, 30s, 5m or 14d; add a unit: 7s, 7m, 7h or 7d",
			},
		},
		{
			name: "forgotten before it is missing",
			file: "    host: unix:///x\n    forget_after: 7s\n",
			want: []string{"targets[0].forget_after: is 7s, must be longer than missing_after, or 0 for never"},
		},
		{
			name: "too much at once",
			file: "    host: unix:///x\n    resources_parallelism: 1025\n",
			want: []string{"resources_parallelism: is 1025"},
		},
		{
			name: "no such source of resources",
			file: "    host: unix:///x\n    resources: cadvisor\n",
			want: []string{"resources: is \"cadvisor\", must be auto, cgroup, engine or none"},
		},
		{
			name: "files that are not there",
			file: "    host: tcp://engine\n    ca_file: /nowhere/ca\n    cert_file: /nowhere/c\n    key_file: /nowhere/k\n",
			want: []string{
				"targets[0].ca_file: read authorities: open /nowhere/ca", "targets[0].cert_file: read client certificate: open /nowhere/c",
			},
		},
		{
			name: "verification demanded and switched off",
			file: "    insecure_skip_verify: true\n",
			env: map[string]string{
				"DOCKER_HOST": "tcp://engine", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/nowhere",
			},
			want: []string{
				"insecure_skip_verify: is true, which disables ca_file",
				"DOCKER_CERT_PATH: targets[0].ca_file: read authorities: open /nowhere/ca.pem",
			},
		},
		{name: "the command's certificate without its key", env: map[string]string{
			"DOCKER_HOST": "tcp://engine", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": keyless,
		}, want: []string{"DOCKER_CERT_PATH: targets(docker).cert_file: read client certificate: open " + keyless + "/key.pem"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadDocker(t, tt.file, tt.env, newDockerSettings)
			if err == nil {
				t.Fatal("got no fault")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tt.want) {
				t.Errorf("faults: got %d, want %d:\n%v", len(lines), len(tt.want), err)
			}
			for _, want := range tt.want {
				if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, want) }) {
					t.Errorf("no fault with %q in:\n%v", want, err)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the fault repeats a password: %v", err)
			}
		})
	}
}

func TestDockerTakesTheLeastAndTheMost(t *testing.T) {
	for name, file := range map[string]string{
		"least": "    host: unix:///x\n    parallelism: 1\n    resources_parallelism: 1\n    missing_after: " +
			"0s\n    forget_after: 0s\n",
		"most":                      "    host: unix:///x\n    parallelism: 64\n    resources_parallelism: 1024\n",
		"expected, any name":        "    host: unix:///x\n    expected: [irc]\n",
		"expected, and what fits":   "    host: unix:///x\n    expected: [irc]\n    names: [i*]\n    exclude: [xmpp]\n",
		"mounts that are not there": "    host: unix:///x\n    resources: cgroup\n    cgroup_root: /nowhere\n    proc_root: /nowhere\n",
	} {
		if _, err := loadDocker(t, file, nil, newDockerSettings); err != nil {
			t.Errorf("%s: %v", name, err)
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
	for _, tt := range []struct {
		name, socket, env, want string
	}{
		{
			"there",
			there,
			"",
			"unix://" + there,
		},
		{
			"not there",
			there + "x",
			"",
			"",
		},
		{
			"nobody may look whether it is",
			there + "/x",
			"",
			"unix://" + there + "/x",
		},
		{
			"environment",
			there,
			"tcp://engine:1",
			"tcp://engine:1",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := loadDocker(t, "", map[string]string{"DOCKER_HOST": tt.env}, func() *Docker {
				s := newDockerSettings()
				s.UseDefaultSocket(tt.socket)
				return s
			})
			if err != nil {
				t.Fatal(err)
			}
			var got string
			for _, target := range cfg.Targets {
				if s, ok := target.(*Docker); ok {
					got = s.Host
				}
			}
			if got != tt.want {
				t.Errorf("host: got %q, want %q", got, tt.want)
			}
		})
	}
	s := dockerSettings("tcp://engine:1")
	s.UseDefaultSocket(there)
	if s.Host != "tcp://engine:1" {
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
	verified := func(host, path string) map[string]string {
		return map[string]string{"DOCKER_HOST": host, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": path}
	}
	at := func(host string) map[string]string { return map[string]string{"DOCKER_HOST": host} }
	authorities, pair := "    ca_file: "+good+"/ca.pem\n", "    cert_file: "+good+"/cert.pem\n    key_file: "+good+"/key.pem\n"
	for _, tt := range []struct {
		name   string
		env    map[string]string
		file   string
		reason failure.Reason // "" for success
		hint   string
	}{
		{
			"as the docker command has it",
			verified(host, good),
			"",
			"",
			"",
		},
		{
			"the home directory",
			map[string]string{"DOCKER_HOST": host, "DOCKER_TLS_VERIFY": "1", "HOME": home},
			"",
			"",
			"",
		},
		{
			"the docker command's configuration",
			map[string]string{"DOCKER_HOST": host, "DOCKER_TLS_VERIFY": "1", "DOCKER_CONFIG": good, "HOME": "/nowhere"},
			"",
			"",
			"",
		},
		{
			"keys",
			at(host),
			authorities + pair,
			"",
			"",
		},
		{
			"verification is not off because nobody demanded it",
			at(host),
			pair,
			failure.TLS,
			"is not trusted",
		},
		{
			"verification is off once it is written out",
			at(host),
			"    insecure_skip_verify: true\n" + pair,
			"",
			"",
		},
		{
			"another authority",
			verified(host, certPath(t, others, true)),
			"",
			failure.TLS,
			"is not trusted",
		},
		{
			"no client certificate",
			verified(host, certPath(t, ours, false)),
			"",
			failure.TLS,
			"set cert_file and key_file",
		},
		{
			"another name",
			verified(strings.Replace(host, "localhost", "127.0.0.1", 1), good),
			"",
			failure.TLS,
			"another name",
		},
		{
			"no TLS to a port with TLS",
			map[string]string{"DOCKER_HOST": host, "DOCKER_CERT_PATH": good},
			"",
			failure.TLS,
			"DOCKER_TLS_VERIFY=1",
		},
		{
			"TLS to a port without",
			at("https://" + plain.Listener.Addr().String()),
			"",
			failure.TLS,
			"write http:// in the host",
		},
		{
			"no TLS on both sides",
			at(plain.URL),
			"",
			"",
			"",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := loadedDocker(t, tt.file, tt.env)
			_, err := readDocker(t, s)
			if tt.reason == "" {
				if err != nil {
					t.Errorf("got error %v, want none", err)
				}
				return
			}
			wantDockerFailure(t, err, tt.reason, tt.hint)
		})
	}
}

func TestRefusedClientCertificateNamesItsKeys(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		host := startTLSEngine(t, ours, version)
		foreign := certPath(t, others, true)
		for _, tt := range []struct{ name, file, hint string }{
			{name: "none", hint: "set cert_file and key_file"},
			{
				name: "foreign",
				file: "    cert_file: " + foreign + "/cert.pem\n    key_file: " + foreign + "/key.pem\n",
				hint: "refuses the certificate in cert_file",
			},
		} {
			t.Run(tls.VersionName(version)+", "+tt.name, func(t *testing.T) {
				s := loadedDocker(t, "    ca_file: "+certPath(t, ours, false)+"/ca.pem\n"+tt.file, map[string]string{"DOCKER_HOST": host})
				_, err := readDocker(t, s)
				wantDockerFailure(t, err, failure.TLS, tt.hint)
			})
		}
	}
}
