package app

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
)

// downTarget is a configuration whose one target is down and opens an incident at once.
const downTarget = "state_file: state.json\n" + quickAlerts + "targets: [{kind: web_irc, url: 'http://127.0.0.1:1/'}]\n"

// broken is an exporter with an open incident.
type broken struct {
	*exporter
	program      *exportertest.Program
	dir, address string
	id           string
}

// startBroken starts the binary in a directory with downTarget and a file of passwords.
func startBroken(t *testing.T, binary, dir string, flags ...string) *broken {
	t.Helper()
	rewrite(t, filepath.Join(dir, "exporter.yaml"), downTarget)
	rewrite(t, filepath.Join(dir, "web.yml"), webConfigs["password"])
	rewrite(t, filepath.Join(dir, "password"), ownPortPassword+"\n")
	p := startProgram(t, binary, dir, nil, append([]string{
		"--web.listen-address=127.0.0.1:0", "--web.config.file=web.yml", "--poll.interval=1s", "--poll.timeout=1s",
	}, flags...)...)
	b := &broken{exporter: exporterOf(t, p), program: p, dir: dir}
	b.address = strings.TrimPrefix(b.url, "http://")
	b.url = "http://prometheus:" + ownPortPassword + "@" + b.address
	b.wait(t, "an incident", func(page) bool { return len(b.incidentsOf(t)) > 0 })
	b.id = b.incidentsOf(t)[0].ID
	return b
}

// ack runs the command beside an exporter.
func (b *broken) ack(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := startProgram(t, b.program.Path, b.dir, env, append([]string{"ack"}, args...)...)
	code = p.ExitCode(t, patience)
	return code, p.Stdout.String(), p.Stderr.String()
}

// TestAckOverTheSocketNeedsNeitherFlagNorPassword of an exporter that has a password, and no --web.enable-lifecycle.
func TestAckOverTheSocketNeedsNeitherFlagNorPassword(t *testing.T) {
	b := startBroken(t, buildBinary(t), directoryWith(t, ""))
	here := "--web.listen-address=" + b.address
	for name, c := range map[string]struct {
		env    map[string]string
		args   []string
		code   int
		says   string
		wantBy string
	}{
		"a name": {args: []string{b.id, "--as=Ann", here}, says: "Ann is on it: Web IRC client is down (" + b.id + ")", wantBy: "Ann"},
		"sudo": {
			args:   []string{b.id, here},
			env:    map[string]string{"SUDO_USER": "bob"},
			says:   "bob is on it",
			wantBy: "bob",
		},
		"a flag and": {args: []string{here, b.id, "--as", "Zoë"}, says: "Zoë is on it", wantBy: "Zoë"},
		"unknown":    {args: []string{"20260501-00000000", "--as=x", here}, code: 1, says: `unknown incident "20260501-00000000"`},
		"hostile":    {args: []string{"../../-/reload", "--as=x", here}, code: 1, says: `unknown incident "reload"`},
		"an address": {args: []string{"https://c.test/incidents/" + b.id + "/", "--as=Eve", here}, says: "Eve is on it", wantBy: "Eve"},
		"empty":      {args: []string{"", "--as=x", here}, code: 2, says: "the incident has no id"},
		"dots":       {args: []string{"..", "--as=x", here}, code: 2, says: "the incident has no id"},
		"control":    {args: []string{b.id, "--as=a\x1b[31m", here}, code: 1, says: "must be one line of text"},
		"blank":      {args: []string{b.id, "--as= ", here}, code: 1, says: "the name is empty"},
		"long":       {args: []string{b.id, "--as=" + strings.Repeat("x", 101), here}, code: 1, says: "more than 100 characters"},
		"no ID":      {args: []string{here}, code: 2, says: "required argument 'ID' not provided"},
		"no socket": {
			args: []string{b.id, "--web.listen-address=127.0.0.1:1"},
			code: 1,
			says: "run the command as the user of the exporter or as root",
		},
		"half a URL": {args: []string{b.id, "--url=http://" + b.address}, code: 2, says: "--user and --password-file belong together"},
		"no URL":     {args: []string{b.id, "--user=x", here}, code: 2, says: "belong together"},
	} {
		code, stdout, stderr := b.ack(t, c.env, c.args...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) || (stdout == "") != (code != 0) {
			t.Errorf("%s: exit code %d, %q, %q; want %d and %q", name, code, stdout, stderr, c.code, c.says)
		}
		if got := b.incidentsOf(t)[0].Acknowledged.By; c.wantBy != "" && got != c.wantBy {
			t.Errorf("%s: acknowledged by %q", name, got)
		}
	}
	says(t, "the log", b.log.String(), `msg="incident was acknowledged" id=`+b.id+` by=Ann user=""`)
}

