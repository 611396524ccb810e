package config_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

func TestShippedFileHasEveryThreshold(t *testing.T) {
	content, err := os.ReadFile("../../exporter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := load(t, string(content), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.DefaultAlerts(), shipped.Alerts, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the shipped file says other defaults than the code (-code +file):\n%s", diff)
	}
	var file struct {
		Alerts map[string]any `yaml:"alerts"`
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	for _, missing := range missingKeys(file.Alerts, reflect.TypeFor[config.Alerts](), "alerts") {
		t.Errorf("the shipped file does not explain %s", missing)
	}
}

// missingKeys are the keys of a struct that a mapping does not have.
func missingKeys(have map[string]any, t reflect.Type, path string) []string {
	var missing []string
	for field := range t.Fields() {
		key, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if options == "inline" {
			missing = append(missing, missingKeys(have, field.Type, path)...)
			continue
		}
		value, ok := have[key]
		if !ok {
			missing = append(missing, path+"."+key)
			continue
		}
		if field.Type.Kind() == reflect.Struct {
			inner, _ := value.(map[string]any)
			missing = append(missing, missingKeys(inner, field.Type, path+"."+key)...)
		}
	}
	return missing
}
