package health

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// scene is what there is at one moment, as the first pass sees it. No later pass changes it.
type scene struct {
	judge *Judge
	now   time.Time
	// containers are sorted. Some of them vanished a short while ago, and can still be the cause of other problems.
	containers []*Container
	bySubject  map[Subject]*Container
	// byName has them by the subject that a name on an engine would be: a shared workload has several names.
	byName  map[Subject]*Container
	names   directory
	targets []*target
	// engines are the targets that are engines, by docker_host. allRead says that all engines could be read.
	engines map[string]*target
	allRead bool
	// maintained has no docker_host: a container's name applies on every engine.
	maintained map[Subject]bool
	graph      dependencies
}

// target is a target with the container that serves it, even if no setting names that, and what is remembered of it.
type target struct {
	Target
	subject Subject
	server  Server
	// servedBy is what its container is judged as.
	servedBy Subject
	memory   *targetMemory
}

func (t *target) key(alert, of string, severity Severity) problemKey {
	return problemKey{
		t.subject,
		alert,
		of,
		severity,
	}
}

// look makes the scene of the facts. It remembers since when containers have been unavailable, and where those of targets are.
func (j *Judge) look(f *Facts) *scene {
	s := &scene{
		judge:      j,
		now:        f.Now,
		bySubject:  make(map[Subject]*Container, len(j.restarts)),
		byName:     make(map[Subject]*Container, len(j.restarts)),
		engines:    map[string]*target{},
		allRead:    !slices.ContainsFunc(f.Engines, func(e Engine) bool { return !e.Read }),
		maintained: map[Subject]bool{},
		graph:      newDependencies(),
	}
	for _, subject := range f.Maintenance {
		s.maintained[subject] = true
	}
	for _, e := range j.engines {
		for i := range e.containers {
			c := &e.containers[i]
			if e.own {
				c.stale = f.Now.Sub(e.read) > unreadGrace
			}
			s.bySubject[c.Subject()] = c
			j.track(c.Subject(), !c.available(), c.Down() && !c.partly(), j.stopped(c, f.Now), f.Now)
		}
	}
	for subject, known := range j.restarts {
		if s.bySubject[subject] == nil && known.last != nil && j.engines[subject.Host] != nil {
			c := *known.last
			c.vanished = true
			s.bySubject[subject] = &c
		}
	}
	s.containers = slices.SortedFunc(maps.Values(s.bySubject), func(a, b *Container) int {
		return compareSubjects(a.Subject(), b.Subject())
	})
	s.callByNames()
	s.coverWorkloads(f)
	s.names = newDirectory(s.containers, s.byName)
	for i := range f.Targets {
		t := s.place(&f.Targets[i], f.Engines)
		s.targets = append(s.targets, t)
		if t.Engine != "" {
			s.engines[t.Engine] = t
		}
	}
	return s
}

// place finds the container of a target.
func (s *scene) place(given *Target, engines []Engine) *target {
	t := &target{Target: *given, subject: TargetSubject(given.Name), memory: s.judge.target(given.Name)}
	s.judge.changed = s.judge.changed || t.memory.place != given.Place
	t.memory.place = given.Place
	own := slices.ContainsFunc(engines, func(e Engine) bool { return t.ContainerHost == "" || t.ContainerHost == e.Host })
	unseen := t.isServed() && own && s.allRead && len(s.names.candidates(given)) == 0
	t.server = s.judge.findHome(t, s.names.server(given), engines)
	if t.server.Unseen = unseen; unseen {
		t.server.Advice = s.names.advice(given)
	}
	t.Container, t.ContainerHost = t.server.Container, t.server.Host
	t.servedBy = s.subjectOf(t.ContainerHost, t.Container)
	return t
}

// underMaintenance reports whether the subject is under maintenance, whatever its engine.
func (s *scene) underMaintenance(subject Subject) bool {
	subject.Host = ""
	return s.maintained[subject]
}

// track records since when a container has been unavailable, or an engine could not be read. A new outage began at began.
func (j *Judge) track(s Subject, unavailable, down bool, began, now time.Time) {
	known := j.unavailable[s]
	lasting := known != nil && known.Ended.IsZero()
	switch {
	case unavailable && !lasting:
		known = &span{Began: began}
		j.unavailable[s], j.changed = known, true
	case !unavailable && lasting:
		known.Ended, j.changed = now, true
	}
	if down {
		known.Down = now
	}
}

// stopped returns when a container stopped that was running at the engine's previous reading. It trusts the engine, but returns no time
// before that reading, since the engine's clock may differ. For a missing container, DownFor comes from the exporter itself.
func (j *Judge) stopped(c *Container, now time.Time) time.Time {
	at := now.Add(-max(c.DownFor, 0))
	if before := j.engines[c.Host].previousAsked; c.State != Missing && at.Before(before) {
		return before
	}
	return at
}

// home is where the container of a target was last seen. HostName and Configured are the settings that it was found with.
type home struct {
	HostName   string `json:"host_name,omitempty"`
	Configured string `json:"configured,omitempty"`
	Container  string `json:"container"`
	Host       string `json:"docker_host"`
}

// findHome finds the engine of a target's container. While that engine cannot be read, it returns the container's last known engine.
func (j *Judge) findHome(t *target, found Server, engines []Engine) Server {
	known := t.memory.home
	configured := cmp.Or(t.Container, t.Service)
	same := known.HostName == t.HostName && known.Configured == configured
	lost := func(e Engine) bool { return !e.Read && e.Host == known.Host }
	switch {
	case found.Host != "":
		t.memory.home = home{
			t.HostName,
			configured,
			found.Container,
			found.Host,
		}
		j.changed = j.changed || t.memory.home != known
	case same && slices.ContainsFunc(engines, lost):
		return Server{
			Container: known.Container,
			Host:      known.Host,
			Service:   t.Service,
			Inferred:  configured == "",
		}
	case configured != "" && len(engines) == 1 && !engines[0].Read: // it has to be on this engine
		found.Host = engines[0].Host
	}
	return found
}

func compareSubjects(a, b Subject) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Host, b.Host), strings.Compare(a.Name, b.Name))
}
