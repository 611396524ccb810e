package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// webDirectory is a directory with two identities: server.crt and server.key, other.crt and other.key.
func webDirectory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"server", "other"} {
		cert, key := newIdentity(t, name).PEM(t)
		rewrite(t, filepath.Join(dir, name+".crt"), string(cert))
		rewrite(t, filepath.Join(dir, name+".key"), string(key))
	}
	return dir
}

func TestWebConfigurationErrorsSayWhereAndWhatToDo(t *testing.T) {
	const hidden = "hunter6secret"
	dir := webDirectory(t)
	path := filepath.Join(dir, "web.yml")
	const pair = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
	for name, c := range map[string]struct {
		content string
		want    []string // none where it is sound
		// without the key, where that is something else.
		withoutKey []string
	}{
		"empty":    {content: ""},
		"password": {content: "basic_auth_users:\n  prometheus: " + ownPortBcrypt + "\n"},
		"tls": {content: pair +
			"  min_version: TLS13\nrate_limit: {interval: 1s, burst: 5}\nhttp_server_config: {http2: false}\n"},
		"clear password": {
			content: "basic_auth_users:\n  good: " + ownPortBcrypt + "\n  bad: " + hidden + "\n",
			want:    []string{"web.yml:3: basic_auth_users.bad: is not a bcrypt hash", "htpasswd"},
		},
		"no password": {
			content: "basic_auth_users:\n  bad:\n",
			want:    []string{"web.yml:2: basic_auth_users.bad: is not a bcrypt hash"},
		},
		"cut hash": {content: "basic_auth_users:\n  bad: " + ownPortBcrypt[:40] + "\n", want: []string{"web.yml:2: ", "bcrypt"}},
		"hash as a name": {
			content: "basic_auth_users:\n  " + ownPortBcrypt + ": prometheus\n",
			want:    []string{"web.yml:2: basic_auth_users: is not a bcrypt hash; "},
		},
		"two bad hashes": {content: "basic_auth_users:\n  one: x\n  two: y\n", want: []string{"web.yml:2: ", "web.yml:3: "}},
		"unknown key": {
			content: "rate_limit: {burst: 1}\ntls_sever_config:\n  cert_file: x\n",
			want:    []string{"web.yml:2: has an unknown key, "},
		},
		"secret key":     {content: "basic_auth_users: {}\n" + hidden + ": x\n", want: []string{"web.yml:2: has an unknown key, "}},
		"unknown subkey": {content: "tls_server_config:\n  certfile: x\n", want: []string{"web.yml:2: has an unknown key, "}},
		"wrong type": {
			content: "http_server_config:\n  http2: " + hidden + "\n",
			want:    []string{"web.yml:2: ", "a value of the wrong type"},
		},
		"key twice": {content: "rate_limit: {}\nrate_limit: {}\n", want: []string{"web.yml:", "a duplicate key"}},
		"not YAML":  {content: "basic_auth_users:\n\tx: " + hidden + "\n", want: []string{"web.yml:2: is not valid YAML"}},
		"anchor":    {content: "basic_auth_users: *" + hidden + "\n", want: []string{"web.yml", "is not valid YAML"}},
		"unknown cipher": {
			content: pair + "  cipher_suites: [TLS_AES]\n",
			want:    []string{"web.yml:2: tls_server_config: has an unknown TLS version, cipher or curve"},
		},
		"unknown header": {
			content:    "http_server_config:\n  headers: {X-Mine: a}\n",
			want:       []string{"web.yml:2: http_server_config.headers: has a header"},
			withoutKey: []string{},
		},
		"no such cert": {content: "tls_server_config:\n  cert_file: absent.crt\n  key_file: server.key\n", want: []string{
			"web.yml:2: tls_server_config.cert_file: " + dir + "/absent.crt: no such file or directory; put the file there",
		}},
		"no such key": {
			content:    "tls_server_config:\n  cert_file: server.crt\n  key_file: absent.key\n",
			want:       []string{"web.yml:3: tls_server_config.key_file: " + dir + "/absent.key: no such file"},
			withoutKey: []string{},
		},
		"no such ca": {
			content: pair + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: absent.crt\n",
			want:    []string{"web.yml:5: tls_server_config.client_ca_file: "},
		},
		"ca of nobody": {
			content: pair + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: server.key\n",
			want:    []string{"web.yml:5: ", "has no readable certificate"},
		},
		"both wrong": {
			content:    "tls_server_config:\n  cert_file: a\n  key_file: b\n",
			want:       []string{"web.yml:2: ", "web.yml:3: "},
			withoutKey: []string{"web.yml:2: "},
		},
		"other key": {
			content:    "tls_server_config:\n  cert_file: server.crt\n  key_file: other.key\n",
			want:       []string{"web.yml:3: tls_server_config.key_file: is not the key of the first certificate"},
			withoutKey: []string{},
		},
		"cert as key": {
			content:    "tls_server_config:\n  cert_file: server.crt\n  key_file: server.crt\n",
			want:       []string{"web.yml:3: tls_server_config.key_file: is not the key of the first certificate"},
			withoutKey: []string{},
		},
		"key is missing": {
			content: "tls_server_config:\n  cert_file: server.crt\n",
			want:    []string{"web.yml:2: tls_server_config: key_file is missing; "},
		},
		"cert is missing": {
			content: "tls_server_config:\n  key_file: server.key\n",
			want:    []string{"web.yml:2: tls_server_config: cert_file is missing; "},
		},
		"policy": {
			content: pair + "  client_auth_type: Always\n",
			want:    []string{"web.yml:4: tls_server_config.client_auth_type: is unknown; set one of "},
		},
		"older policy": {content: pair + "  client_auth_type: RequireClientCert\n  client_ca_file: other.crt\n"},
		"ca, no policy": {content: pair + "  client_ca_file: other.crt\n", want: []string{
			"web.yml:4: tls_server_config.client_ca_file: has no effect, because clients are not asked for a certificate; add ",
		}},
	} {
		rewrite(t, path, c.content)
		for _, withoutKey := range []bool{false, true} {
			want := c.want
			if withoutKey && c.withoutKey != nil {
				want = c.withoutKey
			}
			faults := webFaults(path, withoutKey)
			if (len(faults) == 0) != (len(want) == 0) {
				t.Errorf("%s, without the key %v: got %v, want %q", name, withoutKey, faults, want)
				continue
			}
			for _, text := range want {
				if !strings.Contains(faults.Error(), text) {
					t.Errorf("%s, without the key %v: got %v, want %q", name, withoutKey, faults, text)
				}
			}
			if len(faults) > 0 && (strings.Contains(faults.Error(), hidden) || strings.Contains(faults.Error(), ownPortBcrypt)) {
				t.Errorf("%s: a value is repeated: %v", name, faults)
			}
		}
		// What is refused at the start is refused by the check.
		if err := checkWebConfig(path); err != nil && len(c.want) == 0 {
			t.Errorf("%s: sound, and refused at the start: %v", name, err)
		}
	}
	if faults := webFaults(filepath.Join(dir, "absent.yml"), false); len(faults) != 1 ||
		!strings.Contains(faults.Error(), "absent.yml: no such file or directory; name the file with --web.config.file") {
		t.Errorf("no file: %v", faults)
	}
}