// TestAckOverHTTPNeedsWhatMaintenanceNeeds: the flag, and a user with a password.
func TestAckOverHTTPNeedsWhatMaintenanceNeeds(t *testing.T) {
	binary := buildBinary(t)
	closed, open := startBroken(t, binary, directoryWith(t, "")), startBroken(t, binary, directoryWith(t, ""), "--web.enable-lifecycle")
	rewrite(t, filepath.Join(open.dir, "wrong"), "another password")
	for name, c := range map[string]struct {
		*broken
		user, file string
		more       []string
		code       int
		says       string
	}{
		"the user":     {broken: open, says: "prometheus is on it"},
		"another name": {broken: open, more: []string{"--as=Ann"}, says: "Ann is on it"},
		"no flag":      {broken: closed, code: 1, says: "start the exporter with --web.enable-lifecycle"},
		"wrong": {
			broken: open,
			file:   "wrong",
			code:   1,
			says:   "refuses the user or the password",
		},
		"no such user": {
			broken: open,
			user:   "eve",
			code:   1,
			says:   "refuses the user or the password",
		},
		"no such file": {
			broken: open,
			file:   "none",
			code:   1,
			says:   "read --password-file: open none",
		},
		"an odd user": {
			broken: open,
			user:   "a:b",
			code:   2,
			says:   "contains a colon",
		},
		"no exporter": {
			broken: open,
			more:   []string{"--url=http://127.0.0.1:1"},
			code:   1,
			says:   "connection refused",
		},
		"not an URL": {
			broken: open,
			more:   []string{"--url=" + open.address},
			code:   2,
			says:   "--url",
		},
		"another thing": {
			broken: open,
			more:   []string{"--url=" + serve(t, http.NotFound)},
			code:   1,
			says:   "does not answer as a",
		},
	} {
		args := []string{c.id, "--user=" + or(c.user, "prometheus"), "--password-file=" + or(c.file, "password")}
		if !slices.ContainsFunc(c.more, func(arg string) bool { return strings.HasPrefix(arg, "--url") }) {
			args = append(args, "--url=http://"+c.address+"/")
		}
		code, stdout, stderr := c.ack(t, nil, append(args, c.more...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) || strings.Contains(stdout+stderr, ownPortPassword) {
			t.Errorf("%s: exit code %d, %q, %q; want %d and %q", name, code, stdout, stderr, c.code, c.says)
		}
	}
	list := open.incidentsOf(t)
	_, body := open.exchange(t, http.MethodGet, "/api/v1/incidents/"+list[0].ID, "")
	says(t, "the timeline", string(body), "acknowledged by prometheus", "acknowledged by Ann (sent by the user prometheus)")
	if got := closed.incidentsOf(t)[0].Acknowledged.By; got != "" {
		t.Errorf("without the flag, it is acknowledged by %q", got)
	}
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// TestAckTrustsAnAuthorityOfItsOwn for an exporter with TLS.
func TestAckTrustsAnAuthorityOfItsOwn(t *testing.T) {
	b := startBroken(t, buildBinary(t), directoryWith(t, ""))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ann" || password != ownPortPassword {
			t.Errorf("got %s, %s", user, password)
		}
		//nolint:errcheck // a test's
		fmt.Fprint(w, `{"title": "a\u001b[31m", "id": "1", "acknowledged": {"by": "ann"}, "warnings": ["w\u001b[31m"]}`)
	}))
	identity := newIdentity(t, "exporter")
	certificate, _ := identity.PEM(t)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{exchangetest.Chain(identity)}} //nolint:gosec // a test's
	server.StartTLS()
	defer server.Close()
	rewrite(t, filepath.Join(b.dir, "ca.crt"), string(certificate))
	args := []string{"1", "--url=" + server.URL, "--user=ann", "--password-file=password"}
	if code, stdout, stderr := b.ack(t, map[string]string{"EXPORTER_CA_FILE": "ca.crt"}, args...); code != 0 ||
		stdout != "ann is on it: a [31m (1)\n" || stderr != "warning: w [31m\n" {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	if code, _, stderr := b.ack(t, nil, args...); code != 1 || !strings.Contains(stderr, "certificate") {
		t.Errorf("an unknown authority: exit code %d, %q", code, stderr)
	}
}

