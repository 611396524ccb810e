package deploy

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEveryConfigurationIsLoadedByATest(t *testing.T) {
	tests := map[string]bool{}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		for line := range strings.Lines(string(content)) {
			if rest, ok := strings.CutPrefix(line, "func Test"); ok {
				function, _, _ := strings.Cut(rest, "(")
				tests["Test"+function] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, loader := range slices.Concat(slices.Collect(maps.Values(known.Languages)), slices.Collect(maps.Values(known.Blocks)),
		slices.Collect(maps.Values(known.Files))) {
		if _, err := os.Stat(filepath.Join(root, loader)); !tests[loader] && err != nil {
			t.Errorf("there is no test %s", loader)
		}
	}
	used := map[string]bool{}
	for _, d := range documents(t) {
		for _, b := range d.codeBlocks() {
			begin := b.configuration()
			used[b.language], used[begin] = true, true
			if begin == "" && b.language != "" && b.language != "sh" && known.Languages[b.language] == "" {
				t.Errorf("%s: no test loads this %s:\n%s", d.name, b.language, b.text)
			}
		}
	}
	err = fs.WalkDir(os.DirFS(filepath.Join(root, "deploy")), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) == ".md" || name == ".gitignore" {
			return err
		}
		key := name
		for known.Files[key] == "" && key != "." {
			key = path.Dir(key)
		}
		if used["deploy/"+key] = true; key == "." {
			t.Errorf("no test loads deploy/%s", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range slices.Concat(slices.Collect(maps.Keys(known.Languages)), slices.Collect(maps.Keys(known.Blocks))) {
		if !used[key] {
			t.Errorf("no document has a block %q", key)
		}
	}
	for key := range known.Files {
		if !used["deploy/"+key] {
			t.Errorf("there is no deploy/%s", key)
		}
	}
}
