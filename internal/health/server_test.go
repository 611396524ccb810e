package health

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestContainerIsUnseenOnceAllEnginesWereRead has names that no engine has, and engines that were not read.
func TestContainerIsUnseenOnceAllEnginesWereRead(t *testing.T) {
	local := Engine{Host: "local", Read: true, Containers: []Container{{
		Host:     "local",
		Name:     "docs",
		State:    Running,
		Expected: true,
	}}}
	for name, c := range map[string]struct {
		engines []Engine
		target  Target
		want    bool
	}{
		"mistyped":                     {[]Engine{local}, Target{Container: "dcos"}, true},
		"mistyped, with its engine":    {[]Engine{local}, Target{Container: "dcos", ContainerHost: "local"}, true},
		"there":                        {[]Engine{local}, Target{Container: "docs"}, false},
		"there, with its engine":       {[]Engine{local}, Target{Container: "docs", ContainerHost: "local"}, false},
		"of another exporter's engine": {[]Engine{local}, Target{Container: "docs", ContainerHost: "far"}, false},
		"none configured":              {[]Engine{local}, Target{HostName: "dcos"}, false},
		"no engine":                    {nil, Target{Container: "dcos"}, false},
		"an engine is unread":          {[]Engine{local, {Host: "far"}}, Target{Container: "dcos"}, false},
	} {
		c.target.Name = "x"
		got := NewJudge(shippedRules()).Judge(&Facts{Now: time.Now(), Engines: c.engines, Targets: []Target{c.target}}).Servers["x"]
		if got.Unseen != c.want || (got.Warning() == "container dcos does not exist on any engine") != c.want {
			t.Errorf("%s: %+v, %q, want unseen: %t", name, got, got.Warning(), c.want)
		}
	}
}