// TestAcknowledgementAndNoteSurviveSIGKILLRightAfterTheAnswer, each of several times.
func TestAcknowledgementAndNoteSurviveSIGKILLRightAfterTheAnswer(t *testing.T) {
	binary, dir := buildBinary(t), directoryWith(t, "")
	last := ""
	for n := range 4 {
		b := startBroken(t, binary, dir, "--web.enable-lifecycle")
		if got := b.incidentsOf(t)[0].Acknowledged.By; got != last {
			t.Errorf("after restart %d, it is acknowledged by %q, want %q", n, got, last)
		}
		path, text := "/api/v1/incidents/"+b.id, fmt.Sprint("round-", n)
		want, request, body := http.StatusCreated, "/notes", `{"text": "`+text+`"}`
		if n%2 == 0 {
			want, request, body, last = http.StatusOK, "/acknowledgement", `{"as": "`+text+`"}`, text
		}
		code, answer := b.exchange(t, http.MethodPost, path+request, body)
		must(t, b.program.Process.Kill())
		<-b.program.Ended
		if code != want || strings.Contains(string(answer), "warnings") {
			t.Fatalf("round %d: %d, %s", n, code, answer)
		}
		kept := slices.Collect(restored(t, dir))
		found := slices.ContainsFunc(kept, func(i *incident.Incident) bool {
			return i.Acknowledged.By == text || slices.ContainsFunc(i.Notes, func(n incident.Note) bool { return n.Text == text })
		})
		if !found {
			t.Errorf("round %d: %s is lost; the file has %+v", n, text, kept)
		}
	}
}

// listenAt listens at the socket of an exporter in a directory that its user made.
func listenAt(t *testing.T, dir string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	l, err := privateSocket.Listen(t.Context(), "unix", filepath.Join(dir, "9655.sock"))
	must(t, err)
	t.Cleanup(func() { l.Close() }) //nolint:errcheck // a test's
	if info, err := os.Stat(filepath.Join(dir, "9655.sock")); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("at its beginning, the socket has mode %v, %v; want 0600", info.Mode(), err)
	}
}

// TestRootFindsTheOneSocketOfAnotherUser but none in a directory that somebody else may have put there, and chooses between no two.
func TestRootFindsTheOneSocketOfAnotherUser(t *testing.T) {
	own, service, second := t.TempDir(), filepath.Join(t.TempDir(), "service"), filepath.Join(t.TempDir(), "second")
	find := func(dirs ...string) (string, error) {
		address := []string{":9655"}
		o := Options{RuntimeDirectory: own, OtherRuntimeDirectories: dirs, Web: &toolkit.FlagConfig{WebListenAddresses: &address}}
		return o.findSocket()
	}
	if _, err := find(service); err == nil || !strings.Contains(err.Error(), filepath.Join(service, "9655.sock")) {
		t.Errorf("without any: %v", err)
	}
	listenAt(t, service)
	if got, err := find(service, filepath.Join(second, "none")); err != nil || got != filepath.Join(service, "9655.sock") {
		t.Errorf("got %s, %v", got, err)
	}
	listenAt(t, second)
	if _, err := find(service, second); err == nil || !strings.Contains(err.Error(), "several exporters") {
		t.Errorf("of two: %v", err)
	}
	shared := t.TempDir()
	must(t, os.Chmod(shared, os.ModeSticky|0o777)) //nolint:gosec // that is what is tried
	planted := filepath.Join(shared, "planted")
	must(t, os.Symlink(second, planted))
	if got, err := find(service, planted); err != nil || got != filepath.Join(service, "9655.sock") {
		t.Errorf("with a planted one: %s, %v", got, err)
	}
	l, err := net.Listen("unix", filepath.Join(own, "9655.sock")) //nolint:noctx // a test's
	must(t, err)
	defer l.Close() //nolint:errcheck // a test's
	if got, err := find(service, second); err != nil || got != filepath.Join(own, "9655.sock") {
		t.Errorf("beside its own: %s, %v", got, err)
	}
}

// TestRuntimeDirectoriesOfOthersAreForRootAlone and for none who names one.
func TestRuntimeDirectoriesOfOthersAreForRootAlone(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	got := OtherRuntimeDirectories(none)
	if root := os.Getuid() == 0; slices.Contains(got, "/run/chatstack_exporter") != root {
		t.Errorf("user %d looks in %q", os.Getuid(), got)
	}
	if got := OtherRuntimeDirectories(func(string) (string, bool) { return "/run/mine", true }); got != nil {
		t.Errorf("with RUNTIME_DIRECTORY, root looks in %q", got)
	}
	if got := RuntimeDirectory(none); got != ownDirectories()+strconv.Itoa(os.Getuid()) {
		t.Errorf("the own directory is %s", got)
	}
}

