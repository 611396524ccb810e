//go:build !linux

package app

import "time"

// monotonic is always zero: no service manager of this system asks for it.
func monotonic() time.Duration { return 0 }
