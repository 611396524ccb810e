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
	f := newFile(nil, nil)
	f.parts = []Part{newNumbers()}
	known := map[string]string{}
	raw = []byte(header)
	for range lines {
		name := []string{"a", "b/c d", "n/x", "n/ü%2F", "problems"}[random.IntN(5)]
		value := strings.Repeat(fmt.Sprintf("%d,", random.IntN(3)), random.IntN(900))
		if old := known[name]; random.IntN(3) > 0 && len(old) > 4 { // a small change
			at := 1 + random.IntN(len(old)-2)
			value = old[1:at] + fmt.Sprint(random.IntN(1000)) + old[min(at+random.IntN(3), len(old)-1):len(old)-1]
		}
		data, _ := json.Marshal(value)
		if lines := f.encode(nil, record{name, replaces, data}); len(lines) > 0 {
			raw = append(raw, lines...)
			known[name] = string(data)
			after = append(after, maps.Clone(known))
		}
	}
	return raw, after
}

func readAll(t *testing.T, raw []byte) (map[string]string, content) {
	t.Helper()
	c, err := decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range c.records {
		got[r.name] = string(r.data)
	}
	return got, c
}

// TestJournalCutAnywhereHasWhatWasWrittenBefore cuts random journals at every byte, as SIGKILL or a power cut does.
func TestJournalCutAnywhereHasWhatWasWrittenBefore(t *testing.T) {
	for seed := range uint64(3) {
		raw, after := script(rand.New(rand.NewPCG(seed, 0)), 25)
		if !bytes.Contains(raw, []byte(" ~ ")) {
			t.Fatal("no value was patched: the test shows nothing")
		}
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
		spared := map[string]bool{}
		for name := range after[len(after)-1] {
			spared[name] = true
		}
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

func TestSmallValuesAreReadable(t *testing.T) {
	f := newFile(nil, nil)
	for i := range 3 {
		line := f.encode(nil, record{"plant_store/store 1", replaces, []byte(fmt.Sprintf(`[{"id":%d}]`, i))})
		if want := fmt.Sprintf(` plant_store/store%%201 = [{"id":%d}]`+"\n", i); !strings.HasSuffix(string(line), want) {
			t.Errorf("the line is %q, want %q at its end", line, want)
		}
	}
}

func TestPatchMakesTheNewText(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	piece := func() string { return fmt.Sprintf(`{"since":"2026-11-27T14:15:%02dZ"},`, random.IntN(60)) }
	for range 500 {
		var old, text string
		for range random.IntN(60) {
			switch p := piece(); random.IntN(8) {
			case 0:
				old += p
			case 1:
				text += p
			case 2:
				old, text = old+p, text+piece()
			default:
				old, text = old+p, text+p
			}
		}
		patch := makePatch([]byte(old), []byte(text))
		if got, ok := applyPatch([]byte(old), patch); !ok || string(got) != text {
			t.Fatalf("%q to %q by %q: got %q", old, text, patch, got)
		}
	}
}

// TestPatchOfALargeValueIsSmall holds for the JSON of problems what the limit of bytes per day needs.
func TestPatchOfALargeValueIsSmall(t *testing.T) {
	type problem struct{ Kind, Name, Alert, Since string }
	problems := func(without, moved int) []byte {
		var list []problem
		for i := range 100 {
			if i != without {
				since := fmt.Sprintf("2026-11-27T14:%02d:00Z", (i+moved)%60)
				list = append(list, problem{
					"target",
					fmt.Sprint("web", i),
					"TargetDown",
					since,
				})
			}
		}
		raw, _ := json.Marshal(list)
		return raw
	}
	whole := problems(-1, 0)
	if n := len(makePatch(whole, problems(50, 0))); n > 20 {
		t.Errorf("one problem less takes %d bytes", n)
	}
	if n := len(makePatch(problems(50, 0), whole)); n > 110 {
		t.Errorf("one problem more takes %d bytes", n)
	}
	if n := len(makePatch(whole, problems(-1, 1))); n > 100*20 {
		t.Errorf("a hundred new times take %d bytes of %d", n, len(whole))
	}
}

func FuzzPatch(f *testing.F) {
	f.Add([]byte("abc"), []byte("abd"), []byte("1,1,2:xy"))
	f.Fuzz(func(t *testing.T, old, text, other []byte) {
		if got, ok := applyPatch(old, makePatch(old, text)); !ok || !bytes.Equal(got, text) {
			t.Errorf("%q to %q: got %q", old, text, got)
		}
		applyPatch(old, other) // must not panic, nor take much memory
	})
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
