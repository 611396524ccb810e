package app

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// checked is what CheckConfig writes, and the error's text.
func checked(o Options) (written, refused string) {
	var b bytes.Buffer
	if err := CheckConfig(&b, o); err != nil {
		refused = err.Error()
	}
	return b.String(), refused
}

func TestWhichFileWasReadIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "exporter.yaml")
	rewrite(t, path, "poll: {}\n")
	t.Chdir(t.TempDir())
	unquoted := strings.NewReplacer(`"`, "") // the log quotes what has spaces, as a temporary directory may
	empty, err := os.Getwd()
	must(t, err)
	for name, c := range map[string]struct{ file, want, log string }{
		"a file": {path, "Read: " + path + ", and the environment.\n", `"using configuration file" file=` + path},
		"none": {
			"", "No configuration file: there is no " + filepath.Join(empty, "exporter.yaml") + ", so only the environment counts.\n",
			`"no configuration file, using environment variables only" looked_for=` + filepath.Join(empty, "exporter.yaml"),
		},
	} {
		log := &logBuffer{}
		o := options(map[string]string{"IRC_SERVICES_JSONRPC_URL": "http://127.0.0.1:1/jsonrpc"}, log)
		o.ConfigFile = c.file
		if got, refused := checked(o); refused != "" || !strings.HasPrefix(got, c.want) ||
			!strings.Contains(got, "The configuration is valid: ") {
			t.Errorf("%s: check-config says %q, %s, want %q first", name, got, refused, c.want)
		}
		a, err := New(o)
		must(t, err)
		a.close()
		if !strings.Contains(unquoted.Replace(log.String()), unquoted.Replace(c.log)) {
			t.Errorf("%s: the log lacks %s:\n%s", name, c.log, log)
		}
	}
}

