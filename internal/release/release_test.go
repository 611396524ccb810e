package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestArchiveDependsOnNothingButItsFiles(t *testing.T) {
	when := time.Unix(1_700_000_000, 0)
	files := []file{{"b", 0o755, []byte("two")}, {"a", 0o644, []byte("one")}}
	first, err := pack("x", files, when)
	if err != nil {
		t.Fatal(err)
	}
	again, err := pack("x", []file{files[1], files[0]}, when)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, again) {
		t.Error("the order in which files are given shows")
	}
	later, err := pack("x", files, when.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(first, later) {
		t.Error("the time does not show")
	}
}

func TestOnlyVersionsAreReleased(t *testing.T) {
	const changelog = "# Changelog\n\n## 1.3.0 (unreleased)\n\n## 1.2.3 (2026-05-01)\n\n## 0.10.0\n\nsince 0.9.0:\n## 1.2.30\n"
	for version, want := range map[string]bool{
		"1.2.3": true, "0.10.0": true, "1.2.3-rc": true, "1.2.3-rc1": true, "1.2.3-rc.1": true,
		"": false, "unknown": false, "v1.2.3": false, "01.2.3": false, "1.2.3-dirty": false,
		"1.2.3-4-gabcdef0": false, "f6aeb57": false, "f6aeb57-dirty": false, "1.2.3 -X": false, "1.2.3/..": false,
		"1.2": false, "0.9.0": false, "1.2.4": false, "1.3.0": false, "1.2.4-rc.1": true, "11.2.3": false,
	} {
		if err := releasable(version, changelog); (err == nil) != want {
			t.Errorf("%q: got %v, want it released: %v", version, err, want)
		}
	}
}

func TestLicencesAreKnownAndAllowed(t *testing.T) {
	mit := `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`
	for name, c := range map[string]struct{ file, content, want string }{
		"allowed":     {"LICENSE", "Copyright 2026 A. Author\n\n" + mit, ""},
		"unknown":     {"LICENSE", "Ask the author.\n", "none that is known"},
		"not allowed": {"COPYING", "SPDX-License-Identifier: AGPL-3.0-only\n", "licence of x"},
		"missing":     {"README", mit, "there is none"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			m := module{Path: "x", Version: "v1", dir: dir}
			err := m.readLicence()
			switch {
			case c.want == "" && (err != nil || strings.Join(m.Licences, " ") != "MIT"):
				t.Errorf("got %v, %v, want MIT", m.Licences, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
