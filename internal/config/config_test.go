package config_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// load reads a configuration of the real kinds; without content, the environment alone.
func load(t *testing.T, content string, env map[string]string) (*config.Config, error) {
	t.Helper()
	source := config.Source{
		Kinds:    collectors.ConfigKinds(),
		Alerts:   alerts.Kinds(),
		Lookup:   func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		CheckURL: checkURL,
		HostOf:   hostOf,
		Environ: func() []string {
			var all []string
			for name, value := range env {
				all = append(all, name+"="+value)
			}
			return all
		},
	}
	if content != "" {
		source.File, source.Content = "exporter.yaml", []byte(content)
	}
	return config.Load(source)
}

func write(t *testing.T, file, content string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestShippedFileExplainsEverythingAndSetsNothing(t *testing.T) {
	content, err := os.ReadFile("../../exporter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := load(t, string(content), nil)
	if err != nil {
		t.Fatalf("the shipped exporter.yaml is not valid:\n%v", err)
	}
	bare, err := load(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if set := describe(shipped, bare); len(set) > 0 {
		t.Errorf("the shipped file has other defaults than the code, or targets, which would be red on a stack without them: %q", set)
	}
	for _, kind := range collectors.Kinds {
		if !strings.Contains(string(content), "- kind: "+kind.Name+"\n") {
			t.Errorf("the shipped file does not explain the kind %s", kind.Name)
		}
	}
	var file struct {
		Alerts map[string]any `yaml:"alerts"`
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	for _, missing := range missingKeys(file.Alerts, reflect.TypeFor[config.Alerts](), "alerts") {
		t.Errorf("the shipped file does not explain %s", missing)
	}
	for alert, settings := range shipped.Alerts.Settings {
		for key := range settings.Values() {
			inner, _ := file.Alerts[alert].(map[string]any)
			severity, name, nested := strings.Cut(key, ".")
			if nested {
				inner, _ = inner[severity].(map[string]any)
				key = name
			}
			if _, ok := inner[key]; !ok {
				t.Errorf("the shipped file does not explain alerts.%s: %s", alert, key)
			}
		}
	}
}

func TestEveryKindHasARowInTargets(t *testing.T) {
	document, err := os.ReadFile("../../TARGETS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range collectors.Kinds {
		if row := regexp.MustCompile("(?m)^\\|[^|]*`" + kind.Name + "`[^|]*\\|"); !row.Match(document) {
			t.Errorf("TARGETS.md has no row for the kind %s", kind.Name)
		}
	}
}

// minimalExample is the first block of commented YAML in exporter.yaml.
var minimalExample = regexp.MustCompile(`(?m)^#   targets:\n(?:#   .*\n)+`)

func TestMinimalExampleIsValid(t *testing.T) {
	content, err := os.ReadFile("../../exporter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	example := strings.ReplaceAll("\n"+string(minimalExample.Find(content)), "\n#   ", "\n")
	if lines := strings.Count(example, "\n") - 1; lines > 16 {
		t.Errorf("the example has %d lines, want about 15", lines)
	}
	cfg, err := config.Load(config.Source{
		File:           "exporter.yaml",
		Content:        []byte(example),
		Kinds:          collectors.ConfigKinds(),
		Alerts:         alerts.Kinds(),
		WithoutSecrets: true,
		Lookup:         func(string) (string, bool) { return "", false },
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, example)
	}
	if len(cfg.Targets) != 5 || len(cfg.Warnings) > 0 {
		t.Errorf("%d targets, warnings %v; want 5 targets without warnings", len(cfg.Targets), cfg.Warnings)
	}
}

// missingKeys are the keys of a struct that a mapping does not have.
func missingKeys(have map[string]any, t reflect.Type, path string) []string {
	var missing []string
	for field := range t.Fields() {
		key, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if key == "-" {
			continue
		}
		if options == "inline" {
			missing = append(missing, missingKeys(have, field.Type, path)...)
			continue
		}
		value, ok := have[key]
		if !ok {
			missing = append(missing, path+"."+key)
			continue
		}
		if field.Type.Kind() == reflect.Struct {
			inner, _ := value.(map[string]any)
			missing = append(missing, missingKeys(inner, field.Type, path+"."+key)...)
		}
	}
	return missing
}

func TestFlagsOutweighAll(t *testing.T) {
	cfg, err := config.Load(config.Source{
		Kinds:    collectors.ConfigKinds(),
		Alerts:   alerts.Kinds(),
		Lookup:   func(string) (string, bool) { return "", false },
		Interval: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Poll.Interval.Std() != 5*time.Second || cfg.Poll.Timeout.Std() != 5*time.Second {
		t.Errorf("got %+v, want the interval as given and a timeout that fits into it", cfg.Poll)
	}
	_, err = config.Load(config.Source{
		Kinds:    collectors.ConfigKinds(),
		Alerts:   alerts.Kinds(),
		Lookup:   func(string) (string, bool) { return "", false },
		Interval: time.Millisecond,
	})
	if err == nil || !strings.Contains(err.Error(), "--poll.interval: poll.interval: is 1ms, must be a whole number of seconds") {
		t.Errorf("got %v, want the flag to be named", err)
	}
}

func TestSecretFilesThatCannotBe(t *testing.T) {
	const secret = "hunter2/Xy+=="
	mounted := filepath.Join(t.TempDir(), "plant_token")
	for name, path := range map[string]string{
		"missing": "/does/not/exist", "device": "/dev/zero", "directory": t.TempDir(), "missing beside others": mounted,
		"the secret itself": secret, "a long secret": strings.Repeat(secret, 500),
	} {
		_, err := load(t, "", map[string]string{"PLANT_STORE_URL": "http://p", "PLANT_STORE_TOKEN_FILE": path})
		if err == nil || !strings.Contains(err.Error(), "PLANT_STORE_TOKEN_FILE: ") ||
			!strings.Contains(err.Error(), "name a file that the exporter's user can read") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", name, err)
		}
		if path == mounted && (err == nil || !strings.Contains(err.Error(), mounted)) {
			t.Errorf("%s: got %v, want its path", name, err)
		}
	}
}

func TestSecretFilesNeedNotBeReadToValidate(t *testing.T) {
	const content = "targets:\n  - kind: irc_rpc\n    url: https://irc:8600/api\n    user: exporter\n    password_file: /does/not/exist\n"
	load := func(content string) error {
		file := write(t, filepath.Join(t.TempDir(), "exporter.yaml"), content)
		_, err := config.Load(config.Source{
			File:           file,
			Kinds:          collectors.ConfigKinds(),
			Alerts:         alerts.Kinds(),
			WithoutSecrets: true,
			Lookup: func(name string) (string, bool) {
				v, ok := map[string]string{"PLANT_STORE_URL": "http://p", "PLANT_STORE_TOKEN_FILE": "/dev/zero"}[name]
				return v, ok
			},
		})
		return err
	}
	if err := load(content); err != nil {
		t.Error(err)
	}
	if err := load(content + "    nonsense: 1\n"); err == nil ||
		!strings.Contains(err.Error(), "exporter.yaml:6: targets[0].nonsense: unknown key") {
		t.Errorf("a file that is not valid: got %v", err)
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	const value = "hunter2"
	s := struct {
		Password config.Secret
		hidden   config.Secret
	}{config.NewSecret(value), config.NewSecret(value)}
	asJSON, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(s.Password)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s.Password, "all", s)
	for _, shown := range []string{
		fmt.Sprint(s), fmt.Sprintf("%+v", s), fmt.Sprintf("%#v", s),
		fmt.Sprintf("%v %s %q %x", s.Password, s.Password, s.Password, s.Password),
		fmt.Sprintf("%v", &s), fmt.Sprintf("%d", s), string(asJSON), string(asYAML), log.String(),
	} {
		if strings.Contains(shown, value) || strings.Contains(shown, "68756e74657232") {
			t.Errorf("printed: %s", shown)
		}
	}
	if s.hidden.Reveal() != value || s.Password.IsZero() || !(config.Secret{}).IsZero() {
		t.Error("the value is lost")
	}
}

func TestRedactorMasksEveryFormOfEverySecret(t *testing.T) {
	// One secret begins with the other, so the order matters.
	s := &collectors.IRCRPC{User: "user", Password: config.NewSecret("sesame open")}
	w := &collectors.Web{Headers: map[string]config.Secret{"A": config.NewSecret("sesame"), "B": config.NewSecret("sesame-street")}}
	for _, c := range []struct {
		settings config.Settings
		text     string
	}{
		{s, "token sesame open is wrong"},
		{s, "?q=sesame+open"},
		{s, "Basic dXNlcjpzZXNhbWUgb3Blbg=="},
		{w, "sesame-street and sesame"},
	} {
		got := config.Redactor(c.settings)(c.text)
		for _, left := range []string{"sesame", "street", "dXNlcjpz"} {
			if strings.Contains(got, left) {
				t.Errorf("%q became %q", c.text, got)
			}
		}
	}
	if config.Redactor(&collectors.XMPPProxy{}) != nil {
		t.Error("a redactor where there is no secret")
	}
}

// TestRedactorMasksASecretHoweverItIsWritten has servers and programs repeat secrets in the spellings of their formats.
func TestRedactorMasksASecretHoweverItIsWritten(t *testing.T) {
	for _, secret := range []string{
		`se"same`, `se\same`, `se'/same`, "se\u200bsa\u00a0me", "se\xffsame", "se<&>same", "se same%", "sé:@sàme", "se\U0001f511same",
	} {
		settings := &collectors.Web{Headers: map[string]config.Secret{"A": config.NewSecret(secret)}}
		asJSON, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		for format, text := range map[string]string{
			"as it is": secret, "quoted": strconv.Quote(secret), "in ASCII": strconv.QuoteToASCII(secret), "as JSON": string(asJSON),
			"as JSON, quoted": strconv.Quote(string(asJSON)), "in a query": url.QueryEscape(secret), "in a path": url.PathEscape(secret),
			"in userinfo": url.UserPassword("u", secret).String(), "in lower case": strings.ToLower(url.QueryEscape(secret)),
			"in a query in a query": url.QueryEscape(url.QueryEscape(secret)), "in HTML": html.EscapeString(secret),
			"printable": failure.Printable(secret, 100), "as the name of a header": http.CanonicalHeaderKey("x-" + secret),
		} {
			got := config.Redactor(settings)("before " + text + " after")
			if left := strings.ToLower(strings.ReplaceAll(got, "<secret>", "")); strings.Contains(left, "se") ||
				strings.Contains(left, "me") {
				t.Errorf("%q %s: %q became %q", secret, format, text, got)
			}
			if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
				t.Errorf("%q %s: %q took more than the secret", secret, format, got)
			}
		}
	}
}

// TestRedactorMasksTheSpellingsOfOtherPrograms has spellings that no function of Go writes.
func TestRedactorMasksTheSpellingsOfOtherPrograms(t *testing.T) {
	const secret = `pass'word/ho"rse battery`
	each := func(format string, secret string) string {
		var b strings.Builder
		for _, r := range secret {
			fmt.Fprintf(&b, format, r)
		}
		return b.String()
	}
	credentials := base64.StdEncoding.EncodeToString([]byte("user:" + secret))
	emoji := "\U0001f511\U0001f511key"
	for spelling, secretOf := range map[string]string{
		`pass\'word\/ho\"rse battery`: secret, `pass''word/ho""rse battery`: secret, `pass'\''word/ho"rse battery`: secret,
		`pass&#x27;word/ho&quot;rse battery`: secret, `pass&apos;word&#x2F;ho&#34;rse&#32;battery`: secret,
		`pass&amp;#39;word/ho&amp;quot;rse battery`:    secret,
		`pass\u0027word\u002Fho\u0022rse\u0020battery`: secret, `pass\\u0027word/ho\\u0022rse battery`: secret,
		`pass\x27word/ho\x22rse battery`: secret,
		`pass\047word/ho\042rse battery`: secret, `pass\u{27}word/ho\u{22}rse battery`: secret,
		each("%%%02x", secret): secret, each("%%%02X", secret): secret, each("%%25%02x", secret): secret, each("&#%d;", secret): secret,
		each("&#x%x;", secret): secret, each("&#x%04X;", secret): secret, each(`\u%04x`, secret): secret, each(`\x%02x`, secret): secret,
		base64.RawStdEncoding.EncodeToString([]byte(secret)): secret, strings.TrimRight(credentials, "="): secret,
		url.QueryEscape(strings.TrimRight(credentials, "=")):     secret,
		base64.RawStdEncoding.EncodeToString([]byte("~~~?>>>>")): "~~~?>>>>",
		base64.RawURLEncoding.EncodeToString([]byte("~~~?>>>>")): "~~~?>>>>",
		`\ud83d\udd11\ud83d\udd11key`:                            emoji, `\U0001F511\U0001F511key`: emoji, each("&#x%x;", emoji): emoji,
		`\xf0\x9f\x94\x91\xf0\x9f\x94\x91key`: emoji,
	} {
		s := &collectors.IRCRPC{User: "user", Password: config.NewSecret(secretOf)}
		if got := config.Redactor(s)("before " + spelling + " after"); got != "before <secret> after" {
			t.Errorf("%s became %s", spelling, got)
		}
	}
	s := &collectors.IRCRPC{User: "user", Password: config.NewSecret(secret)}
	if got := config.Redactor(s)("Basic " + credentials); strings.Contains(got, credentials[:8]) {
		t.Errorf("credentials became %s", got)
	}
}

func TestNamedFileThatIsNotThereIsLookedForNearby(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "exporter.yml"), "poll: {}\n")
	for name, c := range map[string]struct{ file, want, not string }{
		"another ending": {
			filepath.Join(dir, "exporter.yaml"),
			"did you mean --config.file=" + filepath.Join(dir, "exporter.yml") + "?",
			"mount the file",
		},
		"nothing like it": {
			filepath.Join(dir, "other.json"),
			"correct the path in --config.file; in a container, mount the file there",
			"did you mean",
		},
		"made a directory": {
			dir,
			"--config.file must name a file; Docker creates a directory of that name if the mounted file does not exist",
			"did you mean",
		},
	} {
		_, err := config.Load(config.Source{File: c.file, Kinds: collectors.ConfigKinds(), Alerts: alerts.Kinds()})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.not) ||
			!strings.Contains(err.Error(), c.file) {
			t.Errorf("%s: got %v\nwant %s", name, err, c.want)
		}
	}
}

func TestDurationsAreReadInBothSpellings(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "720h": 720 * time.Hour, "1.5h": 90 * time.Minute,
		"500ms": 500 * time.Millisecond, "0": 0,
	} {
		if got, err := config.ParseDuration(text); err != nil || got.Std() != want {
			t.Errorf("%s: got %s, %v; want %s", text, got.Std(), err, want)
		}
	}
	for _, text := range []string{"", "soon", "-1h", "5", "1d-12h"} {
		if got, err := config.ParseDuration(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, got.Std())
		}
	}
}

