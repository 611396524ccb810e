package deploy

import (
	"bytes"
	_ "embed"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const root = "../../.."

//go:embed testdata/known.yaml
var knownFile []byte

// known are the lists of that file, which says what each is for.
var known = func() (lists struct {
	Tools, Unasked, Hidden   map[string]string
	HelpWords                map[string]string `yaml:"help_words"`
	Walked                   []string
	NotWalked                map[string]string `yaml:"not_walked"`
	Languages, Blocks, Files map[string]string
},
) {
	d := yaml.NewDecoder(bytes.NewReader(knownFile))
	d.KnownFields(true)
	if err := d.Decode(&lists); err != nil {
		panic(err)
	}
	return lists
}()

// document is a text in Markdown that tells people what to run and to write.
type document struct {
	name, text string
}

// documents are those that a user reads.
func documents(t *testing.T) []document {
	t.Helper()
	names := []string{
		"README.md", "ALERTS.md", "CONFIGURATION.md", "METRICS.md", "OPERATIONS.md", "SECURITY.md", "TARGETS.md", "TROUBLESHOOTING.md",
	}
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

// configuration is how the block begins in the list of configurations, "" where it is not in it.
func (b codeBlock) configuration() string {
	for begin := range known.Blocks {
		if strings.HasPrefix(b.text, begin) {
			return begin
		}
	}
	return ""
}

// scripts are the blocks of commands of all documents.
func scripts(t *testing.T) []codeBlock {
	t.Helper()
	var found []codeBlock
	for _, d := range documents(t) {
		for _, b := range d.codeBlocks() {
			if b.language == "sh" || b.language == "" && b.configuration() == "" {
				b.text = picture.ReplaceAllString(b.text, "")
				found = append(found, b)
			}
		}
	}
	return found
}
