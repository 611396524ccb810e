package collectors

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
)

func TestContainersBeyondTheMostAreLeftOut(t *testing.T) {
	const most = 1000
	e := startEngine(t, crowd("old-", most+500)...)
	w := watching(t, e, func(s *Docker) {
		s.Expected, s.Roles = []string{"old-1499"}, map[string]string{"old-1498": "xmpp"}
	})
	b := w.read()
	wantPartly(t, b, "500 containers over max_containers (1000)")
	// The configuration names two.
	w.wantShown(most, `container_state{container="old-1499",state="running"} 1`, `container_state{container="old-1498",state="running"} 1`)

	// An engine lists the newest first.
	e.mu.Lock()
	e.containers = append(crowd("new-", 10), e.containers...)
	e.mu.Unlock()
	b = w.read()
	w.wantShown(most, `container_state{container="old-0000",state="running"} 1`, `container_state{container="old-0997",state="running"} 1`)
	wantPartly(t, b, "510 containers over")

	var batch []events.Message
	for i := range 10 {
		name := fmt.Sprintf("new-%04d", i)
		batch = append(batch, told(events.ActionStart, "id-"+name, name))
	}
	w.take(batch...)
	w.wantShown(most)
}

// TestNamesAndLabelsAreBounded has what no engine gives, from the list, the description and an event.
func TestNamesAndLabelsAreBounded(t *testing.T) {
	const long = 100 << 10
	longest := strings.Repeat("n", 255)
	labelled := plainContainer("labelled", map[string]string{
		fleet.ComposeProject: strings.Repeat("p", long), fleet.ComposeService: strings.Repeat("s", long),
		fleet.ComposeDepends: strings.Repeat("d", long),
	})
	labelled.Config.Image = strings.Repeat("i", long)
	odd := plainContainer("odd name", nil)
	odd.ID = "id-odd"
	over := plainContainer(longest+"n", nil)
	over.ID = "id-over"
	good := plainContainer("good", nil)
	good.HostConfig = &container.HostConfig{NetworkMode: "container:id-longest"}
	e := startEngine(t, good, plainContainer(strings.Repeat("x", long), nil), odd, over,
		plainContainer(longest, nil), labelled)
	e.containers[1].ID, e.containers[4].ID = "id-x", "id-longest"
	w := watching(t, e)
	b := w.read()
	w.take(told(events.ActionStart, "id-x", "x"))
	page := w.page()
	if len(page) > 50<<10 {
		t.Errorf("the page has %d bytes", len(page))
	}
	w.wantShown(3, `container_info{compose_project="",compose_service="",container="labelled",image="",role=""} 1`,
		`container_state{container="`+longest+`",state="running"} 1`, `container_dependency{container="good",depends_on="`+longest+`"} 1`)
	wantPartly(t, b, "3 containers left out: a name may have up to 255 bytes")
	wantPartly(t, b, "project, service, image or depends_on of 1 container is left out")
}

// TestWhatIsLeftOutDoesNotComeBack has a state file of a version that left nothing out.
func TestWhatIsLeftOutDoesNotComeBack(t *testing.T) {
	e := startEngine(t, plainContainer("good", nil))
	wanted := func(id string) fleet.Record {
		r := fleet.Record{ID: id}
		r.Expected = true
		return r
	}
	records := map[string]fleet.Record{
		strings.Repeat("x", 900<<10): wanted("a"), "odd\nname": wanted("b"),
	}
	good := fleet.Record{ID: "id-good", Labels: fleet.Labels{Service: strings.Repeat("s", 900<<10)}}
	good.RestartsBefore, good.CountsFirstStart = 3, true
	records["good"] = good
	for i := range 400 {
		records[fmt.Sprintf("z-%04d", i)] = wanted(fmt.Sprintf("z%d", i))
	}
	content, err := json.Marshal(fleet.Memory{Host: e.host, Containers: records})
	if err != nil {
		t.Fatal(err)
	}
	w := watchEngine(t, e.host, &memory{saved: content}, func(s *Docker) { s.MissingAfter = 0 })
	w.read()
	page := w.page()
	if strings.Contains(page, "xxxx") || strings.Contains(page, "odd") || len(page) > 2<<20 {
		t.Errorf("the page has %d bytes, and what was left out", len(page))
	}
	w.wantShown(401, `container_restarts_total{container="good"} 3`)
}

// TestLargeListFitsTheDefaultLimits has 1,000 containers with 16 kB of labels each.
func TestLargeListFitsTheDefaultLimits(t *testing.T) {
	all := crowd("c", 1000)
	for i := range all {
		all[i].Config.Labels = map[string]string{"long": strings.Repeat("x", 16<<10)}
	}
	e := startEngine(t)
	e.containers = all
	w := watching(t, e)
	w.docker.engine.Limit = 16 << 20 // the default of limits.metrics_body
	s := w.session(1)
	listed, _, err := s.List(t.Context(), nil)
	if err != nil || len(listed) != len(all) {
		t.Errorf("listed %d containers, error %v; want %d", len(listed), err, len(all))
	}
}

// TestWhatIsLeftOutIsNotMissed has an engine that more is watched of than max_containers allows since then.
func TestWhatIsLeftOutIsNotMissed(t *testing.T) {
	e := startEngine(t, crowd("c", 6)...)
	state := &memory{}
	watchEngine(t, e.host, state).read()
	w := watchEngine(t, e.host, state, func(s *Docker) {
		s.MaxContainers, s.MissingAfter, s.Expected = 3, 0, []string{"c0005"}
	})
	b := w.read()
	if page := w.page(); strings.Contains(page, `state="missing"} 1`) {
		t.Errorf("containers that exist are missing:\n%s", page)
	}
	w.wantShown(3, `container_state{container="c0005",state="running"} 1`)
	wantPartly(t, b, "3 containers over max_containers (3)")
}

// TestDescriptionsTakeLittleMemory inspects containers whose descriptions are almost as large as they may be.
func TestDescriptionsTakeLittleMemory(t *testing.T) {
	const n = 60
	e := startEngine(t)
	e.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/containers/id-") {
			return false
		}
		c := plainContainer(strings.TrimPrefix(containerOf(r), "id-"), nil)
		c.Config.Env = slices.Repeat([]string{strings.Repeat("x", 1<<10)}, 900)
		engineAnswers(w, c)
		return true
	}
	w := watching(t, e)
	w.docker.engine.Limit = 16 << 20
	listed := make([]container.Summary, n)
	for i := range listed {
		listed[i].ID = fmt.Sprintf("id-%d", i)
	}
	s := w.session(1)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	undescribed, err := w.docker.inspectAll(t.Context(), s, &Batch{}, listed)
	if err != nil || len(undescribed) > 0 {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if took := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20; took > 20 {
		t.Errorf("%d descriptions take %d MiB", n, took)
	}
	if here := w.docker.fleet.Notes(time.Now()).Present; here != n {
		t.Errorf("%d containers are known, want %d", here, n)
	}
}
