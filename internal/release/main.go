// Command release lists the parts of the binary in a directory, its only argument, and their licences. It writes
// THIRD_PARTY_LICENSES.txt and sbom.cdx.json beside the binary.
package main

import (
	"context"
	"debug/buildinfo"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const name = "chatstack_exporter"

func main() {
	version := flag.String("version", "", "version of the release, without a leading v")
	when := flag.Int64("time", 0, "time of the bill of materials, in seconds since 1970")
	flag.Parse()
	if err := describe(flag.Arg(0), *version, time.Unix(*when, 0).UTC()); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func describe(dir, version string, when time.Time) error {
	info, err := buildinfo.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("read build information: %w", err)
	}
	parts, err := modules(info)
	if err != nil {
		return err
	}
	bill, err := billOfMaterials(info, version, parts, when)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "sbom.cdx.json"), bill, 0o644); err != nil { //nolint:gosec // published
		return err
	}
	return os.WriteFile(filepath.Join(dir, "THIRD_PARTY_LICENSES.txt"), licenceTexts(parts), 0o644) //nolint:gosec // published
}

// modules returns the modules of a binary with their licences, the standard library first.
func modules(info *buildinfo.BuildInfo) ([]module, error) {
	goRoot, err := runGo("env", "GOROOT")
	if err != nil {
		return nil, err
	}
	parts := []module{{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go"), dir: goRoot}}
	ask := []string{"list", "-m", "-f", "{{.Dir}}"}
	for _, d := range info.Deps {
		if d.Replace != nil {
			return nil, fmt.Errorf("module %s is replaced by %s: remove the replace directive, since others cannot build it",
				d.Path, d.Replace.Path)
		}
		ask = append(ask, d.Path+"@"+d.Version)
		parts = append(parts, module{Path: d.Path, Version: d.Version})
	}
	dirs, err := runGo(ask...)
	if err != nil {
		return nil, err
	}
	for i, dir := range strings.Split(dirs, "\n") {
		parts[i+1].dir = dir
	}
	chart, err := chartLibrary()
	if err != nil {
		return nil, err
	}
	parts = append(parts, chart)
	for i := range parts {
		if err := parts[i].readLicence(); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// runGo returns the output of a go command without surrounding space. Its error messages go to standard error.
func runGo(args ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), "go", args...)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(output)), nil
}
