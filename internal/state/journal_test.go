package state

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// openJournal opens a journal until the end of the test, and returns its records as text.
func openJournal(t *testing.T, path string) (_ *Journal, records []string, notice string) {
	t.Helper()
	j, notice := OpenJournal(path, func(r Record) error {
		records = append(records, r.Kind+string(r.Data))
		return nil
	})
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j, records, notice
}

func number(t *testing.T, n int) Record {
	t.Helper()
	r, err := NewRecord("n", n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestJournalKeepsRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	j, records, notice := openJournal(t, path)
	if len(records) > 0 || notice != "" {
		t.Fatalf("a new journal has %q, notice %q", records, notice)
	}
	for i := range 3 {
		if err := j.Append(number(t, i), number(t, 10*i)); err != nil {
			t.Fatal(err)
		}
	}
	j, records, notice = openJournal(t, path)
	if want := []string{"n0", "n0", "n1", "n10", "n2", "n20"}; !slices.Equal(records, want) || notice != "" {
		t.Errorf("got %q, notice %q", records, notice)
	}
	if err := j.Rewrite(slices.Values([]Record{number(t, 7)})); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(number(t, 8)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != j.Size() {
		t.Errorf("%v, mode %v, size %d and not %d", err, info.Mode(), info.Size(), j.Size())
	}
	if _, records, notice = openJournal(t, path); !slices.Equal(records, []string{"n7", "n8"}) || notice != "" {
		t.Errorf("got %q, notice %q", records, notice)
	}
}

// TestJournalCutAnywhere holds that what was written before a cut is read, without a notice, and that writing goes on.
func TestJournalCutAnywhere(t *testing.T) {
	whole := []byte(journalHeader)
	for i := range 5 {
		r := number(t, i)
		whole = r.encode(whole)
	}
	for cut := range len(whole) + 1 {
		path := filepath.Join(t.TempDir(), "history")
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		complete := max(0, bytes.Count(whole[:cut], []byte("\n"))-1)
		j, records, notice := openJournal(t, path)
		if notice != "" || len(records) != complete {
			t.Fatalf("cut at %d: got %q, notice %q", cut, records, notice)
		}
		if err := j.Append(number(t, 9)); err != nil {
			t.Fatal(err)
		}
		if _, records, notice = openJournal(t, path); notice != "" || len(records) != complete+1 {
			t.Fatalf("cut at %d, then written: got %q, notice %q", cut, records, notice)
		}
	}
}

func TestDamagedRecordsAreLeftOut(t *testing.T) {
	whole := []byte(journalHeader)
	for i := range 100 {
		r := number(t, i)
		whole = r.encode(whole)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		path, raw := filepath.Join(t.TempDir(), "history"), bytes.Clone(whole)
		for range 5 {
			at := len(journalHeader) + random.IntN(len(raw)-len(journalHeader)-1)
			raw[at] ^= byte(1 + random.IntN(255))
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		_, records, notice := openJournal(t, path)
		if len(records) < 90 || len(records) > 99 {
			t.Errorf("%d of 100 records were read", len(records))
		}
		for _, r := range records {
			if !bytes.Contains(whole, []byte(" n "+r[1:]+"\n")) {
				t.Errorf("read %q, which nobody wrote", r)
			}
		}
		copies, err := filepath.Glob(path + ".damaged-*")
		if err != nil || len(copies) != 1 || !strings.Contains(notice, copies[0]) {
			t.Errorf("copies %q, %v, notice %q", copies, err, notice)
		}
		if _, again, notice := openJournal(t, path); notice != "" || !slices.Equal(again, records) {
			t.Errorf("opened again: %d records, notice %q", len(again), notice)
		}
	}
}

func TestRecordWithoutSenseIsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	j, _, _ := openJournal(t, path)
	if err := j.Append(number(t, 1)); err != nil {
		t.Fatal(err)
	}
	_, notice := OpenJournal(path, func(Record) error { return errors.New("no") })
	if !strings.HasPrefix(notice, "1 records of the history file "+path+" were damaged and are left out") {
		t.Errorf("notice %q", notice)
	}
}

func TestJournalThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	newer := filepath.Join(dir, "newer")
	content := "chatstack_exporter history 2\nsomething\n"
	if err := os.WriteFile(newer, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"": "",
		dir: "history is lost at a restart: " + dir +
			" is a directory, must be a regular file or absent",
		filepath.Join(dir, "absent", "history"): "create its directory",
		newer:                                   "newer version (2)",
	} {
		j, _, notice := openJournal(t, path)
		if !strings.Contains(notice, want) || (want == "") != (notice == "") {
			t.Errorf("%q: notice %q", path, notice)
		}
		if err := errors.Join(j.Append(number(t, 1)), j.Rewrite(slices.Values([]Record{number(t, 1)}))); err != nil || j.Size() != 0 {
			t.Errorf("%q: %v, size %d", path, err, j.Size())
		}
	}
	if raw, err := os.ReadFile(newer); err != nil || string(raw) != content {
		t.Errorf("the newer file is now %q, %v", raw, err)
	}
}

func FuzzJournal(f *testing.F) {
	r := Record{"n", []byte("1")}
	f.Add(r.encode([]byte(journalHeader)))
	f.Add([]byte("x\n\n" + journalHeader))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "history")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		read := 0
		j, _ := OpenJournal(path, func(Record) error { read++; return nil })
		if j.file == nil { // of a newer version
			return
		}
		if err := errors.Join(j.Append(r), j.Close()); err != nil {
			t.Fatal(err)
		}
		again := 0
		j, _ = OpenJournal(path, func(Record) error { again++; return nil })
		if err := j.Close(); err != nil || again != read+1 {
			t.Errorf("%v: read %d records, then %d", err, read, again)
		}
	})
}

func ExampleJournal() {
	j, _ := OpenJournal("", nil)
	fmt.Println(j.Append(Record{"state", []byte(`{}`)}), j.Size())
	// Output: <nil> 0
}

// TestDamagedHeaderLosesNoRecord has one wrong bit, which makes the header look like that of a newer version.
func TestDamagedHeaderLosesNoRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	j, _, _ := openJournal(t, path)
	if err := j.Append(number(t, 1), number(t, 2)); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(journalHeader)-2] ^= 2
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, records, notice := openJournal(t, path); !slices.Equal(records, []string{"n1", "n2"}) ||
		!strings.Contains(notice, "were damaged") {
		t.Errorf("got %q, notice %q", records, notice)
	}
	if _, records, notice := openJournal(t, path); !slices.Equal(records, []string{"n1", "n2"}) || notice != "" {
		t.Errorf("opened again: got %q, notice %q", records, notice)
	}
}
