package deploy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ircBlocks are what we tell people to write into UnrealIRCd's configuration, as its documentation has it: the server is
// not in Debian, so nothing here can load it.
var ircBlocks = map[string]string{
	"rpc-class":  "rpc-class chatstack { permissions { rpc { info; } stats; server { list; } channel { list; } } }",
	"except ban": "except ban { mask IP; type { connect-flood; } }",
}

var (
	// ircBlock finds the beginning of what looks like one of them, also of one without a name or of one that is misspelt.
	ircBlock = regexp.MustCompile(`(rpc-class|except ban)\W*(?:[\w-]+ )?\{`)
	// ircInWords finds blocks of UnrealIRCd that are not written as such.
	ircInWords = regexp.MustCompile(`\ballow \{`)
	comment    = regexp.MustCompile(`(?m)^\s*(#+|//)`)
)

// TestSnippetsForUnrealIRCdAreAccepted reads them in documents, in comments of configurations, and in hints in Go, where
// each has to stand in one string.
func TestSnippetsForUnrealIRCdAreAccepted(t *testing.T) {
	where := map[string][]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (slices.Contains([]string{".git", "bin", "dist"}, path) || strings.HasSuffix(path, "testdata")) {
			return fs.SkipDir
		}
		if d.IsDir() || path == "CHANGELOG.md" || strings.HasSuffix(path, "_test.go") ||
			!slices.Contains([]string{".go", ".md", ".yaml", ".yml", ".env"}, filepath.Ext(path)) {
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		text := strings.Join(strings.Fields(comment.ReplaceAllString(string(content), "")), " ")
		for _, at := range ircBlock.FindAllStringSubmatchIndex(text, -1) {
			block := text[at[2]:at[3]]
			where[block] = append(where[block], path)
			if !strings.HasPrefix(text[at[0]:], ircBlocks[block]) {
				t.Errorf("%s: %.100q is not the block that UnrealIRCd takes: %s", path, text[at[0]:], ircBlocks[block])
			}
		}
		if m := ircInWords.FindString(text); m != "" && strings.HasSuffix(path, ".go") {
			t.Errorf("%s: %q looks like configuration that nobody checks", path, m)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for block := range ircBlocks {
		if len(where[block]) < 3 {
			t.Errorf("%s is in %v, want 3 places", block, where[block])
		}
	}
}
