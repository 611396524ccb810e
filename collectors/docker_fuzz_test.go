package collectors

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/cgroup"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/cgroup/cgrouptest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
)

// FuzzDocker has an engine list, describe and measure containers and tell events, all of it made up. Two readings with the
// events between them make legal pages, counters never fall, and what is kept of the containers can be read again.
func FuzzDocker(f *testing.F) {
	descriptions, err := filepath.Glob("testdata/docker/inspect/*.json")
	if err != nil || len(descriptions) == 0 {
		f.Fatal(descriptions, err)
	}
	stats, err := os.ReadFile("testdata/docker/stats/cgroup2.json")
	if err != nil {
		f.Fatal(err)
	}
	for i, file := range descriptions {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var described container.InspectResponse
		if err := json.Unmarshal(content, &described); err != nil {
			f.Fatal(file, err)
		}
		list := fmt.Sprintf(`[{"Id":%q,"Names":[%q,"/a/link"],"State":%q,"Status":"Up 2 hours (unhealthy)","Created":1,`+
			`"Labels":{%q:"chat"}}]`, described.ID, described.Name, described.State.Status, fleet.ComposeProject)
		events := ""
		for n, action := range []string{"die", "start", "health_status: unhealthy", "oom", "rename", "destroy", "create"} {
			events += fmt.Sprintf(`{"Type":"container","Action":%q,`+
				`"Actor":{"ID":%q,"Attributes":{"name":"x","oldName":%q,"exitCode":"137"}},`+
				`"timeNano":18000000000000000%02d,"time":1800000000}`+"\n", action, described.ID, described.Name, n)
		}
		f.Add(uint8(i%4), []byte(list), content, stats, []byte(events))
	}
	f.Add(uint8(0), []byte(`[{"Id":"a","Names":null},null,{"Names":["/"]},{"Id":"b","Names":["/b"],"Labels":{"com.docker.compose.depends_on":"x:y:z,,:,a:service_healthy:true"}}]`),
		[]byte(`{"Id":"b","Name":"/b","State":{},"Config":{"Labels":{"com.docker.compose.depends_on":",:,b:service_started:false"}},"RestartCount":-1}`), []byte(`{"read":"2026-01-01T00:00:00Z","memory_stats":{"usage":1}}`), []byte(`{"Type":"container"}{`))
	engine := startEngine(f)
	f.Fuzz(func(t *testing.T, how uint8, list, description, stats, events []byte) {
		answered := atomic.Int64{}
		engine.on("", func(w http.ResponseWriter, r *http.Request) {
			content := list
			switch {
			case path.Base(r.URL.Path) == "_ping":
				w.Header().Set("Api-Version", "1.41")
				content = nil
			case path.Base(r.URL.Path) == "events":
				content = events
			case path.Base(r.URL.Path) == "stats":
				content = stats
			case !strings.HasSuffix(r.URL.Path, "/containers/json"):
				content = description
			}
			answered.Add(int64(len(content)))
			plain(w, http.StatusOK, "application/json", content)
		})
		s := newDockerSettings()
		s.Host, s.Parallelism, s.ResourcesParallelism = engine.host, 1, 1
		if how&1 != 0 {
			s.Exclude = []string{"x*"}
		}
		if how&2 != 0 {
			s.Expected = []string{"chat-xmpp-1"}
		}
		kept := &memory{}
		d := fuzzDeps()
		d.State = kept
		made, err := newDocker(s, d)
		if err != nil {
			t.Fatal(err)
		}
		c := made.(*docker)
		before := map[string]float64{}
		for range 2 {
			b, err := fuzzRead(t, c)
			if err == nil {
				c.Present(b)
				now := countersOn(t, string(pageOf(t, b, true)), "restarts_total", "recreations_total", "oom_events_total")
				neverFall(t, "fuzzed", before, now)
				maps.Copy(before, now)
			}
			judge(t, b, err, int(answered.Load()))
			ending := c.listen(t.Context(), func() {})
			if ending == nil {
				t.Error("a stream of events that has ended is no error")
			}
		}
		c.save()
		var again fleet.Memory
		if err := kept.Load(&again); err != nil {
			t.Errorf("what was kept cannot be read: %v", err)
		}
	})
}

