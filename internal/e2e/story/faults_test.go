package story

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// fault is something that happens to a subject, and what ends it, such as "stops" and "starts". What happens once has no end.
type fault[S any] struct {
	begins, ends string
	begin, end   func(w *world, subject S)
}

// box is a container of a site, or its service.
type box struct {
	*site
	name string
}

func (b box) container() *simstack.Container { return b.engine.Container(b.name) }

// do does something to the container, and has its service follow: it answers while the container runs.
func (b box) do(answers bool, act func(*simstack.Container)) {
	if c := b.container(); c != nil {
		act(c)
	}
	b.services[b.name].ended.Store(!answers)
	b.followBridge()
}

// firstCheck is how long after its start a container passes its first health check.
const firstCheck = 15 * time.Second

// checked has the container pass its first health check.
func (b box) checked() {
	time.AfterFunc(firstCheck, func() {
		if c := b.container(); c != nil && !b.sick[b.name] {
			c.SetHealth("healthy")
		}
	})
}

func (b box) run() {
	if b.container() == nil {
		all := slices.Concat(containers, wideContainers, bridgeContainers)
		b.engine.Run(all[slices.IndexFunc(all, func(s simstack.ContainerSpec) bool { return s.Name == b.name })])
	}
	b.do(true, (*simstack.Container).Start)
	b.checked()
}

// containerFaults happen to containers.
var containerFaults = []fault[box]{
	{
		"stops",
		"starts",
		func(_ *world, b box) { b.do(false, (*simstack.Container).Stop) },
		func(_ *world, b box) { b.run() },
	},
	{
		"dies",
		"comes back",
		func(_ *world, b box) { b.do(false, func(c *simstack.Container) { c.Die(1) }) },
		func(_ *world, b box) {
			b.do(true, (*simstack.Container).Revive)
			b.checked()
		},
	},
	{
		"crashes",
		"",
		func(_ *world, b box) {
			b.do(true, func(c *simstack.Container) { c.Crash(1) })
			b.checked()
		},
		nil,
	},
	{
		"loses a process",
		"",
		func(_ *world, b box) {
			if c := b.container(); c != nil {
				c.OOMChild()
			}
		},
		nil,
	},
	{
		"is killed for memory",
		"",
		func(_ *world, b box) {
			b.do(true, func(c *simstack.Container) { c.OOM(); c.Revive() })
			b.checked()
		},
		nil,
	},
	{
		"restarts",
		"",
		func(_ *world, b box) {
			b.do(true, (*simstack.Container).Restart)
			b.checked()
		},
		nil,
	},
	{
		"is deployed",
		"",
		func(_ *world, b box) {
			b.do(true, func(c *simstack.Container) { c.Recreate(nil) })
			b.checked()
		},
		nil,
	},
	{
		"is removed",
		"is created",
		func(_ *world, b box) { b.do(false, (*simstack.Container).Remove) },
		func(_ *world, b box) { b.run() },
	},
	{
		"turns unhealthy",
		"turns healthy",
		func(_ *world, b box) {
			b.sick[b.name] = true
			b.do(!b.services[b.name].ended.Load(), func(c *simstack.Container) { c.SetHealth("unhealthy") })
		},
		func(_ *world, b box) {
			b.sick[b.name] = false
			b.do(!b.services[b.name].ended.Load(), func(c *simstack.Container) { c.SetHealth("healthy") })
		},
	},
	{
		"fails",
		"answers",
		func(_ *world, b box) { b.services[b.name].broken.Store(true) },
		func(_ *world, b box) { b.services[b.name].broken.Store(false) },
	},
	{
		"refuses",
		"accepts",
		func(_ *world, b box) { b.services[b.name].refuses.Store(true) },
		func(_ *world, b box) { b.services[b.name].refuses.Store(false) },
	},
	{
		"is flaky",
		"is steady",
		func(_ *world, b box) {
			now := time.Now()
			b.services[b.name].flaky.Store(&now)
		},
		func(_ *world, b box) { b.services[b.name].flaky.Store(nil) },
	},
	{
		"is slow",
		"is quick",
		func(_ *world, b box) { b.services[b.name].takes.Store(int64(slowest)) },
		func(_ *world, b box) { b.services[b.name].takes.Store(0) },
	},
	{
		"is maintained",
		"is released",
		func(w *world, b box) { w.maintain(b, config.MaintenanceContainer) },
		func(w *world, b box) { w.release(b, config.MaintenanceContainer) },
	},
	{
		"as a target is maintained",
		"as a target is released",
		func(w *world, b box) { w.maintain(b, config.MaintenanceTarget) },
		func(w *world, b box) { w.release(b, config.MaintenanceTarget) },
	},
}

