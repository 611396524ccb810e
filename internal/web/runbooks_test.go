package web_test

import (
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// shelf is a web.Source with runbooks only.
type shelf struct{ web.Source }

func (shelf) Runbook(alert string) (string, bool) { return alerts.Runbook(alert) }
func (shelf) AlertIndex() string                  { return alerts.Index(alerts.Defaults()) }
func (shelf) Report() *status.Report              { return emptyReport() }

const versionDocuments = "https://github.example/blob/v1.2.3"

func newShelf() http.Handler {
	return web.New(shelf{}, web.Options{Documents: versionDocuments, Log: slog.New(slog.DiscardHandler)})
}

// servedDocuments returns all runbooks and their index by path.
func servedDocuments(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../alerts/runbooks/*.md")
	must(t, err)
	if len(paths) < 24 {
		t.Fatalf("only %d runbooks were found", len(paths))
	}
	found := map[string]string{"/runbooks": alerts.Index(alerts.Defaults())}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		must(t, err)
		found["/runbooks/"+strings.TrimSuffix(filepath.Base(path), ".md")] = string(text)
	}
	return found
}

// textOf returns all text below a node.
func textOf(n *html.Node) string {
	if n.Type == html.TextNode {
		return n.Data
	}
	var b strings.Builder
	for c := range n.ChildNodes() {
		b.WriteString(textOf(c))
	}
	return b.String()
}

// documentOf returns the part of a page that was rendered from Markdown.
func documentOf(t *testing.T, page []byte) (document *html.Node) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(string(page)))
	must(t, err)
	walk(root, func(n *html.Node) {
		if n.Data == "main" {
			document = n
		}
	})
	if document == nil {
		t.Fatalf("the page has no <main>: %s", page)
	}
	return document
}

// letters returns a text's letters and digits.
func letters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}

var (
	codeFence  = regexp.MustCompile("(?m)^ *```\\w*$")
	fencedCode = regexp.MustCompile("(?ms)^( *)```\\w*\n(.*?)^ *```$")
	itemNumber = regexp.MustCompile(`(?m)^\d+\. `)
	linkTarget = regexp.MustCompile(`\]\([^)\s]+\)`)
	anyMark    = regexp.MustCompile("`|\\*\\*|\\]\\(|(?m)^#|^\\||^ *- |^ *\\d\\. ")
)

// TestRunbooksRenderCompletely compares a page with its Markdown: all letters and code blocks, and no marks left over.
func TestRunbooksRenderCompletely(t *testing.T) {
	h, code := newShelf(), 0
	for path, source := range servedDocuments(t) {
		document := documentOf(t, fetch(t, h, path).body)
		want := letters(linkTarget.ReplaceAllString(itemNumber.ReplaceAllString(codeFence.ReplaceAllString(source, ""), ""), ""))
		if got := letters(textOf(document)); got != want {
			t.Errorf("%s shows\n%s\nwant\n%s", path, got, want)
		}
		var blocks []string
		walk(document, func(n *html.Node) {
			if n.Data == "pre" {
				blocks = append(blocks, textOf(n))
			}
		})
		var wantBlocks []string
		for _, found := range fencedCode.FindAllStringSubmatch(source, -1) {
			wantBlocks = append(wantBlocks, strings.ReplaceAll(strings.TrimPrefix(found[2], found[1]), "\n"+found[1], "\n"))
		}
		if code += len(blocks); !slices.Equal(blocks, wantBlocks) {
			t.Errorf("%s has the code %q, want %q", path, blocks, wantBlocks)
		}
		withoutCode(document)
		if left := anyMark.FindString(textOf(document)); left != "" {
			t.Errorf("%s shows the mark %q as text", path, left)
		}
	}
	if code < 40 {
		t.Errorf("only %d blocks of code were found", code)
	}
}

// withoutCode removes all code from a document.
func withoutCode(n *html.Node) {
	for _, c := range slices.Collect(n.ChildNodes()) {
		if c.Data == "code" && c.Type == html.ElementNode {
			n.RemoveChild(c)
		} else {
			withoutCode(c)
		}
	}
}

// TestRunbookLinksResolve follows all links of runbooks, also below a reverse proxy's path.
func TestRunbookLinksResolve(t *testing.T) {
	h, own, elsewhere := http.StripPrefix("/chat", newShelf()), 0, 0
	for path := range servedDocuments(t) {
		root, err := html.Parse(strings.NewReader(string(fetch(t, h, "/chat"+path).body)))
		must(t, err)
		page, err := url.Parse("http://exporter.test/chat" + path)
		must(t, err)
		walk(root, func(n *html.Node) {
			href, ok := attribute(n, "href")
			if !ok {
				return
			}
			target, err := page.Parse(href)
			must(t, err)
			file, inDocuments := strings.CutPrefix(href, versionDocuments+"/")
			switch {
			case inDocuments:
				elsewhere++
				file, anchor, _ := strings.Cut(file, "#")
				text, err := os.ReadFile(filepath.Join("../..", file))
				if err != nil || anchor != "" &&
					!strings.Contains(web.RenderMarkdown(string(text), func(s string) string { return s }), `id="`+anchor+`"`) {
					t.Errorf("%s: %s leads nowhere: %v", path, href, err)
				}
			case target.Host == page.Host && target.Path == "/chat/": // the status page has tests of its own
			case target.Host == page.Host:
				own++
				reply := fetch(t, h, target.Path)
				if reply.StatusCode != http.StatusOK ||
					target.Fragment != "" && !strings.Contains(string(reply.body), `id="`+target.Fragment+`"`) {
					t.Errorf("%s: %s leads nowhere: status %d", path, href, reply.StatusCode)
				}
			}
		})
	}
	if own < 150 || elsewhere < 20 {
		t.Errorf("%d links to pages and %d to documents were followed, want those of all runbooks", own, elsewhere)
	}
}

func TestRunbooksAreServedAsHTMLAndMarkdown(t *testing.T) {
	h := newShelf()
	for path, source := range servedDocuments(t) {
		page := fetch(t, h, path)
		policy := page.Header.Get("Content-Security-Policy")
		if page.StatusCode != http.StatusOK || !strings.Contains(policy, "default-src 'none'") ||
			strings.Contains(string(page.body), "<script") {
			t.Errorf("%s: status %d, policy %q, or a script", path, page.StatusCode, policy)
		}
		raw := fetch(t, h, path+".md")
		if raw.StatusCode != http.StatusOK || string(raw.body) != source ||
			raw.Header.Get("Content-Type") != "text/markdown; charset=utf-8" {
			t.Errorf("%s.md: status %d, type %q, or not its source", path, raw.StatusCode, raw.Header.Get("Content-Type"))
		}
	}
	for _, path := range []string{
		"/runbooks/Nothing", "/runbooks/Nothing.md", "/runbooks/..%2Findex.go", "/runbooks/.md", "/runbooks/README",
	} {
		if got := fetch(t, h, path); got.StatusCode != http.StatusNotFound ||
			!strings.HasPrefix(got.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s: status %d, type %q, want 404 and plain text", path, got.StatusCode, got.Header.Get("Content-Type"))
		}
	}
	if got := fetch(t, h, "/runbooks/"); got.StatusCode != http.StatusMovedPermanently || got.Header.Get("Location") != "../runbooks" {
		t.Errorf("/runbooks/: status %d, to %q", got.StatusCode, got.Header.Get("Location"))
	}
}

func TestMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"# A `b` & c\n":      `<h1 id="a-b--c">A <code>b</code> &amp; c</h1>`,
		"a\nb\n\nc **d**\n":  "<p>a\nb</p>\n<p>c <b>d</b></p>",
		"- a\n  b\n- c\n\nd": "<ul>\n<li>a\nb\n</li>\n<li>c\n</li>\n</ul>\n<p>d</p>",
		"1. a\n\n   ```sh\n   b <c>\n     d\n   ```\n2. e\n": "<ol>\n<li>a\n<pre><code>b &lt;c&gt;\n  " +
			"d\n</code></pre>\n</li>\n<li>e\n</li>\n</ol>",
		"- a\n1. b\n": "<ul>\n<li>a\n</li>\n</ul>\n<ol>\n<li>b\n</li>\n</ol>",
		"| a | b |\n|---|---|\n| `c` | d |\n": "<table>\n<thead><tr><th>a</th><th>b</th></tr>\n</thead>\n<tbody>\n" +
			"<tr><td><code>c</code></td><td>d</td></tr>\n</tbody>\n</table>",
		"[a `b`](c.md#d) <http://e/?f&g>": `<p><a href="to c.md#d">a <code>b</code></a> <a ` +
			`href="http://e/?f&amp;g">http://e/?f&amp;g</a></p>`,
		"`**a** <b> [c](d)`":                      "<p><code>**a** &lt;b&gt; [c](d)</code></p>",
		"<script>\"'</script>":                    "<p>&lt;script&gt;&#34;&#39;&lt;/script&gt;</p>",
		"[x](javascript:alert(1)) <javascript:x>": "<p>x) &lt;javascript:x&gt;</p>",
		"```sh\nno end <i>":                       "<pre><code>no end &lt;i&gt;\n</code></pre>",
		"":                                        "",
	} {
		got := web.RenderMarkdown(text, func(target string) string {
			if strings.HasPrefix(target, "javascript:") {
				return ""
			}
			return "to " + target
		})
		if strings.TrimSpace(got) != want {
			t.Errorf("%q becomes\n%s\nwant\n%s", text, got, want)
		}
	}
}

// FuzzMarkdown checks that a text makes only elements of documents, and only those of its marks.
func FuzzMarkdown(f *testing.F) {
	for _, text := range []string{
		"# a\n\n- b\n  c\n\n  d\n1. e\n\n   ```sh\n   f\n   ```\n\n| g |\n|---|\n| `h` |\n", "[a](b) **c** <http://d> `e`",
		"\"><script>alert(1)</script>", "[a](javascript:b)", "[\"onclick=x](\"onclick=y)", "<http://\"onclick=x>", "# \"><b id=c\n",
		"**`a**`", "- - 1. - a", "```\n</code></pre><script>",
	} {
		f.Add(text)
	}
	allowed := strings.Fields("html head body h1 h2 h3 h4 p ul ol li pre code table thead tbody tr th td a b")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 10_000 {
			return // runbooks are short, and nested lists are deep
		}
		rendered := web.RenderMarkdown(text, func(target string) string {
			if u, err := url.Parse(target); err != nil || u.Scheme != "" {
				return ""
			}
			return "./" + target
		})
		root, err := html.Parse(strings.NewReader(rendered))
		must(t, err)
		walk(root, func(n *html.Node) {
			if !slices.Contains(allowed, n.Data) {
				t.Errorf("%q makes <%s>", text, n.Data)
			}
			for _, a := range n.Attr {
				leads := n.Data == "a" && a.Key == "href" &&
					(strings.HasPrefix(a.Val, "./") || strings.HasPrefix(a.Val, "http://") || strings.HasPrefix(a.Val, "https://"))
				if !leads && (a.Key != "id" || !strings.HasPrefix(n.Data, "h")) {
					t.Errorf("%q makes <%s %s=%q>", text, n.Data, a.Key, a.Val)
				}
			}
		})
	})
}

func TestProblemsLinkToTheirRunbooks(t *testing.T) {
	report := faultyReport(3)
	wrong := func(subject health.Subject, alert string) {
		report.Problems = append(report.Problems, status.Problem{Problem: health.Problem{Subject: subject, Alert: alert}})
	}
	for _, s := range report.Services {
		if s.Level == status.Critical {
			wrong(health.TargetSubject(s.Name), "TLSChainInvalid")
			wrong(health.TargetSubject(s.Name), "PlaceholderCredential") // the first is the worst
		}
	}
	for _, c := range report.Containers {
		if c.Level == status.Warning {
			wrong(health.ContainerSubject(c.DockerHost, c.Name), "ContainerUnhealthy")
		}
	}
	var linked []string
	root, err := html.Parse(strings.NewReader(pageOf(t, report)))
	must(t, err)
	walk(root, func(n *html.Node) {
		if href, _ := attribute(n, "href"); strings.HasPrefix(href, "runbooks/") {
			linked = append(linked, strings.TrimPrefix(href, "runbooks/"))
		}
	})
	if want := []string{"TLSChainInvalid", "TLSChainInvalid", "ContainerUnhealthy", "XMPPAuthFailureRate"}; !slices.Equal(linked, want) {
		t.Errorf("problems lead to the runbooks %q, want %q", linked, want)
	}
}
