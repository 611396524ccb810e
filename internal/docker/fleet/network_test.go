package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
)

func TestNetworkOwnerIsTheContainerWhoseNetworkIsUsed(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for _, tt := range []struct{ name, mountinfo, want string }{
		{"Docker", "670 650 8:1 /var/lib/docker/containers/" + id + "/resolv.conf /etc/resolv.conf rw,relatime - ext4 /dev/sda1 rw\n", id},
		{"Docker with a disk of its own", "670 650 8:1 /containers/" + id + "/hostname /etc/hostname rw - ext4 /dev/sdb1 rw\n", id},
		{"rootless Docker", "1 2 0:5 /home/u/.local/share/docker/containers/" + id + "/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n", id},
		{"Podman", "1 2 0:25 /containers/storage/overlay-containers/" + id + "/userdata/hosts /etc/hosts rw - tmpfs tmpfs rw\n", id},
		{"after other mounts", "1 2 0:1 / / rw - overlay overlay rw\n2 1 0:2 / /proc rw - proc proc rw\n" +
			"670 650 8:1 /var/lib/docker/containers/" + id + "/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n", id},
		{"host", "28 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n", ""},
		{
			"host that shows a container's files elsewhere",
			"28 1 8:1 /var/lib/docker/containers/" + id + "/hosts /mnt/hosts rw - ext4 /dev/sda1 rw\n",
			"",
		},
		{
			"Kubernetes",
			"670 650 8:1 /var/lib/kubelet/pods/3c8f1c1e-0000-0000-0000-000000000000/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw\n",
			"",
		},
		{"no such file", "", ""},
	} {
		if got := NetworkOwner(tt.mountinfo); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// connected is a compose service's running container on networks, with the same aliases on each.
func connected(name, service string, aliases []string, networks ...string) *container.InspectResponse {
	c := &container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{
			ID:    "id-" + name,
			Name:  "/" + name,
			State: &container.State{Status: "running", Running: true, StartedAt: "2026-01-02T03:04:05Z"},
		},
		Config:          &container.Config{Labels: map[string]string{ComposeService: service}},
		NetworkSettings: &container.NetworkSettings{Networks: map[string]*network.EndpointSettings{}},
	}
	for _, n := range networks {
		c.NetworkSettings.Networks[n] = &network.EndpointSettings{Aliases: aliases}
	}
	return c
}

func TestHostNamesAreThoseOnNetworksOfTheExporter(t *testing.T) {
	long := make([]string, 1000)
	for i := range long {
		long[i] = fmt.Sprintf("alias-%04d", i)
	}
	without := connected("plain", "", nil)
	without.NetworkSettings = nil
	r := &Rules{
		MaxContainers: 10,
		Networks:      NetworksOf(connected("exporter", "", nil, "bridge", "host", "none", "podman", "stack", "other")),
	}
	for _, tt := range []struct {
		name string
		of   *container.InspectResponse
		want []string
	}{
		{
			"shared network",
			connected("chat-irc-1", "irc", []string{"chat-irc-1", "irc", "irc.example.org"}, "stack"),
			[]string{"chat-irc-1", "irc", "irc.example.org"},
		},
		{"two shared networks", connected("a", "", []string{"b"}, "other", "stack"), []string{"a", "b"}},
		{"another network", connected("chat-db-1", "db", []string{"db"}, "back"), nil},
		{"networks without names", connected("lone", "lone", []string{"lone"}, "bridge", "host", "none", "podman"), nil},
		{"unknown networks", without, nil},
		{"alias with a space", connected("a", "", []string{"x y", ""}, "stack"), []string{"a"}},
	} {
		f := New(r)
		s, err := StatusOf(tt.of, r)
		if err != nil {
			t.Fatal(err)
		}
		f.Describe(s, 0, time.Time{}, time.Now())
		if got := f.Report(time.Now())[0].HostNames; !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	s, err := StatusOf(connected("many", "", long, "stack"), r)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(s.hostNames)); len(s.hostNames) > maxHostNames || n < 100 {
		t.Errorf("%d host names of %d bytes are kept of 1,000; want a bounded part", n, len(s.hostNames))
	}
}

func TestMissingContainerKeepsItsHostNames(t *testing.T) {
	now := time.Now()
	r := &Rules{MaxContainers: 10, Networks: []string{"stack"}, Expected: []string{"irc"}}
	f := New(r)
	s, err := StatusOf(connected("irc", "", []string{"chat"}, "stack"), r)
	if err != nil {
		t.Fatal(err)
	}
	f.Describe(s, 0, time.Time{}, now)
	kept, err := json.Marshal(f.Memory())
	if err != nil {
		t.Fatal(err)
	}
	var m Memory
	if err := json.Unmarshal(kept, &m); err != nil {
		t.Fatal(err)
	}
	f.MarkGone("id-irc", now)
	restarted := New(r)
	restarted.Restore(m, now)
	for name, f := range map[string]*Fleet{"vanished": f, "vanished while the exporter was restarted": restarted} {
		report := f.Report(now.Add(time.Hour))
		if report[0].Status == nil || report[0].Status.State != stateMissing ||
			!slices.Equal(report[0].HostNames, []string{"irc", "chat"}) {
			t.Errorf("%s: got %+v, want a missing container with the host names irc and chat", name, report[0])
		}
	}
}
