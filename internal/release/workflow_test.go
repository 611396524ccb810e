package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWorkflowsNameActionsByDigest holds that nobody can move a tag of an action or of an image and have other code run with
// what a workflow may do.
func TestWorkflowsNameActionsByDigest(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.y*ml")
	if err != nil || len(files) == 0 {
		t.Fatalf("workflows %q, %v", files, err)
	}
	uses := regexp.MustCompile(`(?m)^\s*(?:- )?uses:.*$`)
	images := regexp.MustCompile(`(?m)^\s*image:.*$`)
	image := regexp.MustCompile(`image: [\w./:-]+@sha256:[0-9a-f]{64}$`)
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
		for _, line := range images.FindAllString(string(content), -1) {
			// A job by the name of image has nothing behind it.
			if strings.TrimSpace(line) != "image:" && !image.MatchString(line) {
				t.Errorf("%s: %q has no digest", file, line)
			}
		}
	}
}
