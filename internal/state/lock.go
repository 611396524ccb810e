package state

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock locks the state file for this process, through a file beside it that is never replaced. The lock ends with the process,
// even after a crash.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path+lockSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock state file: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = errors.Join(err, f.Close())
		return nil, fmt.Errorf("lock state file %s: another exporter uses it: %w; give each exporter a state_file of its own", path, err)
	}
	return f, nil
}
