package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
)

// script is a journal of random records, and what was known after each of its lines.
func script(random *rand.Rand, lines int) (raw []byte, after []map[string]string) {
	known := map[string]string{}
	raw = []byte(header)
	for range lines {
		r := record{name: []string{"a", "b/c d", "n/x", "n/ü%2F", "problems"}[random.IntN(5)], op: replaces}
		if random.IntN(4) == 0 {
			r.op = removes
			delete(known, r.name)
		} else {
			r.data, _ = json.Marshal(strings.Repeat(fmt.Sprintf("%d,", random.IntN(3)), random.IntN(90)))
			known[r.name] = string(r.data)
		}
		raw = r.appendTo(raw)
		after = append(after, maps.Clone(known))
	}
	return raw, after
}

func readAll(t *testing.T, raw []byte) (map[string]string, content) {
	t.Helper()
	c, err := decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	f := newFile(nil, &none{})
	f.restore(&c)
	got := map[string]string{}
	for name, data := range f.values {
		got[name] = string(data)
	}
	return got, c
}

// TestJournalCutAnywhereHasWhatWasWrittenBefore cuts random journals at every byte, as SIGKILL or a power cut does.
func TestJournalCutAnywhereHasWhatWasWrittenBefore(t *testing.T) {
	for seed := range uint64(3) {
		raw, after := script(rand.New(rand.NewPCG(seed, 0)), 25)
		for cut := range len(raw) + 1 {
			got, c := readAll(t, raw[:cut])
			want := map[string]string{}
			if n := bytes.Count(raw[:cut], []byte("\n")) - 1; n > 0 {
				want = after[n-1]
			}
			if c.damaged > 0 || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("seed %d, cut at %d: %d damaged, got %q, want %q", seed, cut, c.damaged, got, want)
			}
		}
	}
}

// TestDamagedLinesLoseNothingElse damages bytes of random journals. Each name then has a value that it had once, and the newest one if no
// line of the name is damaged.
func TestDamagedLinesLoseNothingElse(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		raw, after := script(random, 60)
		once := map[string]bool{}
		for _, known := range after {
			for name, value := range known {
				once[name+value] = true
			}
		}
		hurt := bytes.Clone(raw)
		spared := map[string]bool{"a": true, "b/c d": true, "n/x": true, "n/ü%2F": true, "problems": true}
		for range 1 + random.IntN(3) {
			at := len(header) + random.IntN(len(raw)-len(header))
			hurt[at] ^= byte(1 + random.IntN(255))
			for _, line := range []int{at, at + 1} { // without its end, a line takes the next one along
				start := bytes.LastIndexByte(raw[:min(line, len(raw)-1)], '\n') + 1
				end := start + bytes.IndexByte(raw[start:], '\n')
				if r, ok := parseRecord(raw[start:end]); ok {
					delete(spared, r.name)
				}
			}
		}
		got, c := readAll(t, hurt)
		if c.damaged == 0 && hurt[len(hurt)-1] == '\n' {
			t.Fatal("nothing is damaged")
		}
		for name, value := range got {
			if !once[name+value] {
				t.Fatalf("%q is %q, which it never was", name, value)
			}
		}
		for name := range spared {
			if want := after[len(after)-1][name]; got[name] != want {
				t.Fatalf("%q is %q, want %q, since none of its lines is damaged", name, got[name], want)
			}
		}
	}
}

func TestFileOfANewerVersionIsNotRead(t *testing.T) {
	r := record{"a", replaces, []byte("1")}
	for raw, newer := range map[string]bool{
		headerStart + "3\n":                                 true,
		headerStart + "3\nwhatever 3 has\n":                 true,
		headerStart + "3\n" + string(r.appendTo(nil)):       false, // a wrong bit in the header
		headerStart + "1\n":                                 false,
		headerStart + "x\n":                                 false,
		"chatstack_exporter":                                false,
		`{"version": 3, "values": {}}`:                      true,
		`{"version": 1, "values": {}, "something": "else"}`: false,
	} {
		if _, _, err := interpret([]byte(raw), nil); (err != nil) != newer {
			t.Errorf("%q: %v, newer: %t", raw, err, newer)
		}
	}
}

func TestRecordsAreReadable(t *testing.T) {
	r := record{"plant_store/store 1", replaces, []byte(`[{"id":7}]`)}
	if line, want := string(r.appendTo(nil)), ` plant_store/store%201 = [{"id":7}]`+"\n"; !strings.HasSuffix(line, want) {
		t.Errorf("the line is %q, want %q at its end", line, want)
	}
}

func FuzzDecode(f *testing.F) {
	raw, _ := script(rand.New(rand.NewPCG(1, 1)), 10)
	f.Add(raw)
	f.Add([]byte(`{"version":1,"values":{"a":[1, 2]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, _, err := interpret(raw, raw)
		if err != nil {
			return
		}
		again := []byte(header)
		for _, r := range c.records {
			again = r.appendTo(again)
		}
		_, same := readAll(t, again)
		if same.damaged > 0 || len(same.records) > len(c.records) {
			t.Errorf("%d records, read again %d with %d damaged", len(c.records), len(same.records), same.damaged)
		}
	})
}
