package alerts_test

import (
	"bytes"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
)

// runbookHeadings are those of every runbook, in this order.
var runbookHeadings = []string{"Impact", "Escalate", "Silence", "What to do", "Likely causes", "Details"}

// screen is how many lines a runbook has for what somebody who was woken must see at once.
const screen = 40

// alertedRules are the alerts of the rule file with the address of their runbook.
func alertedRules(t *testing.T) map[string]string {
	t.Helper()
	content := read(t, allRules(t))
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(content), &file); err != nil {
		t.Fatal(err)
	}
	alerts := map[string]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				alerts[r.Alert] = r.Annotations["runbook_url"]
			}
		}
	}
	if len(alerts) == 0 {
		t.Fatal("the rule file has no alerts")
	}
	return alerts
}

// allRules is a file with the rules of every alert, also of those that are off where nobody has switched them on.
func allRules(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := alerts.Write(&b, allOn()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "chatstack.rules.yml")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func runbooks(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	books := map[string]string{}
	for _, path := range paths {
		books[strings.TrimSuffix(filepath.Base(path), ".md")] = read(t, path)
	}
	return books
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// headings are the lines of a Markdown text that begin with this many #, outside of code.
func headings(text, marks string) []string {
	var found []string
	code := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if title, ok := strings.CutPrefix(line, marks+" "); ok && !code {
			found = append(found, title)
		}
	}
	return found
}

func TestEveryAlertHasItsRunbook(t *testing.T) {
	alerts, books := alertedRules(t), runbooks(t)
	for alert, address := range alerts {
		if _, ok := books[alert]; !ok {
			t.Errorf("%s has no runbook: write alerts/runbooks/%s.md", alert, alert)
		}
		if want := "/alerts/runbooks/" + alert + ".md"; !strings.HasSuffix(strings.TrimSuffix(address, "{{ end }}"), want) {
			t.Errorf("%s points to %q, want something that ends with %s", alert, address, want)
		}
	}
	for name := range books {
		if _, ok := alerts[name]; !ok {
			t.Errorf("runbooks/%s.md belongs to no alert", name)
		}
	}
}

func TestEveryRunbookHasTheSameParts(t *testing.T) {
	for name, text := range runbooks(t) {
		if got := headings(text, "#"); !slices.Equal(got, []string{name}) {
			t.Errorf("%s: its title is %q", name, got)
		}
		if got := headings(text, "##"); !slices.Equal(got, runbookHeadings) {
			t.Errorf("%s: headings %q, want %q", name, got, runbookHeadings)
		}
		for _, part := range strings.Split(text, "\n## ")[1:] {
			if heading, body, _ := strings.Cut(part, "\n"); strings.TrimSpace(body) == "" {
				t.Errorf("%s: nothing stands under %q", name, heading)
			}
		}
		urgent, _, _ := strings.Cut(text, "## Likely causes\n")
		if lines := strings.Count(urgent, "\n"); lines > screen {
			t.Errorf("%s: %d lines before its likely causes, want at most %d", name, lines, screen)
		}
		// The alert that always fires is not to be silenced.
		_, silence, _ := strings.Cut(urgent, "\n## Silence\n")
		silence, _, _ = strings.Cut(silence, "\n## ")
		if name != "Watchdog" && !strings.Contains(silence, "silence add --duration=1h --comment=WHY alertname="+name) {
			t.Errorf("%s: does not say how to silence it", name)
		}
	}
}

// markdownLink finds the targets of links.
var markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// documents are the paths of all Markdown files of the repository.
func documents(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "testdata"}, d.Name()):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// TestLinksInDocumentsLeadSomewhere follows every link from one document of the repository to another file, and to its headings.
func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	count := 0
	for _, path := range documents(t) {
		for _, found := range markdownLink.FindAllStringSubmatch(codeInText.ReplaceAllString(read(t, path), ""), -1) {
			link, err := url.Parse(found[1])
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if link.Scheme != "" {
				continue // another's page
			}
			count++
			to := path
			if link.Path != "" {
				to = filepath.Join(filepath.Dir(path), link.Path)
			}
			info, err := os.Stat(to)
			if err != nil {
				t.Errorf("%s: leads nowhere: %v", path, err)
				continue
			}
			if link.Fragment == "" {
				continue
			}
			if info.IsDir() {
				to = filepath.Join(to, "README.md")
			}
			if !slices.Contains(anchors(read(t, to)), link.Fragment) {
				t.Errorf("%s: %s has no heading #%s", path, to, link.Fragment)
			}
		}
	}
	if count < 200 {
		t.Errorf("%d links were found, want those of all documents", count)
	}
}

// codeInText is what looks like a link and is code.
var codeInText = regexp.MustCompile("(?ms)^ *```.*?^ *```$|`[^`\n]+`|^ {4,}!\\[.*?$")

// anchors are what a Markdown text's headings are called in links.
func anchors(text string) []string {
	var names []string
	for _, marks := range []string{"#", "##", "###", "####"} {
		for _, title := range headings(text, marks) {
			names = append(names, strings.Map(func(r rune) rune {
				switch {
				case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
					return unicode.ToLower(r)
				case r == ' ':
					return '-'
				}
				return -1
			}, title))
		}
	}
	return names
}
