package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/licensecheck"
)

// allowed are the licences that a part of the binary may have, by SPDX name: they only require that their text accompanies the
// binary.
var allowed = map[string]bool{"Apache-2.0": true, "BSD-2-Clause": true, "BSD-3-Clause": true, "ISC": true, "MIT": true}

// leastCoverage is the percentage of a licence file that must match a known licence; the rest is names and years.
const leastCoverage = 75

// module is a part of the binary.
type module struct {
	Path, Version string
	// NPM is true for an embedded npm package; all others are Go modules.
	NPM bool
	// Licences are SPDX names, sorted.
	Licences []string
	texts    []licenceText
	dir      string
}

type licenceText struct {
	name    string
	content []byte
}

// chartLibrary returns the chart library of the status page, with the version in its script.
func chartLibrary() (module, error) {
	const dir = "internal/web/assets/uplot"
	script, err := os.ReadFile(filepath.Join(dir, "uPlot.iife.min.js"))
	if err != nil {
		return module{}, err
	}
	version := regexp.MustCompile(`^/\*! \S+ \(v([0-9.]+)\) \*/`).FindSubmatch(script)
	if version == nil {
		return module{}, fmt.Errorf("%s: the script does not begin with its version", dir)
	}
	return module{
		Path:    "uplot",
		Version: string(version[1]),
		NPM:     true,
		dir:     dir,
	}, nil
}

// readLicence reads the licence of a module, and fails for one that is unknown or not allowed.
func (m *module) readLicence() error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return fmt.Errorf("licence of %s: %w", m.Path, err)
	}
	found := map[string]bool{}
	for _, e := range entries {
		upper := strings.ToUpper(e.Name())
		licence := strings.HasPrefix(upper, "LICENSE") || strings.HasPrefix(upper, "LICENCE") || strings.HasPrefix(upper, "COPYING")
		if e.IsDir() || (!licence && !strings.HasPrefix(upper, "NOTICE")) || strings.HasSuffix(upper, ".GO") {
			continue
		}
		if strings.HasSuffix(upper, ".DOCS") {
			continue // the licence of the documentation, which is not in the binary
		}
		content, err := os.ReadFile(filepath.Join(m.dir, e.Name()))
		if err != nil {
			return fmt.Errorf("licence of %s: %w", m.Path, err)
		}
		m.texts = append(m.texts, licenceText{e.Name(), content})
		if !licence {
			continue
		}
		coverage := licensecheck.Scan(content)
		if len(coverage.Match) == 0 || coverage.Percent < leastCoverage {
			return fmt.Errorf("licence of %s: %s is not a known licence (%.0f %% match)", m.Path, e.Name(), coverage.Percent)
		}
		for _, match := range coverage.Match {
			if !allowed[match.ID] {
				return fmt.Errorf("licence of %s: %s is %s, which is not allowed", m.Path, e.Name(), match.ID)
			}
			found[match.ID] = true
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("licence of %s: no licence file in %s", m.Path, m.dir)
	}
	m.Licences = slices.Sorted(maps.Keys(found))
	return nil
}

// licenceTexts returns THIRD_PARTY_LICENSES.txt, which the licences of the parts require.
func licenceTexts(parts []module) []byte {
	var b bytes.Buffer
	b.WriteString("Third-party software in the binary, and its licences.\n\n")
	for _, m := range parts {
		fmt.Fprintf(&b, "%s %s: %s\n", m.Path, m.Version, strings.Join(m.Licences, ", "))
	}
	for _, m := range parts {
		for _, t := range m.texts {
			fmt.Fprintf(&b, "\n%s\n%s %s: %s\n\n%s", strings.Repeat("-", 80), m.Path, m.Version, t.name, t.content)
		}
	}
	return b.Bytes()
}

// billOfMaterials returns a binary's list of parts in CycloneDX 1.5.
func billOfMaterials(info *buildinfo.BuildInfo, version string, parts []module, when time.Time) ([]byte, error) {
	var platform []string
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" {
			platform = append(platform, strings.ToLower(s.Key)+"="+s.Value)
		}
	}
	components := make([]any, len(parts))
	for i := range parts {
		components[i] = parts[i].component("library", "")
	}
	own := module{Path: info.Main.Path, Version: version, Licences: []string{"Apache-2.0"}}
	content, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata": map[string]any{
			"timestamp": when.Format(time.RFC3339),
			"component": own.component("application", "?"+strings.Join(platform, "&")),
		},
		"components": components,
	}, "", "  ")
	return append(content, '\n'), err
}

// component returns the module in CycloneDX. The query becomes part of its package URL.
func (m *module) component(kind, query string) map[string]any {
	ecosystem := "golang"
	if m.NPM {
		ecosystem = "npm"
	}
	url := "pkg:" + ecosystem + "/" + m.Path + "@" + m.Version + query
	licences := make([]any, len(m.Licences))
	for i, id := range m.Licences {
		licences[i] = map[string]any{"license": map[string]any{"id": id}}
	}
	return map[string]any{"type": kind, "bom-ref": url, "name": m.Path, "version": m.Version, "purl": url, "licenses": licences}
}
