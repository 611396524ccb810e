package state

import (
	"strings"
	"testing"
)

// A file system that nobody may write is refused to every user, root included.
func TestInspectionSeesADirectoryThatCannotBeWritten(t *testing.T) {
	_, err := Inspect("/proc/self/state.json")
	if err == nil || !strings.Contains(err.Error(), "write directory /proc/self: ") {
		t.Errorf("got %v, want what cannot be written", err)
	}
}
