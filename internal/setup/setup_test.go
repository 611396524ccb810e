package setup

import (
	"cmp"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// stack is a small stack as containers of one Compose project, seen from one of their networks.
func stack() *Facts {
	return &Facts{
		Engine:    "unix:///var/run/docker.sock",
		Project:   "chat",
		StateFile: "/var/lib/chatstack_exporter/state.json",
		Volume:    "/",
		Containers: []Container{
			{
				Name:     "chat-bridge-1",
				Workload: "chat/bridge",
				Service:  "bridge",
				Role:     "bridge",
				State:    "running",
				Image:    "bridge:1",
			},
			{
				Name:     "chat-irc-1",
				Workload: "chat/irc",
				Service:  "irc",
				Role:     "irc",
				State:    "running",
				Image:    "unrealircd:6",
				Ports:    []int{6697, 8600},
				Resolved: []string{"irc"},
			},
			{
				Name:      "chat-web-1",
				Service:   "web",
				Role:      webServer,
				State:     "running",
				Image:     "nginx",
				Ports:     []int{443},
				Published: map[int]string{443: "127.0.0.1:8443"},
			},
			{
				Name:     "chat-xmpp-1",
				Workload: "chat/xmpp",
				Service:  "xmpp",
				Role:     "xmpp",
				State:    "running",
				Image:    "prosody:13",
				Ports:    []int{5222, 5280},
				Resolved: []string{"xmpp"},
			},
		},
		Answers:     map[string]bool{"irc:8600": true, "irc:6697": true, "127.0.0.1:8443": true, "xmpp:5280": true},
		ServerNames: map[string]string{"irc:6697": "irc.example.org"},
		EnvFiles:    []EnvFile{{Path: "/srv/chat/.env", Names: []string{"IRC_RPC_PASSWORD"}}},
	}
}

const stackFile = `
state_file: "/var/lib/chatstack_exporter/state.json"

# /srv/chat/.env sets IRC_RPC_PASSWORD.
# The exporter does not read that file: set the same variables where it runs, or the keys of the targets below.

targets:
  - kind: docker
    host: "unix:///var/run/docker.sock"
    projects: ["chat"]
    expected_services: ["chat/bridge", "chat/irc", "chat/xmpp"]

  # xmpp: container chat-xmpp-1, image prosody:13
  - kind: xmpp_status
    url: "http://xmpp:5280/status"
    service: "chat/xmpp"
  - kind: xmpp_metrics
    url: "http://xmpp:5280/metrics"
    service: "chat/xmpp"
  # Port 5222 does not answer here. If the service has it elsewhere, or later:
  # - kind: xmpp_c2s
  #   address: "xmpp:5222"
  #   service: "chat/xmpp"
  #   domain: chat.example.org

  # irc: container chat-irc-1, image unrealircd:6
  - kind: irc_rpc
    url: "https://irc:8600/api"
    service: "chat/irc"
    # Add what only you know: user (IRC_RPC_USER), password_file (IRC_RPC_PASSWORD)
  - kind: irc_tls
    address: "irc:6697"
    server_name: "irc.example.org" # from its certificate
    service: "chat/irc"

  # bridge: container chat-bridge-1. The relay check needs an account on both sides, and a channel that the bridge maps to a room:
  # - kind: relay
  #   service: "chat/bridge"
  #   irc: {address: "irc:6697", nick: irccheck, channel: "#bridge-check"}
  #   xmpp: {user: check@chat.example.org, password_file: /run/secrets/relay_xmpp, room: check@rooms.example.org}

  # web server: container chat-web-1, image nginx
  - kind: http
    name: "web"
    url: "https://127.0.0.1:8443/"
    container: "chat-web-1"
    # If this is the web client, write kind: web_irc and remove the name.

  - kind: volume
    name: "data"
    path: "/"
`

func TestStackBecomesAConfiguration(t *testing.T) {
	r := Write(stack())
	_, got, _ := strings.Cut(string(r.YAML), "documentation.\n")
	if diff := gocmp.Diff(stackFile, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.Targets != 7 || r.Open != 2 {
		t.Errorf("%d targets, %d open, want 7 and 2", r.Targets, r.Open)
	}
	want := []string{
		"Docker: unix:///var/run/docker.sock, Compose project chat, 4 containers",
		"xmpp: container chat-xmpp-1: xmpp_status at http://xmpp:5280/status; xmpp_metrics at http://xmpp:5280/metrics; xmpp_c2s: " +
			"port 5222 does not answer",
		"irc: container chat-irc-1: irc_rpc at https://irc:8600/api; irc_tls at irc:6697, whose certificate is for irc.example.org",
		"bridge: container chat-bridge-1; whether it relays is checked with two accounts, see the comment",
		"web server: container chat-web-1: http at https://127.0.0.1:8443/",
		"volume: /",
		"/srv/chat/.env: sets IRC_RPC_PASSWORD",
	}
	if diff := gocmp.Diff(want, r.Found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	targetsOf(t, r.YAML, nil)
}

// targetsOf loads a file as the exporter does, and returns its targets' names.
func targetsOf(t *testing.T, file []byte, env map[string]string) []string {
	t.Helper()
	cfg, err := config.Load(config.Source{
		File:    "exporter.yaml",
		Content: file,
		Kinds:   collectors.ConfigKinds(),
		Lookup:  func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, file)
	}
	var names []string
	for _, s := range cfg.Targets {
		names = append(names, s.Common().Name)
	}
	return names
}

// everything is a stack of every role twice, where all ports answer, with a text wherever somebody else chooses one.
func everything(text string) *Facts {
	f := &Facts{
		Engine:      "unix:///run/docker.sock",
		Project:     text,
		Others:      []string{text},
		Domain:      "",
		Volume:      "/",
		EnvFiles:    []EnvFile{{Path: text, Names: []string{"XMPP_DOMAIN"}}, {Path: "/" + text, Problem: text}},
		Answers:     map[string]bool{},
		ServerNames: map[string]string{},
	}
	for _, role := range append(slices.Clone(roleOrder), "", text) {
		for _, suffix := range []string{"-1", "-2"} {
			c := Container{
				Name:       "chat-" + strings.ReplaceAll(cmp.Or(role, "other"), " ", "-") + suffix,
				Project:    text,
				Service:    text,
				Workload:   text + "/" + text + suffix,
				Image:      text,
				Role:       role,
				RoleByPort: suffix == "-1",
				State:      text,
				Networks:   []string{text},
				Addresses:  []netip.Addr{netip.MustParseAddr("172.17.0.2")},
			}
			if role == text {
				c.Name = "chat-foreign" + suffix
			}
			for _, e := range endpointsOf(role) {
				address := c.candidates(e.Port)[0]
				f.Answers[address] = true
				if e.tls(e.Port) {
					f.ServerNames[address] = "chat.example.org"
				}
			}
			f.Containers = append(f.Containers, c)
		}
	}
	return f
}

var nastyTexts = []string{
	"plain", `a"b`, "a'b", "a\nb: c", "a\n  - kind: docker\n    host: tcp://evil:1", "a\r- kind: tcp", "#", ": ", "&a *b !c", "{a: [",
	"\x00\x1b[31m", "\u2028x\u0085y\ufeff", "\xff\xfe",
	"null", "1.5", "yes", "%s%d%!", "${HOME}", "`id`", strings.Repeat("long ", 2000), "${{", "\\", "\U0001f600", "-", "a#b", " # x",
	"tcp", "data",
}

// TestForeignTextAddsNothing holds that names, labels and errors of others stay texts.
func TestForeignTextAddsNothing(t *testing.T) {
	want := targetsOf(t, Write(everything("text")).YAML, nil)
	for _, text := range nastyTexts {
		r := Write(everything(text))
		got := targetsOf(t, r.YAML, nil)
		if len(got) != len(want) {
			t.Errorf("%q: targets %q, want as many as %q", text, got, want)
		}
		var file struct {
			Targets []struct{ Projects []string }
		}
		if err := yaml.Unmarshal(r.YAML, &file); err != nil {
			t.Fatal(err)
		}
		if p := file.Targets[0].Projects; len(p) > 0 && p[0] != text ||
			slices.Contains([]string{"plain", "null", "1.5", "yes"}, text) && len(p) != 1 {
			t.Errorf("%q: projects are %q", text, p)
		}
		for _, line := range r.Found {
			if strings.ContainsAny(line, "\n\r\x1b\x00") {
				t.Errorf("%q: says %q", text, line)
			}
		}
	}
}

func FuzzWrite(f *testing.F) {
	for _, text := range nastyTexts {
		f.Add(text)
	}
	want := len(targetsOfPlain)
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" || slices.Contains(roleOrder, text) {
			t.Skip("no project, or another number of containers")
		}
		if got := targetsOf(t, Write(everything(text)).YAML, nil); len(got) != want {
			t.Errorf("targets %q, want %d", got, want)
		}
	})
}

