package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLicencesAreKnownAndAllowed(t *testing.T) {
	mit := `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`
	for name, c := range map[string]struct{ file, content, want string }{
		"allowed":     {"LICENSE", "Copyright 2026 A. Author\n\n" + mit, ""},
		"unknown":     {"LICENSE", "Ask the author.\n", "not a known licence"},
		"not allowed": {"COPYING", "SPDX-License-Identifier: AGPL-3.0-only\n", "licence of x"},
		"missing":     {"README", mit, "no licence file"},
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
