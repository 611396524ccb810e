package deploy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ircEntry is a statement of UnrealIRCd's configuration: words, and a block where it has one.
type ircEntry struct {
	words   []string
	entries []ircEntry
	block   bool
}

var ircToken = regexp.MustCompile(`"[^"]*"|[{};]|[^\s{};"]+`)

// parseIRC reads entries up to the end of their block. A statement without a block ends in a semicolon.
func parseIRC(tokens []string, nested bool) (entries []ircEntry, rest []string, err error) {
	var e ircEntry
	for len(tokens) > 0 {
		token := tokens[0]
		tokens = tokens[1:]
		switch token {
		case ";":
			if len(e.words) > 0 {
				entries = append(entries, e)
			}
			e = ircEntry{}
		case "{":
			if len(e.words) == 0 {
				return nil, nil, fmt.Errorf("a block without a name")
			}
			e.block = true
			if e.entries, tokens, err = parseIRC(tokens, true); err != nil {
				return nil, nil, err
			}
			entries = append(entries, e)
			e = ircEntry{}
		case "}":
			if len(e.words) > 0 {
				return nil, nil, fmt.Errorf("%q does not end in a semicolon", strings.Join(e.words, " "))
			}
			if !nested {
				return nil, nil, fmt.Errorf("a closing brace too many")
			}
			return entries, tokens, nil
		default:
			e.words = append(e.words, token)
		}
	}
	if nested {
		return nil, nil, fmt.Errorf("a closing brace is missing")
	}
	if len(e.words) > 0 {
		return nil, nil, fmt.Errorf("%q does not end in a semicolon", strings.Join(e.words, " "))
	}
	return entries, nil, nil
}

// ircRules are the blocks that we name: whether each has a name of its own, and what the server wants in it.
var ircRules = []struct {
	block string
	named bool
	needs []string
}{
	{"rpc-class", true, []string{"permissions"}},
	{"except ban", false, []string{"mask", "type"}},
}

// checkIRC says why the server would refuse a snippet, or ignore what it is for.
func checkIRC(snippet string) error {
	entries, _, err := parseIRC(ircToken.FindAllString(snippet, -1), false)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := strings.Join(e.words, " ") + " "
		known := false
		for _, rule := range ircRules {
			rest, ok := strings.CutPrefix(name, rule.block+" ")
			if !ok {
				continue
			}
			known = true
			if (rest != "") != rule.named || !e.block {
				return fmt.Errorf("%s: wrong name %q, or no block", rule.block, strings.TrimSpace(rest))
			}
			for _, need := range rule.needs {
				if !slices.ContainsFunc(e.entries, func(inner ircEntry) bool { return inner.words[0] == need }) {
					return fmt.Errorf("%s: without %s", rule.block, need)
				}
			}
			for _, inner := range e.entries {
				if !slices.Contains(rule.needs, inner.words[0]) {
					return fmt.Errorf("%s: does not know %s", rule.block, inner.words[0])
				}
			}
		}
		if !known {
			return fmt.Errorf("%sis no block that we know", name)
		}
	}
	return nil
}

var (
	ircSnippet = regexp.MustCompile(`(rpc-class|except ban)\W*(?:[\w-]+ )?\{`)
	// ircInWords finds blocks of UnrealIRCd that are not written as such.
	ircInWords = regexp.MustCompile(`\ballow \{`)
	comment    = regexp.MustCompile(`(?m)^\s*#+`)
)

// ircSnippets are the blocks for UnrealIRCd in a text, each from its name to the brace that closes it.
func ircSnippets(text string) (snippets []string) {
	for _, at := range ircSnippet.FindAllStringIndex(text, -1) {
		depth, end := 0, len(text)
		for i, c := range text[at[0]:] {
			switch c {
			case '{':
				depth++
			case '}':
				depth--
			}
			if depth == 0 && c == '}' || c == '`' {
				end = at[0] + i + 1
				break
			}
		}
		snippets = append(snippets, strings.TrimRight(text[at[0]:end], "`"))
	}
	return snippets
}