var targetsOfPlain = func() (kinds []string) {
	var file struct{ Targets []struct{ Kind string } }
	if err := yaml.Unmarshal(Write(everything("text")).YAML, &file); err != nil {
		panic(err)
	}
	for _, target := range file.Targets {
		kinds = append(kinds, target.Kind)
	}
	return kinds
}()

func TestEveryRoleHasItsTargetsOnce(t *testing.T) {
	want := []string{
		"docker", "xmpp_status", "xmpp_metrics", "xmpp_proxy", "irc_rpc", "irc_tls", "irc_services", "identity", "web_irc",
		"web_panel", "docs_search",
		"plant_store", "log_viewer", "http", "http", "volume",
	}
	if diff := gocmp.Diff(want, targetsOfPlain); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLastingAddressIsPreferred(t *testing.T) {
	c := Container{
		Resolved:  []string{"xmpp"},
		Published: map[int]string{5280: "127.0.0.1:15280"},
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2")},
		Networks:  []string{"n"},
		Role:      "xmpp",
		Name:      "x",
		State:     "running",
	}
	if diff := gocmp.Diff([]string{"xmpp:5280", "127.0.0.1:15280", "10.0.0.2:5280"}, c.candidates(5280)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for answers, want := range map[string]string{
		"127.0.0.1:15280": `url: "http://127.0.0.1:15280/status"` + "\n",
		"10.0.0.2:5280":   `url: "http://10.0.0.2:5280/status" # (!)` + "\n",
	} {
		got := string(Write(&Facts{Engine: "unix:///a", Containers: []Container{c}, Answers: map[string]bool{answers: true}}).YAML)
		if !strings.Contains(got, want) || strings.Contains(got, "(!) change") != strings.Contains(want, "(!)") {
			t.Errorf("%s answers:\n%s\nwant %s", answers, got, want)
		}
	}
}

func TestContainerThatRunsIsPreferred(t *testing.T) {
	f := stack()
	left := f.Containers[3]
	left.Name, left.Workload, left.State = "a-xmpp-of-before", "", "exited"
	f.Containers = append([]Container{left}, f.Containers...)
	if got := string(Write(f).YAML); !strings.Contains(got, "# xmpp: container chat-xmpp-1,") ||
		!strings.Contains(got, "# Container a-xmpp-of-before is another xmpp.") {
		t.Errorf("the one that has ended is chosen:\n%s", got)
	}
}

func TestServiceIsWrittenOnceForAllItsContainers(t *testing.T) {
	f := stack()
	second := f.Containers[1]
	second.Name = "chat-irc-2"
	stopped := f.Containers[3]
	stopped.Name, stopped.Workload, stopped.State, stopped.Role = "chat-docs-1", "chat/docs", "exited", "docs_search"
	unit := f.Containers[3]
	unit.Name, unit.Workload, unit.Role = "notes", "notes.service", "plant_store"
	f.Containers = append(f.Containers, second, stopped, unit)
	if got := string(Write(f).YAML); strings.Contains(got, "chat-irc-2") ||
		!strings.Contains(got, "    expected_services: [\"chat/bridge\", \"chat/irc\", \"chat/xmpp\"]\n") {
		t.Errorf("of two containers of a service, one that has ended and one of another project:\n%s", got)
	}
	f.Project = ""
	if got := string(Write(f).YAML); !strings.Contains(got, "\"notes.service\"]\n") {
		t.Errorf("without a project, the unit is left out:\n%s", got)
	}
}

func TestOtherEnginesAreMentioned(t *testing.T) {
	f := stack()
	f.OtherEngines, f.Problem = []string{"unix:///run/podman/podman.sock"}, "the context is elsewhere"
	r := Write(f)
	const comment = "    # Other engines: [\"unix:///run/podman/podman.sock\"]. To watch one"
	if found := strings.Join(r.Found, "\n"); !strings.Contains(string(r.YAML), comment) ||
		!strings.Contains(found, "Docker: other engines: [") || !strings.Contains(found, "Docker: the context is elsewhere") {
		t.Errorf("%s\n%s", found, r.YAML)
	}
	targetsOf(t, r.YAML, nil)
}

func TestVirtualHostIsNotGuessed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts)
		env    map[string]string
		want   bool
	}{
		"unknown": {func(*Facts) {}, nil, false},
		"a flag":  {func(f *Facts) { f.Domain = "chat.example.org" }, nil, true},
		"the environment": {
			func(f *Facts) { f.Environment = []string{"XMPP_DOMAIN"} },
			map[string]string{"XMPP_DOMAIN": "chat.example.org"},
			true,
		},
	} {
		f := stack()
		f.Answers["xmpp:5222"] = true
		c.change(f)
		if got := slices.Contains(targetsOf(t, Write(f).YAML, c.env), "xmpp_c2s"); got != c.want {
			t.Errorf("%s: xmpp_c2s is a target: %v, want %v", name, got, c.want)
		}
	}
}

