//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// canary has the plant store's probe write, with what it owes in a file, and the stack's clients' port is where it is.
func canary(stack *simstack.Stack, stateFile string) string {
	return canaryEvery(time.Second, stack, stateFile)
}

func canaryEvery(interval time.Duration, stack *simstack.Stack, stateFile string) string {
	return fmt.Sprintf("poll: {interval: %[1]s, timeout: %[1]s}\n", interval) + "state_file: " + stateFile +
		"\ntargets:\n  - {kind: plant_store, mode: canary}\n  - {kind: xmpp_c2s, address: \"" + stack.XMPPClientAddress() + "\"}\n"
}

// owed are the plants that a state file says may be in the store; the file must be whole whenever it is read.
func owed(t *testing.T, path string) map[int64]bool {
	t.Helper()
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var plants []struct {
		ID int64 `json:"id"`
	}
	copied := filepath.Join(t.TempDir(), "state.json")
	if err == nil {
		err = os.WriteFile(copied, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, notice, err := state.Open(copied, slog.New(slog.DiscardHandler), nil)
	if err != nil || notice != "" {
		t.Fatalf("the state file cannot be read: %s, %v\n%s", notice, err, raw)
	}
	if err := errors.Join(f.Value("plant_store/plant_store").Load(&plants), f.Close()); err != nil {
		t.Fatal(err)
	}
	ids := map[int64]bool{}
	for _, p := range plants {
		ids[p.ID] = true
	}
	return ids
}

// kills is how often the exporter is killed.
const kills = 24

func TestKilledAtAnyMomentItForgetsNothing(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	stack := simstacktest.Start(t, simstack.Options{Slow: 60 * time.Millisecond})
	// The store takes its time, so that there is more of a creation to be killed in.
	if err := stack.Switch("plant_store", "slow", true); err != nil {
		t.Fatal(err)
	}
	const name = "bridge"
	crashing := stack.Engine().Container(name)
	if crashing == nil {
		t.Fatal("the stack has no such container")
	}
	begun := crashing.RestartCount()
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	restarts, caught := 0, 0
	for kill := range kills {
		e := start(t, command(t, dir, canary(stack, path), stack.Environ()))
		// Every other time not before the containers are known: so what was counted is on the disk now and then. At first
		// always, since what was before that is nothing that could be counted.
		if random.IntN(2) == 0 || kill == 0 {
			p := e.wait(t, "containers", func(p page) bool { return p.Verdict("docker") == "up" })
			if got := int(p.Sum("chatstack_container_restarts_total", "container", name)); got > restarts {
				t.Errorf("%d restarts are counted, there were %d", got, restarts)
			}
		}
		if random.IntN(3) == 0 {
			crashing.Crash(1)
			restarts++
		}
		switch random.IntN(3) {
		case 0: // at once when there is a plant
			// Or not, where so many are owed that there is no time for another.
			for end := time.Now().Add(1200 * time.Millisecond); len(stack.Plants()) == 0 && time.Now().Before(end); {
				pause(t, time.Millisecond)
			}
		default:
			pause(t, time.Duration(random.IntN(700))*time.Millisecond)
		}
		if err := e.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-e.Ended
		caught += min(1, len(stack.Plants()))
		known := owed(t, path)
		// A request that was sent may be carried out yet.
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); pause(t, 20*time.Millisecond) {
			for _, id := range stack.Plants() {
				if !known[id] {
					t.Errorf("plant %d is in the store, and the state file knows nothing of it: %v", id, known)
				}
			}
		}
		if random.IntN(4) == 0 {
			crashing.Crash(1) // while nobody looks
			restarts++
		}
	}
	if caught == 0 {
		t.Error("it was never killed while a plant was in the store: the test shows nothing")
	}
	if restarts != crashing.RestartCount()-begun {
		t.Fatalf("the engine counts %d restarts, the test %d", crashing.RestartCount()-begun, restarts)
	}
	if err := stack.Switch("plant_store", "slow", false); err != nil {
		t.Fatal(err)
	}
	e := start(t, command(t, dir, canary(stack, path), stack.Environ()))
	p := e.wait(t, "nothing is owed any more", func(p page) bool {
		_, known := p.Value("chatstack_plant_store_orphans")
		return known && p.AllUp() && p.Sum("chatstack_plant_store_orphans") == 0
	})
	if got := int(p.Sum("chatstack_container_restarts_total", "container", name)); got != restarts {
		t.Errorf("%d restarts are counted, there were %d", got, restarts)
	}
	e.stop(t)
	if left := stack.Plants(); len(left) > 0 {
		t.Errorf("plants are left in the store: %v", left)
	}
	if left := owed(t, path); len(left) > 0 {
		t.Errorf("plants are still owed: %v", left)
	}
	t.Logf("killed %d times, %d of them with a plant in the store; %d restarts", kills, caught, restarts)
}

func TestWithoutDescriptorsItSaysSoAndRecovers(t *testing.T) {
	t.Parallel()
	stack := simstacktest.Start(t, simstack.Options{})
	e := start(t, command(t, "", canary(stack, filepath.Join(t.TempDir(), "state.json")), stack.Environ()))
	e.wait(t, "every target up", page.AllUp)
	pid := e.Process.Pid
	var usual unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &usual); err != nil {
		t.Fatal(err)
	}
	// A scraper keeps its connection, as Prometheus does.
	kept := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: patience}
	defer kept.CloseIdleConnections()
	scrape := func() page {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		body, err := exportertest.Answer(kept.Do, req)
		return parse(t, body, err)
	}
	scrape()
	// From here on there is none for whatever is opened anew, whichever of the present ones are closed meanwhile.
	setSoft := func(n uint64) {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: usual.Max}, nil); err != nil {
			t.Fatal(err)
		}
	}
	setSoft(3)
	asked := []string{"xmpp_status", "irc_rpc", "identity", "docs_search", "xmpp_c2s", "plant_store"}
	var p page
	internal := func() bool {
		return !slices.ContainsFunc(asked, func(target string) bool { return p.Verdict(target) != "internal" })
	}
	if !exportertest.Eventually(patience, 100*time.Millisecond, func() bool { p = scrape(); return internal() }) {
		t.Fatalf("want every one of %v internal: %v", asked, p.Verdicts())
	}
	if !strings.Contains(e.Stderr.String(), "out of file descriptors") {
		t.Error("the log does not say what is missing, and how to mend it")
	}
	setSoft(usual.Cur)
	// A new scraper, who had to wait in line, too.
	e.wait(t, "recovery", func(p page) bool { return p.AllUp() && p.Sum("chatstack_plant_store_orphans") == 0 })
	e.stop(t)
	if left := stack.Plants(); len(left) > 0 {
		t.Errorf("plants are left in the store: %v", left)
	}
}

