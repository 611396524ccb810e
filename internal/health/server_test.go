package health

import (
	"slices"
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
