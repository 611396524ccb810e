//go:build !realservers

package bench

import "testing"

// installed are servers of others. Without the build tag realservers, which CI has, there are none.
func installed(*testing.B, *rival, int) []*rival { return nil }
