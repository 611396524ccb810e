package state

import (
	"os"

	"golang.org/x/sys/unix"
)

// openUnnamed creates a nameless file in a directory. The kernel deletes it on Close.
func openUnnamed(dir string) (*os.File, error) {
	return os.OpenFile(dir, unix.O_TMPFILE|os.O_WRONLY, 0o600)
}
