package usage

import "testing"

func TestWorkingSetIsUsageWithoutInactiveFiles(t *testing.T) {
	for cache, want := range map[InactiveFile]uint64{ // of a usage of 100
		{}:                     100,
		{Total: 30, Own: 10}:   70, // cgroup v1 counts the groups below
		{Own: 10}:              90, // cgroup v2 has no total
		{Total: 101, Own: 10}:  90,
		{Total: 100, Own: 100}: 100,
		{Own: 101}:             100, // usage was read before the cache grew
	} {
		if got := WorkingSet(100, cache); got != want {
			t.Errorf("%+v: got %d, want %d", cache, got, want)
		}
	}
}