func TestUnconfiguredTargetsAreNamed(t *testing.T) {
	for _, env := range []map[string]string{nil, {"XMPP_REST_URL": "http://xmpp:5280"}} {
		cfg, err := load(t, "", env)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(cfg.Unconfigured, "xmpp_status") != (env == nil) {
			t.Errorf("with %v: unconfigured are %v", env, cfg.Unconfigured)
		}
		for _, name := range []string{
			"xmpp_rest", "identity", "docs_search", "web_irc", "web_panel", "log_viewer", "http", "tcp", "openmetrics", "irc_rpc",
		} {
			if !slices.Contains(cfg.Unconfigured, name) {
				t.Errorf("with %v: %s is not told to be unconfigured", env, name)
			}
		}
	}
}

// TestRelativePathsLeadFromTheFile has a file in another directory than the working directory, for every key that is a path.
func TestRelativePathsLeadFromTheFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"irc_password", "bridge_token", "xmpp_password"} {
		write(t, filepath.Join(dir, name), name+"\n")
	}
	certificate, key := exchangetest.Certificate{Name: "client"}.Make(t).PEM(t)
	write(t, filepath.Join(dir, "cert.pem"), string(certificate))
	write(t, filepath.Join(dir, "key.pem"), string(key))
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "sys"), 0o700))
	must(os.MkdirAll(filepath.Join(dir, "proc/1"), 0o700))
	file := write(t, filepath.Join(dir, "exporter.yaml"), `
state_file: state.json
public: {listen_address: ":1", web_config_file: ./web.yml, services: [{name: a, targets: [http]}]}
targets:
  - {kind: irc_rpc, url: "https://irc", user: u, password_file: irc_password, ca_file: cert.pem}
  - {kind: http, url: "https://x", token_file: bridge_token, certificate_file: "certs/*/chain.pem"}
  - {kind: xmpp_login, user: a@chat.test, password_file: ../`+filepath.Base(dir)+`/xmpp_password, ca_file: cert.pem}
  - {kind: relay, irc: {address: irc, channel: "#a", ca_file: cert.pem}, xmpp: {user: a@chat.test, room: a@b.chat.test, password_file: xmpp_password, ca_file: cert.pem}}
  - {kind: docker, host: "tcp://docker:2376", ca_file: cert.pem, cert_file: cert.pem, key_file: key.pem, cgroup_root: sys, proc_root: proc}
  - {kind: volume, path: /absolute}
`)
	for _, from := range []string{"/", filepath.Dir(dir), dir} {
		t.Chdir(from)
		named, err := filepath.Rel(from, file)
		must(err)
		cfg, err := config.Load(
			config.Source{
				File:   named,
				Kinds:  collectors.ConfigKinds(),
				Alerts: alerts.Kinds(),
				Lookup: func(string) (string, bool) { return "", false },
			})
		if err != nil {
			t.Fatalf("from %s: %v", from, err)
		}
		paths := map[string]string{"state.json": cfg.StateFile, "web.yml": cfg.Public.WebConfigFile}
		for _, s := range cfg.Targets {
			switch s := s.(type) {
			case *collectors.IRCRPC:
				paths["cert.pem"] = s.CAFile
				if s.Password.Reveal() != "irc_password" {
					t.Errorf("from %s: the password is %q", from, s.Password.Reveal())
				}
			case *collectors.Web:
				paths["certs/*/chain.pem"] = s.CertificateFile
			case *collectors.Docker:
				paths["key.pem"], paths["sys"], paths["proc"] = s.KeyFile, s.CgroupRoot, s.ProcRoot
			}
		}
		for name, got := range paths {
			if full, err := filepath.Abs(got); err != nil || full != filepath.Join(dir, name) {
				t.Errorf("from %s: %s leads to %s", from, name, full)
			}
		}
	}
}

