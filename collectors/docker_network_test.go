package collectors

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
)

// ownID is the id of the exporter's container in tests, as ownMounts tells it.
var ownID = strings.Repeat("0123456789abcdef", 4)

// ownMounts is a mountinfo file of a process in the container ownID.
func ownMounts(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mountinfo")
	if err := os.WriteFile(path, []byte("1 2 8:1 /var/lib/docker/containers/"+ownID+"/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// onNetworks puts a container on networks on which it has a name of its own.
func onNetworks(c container.InspectResponse, networks ...string) container.InspectResponse {
	c.NetworkSettings = &container.NetworkSettings{Networks: map[string]*network.EndpointSettings{}}
	for _, n := range networks {
		c.NetworkSettings.Networks[n] = &network.EndpointSettings{Aliases: []string{strings.TrimPrefix(c.Name, "/") + "-on-" + n}}
	}
	return c
}

// reading is a collector in a container with this mountinfo.
func reading(t *testing.T, host, mountInfo string, change func(*Docker)) *watch {
	t.Helper()
	w := watchEngine(t, host, nil, change)
	w.mountInfo = mountInfo
	w.docker = w.collector(w.docker.settings, nil, false)
	return w
}

// exclude leaves out the exporter's own container.
func exclude(s *Docker) { s.Exclude = []string{"exporter"} }

// hostNamesOf reads once, and returns the host names of each container.
func (w *watch) hostNamesOf() map[string][]string {
	w.t.Helper()
	w.read()
	b, names := &Batch{}, map[string][]string{}
	w.docker.Present(b)
	for _, c := range b.Engine.Containers {
		names[c.Name] = c.HostNames
	}
	return names
}

func TestContainersAreReachedByNameOnTheExportersNetworks(t *testing.T) {
	own := onNetworks(plainContainer("exporter", nil), "stack", "monitoring")
	own.ID = ownID
	irc, db := onNetworks(plainContainer("irc", nil), "stack", "back"), onNetworks(plainContainer("db", nil), "back")
	for name, tt := range map[string]struct {
		engine    *engine
		mountInfo string
		want      []string
	}{
		"in a container that is not watched": {startEngine(t, own, irc, db), ownMounts(t), []string{"irc", "irc-on-stack"}},
		"in a container of another engine":   {startEngine(t, irc, db), ownMounts(t), nil},
		"in no container":                    {startEngine(t, irc, db), "", nil},
	} {
		w := reading(t, tt.engine.host, tt.mountInfo, exclude)
		for range 3 {
			if got := w.hostNamesOf(); !slices.Equal(got["irc"], tt.want) || len(got["db"]) > 0 {
				t.Errorf("%s: got the host names %q, want %q of irc", name, got, tt.want)
			}
		}
		asked := slices.DeleteFunc(tt.engine.asked(), func(call string) bool { return !strings.Contains(call, ownID) })
		if inContainer := tt.mountInfo != ""; len(asked) > 1 || inContainer != (len(asked) == 1) {
			t.Errorf("%s: the exporter's own container was asked for: %q", name, asked)
		}
	}
}

func TestHostNamesOfContainersAreCanonical(t *testing.T) {
	if got := canonical([]string{"IRC.Example.org.", "irc"}); !slices.Equal(got, []string{"irc.example.org", "irc"}) {
		t.Errorf("got %q", got)
	}
}

func TestOwnContainerThatCannotBeInspectedFailsNoReading(t *testing.T) {
	own := onNetworks(plainContainer("exporter", nil), "stack")
	own.ID = ownID
	e := startEngine(t, own, onNetworks(plainContainer("irc", nil), "stack"))
	e.on(ownID, engineForbids)
	w := reading(t, e.host, ownMounts(t), exclude)
	w.read()
	e.on("nothing", nil)
	if got := w.hostNamesOf(); !slices.Contains(got["irc"], "irc") {
		t.Errorf("got the host names %q once the engine answers, want irc among them", got)
	}
}