func TestWithoutDockerOnlySurePortsAreTargets(t *testing.T) {
	f := &Facts{NoEngine: "no socket", Answers: map[string]bool{}}
	for _, d := range doors(nil) {
		f.Answers[d.addresses[0]] = true
	}
	r := Write(f)
	want := []string{"xmpp_status", "xmpp_metrics", "xmpp_proxy", "irc_rpc", "irc_tls"}
	if diff := gocmp.Diff(want, targetsOf(t, r.YAML, nil)); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	for _, kind := range []string{
		"docker", "xmpp_c2s", "irc_services", "web_panel", "docs_search", "identity", "plant_store", "web_irc", "log_viewer",
	} {
		if !strings.Contains(string(r.YAML), "\n  # - kind: "+kind+"\n") {
			t.Errorf("%s is no comment:\n%s", kind, r.YAML)
		}
	}
	if got := targetsOf(t, Write(&Facts{}).YAML, nil); len(got) > 0 {
		t.Errorf("of nothing the targets %q are made", got)
	}
}

func TestRecognition(t *testing.T) {
	for _, c := range []struct {
		container Container
		want      string
		byPort    bool
	}{
		{Container{Name: "a", Image: "prosodyim/prosody:13.0"}, "xmpp", false},
		{Container{Name: "chat-irc-1", Image: "local"}, "irc", false},
		{Container{Name: "a", Image: "local", Ports: []int{5222}}, "xmpp", true},
		{Container{Name: "a", Image: "local", Ports: []int{80, 6697}}, "irc", true},
		{Container{Name: "a", Image: "nginx:1", Ports: []int{80}}, webServer, false},
		{Container{Name: "a", Image: "nginx:1", Ports: []int{80, 5281}}, "xmpp_proxy", true},
		{Container{Name: "a", Image: "local", Ports: []int{5281, 5222}}, "xmpp", true},
		{Container{Name: "a", Image: "nginx:1", EngineSocket: true}, "", false},
		{Container{Name: "a", Image: "postgres:17", Ports: []int{5432}}, "", false},
	} {
		if got, byPort := recognize(&c.container, nil); got != c.want || byPort != c.byPort {
			t.Errorf("%+v is %q, by port %v, want %q, %v", c.container, got, byPort, c.want, c.byPort)
		}
	}
	if got, _ := recognize(&Container{Image: "local"},
		map[string]string{"com.docker.compose.service": "irc-services"}); got != "irc_services" {
		t.Errorf("the service irc-services is %q", got)
	}
	f := stack()
	f.Containers[3].RoleByPort = true
	if got := string(Write(f).YAML); !strings.Contains(got, "    roles: # by their ports\n      \"chat-xmpp-1\": \"xmpp\"\n") {
		t.Errorf("the role is lost:\n%s", got)
	}
}