func TestCheckConfigLooksWhereStateIsKept(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"good": `{"version":1}`, "damaged": `{`, "newer": `{"version":2}`} {
		rewrite(t, filepath.Join(dir, name), content)
	}
	must(t, os.Symlink("good", filepath.Join(dir, "link")))
	absent := filepath.Join(dir, "absent")
	for name, c := range map[string]struct {
		file   string
		change func(*Options)
		// what is written, and what is refused.
		written, refused string
	}{
		"a good one":    {file: "good", written: "valid"},
		"none yet":      {file: "new", written: "valid"},
		"a damaged one": {file: "damaged", written: "warning: nothing in the state file " + dir + "/damaged can be read"},
		"a newer one":   {file: "newer", refused: "exporter.yaml:2: state_file: state file " + dir + "/newer is of version 2"},
		"a link": {
			file:    "link",
			refused: "exporter.yaml:2: state_file: " + dir + "/link is a symbolic link, must be a regular file",
		},
		"no directory": {file: "absent/state", refused: "exporter.yaml:2: state_file: write directory " + dir + "/absent: "},
		"of a service": {
			file:    "absent/state",
			change:  func(o *Options) { o.Lookup = one("STATE_DIRECTORY", "/x:"+absent) },
			written: "valid",
		},
		"of another": {
			file:    "absent/state",
			change:  func(o *Options) { o.Lookup = one("STATE_DIRECTORY", "/x") },
			refused: "create its directory",
		},
		"somewhere else": {file: "absent/state", change: func(o *Options) { o.WithoutSecrets = true }, written: "valid"},
	} {
		o := options(nil, io.Discard)
		o.ConfigFile = filepath.Join(t.TempDir(), "exporter.yaml")
		rewrite(t, o.ConfigFile, "poll: {}\nstate_file: "+filepath.Join(dir, c.file)+"\n")
		if c.change != nil {
			c.change(&o)
		}
		written, refused := checked(o)
		if (refused == "") != (c.refused == "") || !strings.Contains(refused, c.refused) || !strings.Contains(written, c.written) {
			t.Errorf("%s: wrote %q, refused %q; want %q, %q", name, written, refused, c.written, c.refused)
		}
		if wrote := strings.Contains(written, "the state file"); wrote != (name == "a damaged one") {
			t.Errorf("%s: wrote %q", name, written)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 4 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// TestTargetWithoutAnAddressIsToldByNameAndKey has what looks like a forgotten address, an empty one that the shipped file also has, and
// one from the environment.
func TestTargetWithoutAnAddressIsToldByNameAndKey(t *testing.T) {
	log := &logBuffer{}
	o := options(map[string]string{"IRC_RPC_URL": "https://127.0.0.1:1/api"}, log).
		with("targets:\n  - {kind: irc_tls}\n  - {kind: tcp, address: \"\"}\n  - {kind: irc_rpc}\n")
	written, refused := checked(o)
	const warning = "exporter.yaml:2: targets[0]: is not configured, so it is not probed; set address, or remove the entry"
	if refused != "" || !strings.Contains(written, "\nwarning: irc_tls: "+warning+"\n") ||
		strings.Count(written, "is not configured") != 1 {
		t.Errorf("check-config lacks %q, or warns of others: %s\n%s", warning, refused, written)
	}
	a, err := New(o)
	must(t, err)
	a.close()
	if !strings.Contains(log.String(), warning) {
		t.Errorf("the log lacks %q:\n%s", warning, log)
	}
}

// one looks up a single variable.
func one(name, value string) func(string) (string, bool) {
	return func(asked string) (string, bool) {
		if asked == name {
			return value, true
		}
		return "", false
	}
}

func TestCheckConfigNamesFaultsOfAllFilesAtOnce(t *testing.T) {
	dir := t.TempDir()
	o := options(nil, io.Discard)
	o.ConfigFile = filepath.Join(dir, "exporter.yaml")
	*o.Web.WebConfigFile = filepath.Join(dir, "web.yml")
	public := filepath.Join(dir, "public.yml")
	rewrite(t, o.ConfigFile, "pol: {}\nstate_file: absent/state.json\npublic: {web_config_file: public.yml}\n")
	rewrite(t, *o.Web.WebConfigFile, "basic_auth_user: {}\n")
	rewrite(t, public, "basic_auth_user: {}\n")
	_, refused := checked(o)
	says(t, "the error", refused, "exporter.yaml:1: pol: unknown key", "exporter.yaml:2: state_file: write directory ",
		"web.yml:1: has an unknown key", "public.yml:1: has an unknown key")
	rewrite(t, o.ConfigFile, "poll: {}\n")
	rewrite(t, *o.Web.WebConfigFile, "basic_auth_users: {prometheus: "+ownPortBcrypt+"}\n")
	if written, refused := checked(o); refused != "" || !strings.Contains(written, "Web configuration: "+*o.Web.WebConfigFile+".\n") {
		t.Errorf("sound files: wrote %q, refused %q", written, refused)
	}
}

// TestCheckConfigShowsTheNextWindows has a bubble's clock, which begins on Saturday, 2000-01-01 at midnight UTC.
func TestCheckConfigShowsTheNextWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written, refused := checked(options(nil, io.Discard).with(`maintenance:
  - {kind: container, name: once, from: 2000-01-01T22:00:00-05:00, until: 2000-01-02T00:00:00-05:00}
  - {kind: container, name: over, from: 1999-01-01T22:00:00Z, until: 1999-01-02T00:00:00Z}
  - {kind: target, name: irc_rpc, schedule: "CRON_TZ=Europe/Berlin 0 1 * * 6", duration: 30m}
  - {kind: container, name: skipped, schedule: "CRON_TZ=Europe/Berlin 30 2 26 3 *", duration: 1h}
targets:
  - {kind: irc_rpc, url: "http://127.0.0.1:1/api"}
`))
		const want = `Next maintenance of container once (maintenance[0]):
  Sat 2000-01-01 22:00 -05:00 until Sun 2000-01-02 00:00 -05:00
Next maintenance of target irc_rpc (maintenance[2]):
  Sat 2000-01-01 01:00 +01:00 until Sat 2000-01-01 01:30 +01:00
  Sat 2000-01-08 01:00 +01:00 until Sat 2000-01-08 01:30 +01:00
  Sat 2000-01-15 01:00 +01:00 until Sat 2000-01-15 01:30 +01:00
Next maintenance of container skipped (maintenance[3]):
  Sun 2000-03-26 03:00 +02:00 until Sun 2000-03-26 04:00 +02:00
  Mon 2001-03-26 02:30 +02:00 until Mon 2001-03-26 03:30 +02:00
  Tue 2002-03-26 02:30 +01:00 until Tue 2002-03-26 03:30 +01:00
`
		if refused != "" || !strings.HasSuffix(written,
			"\nwarning: maintenance: maintenance[1] of container over ended at 1999-01-02T00:00:00Z; remove it, or set a new time\n"+want) {
			t.Errorf("wrote %s, refused %q, want at its end\n%s", written, refused, want)
		}
	})
}

func TestZoneThatGoTakesForUTCIsWarnedOf(t *testing.T) {
	const local, zoned = `"0 3 * * *"`, `"CRON_TZ=UTC 0 3 * * *"`
	for _, c := range []struct {
		zone, schedule string
		warned         bool
	}{
		{"Europe/Brlin", local, true},
		{"CET-1CEST,M3.5.0,M10.5.0/3", local, true},
		{"Europe/Brlin", zoned, false},
		{"Europe/Berlin", local, false},
		{":Europe/Berlin", local, false},
		{"/etc/localtime", local, false},
		{"", local, false},
	} {
		written, refused := checked(options(map[string]string{"TZ": c.zone}, io.Discard).
			with("maintenance:\n  - {kind: container, name: a, schedule: " + c.schedule + ", duration: 30m}\n"))
		polled, _ := checked(options(map[string]string{"TZ": c.zone}, io.Discard).
			with("targets:\n  - {kind: tcp, address: \"a:1\", schedule: " + c.schedule + "}\n"))
		if got := strings.Contains(polled, "warning: the variable TZ is"); got != c.warned {
			t.Errorf("TZ=%s with a target's schedule %s: wrote %q", c.zone, c.schedule, polled)
		}
		if got := strings.Contains(written, "warning: the variable TZ is \""+c.zone+"\""); got != c.warned || refused != "" {
			t.Errorf("TZ=%s with %s: wrote %q, refused %q", c.zone, c.schedule, written, refused)
		}
	}
}