func TestInvalidWebConfigurationIsLoggedOnce(t *testing.T) {
	dir := webDirectory(t)
	path := filepath.Join(dir, "web.yml")
	sound := "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\nbasic_auth_users:\n  prometheus: " + ownPortBcrypt + "\n"
	rewrite(t, path, sound)
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { watchWebConfig(ctx, path, slog.New(slog.NewTextHandler(log, nil))) })
		count := func(text string, want int) {
			t.Helper()
			time.Sleep(5 * filesInterval)
			synctest.Wait()
			if got := strings.Count(log.String(), text); got != want {
				t.Errorf("logged %d times %q, want %d:\n%s", got, text, want, log)
			}
		}
		count("web configuration", 0)
		rewrite(t, path, "basic_auth_users:\n  prometheus: secret\n")
		count("is invalid", 1)
		count("web.yml:2: basic_auth_users.prometheus: is not a bcrypt hash; write the output", 1)
		rewrite(t, path, sound)
		count("is valid again", 1)
		// The toolkit logs this at debug level at most.
		must(t, os.Remove(filepath.Join(dir, "server.key")))
		count("is invalid", 2)
		count("web.yml:3: tls_server_config.key_file: "+dir+"/server.key: no such file", 1)
		cancel()
		running.Wait()
	})
}
