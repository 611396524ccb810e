//go:build !linux

package collectors

import "errors"

// measureVolume is not written for this system.
func measureVolume(string) (diskUsage, error) {
	return diskUsage{}, errors.New("volumes are supported on Linux only")
}