// documentedAck matches the commands and requests of OPERATIONS.md that acknowledge an incident or add a note, each on one line.
var documentedAck = regexp.MustCompile(`(?m)^    (.*(?:chatstack_exporter ack|/api/v1/incidents/ID/).*)$`)

// TestDocumentedAcknowledgementsWork runs every one as a user would, but with another address, user and password.
func TestDocumentedAcknowledgementsWork(t *testing.T) {
	b := startBroken(t, buildBinary(t), directoryWith(t, ""), "--web.enable-lifecycle")
	must(t, os.Rename(filepath.Join(b.dir, "password"), filepath.Join(b.dir, "exporter.password")))
	text := strings.ReplaceAll(string(contentOf(t, "../../OPERATIONS.md")), "\\\n", "")
	found := documentedAck.FindAllStringSubmatch(text, -1)
	for _, m := range found {
		line := strings.NewReplacer("https://exporter:9655", "http://"+b.address, "USER", "prometheus", " ID", " "+b.id,
			"/ID/", "/"+b.id+"/").Replace(m[1])
		if _, args, command := strings.Cut(line, "chatstack_exporter ack "); command {
			code, stdout, stderr := b.ack(t, map[string]string{"SUDO_USER": "Ann"}, append(strings.Fields(args),
				"--web.listen-address="+b.address)...)
			if code != 0 || !strings.Contains(stdout, "Ann is on it") {
				t.Errorf("%s: exit code %d, %q, %q", m[1], code, stdout, stderr)
			}
			continue
		}
		path := regexp.MustCompile(`/api/v1/\S+`).FindString(line)
		_, body, _ := strings.Cut(line, "-d '")
		if code, answer := b.exchange(t, http.MethodPost, path, strings.TrimSuffix(body, "'")); code/100 != 2 {
			t.Errorf("%s: %d, %s", m[1], code, answer)
		}
	}
	if len(found) != 5 {
		t.Errorf("the document has %d commands, want 5", len(found))
	}
}

// appOf is an app that has only that past, and a target with the secret "sesame open".
func appOf(p *past) *App {
	a := &App{past: p}
	secret := &collectors.IRCRPC{User: "user", Password: config.NewSecret("sesame open")}
	a.current.Store(&generation{cfg: &config.Config{Targets: []config.Settings{secret}}})
	return a
}

// TestChangesOfIncidentsAreInTheFileWhenTheyAreAnswered, which the moments of a few kills cannot show.
func TestChangesOfIncidentsAreInTheFileWhenTheyAreAnswered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	_, p := openPast(t, path)
	now := health.Milli(time.Now().UnixMilli())
	p.observe(&health.Judgement{Round: health.Round{Tick: health.Tick{From: now, To: now}, Events: []health.Event{{
		At:       now,
		Of:       health.Key(health.TargetSubject("web")),
		Alert:    health.AlertTargetDown,
		Severity: health.Critical,
		Since:    now,
	}}}})
	must(t, p.flush())
	a := appOf(p)
	id := a.Incidents()[0].ID
	for n := range 50 {
		name := rand.Text() // the file has only what is new in a line
		change := []func(id, by, text string) (*incident.Incident, []string, error){a.AddNote, a.AddUpdate, a.Acknowledge}[n%3]
		i, warnings, err := change(id, name, name)
		must(t, err)
		if raw := contentOf(t, path); !strings.Contains(string(raw), name) || len(warnings) > 0 || i.ID != id {
			t.Fatalf("%s is not in the file; warnings %q", name, warnings)
		}
	}
	for _, add := range []func(id, by, text string) (*incident.Incident, []string, error){a.AddNote, a.AddUpdate} {
		i, _, err := add(id, "ann", "try sesame%20open")
		must(t, err)
		shown := fmt.Sprint(i.Notes, i.Updates)
		if raw := contentOf(t, path); bytes.Contains(raw, []byte("sesame")) || !strings.Contains(shown, "try <secret>") {
			t.Errorf("a secret is not masked: %+v", i)
		}
	}
	must(t, p.file.Close())
	if _, warnings, err := a.Acknowledge(id, "ann", ""); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "not saved") {
		t.Errorf("what cannot be saved: %q, %v", warnings, err)
	}
}
