package config_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test . -update
var update = flag.Bool("update", false, "write the golden file anew instead of comparing with it")

// TestFaultsSayWhatIsWrongAndWhatToDo reads each file of testdata/faults.txt and compares what is said about it. The secret
// hunter2 is never repeated.
func TestFaultsSayWhatIsWrongAndWhatToDo(t *testing.T) {
	const golden = "testdata/faults.txt"
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	head, cases, _ := strings.Cut(string(want), "\n== ")
	got := strings.Builder{}
	got.WriteString(head)
	for block := range strings.SplitSeq(cases, "\n== ") {
		name, content, _ := strings.Cut(block, "\n")
		content, _, _ = strings.Cut(content, "\n> ")
		content = strings.TrimRight(content, "\n") + "\n"
		got.WriteString("\n== " + name + "\n" + content)
		_, err := load(t, content, nil)
		if err == nil {
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the secret is repeated: %v", name, err)
		}
		for fault := range strings.SplitSeq(err.Error(), "\n") {
			got.WriteString("> " + fault + "\n")
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("%s (-want +got); if it is meant, run make generate:\n%s", golden, diff)
	}
}