// crowd is how many connections there are at once.
const crowd = 1000

// wantDescriptors skips a test that this process has not enough descriptors for.
func wantDescriptors(t *testing.T, n uint64) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < n {
		t.Skipf("needs %d file descriptors, this user has %d; .ci/nightly is root", n, limit.Cur)
	}
}

func TestThousandScrapersGetTheWholePage(t *testing.T) {
	t.Parallel()
	wantDescriptors(t, 4*crowd) // one client may have three eighths
	stack := simstacktest.Start(t, simstack.Options{})
	e := start(t, command(t, "", canaryEvery(4*time.Second, stack, filepath.Join(t.TempDir(), "state.json")), stack.Environ()))
	before := e.wait(t, "every target up", page.AllUp)
	descriptors := e.descriptors(t)
	var scrapers sync.WaitGroup
	var complete atomic.Int64
	var gate sync.WaitGroup
	gate.Add(crowd)
	for range crowd {
		scrapers.Go(func() {
			// A connection each, so that none waits for its first request.
			transport := &http.Transport{MaxConnsPerHost: 1}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: patience}
			gate.Done()
			gate.Wait() // all at once
			for range 3 {
				if err := scrapeWhole(t.Context(), client, e.url); err != nil {
					t.Error(err)
					return
				}
				complete.Add(1)
			}
		})
	}
	scrapers.Wait()
	if got := complete.Load(); got != 3*crowd {
		t.Errorf("%d whole pages, want %d", got, 3*crowd)
	}
	after := e.wait(t, "the readings go on", func(p page) bool {
		for target := range p.Verdicts() {
			const attempts = "chatstack_probe_attempts_total"
			if p.Sum(attempts, "target", target) < before.Sum(attempts, "target", target)+2 {
				return false
			}
		}
		return p.AllUp() && e.descriptors(t) <= descriptors+2
	})
	t.Logf("%d scrapes; %v goroutines after them, %v before; at most %d MiB resident",
		complete.Load(), after.Sum("go_goroutines"), before.Sum("go_goroutines"), e.peakMemory(t)>>20)
	e.stop(t)
}

