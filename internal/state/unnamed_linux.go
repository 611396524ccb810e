package state

import (
	"os"

	"golang.org/x/sys/unix"
)

// openUnnamed makes a file on a directory's disk that is gone once it is closed.
func openUnnamed(dir string) (*os.File, error) {
	return os.OpenFile(dir, unix.O_TMPFILE|os.O_WRONLY, 0o600)
}
