package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestWorkflowsNameActionsByDigest holds that nobody can move a tag and have other code run with what a workflow may do.
func TestWorkflowsNameActionsByDigest(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.y*ml")
	if err != nil || len(files) == 0 {
		t.Fatalf("workflows %q, %v", files, err)
	}
	uses := regexp.MustCompile(`(?m)^\s*(?:- )?uses:.*$`)
	pinned := regexp.MustCompile(`uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		actions := uses.FindAllString(string(content), -1)
		if len(actions) == 0 {
			t.Errorf("%s uses no actions: the test shows nothing", file)
		}
		for _, action := range actions {
			if !pinned.MatchString(action) {
				t.Errorf("%s: %q is not a commit's digest with its version as a comment", file, action)
			}
		}
	}
}
