package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/chatstack-exporter/chatstack_exporter/internal/app"
)

// TestContractOfLandedConfigurations loads configurations that users may have: each is as valid as it was, without a new warning. The
// clock stands still, since planned maintenance would be over one day.
func TestContractOfLandedConfigurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { golden(t, "landed.golden", saidOfLanded(t)) })
}

func saidOfLanded(t *testing.T) (lines []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/contract/landed/*.yaml")
	must(t, err)
	for _, path := range files {
		content, err := os.ReadFile(path)
		must(t, err)
		lines = append(lines, "== "+filepath.Base(path))
		lines = append(lines, saidOf(t, string(content), nil)...)
	}
	cases, err := os.ReadFile("testdata/contract/landed/config_settings.txt")
	must(t, err)
	for _, block := range strings.Split(string(cases), "\n== ")[1:] {
		name, content, _ := strings.Cut(block, "\n")
		content, _, _ = strings.Cut("\n"+content, "\n> ") // what comes of it is held in internal/config
		env := map[string]string{}
		for strings.HasPrefix(content, "\n$ ") {
			variable, rest, _ := strings.Cut(content[len("\n$ "):], "\n")
			name, value, _ := strings.Cut(variable, "=")
			env[name], content = value, "\n"+rest
		}
		lines = append(lines, "== "+name)
		lines = append(lines, saidOf(t, strings.TrimPrefix(content, "\n"), env)...)
	}
	return lines
}

// saidOf is what people are told of a configuration: how much it watches, and what is wrong with it.
func saidOf(t *testing.T, content string, env map[string]string) (lines []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "exporter.yaml")
	must(t, os.WriteFile(file, []byte(content), 0o600))
	options := app.Options{
		ConfigFile:     file,
		Log:            slog.New(slog.DiscardHandler),
		WithoutSecrets: true,
		Lookup:         func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Environ: func() (all []string) {
			for name, value := range env {
				all = append(all, name+"="+value)
			}
			return all
		},
	}
	within := func(text string) string { return strings.ReplaceAll(text, filepath.Dir(file)+"/", "") }
	cfg, err := app.LoadConfig(options)
	if err != nil {
		for fault := range strings.SplitSeq(err.Error(), "\n") {
			lines = append(lines, "invalid: "+within(fault))
		}
		return lines
	}
	lines = append(lines, fmt.Sprintf("watches %d targets", len(cfg.Targets)))
	for _, w := range app.Warnings(cfg) {
		lines = append(lines, within(fmt.Sprintf("warning: %s: %s", w.Target, w.Text)))
	}
	return lines
}
