package state

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FuzzStateFile opens made-up files. One of a newer version is refused and left as it is; one that is damaged is put aside,
// byte for byte; what any other keeps comes out again, before and after it was written anew, beside what was added.
func FuzzStateFile(f *testing.F) {
	for _, seed := range []string{
		`{"version":1,"values":{"plants":[1,2],"docker/docker":{"a":"\u2028<&>"},"":null}}`, `{"version":1}`, `{"version":1,"values":null}`,
		`{"version":2,"values":{}}`,
		`{"version":0}`, `{"version":-1}`, `{"version":1e3}`, `{"version":"1"}`, ``, `null`, `[]`, `{`, "{\"version\":1}\n{}",
		"\xef\xbb\xbf{\"version\":1}",
		`{"version":1,"values":{"a":1e999,"b":1.0,"c":"\ud800"}}`, `{"Version":1,"VALUES":{"a":1},"values":{"b":2}}`,
		`{"version":1,"values":{"a":1,"a":2}}`,
	} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	path := filepath.Join(dir, "state.json")
	f.Fuzz(func(t *testing.T, raw []byte) {
		old, err := filepath.Glob(path + "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range old {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		file, notice, err := Open(path)
		if err != nil {
			left, readErr := os.ReadFile(path)
			if readErr != nil || !bytes.Equal(left, raw) || !strings.Contains(err.Error(), "is of version") {
				t.Errorf("refused with %v, and %v of it left: %q", err, readErr, left)
			}
			return
		}
		if notice != "" {
			aside, err := filepath.Glob(path + ".damaged-*")
			if err != nil || len(aside) != 1 {
				t.Fatalf("put aside as %v, %v", aside, err)
			}
			if kept, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(kept, raw) {
				t.Errorf("what was put aside is not what there was: %q, %v", kept, err)
			}
		}
		before := valuesOf(t, file)
		if notice != "" && len(before) > 0 {
			t.Errorf("a damaged file keeps %v", before)
		}
		if err := file.Value("added").Save(map[string]string{"x": "\u2028\x00"}); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		again, notice, err := Open(path)
		if err != nil || notice != "" {
			t.Fatalf("what was written cannot be read: %q, %v", notice, err)
		}
		defer again.Close() //nolint:errcheck // nothing is written any more
		after := valuesOf(t, again)
		before["added"] = after["added"]
		if !maps.Equal(before, after) || after["added"] == "" {
			t.Errorf("kept %v, came out as %v", before, after)
		}
	})
}

// valuesOf are all values as they come out, written without spaces.
func valuesOf(t *testing.T, f *File) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, name := range slices.Collect(maps.Keys(f.values)) {
		var raw json.RawMessage
		if err := f.Value(name).Load(&raw); err != nil {
			t.Errorf("load %q: %v", name, err)
			continue
		}
		compact, err := json.Marshal(raw)
		if err != nil {
			t.Errorf("write %q: %v", name, err)
		}
		values[name] = string(compact)
	}
	return values
}
