//go:build cross

package main

import (
	"os"
	"os/exec"
	"testing"
)

// TestBuildsForOtherSystems has a tag, since it compiles everything once more for each system. Releases are for Linux.
func TestBuildsForOtherSystems(t *testing.T) {
	for _, system := range []string{"darwin", "freebsd", "openbsd"} {
		t.Run(system, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "go", "build", "./...")
			cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system)
			if output, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}