// FuzzCgroup reads a made-up group of a container, of both versions of cgroups, and the network numbers of its process.
// A working set is never larger than the usage, and what is no number is an error that says so.
func FuzzCgroup(f *testing.F) {
	const dev = "Inter-|   Receive\n face |bytes\n    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n  eth0: 1500 3 0 0 0 0 0 0 700 2 0 0 0 0 0 0\n"
	f.Add(true, []byte("52428800\n"), []byte("anon 1\ninactive_file 4096\n"), []byte("usage_usec 1500000\nuser_usec 1\n"), []byte(dev))
	f.Add(false, []byte("52428800\n"), []byte("inactive_file 1\ntotal_inactive_file 4096\n"), []byte("1500000000\n"), []byte(dev))
	f.Add(true, []byte("max\n"), []byte("inactive_file -1\n"), []byte("usage_usec\n"), []byte("eth0:1 2\n"))
	f.Add(true, []byte(""), []byte("inactive_file 99999999999999999999\n"), []byte("usage_usec 18446744073709551615\n"),
		[]byte("eth0: x 0 0 0 0 0 0 0 y\n"))
	id := strings.Repeat("0123456789abcdef", 4)
	root, proc := f.TempDir(), f.TempDir()
	one, two := filepath.Join(root, "v1"), filepath.Join(root, "v2")
	cgrouptest.WriteTree(f, one, cgrouptest.V1("docker/"+id))
	cgrouptest.WriteTree(f, two, cgrouptest.V2("docker/"+id))
	cgrouptest.WriteTree(f, proc, map[string]string{"1/net/dev": dev, "77/net/dev": dev, "77/cgroup": "0::/docker/" + id + "\n"})
	f.Fuzz(func(t *testing.T, unified bool, memory, stat, cpu, dev []byte) {
		tree, group, spent, files := cgroup.Tree{Root: two, ProcRoot: proc}, filepath.Join(two, "docker", id),
			filepath.Join(two, "docker", id), [3]string{"memory.current", "memory.stat", "cpu.stat"}
		if !unified {
			tree.Root, group, spent, files = one, filepath.Join(one, "memory", "docker", id), filepath.Join(one, "cpuacct", "docker", id),
				[3]string{"memory.usage_in_bytes", "memory.stat", "cpuacct.usage"}
		}
		for path, content := range map[string][]byte{
			filepath.Join(group, files[0]): memory, filepath.Join(group, files[1]): stat, filepath.Join(spent, files[2]): cpu,
			filepath.Join(proc, "77", "net", "dev"): dev,
		} {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := tree.Measure(t.Context(), []usage.Subject{{
			ID:      id,
			PID:     77,
			Limit:   1 << 30,
			Started: time.Unix(1, 0),
		}})
		b := &Batch{}
		if r, ok := got[id]; ok {
			first, _, _ := strings.Cut(string(memory), "\n")
			used, notNumber := strconv.ParseUint(strings.TrimSpace(first), 10, 64)
			if r.HasMemory && (notNumber != nil || r.WorkingSet > used) {
				t.Errorf("a working set of %d is made of a usage of %q", r.WorkingSet, memory)
			}
			writeUsage(b, &r, "xmpp", "local")
		}
		judge(t, b, nil, 0)
		if err != nil {
			judge(t, &Batch{}, err, 0)
		}
	})
}

// FuzzKeptValues starts collectors with made-up values in the state file, as a hand or another version may have left them.
// What cannot be read is forgotten, and what can makes a legal page.
func FuzzKeptValues(f *testing.F) {
	for _, seed := range []string{
		`{"host":"unix:///nowhere","containers":{"chat-xmpp-1":{"id":"a","restarts_before":3,"expected":true,"depends_on":"x:y:z","role":"xmpp"},"":{"id":""},"x":{"id":"b","ooms_before":18446744073709551615,"network_of":"x","gone":"2026-01-01T00:00:00Z"}}}`,
		`{"host":"unix:///nowhere","containers":null}`,
		`[{"id":9007190000000001,"since":"2026-01-01T00:00:00Z","url":"http://127.0.0.1:1","created":true},{}]`,
		`"2026-11-20T12:00:00Z"`, `"9999-12-31T23:59:59Z"`, `"0001-01-01T00:00:00Z"`, `null`, `{}`, `[]`,
		`{"containers":{"a":{"id":"a","dep":"","last_recreated":1e300}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if !json.Valid(content) {
			return // the file is JSON as a whole, or damaged as a whole
		}
		d := fuzzDeps()
		docker, plants, identity := newDockerSettings(), newPlantStoreSettings(), newIdentitySettings()
		docker.Host, plants.URL, identity.URL, plants.Mode = "unix:///nowhere", "http://127.0.0.1:1", "http://127.0.0.1:1", ModeCanary
		d.State = &memory{saved: bytes.Clone(content)}
		c, err := newDocker(docker, d)
		if err != nil {
			t.Fatal(err)
		}
		b := &Batch{}
		c.(Presenter).Present(b)
		judge(t, b, nil, len(content))
		for _, made := range []func() (Collector, error){
			func() (Collector, error) { return newPlantStore(plants, d) }, func() (Collector, error) { return newIdentity(identity, d) },
		} {
			d.State = &memory{saved: bytes.Clone(content)}
			c, err := made()
			if err != nil {
				t.Fatal(err)
			}
			late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0)) // nobody is asked
			b := &Batch{}
			judge(t, b, c.Collect(late, b), len(content))
			cancel()
		}
	})
}
