package collectors

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
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

func TestContainersAreReachedByNameOnTheExportersNetworks(t *testing.T) {
	own := onNetworks(plainContainer("exporter", nil), "stack", "monitoring")
	own.ID = ownID
	irc, db := onNetworks(plainContainer("irc", nil), "stack", "back"), onNetworks(plainContainer("db", nil), "back")
	for _, tt := range []struct {
		name      string
		engine    []container.InspectResponse
		mountInfo string
		asked     int
		want      []string
	}{
		{
			"in a container that is not watched",
			[]container.InspectResponse{own, irc, db},
			ownMounts(t),
			1,
			[]string{"irc", "irc-on-stack"},
		},
		{
			"in a container of another engine",
			[]container.InspectResponse{irc, db},
			ownMounts(t),
			1,
			nil,
		},
		{
			"in no container",
			[]container.InspectResponse{irc, db},
			"",
			0,
			nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := startEngine(t, tt.engine...)
			s := dockerSettings(e.host)
			s.Resources, s.Exclude, s.Timeout = resourcesNone, []string{"exporter"}, config.Duration(time.Minute)
			d := deps(&memory{})
			d.MountInfo = tt.mountInfo
			c, err := newDocker(s, d)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := c.Collect(t.Context(), &Batch{}); err != nil {
					t.Fatal(err)
				}
			}
			asked := slices.DeleteFunc(e.asked(), func(call string) bool { return !strings.Contains(call, ownID) })
			if len(asked) != tt.asked {
				t.Errorf("the exporter's own container was asked for %d times, want %d: %q", len(asked), tt.asked, asked)
			}
			b := &Batch{}
			c.(Presenter).Present(b)
			for _, found := range b.Engine.Containers {
				var want []string
				if found.Name == "irc" {
					want = tt.want
				}
				if !slices.Equal(found.HostNames, want) {
					t.Errorf("%s: got the host names %q, want %q", found.Name, found.HostNames, want)
				}
			}
		})
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
	e.on(ownID, engineSays(http.StatusForbidden, "no"))
	s := dockerSettings(e.host)
	s.Resources, s.Exclude, s.Timeout = resourcesNone, []string{"exporter"}, config.Duration(time.Minute)
	d := deps(&memory{})
	d.MountInfo = ownMounts(t)
	c, err := newDocker(s, d)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Collect(t.Context(), &Batch{}); err != nil {
		t.Fatal(err)
	}
	e.on("nothing", nil)
	if err := c.Collect(t.Context(), &Batch{}); err != nil {
		t.Fatal(err)
	}
	b := &Batch{}
	c.(Presenter).Present(b)
	if got := b.Engine.Containers[0].HostNames; !slices.Contains(got, "irc") {
		t.Errorf("got the host names %q once the engine answers, want irc among them", got)
	}
}