func scrapeWhole(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	body, err := exportertest.Answer(client.Do, req)
	if err == nil && !bytes.HasSuffix(body, []byte("# EOF\n")) {
		err = fmt.Errorf("%d bytes that do not end as a page does", len(body))
	}
	return err
}

func TestFullDiskStopsTheCanaryAlone(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system; .ci/nightly is root")
	}
	stack := simstacktest.Start(t, simstack.Options{})
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatalf("mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path, filler := filepath.Join(disk, "state.json"), filepath.Join(disk, "filler")
	fill := func() {
		t.Helper()
		f, err := os.Create(filler)
		for err == nil {
			_, err = f.Write(make([]byte, 1024))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		f.Close() //nolint:errcheck // it is full
	}
	makeRoom := func() {
		t.Helper()
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
	othersUp := func(p page) bool {
		for target, verdict := range p.Verdicts() {
			if want := map[bool]string{true: "internal", false: "up"}[target == "plant_store"]; verdict != want {
				return false
			}
		}
		return p.Verdict("plant_store") != ""
	}
	fill()
	e := start(t, command(t, "", canaryEvery(2*time.Second, stack, path), stack.Environ()))
	e.wait(t, "all but the canary up from the start", othersUp)
	for _, want := range []string{"cannot save the state", "no space left on device", "free space"} {
		if !strings.Contains(e.Stderr.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	if plants := stack.Plants(); len(plants) > 0 {
		t.Errorf("sent without a record: %v", plants)
	}
	makeRoom()
	e.wait(t, "every target up", page.AllUp)
	fill()
	sent := len(stack.Requests("plant_store"))
	p := e.wait(t, "the canary does not fly", func(p page) bool { return p.Verdict("plant_store") == "internal" })
	creations := func() (n int) {
		for _, r := range stack.Requests("plant_store")[sent:] {
			if r.Method == http.MethodPost {
				n++
			}
		}
		return n
	}
	// What was under way when the disk became full is over by now.
	posted, attempts := creations(), p.Sum("chatstack_probe_attempts_total", "target", "plant_store")
	e.wait(t, "three readings more", func(p page) bool {
		return p.Sum("chatstack_probe_attempts_total", "target", "plant_store") > attempts+3
	})
	if n := creations(); n != posted {
		t.Errorf("%d plants were sent although none could be recorded", n-posted)
	}
	e.wait(t, "all others up on a full disk", othersUp)
	body, err := exportertest.Fetch(t.Context(), patience, e.url+"/debug/targets/plant_store")
	if err != nil || !bytes.Contains(body, []byte("no space left on device")) || !bytes.Contains(body, []byte("free space")) {
		t.Errorf("%v: the page does not say what is wrong, and what to do", err)
	}
	owed(t, path) // it is whole
	makeRoom()
	e.wait(t, "recovery", func(p page) bool { return p.AllUp() && p.Sum("chatstack_plant_store_orphans") == 0 })
	e.stop(t)
	if left := stack.Plants(); len(left) > 0 {
		t.Errorf("plants are left in the store: %v", left)
	}
	if files, err := filepath.Glob(path + ".*.tmp"); err != nil || len(files) > 0 {
		t.Errorf("left on the disk: %v, %v", files, err)
	}
}