func TestPathThatLedFromTheWorkingDirectoryIsNamedBothWays(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	t.Chdir(elsewhere)
	for _, name := range []string{"state.json", "ca.pem", "secret", "old.pem"} {
		write(t, filepath.Join(elsewhere, name), "x")
	}
	file := write(t, filepath.Join(dir, "exporter.yaml"), `
state_file: state.json
targets:
  - {kind: irc_rpc, url: "https://irc", user: u, password_file: secret, ca_file: ca.pem}
  - {kind: http, url: "https://x", certificate_file: "*.pem"}
`)
	_, err := config.Load(
		config.Source{
			File:   file,
			Kinds:  collectors.ConfigKinds(),
			Alerts: alerts.Kinds(),
			Lookup: func(string) (string, bool) { return "", false },
		})
	for key, name := range map[string]string{
		":2: state_file": "state.json", ":4: targets[0].password_file": "secret", ":4: targets[0].ca_file": "ca.pem",
		":5: targets[1].certificate_file": "*.pem",
	} {
		want := fmt.Sprintf("%s: leads to %s, because paths are relative to this file, and nothing is there; but %s exists",
			key, filepath.Join(dir, name), filepath.Join(elsewhere, name))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestFileOfAVariableLeadsFromTheWorkingDirectory(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	t.Chdir(elsewhere)
	write(t, filepath.Join(elsewhere, "token"), "sesame")
	file := write(t, filepath.Join(dir, "exporter.yaml"), "poll: {}\n")
	env := map[string]string{"PLANT_STORE_URL": "http://p", "PLANT_STORE_TOKEN_FILE": "token"}
	cfg, err := config.Load(config.Source{
		File:   file,
		Kinds:  collectors.ConfigKinds(),
		Alerts: alerts.Kinds(),
		Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := cfg.Targets[0].(*collectors.PlantStore); !ok || s.Token.Reveal() != "sesame" {
		t.Errorf("got %+v", cfg.Targets)
	}
}

// TestSecretFileThatIsMissingOrEmptyIsNamed holds which names of files count as paths.
func TestSecretFileThatIsMissingOrEmptyIsNamed(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "empty"), "\n")
	loadToken := func(name string) (*config.Config, error) {
		file := write(t, filepath.Join(dir, "exporter.yaml"),
			fmt.Sprintf("targets:\n  - {kind: plant_store, url: 'http://p', token_file: %q}\n", name))
		return config.Load(
			config.Source{
				File:   file,
				Kinds:  collectors.ConfigKinds(),
				Alerts: alerts.Kinds(),
				Lookup: func(string) (string, bool) { return "", false },
			})
	}
	for name, want := range map[string]string{
		"/run/secrets/plant_token": "/run/secrets/plant_token", "plant_token": filepath.Join(dir, "plant_token"),
		"secrets/token1": filepath.Join(dir, "secrets/token1"),
		"token":          filepath.Join(dir, "token"), "/etc/Chat/TOKEN": "/etc/Chat/TOKEN", dir + "/aB3": dir + "/aB3",
		"hunter2": "not the secret itself", "hunter2/Xy+==": "not the secret itself", "aB3xY9kQ2mN7pL5": "not the secret itself",
		"q83/xYz07Lm": "not the secret itself", "/hunter2Xy/A": "not the secret itself", strings.Repeat("abc", 20): "not the secret itself",
	} {
		_, err := loadToken(name)
		if err == nil || !strings.Contains(err.Error(), want) || strings.HasPrefix(want, "not") && strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	cfg, err := loadToken("empty")
	if err != nil || len(cfg.Warnings) != 1 || !strings.Contains(cfg.Warnings[0].Text, filepath.Join(dir, "empty")+" is empty") {
		t.Errorf("an empty file: %v, %+v", err, cfg)
	}
}

// TestSecretsOfNowAreThoseOfTheFiles has files of secrets change beside an edited configuration file, and files that nobody has finished.
func TestSecretsOfNowAreThoseOfTheFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	first, second, empty := write(t, file("first"), "old-first\n"), write(t, file("second"), "old-second"), write(t, file("empty"), "")
	authority, _ := exchangetest.Certificate{Name: "root", Authority: true}.Make(t).PEM(t)
	write(t, file("ca.pem"), string(authority))
	const web = "targets:\n  - {kind: http, name: a, url: 'https://a/', ca_file: ca.pem, token_file: first}\n" +
		"  - {kind: http, name: b, url: 'http://b/', token_file: empty}\n"
	env := map[string]string{"PLANT_STORE_URL": "http://p", "PLANT_STORE_TOKEN_FILE": second}
	cfg, err := config.Load(config.Source{
		File:   write(t, file("exporter.yaml"), web),
		Kinds:  collectors.ConfigKinds(),
		Alerts: alerts.Kinds(),
		Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, file("exporter.yaml"), "somebody is about to edit this")
	write(t, first, "old-first\r\n") // the same secret
	for _, step := range []struct{ file, content, changed, wrong, first, second, empty string }{
		{
			"",
			"",
			"[]",
			"<nil>",
			"old-first",
			"old-second",
			"",
		},
		{
			"first",
			"new-first\n",
			"[" + first + "]",
			"<nil>",
			"new-first",
			"old-second",
			"",
		},
		{
			"second",
			"\n",
			"[]",
			"second is empty",
			"new-first",
			"old-second",
			"",
		},
		{
			"first",
			"newer-first",
			"[" + first + "]",
			"second is empty",
			"newer-first",
			"old-second",
			"",
		},
		{
			"second",
			"two\nlines",
			"[]",
			"second contains a control character",
			"newer-first",
			"old-second",
			"",
		},
		{
			"second",
			strings.Repeat("x", 1<<20),
			"[]",
			"must be at most",
			"newer-first",
			"old-second",
			"",
		},
		{
			"second",
			"new-second",
			"[" + second + "]",
			"<nil>",
			"newer-first",
			"new-second",
			"",
		},
		{
			"empty",
			"filled",
			"[" + empty + "]",
			"<nil>",
			"newer-first",
			"new-second",
			"filled",
		},
	} {
		if step.file != "" {
			write(t, file(step.file), step.content)
		}
		changed, err := cfg.ChangedSecretFiles()
		if got := fmt.Sprint(changed); got != step.changed || !strings.Contains(fmt.Sprint(err), step.wrong) {
			t.Errorf("%s %.20q: %s have changed, %v; want %s, %s", step.file, step.content, got, err, step.changed, step.wrong)
		}
		if cfg, err = cfg.WithSecretsOfNow(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range cfg.Targets {
			switch s := s.(type) {
			case *collectors.Web:
				got = append(got, s.Token.Reveal())
			case *collectors.PlantStore:
				got = append(got, s.Token.Reveal())
			}
		}
		if want := []string{step.first, step.empty, step.second}; !slices.Equal(got, want) {
			t.Errorf("%s %.20q: the secrets are %q, want %q", step.file, step.content, got, want)
		}
	}
	write(t, file("ca.pem"), "being written")
	write(t, first, "newest-first")
	if _, err := cfg.WithSecretsOfNow(); err != nil {
		t.Errorf("a broken file of authorities, which probes read, keeps a new secret away: %v", err)
	}
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	if changed, err := cfg.ChangedSecretFiles(); len(changed) > 0 || !strings.Contains(fmt.Sprint(err), "no such file") {
		t.Errorf("a removed file: %q have changed, %v", changed, err)
	}
}
