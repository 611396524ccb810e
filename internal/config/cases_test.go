package config_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

//go:generate go test . -update
var update = flag.Bool("update", false, "write the golden files anew instead of comparing with them")

// TestFaultsSayWhatIsWrongAndWhatToDo never has the secret hunter2 repeated.
func TestFaultsSayWhatIsWrongAndWhatToDo(t *testing.T) { compareCases(t, "testdata/faults.txt") }

func TestSettingsComeFromFileAndEnvironment(t *testing.T) { compareCases(t, "testdata/settings.txt") }

// compareCases loads each case of a file, whose head says how it is read, and compares what comes out.
func compareCases(t *testing.T, golden string) {
	t.Helper()
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := load(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	head, cases, _ := strings.Cut(string(want), "\n== ")
	got := strings.Builder{}
	got.WriteString(head)
	for block := range strings.SplitSeq(cases, "\n== ") {
		block, _, _ = strings.Cut(block, "\n> ")
		block = strings.TrimRight(block, "\n") + "\n"
		got.WriteString("\n== " + block)
		_, content, _ := strings.Cut(block, "\n")
		env := map[string]string{}
		for strings.HasPrefix(content, "$ ") {
			var line string
			line, content, _ = strings.Cut(content, "\n")
			name, value, _ := strings.Cut(line[2:], "=")
			env[name] = value
		}
		cfg, err := load(t, content, env)
		if err != nil {
			for fault := range strings.SplitSeq(err.Error(), "\n") {
				got.WriteString("> " + fault + "\n")
			}
			continue
		}
		for _, line := range describe(cfg, bare) {
			got.WriteString("> " + line + "\n")
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" && !*update {
		t.Errorf("%s (-want +got); if it is meant, run make generate:\n%s", golden, diff)
	}
	for line := range strings.Lines(got.String()) {
		if strings.HasPrefix(line, "> ") && strings.Contains(line, "hunter2") {
			t.Errorf("a secret is repeated: %s", line)
		}
	}
}

// describe returns a line for everything that a configuration has other than its defaults.
func describe(cfg, bare *config.Config) []string {
	lines := changes("", reflect.ValueOf(cfg).Elem(), reflect.ValueOf(bare).Elem())
	for _, s := range cfg.Targets {
		common := s.Common()
		kind, _ := collectors.KindOf(common.Kind)
		usual, slow := kind.Defaults(), 3*time.Second
		if kind.Steps {
			slow = 5 * time.Second
		}
		*usual.Common() = config.Target{
			Kind:     kind.Name,
			Name:     kind.Name,
			Schedule: "@every 30s",
			Timeout:  config.Duration(10 * time.Second),
			Slow:     config.Duration(slow),
			Page:     usual.Common().Page,
		}
		lines = append(lines, strings.Join(
			append([]string{common.Kind + ":"}, changes("", reflect.ValueOf(s).Elem(), reflect.ValueOf(usual).Elem())...), " "))
		for _, warning := range s.Warnings() {
			lines = append(lines, common.Name+" warns: "+warning)
		}
		if keys := config.Placeholders(s); len(keys) > 0 {
			lines = append(lines, fmt.Sprintf("%s has placeholders: %s", common.Name, keys))
		}
	}
	for _, warning := range cfg.Warnings {
		lines = append(lines, warning.Target+": warning: "+warning.Text)
	}
	return lines
}

// changes are the keys of a struct whose values are not the usual ones.
func changes(path string, got, usual reflect.Value) []string {
	var changed []string
	for i := range got.NumField() {
		key, options, _ := strings.Cut(got.Type().Field(i).Tag.Get("yaml"), ",")
		g, u := got.Field(i), usual.Field(i)
		if g.Type() == reflect.TypeFor[map[string]*config.AlertSettings]() {
			settings, _ := reflect.TypeAssert[map[string]*config.AlertSettings](g)
			before, _ := reflect.TypeAssert[map[string]*config.AlertSettings](u)
			for _, kind := range alerts.Kinds() {
				for _, k := range kind.Keys {
					if is, was := k.At(settings[kind.Key]), k.At(before[kind.Key]); !reflect.DeepEqual(is, was) {
						value := reflect.ValueOf(is).Elem().Interface()
						if list, ok := value.([]string); ok && len(list) == 0 {
							continue
						}
						if d, ok := value.(config.Duration); ok {
							value = d.Std()
						}
						changed = append(changed, fmt.Sprintf("%s%s.%s=%v", path, kind.Key, k.Name, value))
					}
				}
			}
			continue
		}
		if options == "inline" {
			changed = append(changed, changes(path, g, u)...)
			continue
		}
		empty := g.Kind() == reflect.Slice && g.Len()+u.Len() == 0
		if key == "" || key == "-" || empty || reflect.DeepEqual(g.Interface(), u.Interface()) {
			continue
		}
		add := func(name string, value any) { changed = append(changed, fmt.Sprintf("%s%s=%+v", path, name, value)) }
		switch value := g.Interface().(type) {
		case config.Duration:
			add(key, value.Std())
		case string:
			add(key, strconv.Quote(value))
		case config.Secret:
			add(key, strconv.Quote(value.Reveal()))
		case map[string]config.Secret:
			for _, name := range slices.Sorted(maps.Keys(value)) {
				add(key+"."+name, strconv.Quote(value[name].Reveal()))
			}
		case []config.Notify:
			for i, n := range value {
				usual := config.Notify{
					Severity: "warning",
					Hours:    config.Hours{From: 450, To: 1350},
					Repeat:   config.Duration(2 * time.Hour),
				}
				add(fmt.Sprintf("%s[%d]", key, i), strings.Join(append(
					changes("", reflect.ValueOf(n), reflect.ValueOf(usual)), "zone="+n.Location.String()), " "))
			}
		case config.Hours:
			add(key, strconv.Quote(value.String()))
		case []config.Maintenance:
			for i := range value {
				from, until, _ := value[i].At(time.Unix(1_777_000_000, 0))
				add(key, fmt.Sprintf("%s %s, %s to %s", value[i].Kind, value[i].Name, from.UTC(), until.UTC()))
			}
		default:
			if g.Kind() == reflect.Struct {
				changed = append(changed, changes(path+key+".", g, u)...)
			} else {
				add(key, value)
			}
		}
	}
	return changed
}
