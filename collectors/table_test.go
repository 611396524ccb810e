package collectors

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
)

func TestEveryKindHasANameAndATitleOfItsOwn(t *testing.T) {
	known, ranks := map[string]bool{}, map[int]string{}
	for _, k := range Kinds {
		if k.Name == "" || k.Title == "" || known[k.Name] || known[k.Title] {
			t.Errorf("%q, %q: missing, or used twice", k.Name, k.Title)
		}
		known[k.Name], known[k.Title] = true, true
		if k.Loss != "" && k.Rank == 0 {
			t.Errorf("%s: says what users lose, and no rank", k.Name)
		}
		if other := ranks[k.Rank]; other != "" && k.Rank > 0 {
			t.Errorf("%s and %s have the rank %d", other, k.Name, k.Rank)
		}
		ranks[k.Rank] = k.Name
		if k.Role.Name != "" && !slices.ContainsFunc(Roles, func(r config.Role) bool { return r == k.Role }) {
			t.Errorf("%s: init does not know the role %s", k.Name, k.Role.Name)
		}
	}
}

func TestEveryRoleIsRecognizedByWordsInNames(t *testing.T) {
	names := map[string]bool{}
	for _, role := range Roles {
		names[role.Name] = true
	}
	for role := range fleet.RolePhrases {
		if !names[role] {
			t.Errorf("words mean the role %s, which is not among Roles", role)
		}
	}
	for name := range names {
		if len(fleet.RolePhrases[name]) == 0 {
			t.Errorf("no words mean the role %s: add some to fleet.RolePhrases", name)
		}
	}
}

// TestJudgementKnowsWhatAKindShows holds the columns that decide what excuses an alert, of the kinds that it names.
func TestJudgementKnowsWhatAKindShows(t *testing.T) {
	want := map[string]string{
		"server xmpp": "xmpp_status xmpp_metrics xmpp_rest xmpp_c2s xmpp_login", "server xmpp_proxy": "xmpp_proxy",
		"server irc": "irc_rpc irc_tls irc_login", "server irc_services": "irc_services", "server bridge": "relay",
		"server plant_store": "plant_store", "server identity": "identity", "server docs": "docs_search", "server web_irc": "web_irc",
		"server web_panel": "web_panel", "server log_viewer": "log_viewer", "server ": "http tcp openmetrics volume backup tls docker",
		"clients of irc": "irc_rpc irc_tls irc_login", "clients of xmpp": "xmpp_status xmpp_c2s xmpp_login",
		"container of the XMPP server": "xmpp_status xmpp_metrics xmpp_rest xmpp_c2s", "no proxy before it": "xmpp_c2s",
		"bridge": "relay", "engine": "docker", "local": "volume backup docker", "page": "xmpp_metrics openmetrics",
		"modules":                  "xmpp_status",
		"only the first of a pair": "irc_tls irc_login relay", "once": "xmpp_status xmpp_metrics irc_rpc plant_store identity",
		"TLSCertificateExpiry": "xmpp_metrics irc_rpc", "XMPPAuthFailureRate": "xmpp_metrics", "XMPPSessionsGone": "xmpp_metrics",
		"IRCUsersGone": "irc_rpc", "DataVolumeUsage": "volume",
	}
	named := strings.Fields(strings.Join(slices.Collect(maps.Values(want)), " "))
	got := map[string]string{}
	add := func(what, kind string) { got[what] = strings.TrimSpace(got[what] + " " + kind) }
	for _, k := range Kinds {
		if !slices.Contains(named, k.Name) {
			continue
		}
		add("server "+k.Role.Name, k.Name)
		if k.Side != "" {
			add("clients of "+k.Side, k.Name)
		}
		for what, is := range map[string]bool{
			"container of the XMPP server": k.ShowsServer, "no proxy before it": k.Direct, "bridge": k.Relay,
			"engine": k.Engine, "local": k.Local,
			"page": k.ServesPage, "modules": k.ServesModules, "only the first of a pair": k.OnlyFirst, "once": k.Alone,
		} {
			if is {
				add(what, k.Name)
			}
		}
		for _, alert := range k.ValueAlerts {
			add(alert, k.Name)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(want)) {
		if got[what] != want[what] {
			t.Errorf("%s: got %q, want %q", what, got[what], want[what])
		}
		delete(got, what)
	}
	if len(got) > 0 {
		t.Errorf("also %v", got)
	}
}

// TestKindsAreNamedInFewFiles looks for tables, switches and comparisons with the names of kinds: what depends on a kind is a column.
func TestKindsAreNamedInFewFiles(t *testing.T) {
	const most = 3
	files := map[string]map[string]bool{}
	for _, k := range Kinds {
		if !slices.Contains([]string{"http", "tcp", "tls", "docker", "volume"}, k.Name) { // these words mean something else, too
			files[k.Name] = map[string]bool{}
		}
	}
	foreign := func(path string) bool {
		in := func(dir string) bool { return strings.Contains(filepath.ToSlash(path), dir) }
		return in("/internal/e2e/") || in("/internal/simstack/") || in("/internal/bench/") || in("/.") ||
			strings.HasSuffix(path, "_test.go")
	}
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || foreign(path[2:]) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && files[text] != nil {
					files[text][path] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for kind, named := range files {
		if len(named) > most || len(named) == 0 {
			t.Errorf("%s is named in %v; want at most %d files", kind, slices.Sorted(maps.Keys(named)), most)
		}
	}
}
