package app

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is the clock that service managers time with. Zero where the kernel refuses to tell.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
