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

const root = "../../.."

// document is a text in Markdown that tells people what to run and to write.
type document struct {
	name, text string
}

// documents are those that a user reads.
func documents(t *testing.T) []document {
	t.Helper()
	names := []string{"README.md", "SECURITY.md"}
	for _, dir := range []string{"deploy", "alerts/runbooks"} {
		err := fs.WalkDir(os.DirFS(root), dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".md") {
				names = append(names, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var found []document
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, document{name, string(content)})
	}
	return found
}

// codeBlock is a block of code, without its indent.
type codeBlock struct {
	document, language, text string
}

var (
	fencedBlock   = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```$")
	indentedBlock = regexp.MustCompile(`(?m)^\n(?: {4,}\S.*\n|\n(?: {4}))+`)
	picture       = regexp.MustCompile(`(?m)^!\[.*$`)
	codeSpan      = regexp.MustCompile("`([^`]+)`")
)

// codeBlocks are the blocks of a document. What is only indented has no language.
func (d document) codeBlocks() []codeBlock {
	var found []codeBlock
	for _, m := range fencedBlock.FindAllStringSubmatch(d.text, -1) {
		found = append(found, codeBlock{d.name, m[1], unindented(m[2])})
	}
	for _, m := range indentedBlock.FindAllString(fencedBlock.ReplaceAllString(d.text, ""), -1) {
		found = append(found, codeBlock{d.name, "", unindented(strings.TrimLeft(m, "\n"))})
	}
	return found
}

func unindented(text string) string {
	column := len(text) - len(strings.TrimLeft(text, " "))
	return strings.TrimPrefix(strings.ReplaceAll("\n"+text, "\n"+strings.Repeat(" ", column), "\n"), "\n")
}

// configurations are the blocks that are not commands, by how they begin.
var configurations = []string{"plugin_paths = {", "rpc-class ", "except ban ", "scrape_configs:"}

// scripts are the blocks of commands of all documents.
func scripts(t *testing.T) []codeBlock {
	t.Helper()
	var found []codeBlock
	for _, d := range documents(t) {
		for _, b := range d.codeBlocks() {
			configuration := slices.ContainsFunc(configurations, func(begin string) bool { return strings.HasPrefix(b.text, begin) })
			if b.language == "sh" || b.language == "" && !configuration {
				b.text = picture.ReplaceAllString(b.text, "")
				found = append(found, b)
			}
		}
	}
	return found
}