// engineFaults happen to the engine of a site.
var engineFaults = []fault[*site]{
	{
		"hangs",
		"answers",
		func(w *world, s *site) { must(w.T, s.engine.Switch("status_500", true)) },
		func(w *world, s *site) { must(w.T, s.engine.Switch("status_500", false)) },
	},
	{
		"tells no events",
		"tells events",
		func(w *world, s *site) { must(w.T, s.engine.Switch("events_deaf", true)) },
		func(w *world, s *site) { must(w.T, s.engine.Switch("events_deaf", false)) },
	},
	{
		"stops",
		"starts",
		func(w *world, s *site) {
			must(w.T, s.engine.Switch("events_deaf", true)) // else the ends of some containers are told, depending on who is first
			s.engine.Stop()
			for _, one := range s.services {
				one.ended.Store(true)
			}
			s.followBridge()
		},
		func(w *world, s *site) {
			must(w.T, s.engine.Start())
			must(w.T, s.engine.Switch("events_deaf", false))
			for name := range s.services {
				if b := (box{s, name}); b.container() != nil {
					b.run()
				}
			}
		},
	},
}

// stackFaults happen to all containers of a site.
var stackFaults = []fault[*site]{
	{
		"stops",
		"starts",
		func(_ *world, s *site) {
			for name := range s.services {
				b := box{s, name}
				b.do(false, (*simstack.Container).Stop)
			}
		},
		func(_ *world, s *site) {
			for name := range s.services {
				box{s, name}.run()
			}
		},
	},
	{
		"hangs",
		"answers",
		func(_ *world, s *site) {
			for _, one := range s.services {
				one.broken.Store(true)
			}
		},
		func(_ *world, s *site) {
			for _, one := range s.services {
				one.broken.Store(false)
			}
		},
	},
}

// exporterFaults happen to exporters.
var exporterFaults = []fault[*exporter]{
	{
		"stops",
		"starts",
		func(_ *world, e *exporter) { e.stop() },
		func(w *world, e *exporter) { w.start(e) },
	},
	{
		"restarts",
		"",
		func(w *world, e *exporter) {
			e.stop()
			w.start(e)
		},
		nil,
	},
	{
		"is killed",
		"",
		func(w *world, e *exporter) {
			if w.spared != nil && w.spared(e) {
				return
			}
			w.kill(e)
			w.start(e)
		},
		nil,
	},
	{
		"loses its state",
		"",
		func(w *world, e *exporter) {
			e.stop()
			must(w.T, os.Remove(e.stateFile))
			w.start(e)
		},
		nil,
	},
	{
		"reaches nothing",
		"reaches all",
		func(_ *world, e *exporter) { e.offline.Store(true) },
		func(_ *world, e *exporter) { e.offline.Store(false) },
	},
	{
		"cannot be scraped",
		"can be scraped",
		func(_ *world, e *exporter) { e.unreachable = true },
		func(_ *world, e *exporter) { e.unreachable = false },
	},
	{
		"calls other another", // without a restart
		"",
		func(w *world, e *exporter) {
			e.renamed = "another"
			must(w.T, os.WriteFile(e.configFile, []byte(e.configuration()), 0o600))
			must(w.T, e.app.Reload(w.Context()))
		},
		nil,
	},
}

// diskFaults happen to the disk of an exporter's state file.
var diskFaults = []fault[*exporter]{{
	"cannot save",
	"can save",
	func(w *world, e *exporter) {
		must(w.T, os.Rename(e.stateFile, e.stateFile+".away"))
		must(w.T, os.Mkdir(e.stateFile, 0o700))
	},
	func(w *world, e *exporter) { must(w.T, os.Remove(e.stateFile)) },
}}

