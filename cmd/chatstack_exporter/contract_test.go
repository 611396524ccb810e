package main

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

//go:generate go test . -run ^TestContract -update
//go:generate go -C ../../internal/e2e/story test . -run ^TestContract -update
var update = flag.Bool("update", false, "write the goldens of the contract anew instead of comparing with them")

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// golden compares what was seen with a file of the contract.
func golden(t *testing.T, name string, lines []string) {
	t.Helper()
	path := filepath.Join("testdata", "contract", name)
	if *update {
		must(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	have, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(strings.Split(strings.TrimSuffix(string(have), "\n"), "\n"), lines); diff != "" {
		t.Errorf("%s: if people may see this change, name it in CHANGELOG.md and run make generate (-was +is):\n%s", path, diff)
	}
}

// held finds what README.md says of a part that is held elsewhere: the file and the test.
var held = regexp.MustCompile("(?m)^\\|[^|]+\\| `([^`]+)` \\| `(Test\\w+)` in `([^`]+)` \\|$")

// TestContractIsHeldWhereItsPageSays fails if a file that the page names is gone, or the test that keeps it true.
func TestContractIsHeldWhereItsPageSays(t *testing.T) {
	page, err := os.ReadFile("testdata/contract/README.md")
	must(t, err)
	rows := held.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 15 {
		t.Errorf("the page has %d rows that can be read, want 15 or more", len(rows))
	}
	named := map[string]bool{}
	for _, row := range rows {
		named[row[1]] = true
		if _, err := os.Stat(filepath.Join("../..", row[1])); err != nil {
			t.Errorf("README.md: %v", err)
		}
		tests, err := filepath.Glob(filepath.Join("../..", row[3], "*_test.go"))
		must(t, err)
		if !slices.ContainsFunc(tests, func(path string) bool {
			content, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(content), "\nfunc "+row[2]+"(t *testing.T) {")
		}) {
			t.Errorf("README.md: %s has no %s", row[3], row[2])
		}
	}
	here, err := filepath.Glob("testdata/contract/*.golden")
	must(t, err)
	for _, path := range here {
		if !named["cmd/chatstack_exporter/"+path] {
			t.Errorf("README.md does not name %s", path)
		}
	}
}

// printed is what a function writes to standard output and standard error.
func printed(t *testing.T, do func()) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "printed"))
	must(t, err)
	defer file.Close() //nolint:errcheck // it is read below
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = file, file
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	do()
	content, err := os.ReadFile(file.Name())
	must(t, err)
	return string(content)
}

// TestContractOfTheHelp has the help of every command, and of none.
func TestContractOfTheHelp(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a flag is only for Linux")
	}
	t.Setenv("COLUMNS", "") // else it wraps there
	var lines []string
	for _, command := range append([]string{""}, commandNames()...) {
		if command == "help" {
			continue // it is that of another
		}
		args := append(strings.Fields(command), "--help")
		text := printed(t, func() {
			line := newCommandLine()
			line.app.Terminate(func(int) {})
			line.parse(args) //nolint:errcheck // the help is printed before anything is wrong
		})
		lines = append(lines, "$ chatstack_exporter "+strings.Join(args, " "))
		lines = append(lines, strings.Split(strings.TrimRight(text, "\n"), "\n")...)
		lines = append(lines, "")
	}
	golden(t, "help.golden", lines[:len(lines)-1])
}

// TestContractOfTheExitCodes runs commands that end by themselves, beside the files that they name.
func TestContractOfTheExitCodes(t *testing.T) {
	for _, name := range collectors.Variables() {
		t.Setenv(name, "") // which counts as unset
	}
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer up.Close()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"up.yaml":      "targets:\n  - {kind: http, name: page, url: '" + up.URL + "/'}\n",
		"down.yaml":    "targets:\n  - {kind: http, name: page, url: 'http://127.0.0.1:1/'}\n",
		"invalid.yaml": "pol: {}\n",
		"web.yml":      "tls_server_config: {cert_file: absent}\n",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	var lines []string
	for _, command := range []string{
		"version",
		"--no-such-flag",
		"juggle",
		"serve --config.file=invalid.yaml",
		"serve --config.file=up.yaml --web.listen-address=127.0.0.1:0 --web.config.file=web.yml",
		"serve --config.file=up.yaml --web.listen-address=192.0.2.1:1",
		"check up.yaml",
		"check down.yaml",
		"check down.yaml --output=json",
		"check invalid.yaml",
		"check absent.yaml",
		"check up.yaml --poll.interval=30",
		"check-config up.yaml",
		"check-config down.yaml",
		"check-config invalid.yaml",
		"check-config up.yaml --web.config.file=web.yml",
		"check-config up.yaml --config.file=up.yaml",
		"check-config -",
		"init up.yaml",
		"rules up.yaml",
		"rules up.yaml --tests",
		"rules invalid.yaml",
		"rules up.yaml --recording --kubernetes",
		"drill",
		"drill --exporter=http://127.0.0.1:1",
		"drill --prometheus=http://127.0.0.1:1",
		"drill --prometheus=9090 --alertmanager=http://127.0.0.1:1",
		"drill --prometheus=http://127.0.0.1:1 --alertmanager=http://127.0.0.1:1 --severity=critical",
		"drill --prometheus=http://127.0.0.1:1 --alertmanager=http://127.0.0.1:1 --exporter=http://127.0.0.1:1 --dry-run",
		"ack",
		"ack ID --web.listen-address=127.0.0.1:1",
		"ack ID --url=http://127.0.0.1:1",
		"ack ID --url=http://127.0.0.1:1 --user=x --password-file=up.yaml",
		"forget",
		"forget NAME --web.listen-address=127.0.0.1:1",
		"forget NAME --url=http://127.0.0.1:1 --user=x --password-file=up.yaml",
		"healthcheck --web.listen-address=127.0.0.1:1",
		"healthcheck --no-such-flag",
	} {
		code := 0
		args := strings.Fields(regexp.MustCompile(`\b(\w+\.ya?ml)`).ReplaceAllString(command, dir+"/$1"))
		printed(t, func() { code = run(args, nil) })
		lines = append(lines, fmt.Sprintf("%d  %s", code, command))
	}
	golden(t, "exit_codes.golden", lines)
}

