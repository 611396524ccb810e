package main

import (
	"bytes"
	"cmp"
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

// allowed are the licences that a part of the binary may have, by their SPDX names: those that ask for no more than that
// their text goes along, which it does.
var allowed = map[string]bool{"Apache-2.0": true, "BSD-2-Clause": true, "BSD-3-Clause": true, "ISC": true, "MIT": true}

// leastCoverage is how much of a licence's file must be that licence, in percent; the rest is names and years.
const leastCoverage = 75

// module is a part of the binary.
type module struct {
	Path, Version string
	// NPM is set for a package of npm that is embedded; everything else is a module of Go.
	NPM bool
	// Licences are SPDX names, in order.
	Licences []string
	texts    []licenceText
	dir      string
}

type licenceText struct {
	name    string
	content []byte
}

// chartLibrary is what the status page draws with, of the version that it says itself.
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
	return module{Path: "uplot", Version: string(version[1]), NPM: true, dir: dir}, nil
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
			continue // of the documentation, which is no part of a binary
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
			return fmt.Errorf("licence of %s: %s is none that is known (%.0f %% of it)", m.Path, e.Name(), coverage.Percent)
		}
		for _, match := range coverage.Match {
			if !allowed[match.ID] {
				return fmt.Errorf("licence of %s: %s is %s, which is not among those allowed", m.Path, e.Name(), match.ID)
			}
			found[match.ID] = true
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("licence of %s: there is none in %s", m.Path, m.dir)
	}
	m.Licences = sortedKeys(found)
	return nil
}

// licenceTexts is the page that goes along with the binary, as the licences of its parts ask.
func licenceTexts(parts []module) []byte {
	var b bytes.Buffer
	b.WriteString("What the binary is made of beside its own code, and under which licences.\n\n")
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

// The parts of CycloneDX 1.5 that are used here.
type (
	bill struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   metadata    `json:"metadata"`
		Components []component `json:"components"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type     string    `json:"type"`
		Ref      string    `json:"bom-ref"`
		Name     string    `json:"name"`
		Version  string    `json:"version"`
		PURL     string    `json:"purl"`
		Licences []licence `json:"licenses"`
	}
	licence struct {
		Licence licenceID `json:"license"`
	}
	licenceID struct {
		ID string `json:"id"`
	}
)

const ownPath = "github.com/chatstack-exporter/chatstack_exporter"

// billOfMaterials is a binary's list of parts, as CycloneDX 1.5 writes it.
func billOfMaterials(version, arch string, parts []module, when time.Time) ([]byte, error) {
	describe := func(kind string, m module, query string) component {
		c := component{Type: kind, Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version + query}
		if m.NPM {
			c.PURL = "pkg:npm/" + m.Path + "@" + m.Version
		}
		c.Ref = c.PURL
		for _, id := range m.Licences {
			c.Licences = append(c.Licences, licence{licenceID{id}})
		}
		return c
	}
	b := bill{Format: "CycloneDX", Spec: "1.5", Version: 1, Metadata: metadata{
		Timestamp: when.Format(time.RFC3339),
		Component: describe("application", module{Path: ownPath, Version: version, Licences: []string{"Apache-2.0"}}, "?goos=linux&goarch="+arch),
	}}
	for _, m := range parts {
		b.Components = append(b.Components, describe("library", m, ""))
	}
	content, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write bill of materials: %w", err)
	}
	return append(content, '\n'), nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
