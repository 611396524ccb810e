//go:build unix

package state

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A read of a pipe that nobody writes to never ends.
func TestPipeIsRefusedUnread(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	// Whoever reads it meets an end at once, so that a mistake fails the test and does not hang it.
	written := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(written)
		for {
			w, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for a reader
			if err == nil {
				w.Close() //nolint:errcheck // nothing was written
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	refused(t, path, path, "a named pipe")
	close(stop)
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	<-written
	r.Close() //nolint:errcheck // it only let the writer go
}
