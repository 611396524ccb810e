package usage

import "testing"

func TestWorkingSetIsUsageWithoutInactiveFiles(t *testing.T) {
	for _, tt := range []struct {
		name  string
		usage uint64
		cache InactiveFile
		want  uint64
	}{
		{
			"nothing cached",
			100,
			InactiveFile{},
			100,
		},
		{
			"cgroup v1 counts the groups below",
			100,
			InactiveFile{Total: 30, Own: 10},
			70,
		},
		{
			"cgroup v2 has no total",
			100,
			InactiveFile{Own: 10},
			90,
		},
		{
			"the total is more than the usage",
			100,
			InactiveFile{Total: 101, Own: 10},
			90,
		},
		{
			"all is cache",
			100,
			InactiveFile{Total: 100, Own: 100},
			100,
		},
		{
			"usage was read before the cache grew",
			100,
			InactiveFile{Own: 101},
			100,
		},
	} {
		if got := WorkingSet(tt.usage, tt.cache); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}
