package fleet

import (
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
	const ext4, tmpfs = " rw,relatime - ext4 /dev/sda1 rw\n", " rw - tmpfs tmpfs rw\n"
	docker := "670 650 8:1 /var/lib/docker/containers/" + id
	for name, mountinfo := range map[string]string{
		"Docker":                             docker + "/resolv.conf /etc/resolv.conf" + ext4,
		"Docker with a disk of its own":      "670 650 8:1 /containers/" + id + "/hostname /etc/hostname" + ext4,
		"rootless Docker":                    "1 2 0:5 /home/u/.local/share/docker/containers/" + id + "/hosts /etc/hosts" + ext4,
		"Podman":                             "1 2 0:25 /overlay-containers/" + id + "/userdata/hosts /etc/hosts" + tmpfs,
		"after other mounts":                 "1 2 0:1 / /" + tmpfs + "2 1 0:2 / /proc" + tmpfs + docker + "/hosts /etc/hosts" + ext4,
		"no host":                            "28 1 8:1 / /" + ext4,
		"no host that shows files elsewhere": docker + "/hosts /mnt/hosts" + ext4,
		"no Kubernetes":                      "670 650 8:1 /var/lib/kubelet/pods/3c8f1c1e-0000-0000/etc-hosts /etc/hosts" + ext4,
		"no such file":                       "",
	} {
		want := id
		if strings.HasPrefix(name, "no ") {
			want = ""
		}
		if got := NetworkOwner(mountinfo); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// connected is a compose service's running container on networks, with the same aliases on each.
func connected(name, service string, aliases []string, networks ...string) *container.InspectResponse {
	c := plainContainer(name, map[string]string{ComposeService: service})
	c.NetworkSettings = &container.NetworkSettings{Networks: map[string]*network.EndpointSettings{}}
	for _, n := range networks {
		c.NetworkSettings.Networks[n] = &network.EndpointSettings{Aliases: aliases}
	}
	return &c
}

func TestHostNamesAreThoseOnNetworksOfTheExporter(t *testing.T) {
	without := plainContainer("plain", nil)
	r := &Rules{
		MaxContainers: 10,
		Networks:      NetworksOf(connected("exporter", "", nil, "bridge", "host", "none", "podman", "stack", "other")),
	}
	for _, tt := range []struct {
		name string
		of   *container.InspectResponse
		want string
	}{
		{
			"shared network",
			connected("chat-irc-1", "irc", []string{"chat-irc-1", "irc", "irc.example.org"}, "stack"),
			"chat-irc-1 irc irc.example.org",
		},
		{"two shared networks", connected("a", "", []string{"b"}, "other", "stack"), "a b"},
		{"another network", connected("chat-db-1", "db", []string{"db"}, "back"), ""},
		{"networks without names", connected("lone", "lone", []string{"lone"}, "bridge", "host", "none", "podman"), ""},
		{"unknown networks", &without, ""},
		{"alias with a space", connected("a", "", []string{"x y", ""}, "stack"), "a"},
	} {
		if s := statusOf(tt.of, r); s.hostNames != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, s.hostNames, tt.want)
		}
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("alias-%04d", i)
	}
	s := statusOf(connected("many", "", many, "stack"), r)
	if n := len(strings.Fields(s.hostNames)); len(s.hostNames) > maxHostNames || n < 100 {
		t.Errorf("%d host names of %d bytes are kept of 1,000; want a bounded part", n, len(s.hostNames))
	}
}

func TestMissingContainerKeepsItsHostNames(t *testing.T) {
	f := play(t, "set expected=irc")
	f.fleet.rules.Networks = []string{"stack"}
	f.fleet.Describe(statusOf(connected("irc", "", []string{"chat"}, "stack"), f.fleet.rules), 0, time.Time{}, f.now)
	for _, script := range []string{"| irc running", "reboot; pass 1h; read | irc missing"} {
		f.play(script)
		if got := f.fleet.Report(f.now)[0].HostNames; !slices.Equal(got, []string{"irc", "chat"}) {
			t.Errorf("%s: got %q", script, got)
		}
	}
}