func TestTargetFindsItsContainer(t *testing.T) {
	containers := []*Container{
		{
			Host:      "local",
			Name:      "chat-irc-1",
			State:     Running,
			HostNames: []string{"chat-irc-1", "irc", "irc.example.org"},
		},
		{
			Host:      "local",
			Name:      "chat-web-1",
			State:     Running,
			HostNames: []string{"chat-web-1", "web"},
		},
		{
			Host:      "local",
			Name:      "chat-web-2",
			State:     "exited",
			HostNames: []string{"chat-web-2", "web"},
		},
		{
			Host:      "local",
			Name:      "old-docs",
			State:     Missing,
			HostNames: []string{"old-docs", "docs"},
		},
		{
			Host:      "local",
			Name:      "chat-docs-1",
			State:     "exited",
			HostNames: []string{"chat-docs-1", "docs"},
		},
		{
			Host:      "local",
			Name:      "former",
			State:     Running,
			HostNames: []string{"files"},
			vanished:  true,
		},
		{
			Host:      "local",
			Name:      "latter",
			State:     Running,
			HostNames: []string{"files"},
		},
		{
			Host:      "local",
			Name:      "gone",
			State:     Missing,
			HostNames: []string{"gone"},
		},
		{
			Host:      "local",
			Name:      "localhost",
			State:     Running,
			HostNames: []string{"localhost", "127.0.0.1", "::1"},
		},
		{Host: "local", Name: "elsewhere", State: Running}, // on no network of the exporter
		{Host: "far", Name: "twin", State: Running},
		{Host: "local", Name: "twin", State: Running},
	}
	for _, tt := range []struct {
		name string
		Target
		want Server
	}{
		{"compose service", Target{HostName: "irc"}, Server{Container: "chat-irc-1", Host: "local", Inferred: true}},
		{"container name", Target{HostName: "chat-irc-1"}, Server{Container: "chat-irc-1", Host: "local", Inferred: true}},
		{
			"alias with dots",
			Target{HostName: "irc.example.org"},
			Server{Container: "chat-irc-1", Host: "local", Inferred: true},
		},
		{"part of a name", Target{HostName: "chat-irc"}, Server{}},
		{"public name", Target{HostName: "irc.example.com"}, Server{}},
		{"no name", Target{}, Server{}},
		{"IP address", Target{HostName: "127.0.0.1"}, Server{}},
		{"IPv6 address", Target{HostName: "::1"}, Server{}},
		{"localhost", Target{HostName: "localhost"}, Server{}},
		{"no common network", Target{HostName: "elsewhere"}, Server{}},
		{"two fit", Target{HostName: "web"}, Server{Candidates: []string{"chat-web-1", "chat-web-2"}}},
		{"one of two is gone", Target{HostName: "docs"}, Server{Container: "chat-docs-1", Host: "local", Inferred: true}},
		{"one of two has vanished", Target{HostName: "files"}, Server{Container: "latter", Host: "local", Inferred: true}},
		{"the only one is gone", Target{HostName: "gone"}, Server{Container: "gone", Host: "local", Inferred: true}},
		{"configured", Target{HostName: "irc", Container: "chat-web-1"}, Server{Container: "chat-web-1", Host: "local"}},
		{"configured, on an unknown host", Target{Container: "other"}, Server{Container: "other"}},
		{"configured, on two hosts", Target{Container: "twin"}, Server{Container: "twin"}},
		{"configured with its host", Target{Container: "twin", ContainerHost: "far"}, Server{Container: "twin", Host: "far"}},
		{
			"configured with another host than the only one",
			Target{Container: "chat-web-1", ContainerHost: "docker-b"},
			Server{Container: "chat-web-1", Host: "docker-b"},
		},
		{
			"configured with a host of another exporter",
			Target{Container: "twin", ContainerHost: "docker-b"},
			Server{Container: "twin", Host: "docker-b"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &scene{containers: containers, byName: map[Subject]*Container{}}
			s.callByNames()
			got := newDirectory(s.containers, s.byName).server(&tt.Target)
			if got.Container != tt.want.Container || got.Host != tt.want.Host || got.Inferred != tt.want.Inferred ||
				!slices.Equal(got.Candidates, tt.want.Candidates) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// instance is a container of a workload.
func instance(workload, name, state string) Container {
	return Container{
		Host:     "local",
		Name:     name,
		Workload: workload,
		State:    state,
		Expected: true,
	}
}

func TestTargetFindsARunningInstanceOfItsService(t *testing.T) {
	rolledOut := instance("chat/web", "chat-web-2", Running)
	rolledOut.Shared, rolledOut.Members, rolledOut.Was = true, []string{"chat-web-2", "chat-web-3"}, []string{"chat-web-1"}
	elsewhere := instance("irc.service", "irc", Running)
	elsewhere.Host = "far"
	containers := []Container{
		rolledOut, elsewhere,
		instance("chat/irc", "chat-irc-1", "exited"),
		instance("chat/irc", "chat-irc-2", Running),
		instance("chat/docs", "chat-docs-1", "exited"),
		instance("chat/docs", "chat-docs-2", Missing),
		instance("irc.service", "irc", Running),
		instance("web", "web", Running),
		instance("chat/xmpp", "chat-xmpp-1", Running),
		{
			Host:     "local",
			Name:     "chat-xmpp-2",
			Workload: "chat/other",
			State:    Running,
			Shared:   true,
			Was:      []string{"chat-xmpp-1"},
		},
	}
	for name, c := range map[string]struct {
		Target
		want Server
	}{
		"a service":                    {Target{Service: "chat/web"}, Server{Container: "chat-web-2", Host: "local"}},
		"the one that runs":            {Target{Service: "chat/irc"}, Server{Container: "chat-irc-2", Host: "local"}},
		"none runs":                    {Target{Service: "chat/docs"}, Server{Container: "chat-docs-1", Host: "local"}},
		"a plain name":                 {Target{Service: "web"}, Server{Container: "web", Host: "local"}},
		"a unit, on two engines":       {Target{Service: "irc.service"}, Server{Container: "irc"}},
		"a unit, on one of the two":    {Target{Service: "irc.service", ContainerHost: "far"}, Server{Container: "irc", Host: "far"}},
		"a service that is not there":  {Target{Service: "chat/nobody"}, Server{}},
		"a container before a rollout": {Target{Container: "chat-web-1"}, Server{Container: "chat-web-2", Host: "local"}},
		"another instance":             {Target{Container: "chat-web-3"}, Server{Container: "chat-web-3", Host: "local"}},
		"a name that runs again":       {Target{Container: "chat-xmpp-1"}, Server{Container: "chat-xmpp-1", Host: "local"}},
	} {
		c.Name = "x"
		facts := Facts{Now: time.Now(), Targets: []Target{c.Target}}
		for _, host := range []string{"local", "far"} {
			e := Engine{Host: host, Read: true}
			for _, of := range containers {
				if of.Host == host {
					e.Containers = append(e.Containers, of)
				}
			}
			facts.Engines = append(facts.Engines, e)
		}
		got := NewJudge(shippedRules()).Judge(&facts).Servers["x"]
		if got.Container != c.want.Container || got.Host != c.want.Host || got.Service != c.Service || got.Inferred {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestServiceThatNoEngineHasIsExplained(t *testing.T) {
	engine := Engine{Host: "local", Read: true, Containers: []Container{
		instance("chat/web", "chat-web-1", Running),
		instance("chat/irc", "chat-irc-1", Running),
		instance("test/irc", "test-irc-1", Running),
	}}
	for name, c := range map[string]struct {
		Target
		want string
	}{
		"without its project": {
			Target{Service: "web"},
			"service web does not exist on any engine; did you mean the service chat/web?",
		},
		"of two projects": {Target{Service: "irc"}, "did you mean one of the services chat/irc, test/irc?"},
		"a container":     {Target{Service: "chat-web-1"}, "that is a container; its service is chat/web"},
		"a service": {
			Target{Container: "web"},
			"container web does not exist on any engine; did you mean the service chat/web?",
		},
		"another instance":     {Target{Container: "chat-web-7"}, "did you mean the service chat/web?"},
		"nothing of that name": {Target{Service: "xmpp"}, "the services are chat/irc, chat/web, test/irc"},
		"no such container":    {Target{Container: "xmpp"}, "container xmpp does not exist on any engine"},
		"there":                {Target{Service: "chat/web"}, ""},
	} {
		c.Name = "x"
		got := NewJudge(shippedRules()).Judge(&Facts{Now: time.Now(), Engines: []Engine{engine}, Targets: []Target{c.Target}}).Servers["x"]
		if warning := got.Warning(); !strings.HasSuffix(warning, c.want) || got.Unseen != (c.want != "") {
			t.Errorf("%s: %q, want %q", name, warning, c.want)
		}
	}
}

// TestServiceExplainsAnOutageWhileNoInstanceRuns also while its engine cannot be read.
func TestServiceExplainsAnOutageWhileNoInstanceRuns(t *testing.T) {
	now := time.Now()
	j := NewJudge(shippedRules())
	judge := func(read bool, containers ...Container) Excuse {
		now = now.Add(30 * time.Second)
		up := slices.ContainsFunc(containers, func(c Container) bool { return c.State == Running })
		return j.Judge(&Facts{
			Now:     now,
			Engines: []Engine{{Host: "local", Read: read, Containers: containers}},
			Targets: []Target{
				{
					Name:   "docker",
					Engine: "local",
					Read:   true,
					Up:     read,
					ReadAt: now,
				},
				{
					Name:    "web",
					Service: "chat/web",
					Read:    true,
					Up:      up,
					ReadAt:  now,
				},
			},
		}).Verdicts[TargetSubject("web")].Excuse
	}
	first, second := instance("chat/web", "chat-web-1", Running), instance("chat/web", "chat-web-2", Running)
	if got := judge(true, first, second); got.Holds() {
		t.Errorf("both run: %+v", got)
	}
	first.State, second.State = "exited", "exited"
	if got := judge(true, first, second); got.Reason != ReasonContainer {
		t.Errorf("none runs: %+v", got)
	}
	if got := judge(false); got.Reason != ReasonContainer {
		t.Errorf("none ran when the engine was read last: %+v", got)
	}
}