// goStrings are the constant strings of a Go file, each with what is added to it.
func goStrings(t *testing.T, path string) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	var walk func(n ast.Node) bool
	walk = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op != token.ADD {
				return true
			}
			ast.Inspect(n.X, walk)
			ast.Inspect(n.Y, walk)
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				all.WriteString(text)
			}
		case ast.Stmt, ast.Decl:
			all.WriteString("\n\n")
		}
		return true
	}
	ast.Inspect(file, walk)
	return all.String()
}

// TestSnippetsForUnrealIRCdAreAccepted reads them in documents, in comments of configurations, and in hints in Go. The server
// is not in Debian, so its grammar and the rules that we know stand in for it.
func TestSnippetsForUnrealIRCdAreAccepted(t *testing.T) {
	texts := map[string]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == ".git" || path == "bin" || path == "dist" || strings.HasSuffix(path, "testdata")):
			return fs.SkipDir
		case d.IsDir() || path == "CHANGELOG.md" || strings.HasSuffix(path, "_test.go"):
		case strings.HasSuffix(path, ".go"):
			texts[path] = goStrings(t, filepath.Join(root, path))
		case slices.Contains([]string{".md", ".yaml", ".yml", ".env"}, filepath.Ext(path)):
			content, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				return err
			}
			texts[path] = comment.ReplaceAllString(string(content), "")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	where := map[string][]string{}
	first := map[string]string{}
	for path, text := range texts {
		for _, snippet := range ircSnippets(text) {
			if err := checkIRC(snippet); err != nil {
				t.Errorf("%s: UnrealIRCd refuses %s: %v", path, snippet, err)
				continue
			}
			block := ircSnippet.FindStringSubmatch(snippet)[1]
			where[block] = append(where[block], path)
			plain := strings.Join(strings.Fields(snippet), " ")
			if first[block] == "" {
				first[block] = plain
			}
			if plain != first[block] {
				t.Errorf("%s: %s differs from %s elsewhere (%v)", path, plain, first[block], where[block])
			}
		}
		if m := ircInWords.FindString(text); m != "" && strings.HasSuffix(path, ".go") {
			t.Errorf("%s: %q looks like configuration that nobody checks", path, m)
		}
	}
	for block, least := range map[string]int{"rpc-class": 3, "except ban": 3} {
		if len(where[block]) < least {
			t.Errorf("%s is in %v, want %d places", block, where[block], least)
		}
	}
}

func TestUnrealIRCdRefusesWhatItDoesNotKnow(t *testing.T) {
	const class = "rpc-class chatstack { permissions { rpc { info; } stats; } }"
	for snippet, want := range map[string]string{
		class: "",
		"except ban { mask 192.0.2.1; type { connect-flood; } }": "",
		"rpc-class { rpc { info; } stats; }":                     "name",
		"rpc-class x { rpc { info; } }":                          "without permissions",
		"rpc-class: rpc { info; }":                               "no block",
		"rpc-class x { permissions { rpc { info; } stats } }":    "semicolon",
		"rpc-class x { permissions { rpc { info; } stats; }":     "closing brace is missing",
		class + " }":                                      "closing brace too many",
		"except ban { mask 192.0.2.1; }":                  "without type",
		"except ban { type { all; } }":                    "without mask",
		"rpc-class x { permissions { } match { ip *; } }": "does not know match",
	} {
		err := checkIRC(snippet)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", snippet, err, want)
		}
	}
	if got := ircSnippets("give it rpc-class: rpc { info; } stats; or rpc-class x { a { b; } } and except ban {\n  mask IP;\n}"); len(got) != 3 || got[1] != "rpc-class x { a { b; } }" {
		t.Errorf("found %q", got)
	}
}