// prometheusFaults happen to Prometheus.
var prometheusFaults = []fault[*server]{
	{
		"stops",
		"starts",
		func(w *world, p *server) { p.stop(w.T) },
		func(w *world, p *server) { p.start(w.T) },
	},
	{
		"loses its data",
		"",
		func(w *world, _ *server) { w.forget() },
		nil,
	},
	{
		"restarts",
		"",
		func(w *world, p *server) {
			p.stop(w.T)
			p.start(w.T)
		},
		nil,
	},
	{
		"is 90 s ahead",
		"is 90 s behind",
		func(w *world, _ *server) { w.setClock(90 * time.Second) },
		func(w *world, _ *server) { w.setClock(-90 * time.Second) },
	},
}

// setClock sets the clock of the machine that Prometheus and Alertmanager run on. Prometheus begins with it, since it takes
// no samples from before its last ones.
func (w *world) setClock(ahead time.Duration) {
	w.prometheus.ahead, w.router.ahead = ahead, ahead
	w.forget()
}

// forget has Prometheus begin with no data.
func (w *world) forget() {
	w.prometheus.stop(w.T)
	w.prometheus.loseData(w.T)
	w.prometheus.start(w.T)
	for _, e := range w.exporters {
		e.scraped = nil
	}
}

// happen has something happen, such as "db stops", "staging db stops", "engine hangs", "a is killed" or "prometheus stops".
func (w *world) happen(what string) {
	w.Helper()
	s := w.sites["prod"]
	if first, rest, _ := strings.Cut(what, " "); w.sites[first] != nil {
		s, what = w.sites[first], rest
	}
	name, verb, _ := strings.Cut(what, " ")
	i := slices.IndexFunc(w.exporters, func(e *exporter) bool { return e.name == name })
	known := false
	switch {
	case i >= 0:
		known = act(w, exporterFaults, verb, w.exporters[i]) || act(w, gapFaults, verb, w.exporters[i]) ||
			act(w, valueFaults, verb, w.exporters[i]) || act(w, diskFaults, verb, w.exporters[i])
	case name == "prometheus":
		known = act(w, prometheusFaults, verb, w.prometheus) || act(w, clockFaults, verb, w.prometheus) ||
			act(w, memories, verb, w.prometheus)
	case name == "stack":
		known = act(w, stackFaults, verb, s)
	case name == "engine":
		known = act(w, engineFaults, verb, s)
	case s.chat != nil && (act(w, relayFaults, what, s) || act(w, certificateFaults, what, s) || act(w, servicesFaults, what, s) ||
		act(w, loginFaults, what, s)):
		known = true
	case s.services[name] != nil:
		known = act(w, containerFaults, verb, box{s, name})
	}
	if !known {
		w.Fatalf("nobody knows how %q happens", what)
	}
}

func act[S any](w *world, faults []fault[S], verb string, subject S) bool {
	for _, f := range faults {
		switch {
		case f.begins == verb:
			f.begin(w, subject)
			return true
		case f.ends == verb && verb != "":
			f.end(w, subject)
			return true
		}
	}
	return false
}

// maintain puts something under maintenance, at every exporter that knows it.
func (w *world) maintain(b box, kind string) {
	for _, e := range w.exporters {
		if e.site == b.site && e.app != nil && (kind == config.MaintenanceContainer || e.targets) {
			_, _, _, err := e.app.SetMaintenance(kind, b.name, "", time.Now().Add(24*time.Hour))
			must(w.T, err)
		}
	}
}

func (w *world) release(b box, kind string) {
	for _, e := range w.exporters {
		if e.site == b.site && e.app != nil && (kind == config.MaintenanceContainer || e.targets) {
			if _, err := e.app.EndMaintenance(kind, b.name); err != nil {
				w.Log(fmt.Errorf("%s: %w", e.name, err)) // it began while this exporter did not run
			}
		}
	}
}
