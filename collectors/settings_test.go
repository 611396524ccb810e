package collectors

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestSettingsAreChecked loads each configuration of testdata/settings.yaml.
func TestSettingsAreChecked(t *testing.T) {
	content, err := os.ReadFile("testdata/settings.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var settings []struct {
		Targets          string
		Env              map[string]string
		Faults, Warnings []string
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(&settings); err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		t.Run(s.Targets, func(t *testing.T) {
			cfg, err := loadTargets(s.Targets, s.Env)
			var faults, warnings []string
			if err != nil {
				faults = strings.Split(err.Error(), "\n")
			} else {
				warnings = cfg.Targets[0].Warnings()
			}
			wantParts(t, "faults", faults, s.Faults)
			wantParts(t, "warnings", warnings, s.Warnings)
		})
	}
}

func TestKindIsFoundByItsNameAlone(t *testing.T) {
	for _, want := range Kinds {
		if got, ok := KindOf(want.Name); !ok || got.Name != want.Name {
			t.Errorf("%s: got %q, found: %t", want.Name, got.Name, ok)
		}
	}
	if got, ok := KindOf("carrier_pigeon"); ok {
		t.Errorf("found %q for a kind that there is not", got.Name)
	}
	k, _ := KindOf("tcp")
	if _, err := k.New(&Volume{}, Deps{}); err == nil || failure.ReasonOf(err) != failure.Internal {
		t.Errorf("settings of another kind: got %v, want %s", err, failure.Internal)
	}
}

// loadTargets loads a configuration of these targets alone, with these variables.
func loadTargets(targets string, env map[string]string) (*config.Config, error) {
	return config.Load(config.Source{
		File:    "exporter.yaml",
		Content: []byte("targets:\n" + targets),
		Kinds:   ConfigKinds(),
		Lookup:  func(name string) (string, bool) { value, ok := env[name]; return value, ok },
	})
}

// TestWhatTheStackWorksWithoutPagesNobody holds which kinds have page: false by default.
func TestWhatTheStackWorksWithoutPagesNobody(t *testing.T) {
	var quiet []string
	for _, k := range Kinds {
		if !k.Defaults().Common().Page {
			quiet = append(quiet, k.Name)
		}
	}
	if want := []string{"plant_store", "docs_search", "web_panel", "log_viewer", "backup"}; !slices.Equal(quiet, want) {
		t.Errorf("kinds that do not page: %v, want %v", quiet, want)
	}
}

func TestAuthorityOfTheProxyComesFromItsVariable(t *testing.T) {
	root := exchangetest.Write(t, filepath.Join(t.TempDir(), "ca.pem"), exchangetest.Certificate{Name: "root", Authority: true}.Make(t))
	cfg, err := loadTargets("  - {kind: xmpp_proxy, url: 'https://x'}\n", map[string]string{"XMPP_PROXY_CA_FILE": root})
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := cfg.Targets[0].(*XMPPProxy); !ok || s.CAFile != root {
		t.Errorf("got %+v, want ca_file %s", cfg.Targets[0], root)
	}
}