func TestProjectWithTheMostChatServicesIsChosen(t *testing.T) {
	all := []Container{
		{Project: "a", Role: "irc"},
		{Project: "a", Role: "irc"},
		{Project: "b", Role: "irc"},
		{Project: "b", Role: "xmpp"},
		{Project: "web", Role: "docs"},
		{Name: "alone"},
	}
	if project, others := chooseProject(all); project != "b" || !slices.Equal(others, []string{"a"}) {
		t.Errorf("project %q, others %q, want b and [a]", project, others)
	}
	var f Facts
	if err := f.choose(all, "web"); err != nil || f.Project != "web" || len(f.Containers) != 1 ||
		!slices.Equal(f.Others, []string{"a", "b"}) {
		t.Errorf("with --project=web: %+v, %v", f, err)
	}
	if err := f.choose(all, "wbe"); err == nil || !strings.Contains(err.Error(), `"wbe"`) {
		t.Errorf("a project that does not exist: %v", err)
	}
}

func TestOnlyNamesOfVariablesAreRead(t *testing.T) {
	dir := t.TempDir()
	content := "# IRC_RPC_USER=commented\nexport IRC_RPC_PASSWORD='hunter2'\nXMPP_DOMAIN=\nPLANT_STORE_TOKEN_FILE=/run/s\r\nMULTI=\"a\n" +
		"BRIDGE=x\"\nbroken line\nOTHER=hunter2\n" +
		"XMPP_REST_URL=http://hunter2\nIRC_TLS_CA_FILE=/hunter2\nDOCKER_HOST=tcp://hunter2\n"
	if err := os.WriteFile(filepath.Join(dir, ".env"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []EnvFile{
		{Path: filepath.Join(dir, ".env"), Names: []string{"XMPP_REST_URL", "IRC_RPC_PASSWORD", "IRC_TLS_CA_FILE", "PLANT_STORE_TOKEN"}},
	}
	containers := []Container{{Directory: dir, EnvFile: dir + "/.env," + dir + "/absent,relative"}, {Directory: dir + "/absent"}}
	if diff := gocmp.Diff(want, envFiles(containers, "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f := stack()
	f.EnvFiles = envFiles(containers, dir)
	if r := Write(f); strings.Contains(string(r.YAML)+strings.Join(r.Found, "\n"), "hunter2") {
		t.Errorf("a value is written:\n%s", r.YAML)
	}
	if got := envFiles([]Container{{EnvFile: "/dev/zero"}}, ""); len(got) != 1 || got[0].Problem != "is not a regular file" {
		t.Errorf("of a device is said %+v", got)
	}
}

func TestSourceOfNumbersIsWrittenWhereItsFilesAre(t *testing.T) {
	for _, here := range []bool{false, true} {
		f := &Facts{Engine: "unix:///a", Cgroup: here}
		if got := string(Write(f).YAML); strings.Contains(got, "\n    resources: cgroup") != here {
			t.Errorf("files are here: %t, and init writes:\n%s", here, got)
		}
	}
}
