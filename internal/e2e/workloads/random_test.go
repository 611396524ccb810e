//go:build realservers

package workloads

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

var (
	changes = flag.Int("workloads.changes", 24, "number of random changes of containers; a third with -short")
	seed    = flag.Uint64("workloads.seed", 1, "seed of random changes and cuts")
)

// changing is a service whose containers change at random, with what the exporter must have counted.
type changing struct {
	*service
	// number is that of its instance, 0 if there is none.
	number                int
	restarts, recreations int
	options               []string
}

func (c *changing) name() string { return fmt.Sprintf("%s-%s-%d", c.Name, c.service.name, c.number) }

// randomChanges are what may happen to a service that the engine keeps running.
var randomChanges = map[string]func(c *changing){
	"docker restart": func(c *changing) {
		c.Docker("restart", "-t", "1", c.name())
		c.restarts++
	},
	"stop and start": func(c *changing) {
		c.Docker("stop", "-t", "1", c.name())
		c.Docker("start", c.name())
		c.restarts++
	},
	"crash": func(c *changing) {
		before := c.Says(c.name(), "{{.RestartCount}}")
		c.crash(c.name())
		if !exportertest.Eventually(patience, pollEvery, func() bool {
			now := c.Says(c.name(), "{{.RestartCount}} {{.State.Status}}")
			return now != before+" running" && now != before+" restarting" && c.Says(c.name(), realstack.ContainerIs) == "running"
		}) {
			c.t.Fatalf("the engine does not restart %s", c.name())
		}
		c.restarts++
	},
	"remove and run": func(c *changing) {
		c.Docker("rm", "-f", c.name())
		c.run(c.number, c.options...)
		c.recreations++
	},
	"compose up": func(c *changing) {
		c.recreate()
		c.recreations++
	},
	"rollout": func(c *changing) {
		old := c.name()
		c.number++
		c.run(c.number, c.options...)
		c.remove(old)
		c.recreations++
	},
}

// recreate does what Compose does: the old container leaves its name when the new one is there.
func (c *changing) recreate() {
	id := c.Says(c.name(), "{{.Id}}")
	temporary := id[:12] + "_" + c.name()
	c.Docker("rename", c.name(), temporary)
	c.Create(fmt.Sprintf("%s-%d", c.service.name, c.number), append([]string{
		"--no-healthcheck", "--label", "com.docker.compose.service=" + c.service.name,
	}, c.options...)...)
	c.remove(temporary)
	c.Docker("start", c.name())
}

// crashAlone is the crash of a container that removes itself, after which its supervisor runs the next one.
func (c *changing) crashAlone() {
	name := c.name()
	c.crash(name)
	c.gone(name)
	c.run(c.number, c.options...)
	c.restarts++
}

// unlessShort returns a third of the number with -short.
func unlessShort(n int) int {
	if testing.Short() {
		return n / 3
	}
	return n
}

func TestRealRandomChanges(t *testing.T) {
	t.Parallel()
	d := realstack.StartDocker(t, realstack.DockerOptions{Own: true})
	c := d.Containers()
	w := startWatch(t, d.Host, c)
	var all []*changing
	for i := range 3 {
		all = append(all, &changing{
			service: w.service(t, fmt.Sprintf("kept%d", i)),
			number:  1,
			options: always,
		})
	}
	alone := &changing{
		service: w.service(t, "alone"),
		number:  1,
		options: []string{"--rm"},
	}
	all = append(all, alone)
	for _, c := range all {
		c.run(c.number, c.options...)
	}
	r := rand.New(rand.NewPCG(*seed, 43)) //nolint:gosec // a failure must repeat
	names := sortedKeys(randomChanges)
	for i := range unlessShort(*changes) {
		c, what := all[r.IntN(len(all))], names[r.IntN(len(names))]
		if c == alone {
			what = "crash of a container with --rm"
			c.crashAlone()
		} else {
			randomChanges[what](c)
		}
		t.Logf("%d: %s: %s", i+1, c.service.name, what)
		// Each change by itself, so that the first one that counts wrongly is the last in the log.
		c.is(what, "restarts_total", c.restarts, "recreations_total", c.recreations)
	}
	for _, c := range all {
		c.is("at the end", "restarts_total", c.restarts, "recreations_total", c.recreations, "instances", 1, "wanted", 1)
	}
}