// TestContractOfTheConfiguration has every key with its default, but those of alerts, which exporter.yaml has, and every variable.
func TestContractOfTheConfiguration(t *testing.T) {
	bare, err := config.Load(config.Source{Kinds: collectors.ConfigKinds(), Lookup: func(string) (string, bool) { return "", false }})
	must(t, err)
	isAlert := func(line string) bool { return strings.HasPrefix(line, "alerts.") }
	keys := slices.DeleteFunc(keysOf("", reflect.ValueOf(bare).Elem()), isAlert)
	of, common := map[string][]string{}, []string(nil)
	for i, kind := range collectors.Kinds {
		of[kind.Name] = keysOf("", reflect.ValueOf(kind.Defaults()).Elem())
		if i == 0 {
			common = slices.Clone(of[kind.Name])
		}
		common = slices.DeleteFunc(common, func(line string) bool { return !slices.Contains(of[kind.Name], line) })
	}
	lines := slices.Concat(keys, []string{"", "targets of every kind"}, common)
	for _, kind := range collectors.Kinds {
		lines = append(lines, "", "targets of kind "+kind.Name)
		if len(kind.Programs) > 0 {
			lines = append(lines, "is suggested for "+strings.Join(kind.Programs, ", "))
		}
		lines = append(lines, fmt.Sprintf("fails because of %v", kind.Reasons))
		lines = append(lines, slices.DeleteFunc(of[kind.Name], func(line string) bool { return slices.Contains(common, line) })...)
	}
	areExplained(t, lines)
	lines = append(lines, "", "environment variables")
	golden(t, "configuration.golden", slices.Concat(lines, slices.Sorted(maps.Keys(variablesRead(t)))))
}

// areExplained holds that exporter.yaml has every key.
func areExplained(t *testing.T, lines []string) {
	t.Helper()
	document, err := os.ReadFile("../../exporter.yaml")
	must(t, err)
	for _, line := range lines {
		path, _, isKey := strings.Cut(line, ": ")
		key := path[strings.LastIndexAny(path, ".]")+1:]
		if isKey && !regexp.MustCompile(`\b`+key+`\b[^:\n]*:`).Match(document) {
			t.Errorf("exporter.yaml does not explain %s", path)
		}
	}
}

// keysOf are the keys below a struct, with types and defaults.
func keysOf(path string, of reflect.Value) (lines []string) {
	for i := range of.NumField() {
		key, options, _ := strings.Cut(of.Type().Field(i).Tag.Get("yaml"), ",")
		value := of.Field(i)
		switch {
		case options == "inline":
			lines = append(lines, keysOf(path, value)...)
		case key == "" || key == "-":
		case value.Kind() == reflect.Struct && len(keysOf("", value)) > 0:
			lines = append(lines, keysOf(path+key+".", value)...)
		default:
			lines = append(lines, fmt.Sprintf("%s%s: %s", path, key, written(value)))
			if list := value.Type(); list.Kind() == reflect.Slice && list.Elem().Kind() == reflect.Struct {
				lines = append(lines, keysOf(path+key+"[].", reflect.Zero(list.Elem()))...)
			}
		}
	}
	return lines
}

// written is a default with its type.
func written(v reflect.Value) string {
	kind := map[reflect.Kind]string{
		reflect.String: "text", reflect.Bool: "true or false", reflect.Int: "number", reflect.Int64: "number", reflect.Float64: "number",
		reflect.Slice: "list", reflect.Map: "mapping", reflect.Pointer: "optional",
	}[v.Kind()]
	switch value := v.Interface().(type) {
	case config.Secret:
		return "secret"
	case time.Time:
		return "time"
	case config.Duration:
		return "duration, " + value.Std().String()
	case config.Hours:
		return fmt.Sprintf("hours, %q", value)
	case string:
		return fmt.Sprintf("%s, %q", kind, value)
	}
	if (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0 || v.Kind() == reflect.Pointer && v.IsNil() {
		return kind
	}
	return fmt.Sprintf("%s, %v", kind, v.Interface())
}
