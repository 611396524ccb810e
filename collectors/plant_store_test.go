package collectors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// store is a plant store whose answers a test can replace.
type store struct {
	mu       sync.Mutex
	plants   map[int64]plant
	deletes  []int64 // asked for, whatever came of it
	onPost   func(http.ResponseWriter, plant) bool
	onDelete func(http.ResponseWriter, int64) bool
	hang     chan struct{}
}

// swap replaces the answers, safely while requests run.
func (s *store) swap(onPost func(http.ResponseWriter, plant) bool, onDelete func(http.ResponseWriter, int64) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onPost, s.onDelete = onPost, onDelete
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer good" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodDelete {
		id, err := strconv.ParseInt(strings.TrimPrefix(r.URL.Path, "/base/plants/"), 10, 64)
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		s.deletes = append(s.deletes, id)
		if s.onDelete != nil && s.onDelete(w, id) {
			return
		}
		if _, ok := s.plants[id]; !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		delete(s.plants, id)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	var p plant
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil || r.URL.Path != "/base/plants" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if s.onPost != nil && s.onPost(w, p) {
		return
	}
	if p.Name == "" {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":400,"message":"a name is required"}`) //nolint:errcheck // a test's server
		return
	}
	s.plants[p.ID] = p
	json.NewEncoder(w).Encode(plant{Name: p.Name, Tag: p.Tag}) //nolint:errcheck,errchkjson // a test's server
}

func startStore(t *testing.T) (*store, string) {
	t.Helper()
	s := &store{plants: map[int64]plant{}, hang: make(chan struct{})}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(s.hang) })
	return s, server.URL + "/base"
}

// startProbe starts a store, and a check of it that has nothing to remember.
func startProbe(t *testing.T, mode string) (*store, *plantStore) {
	t.Helper()
	s, url := startStore(t)
	return s, newStoreProbe(t, url, mode, &memory{})
}

func newStoreProbe(t *testing.T, url, mode string, state State) *plantStore {
	t.Helper()
	settings := newPlantStoreSettings()
	settings.Name, settings.URL, settings.Mode, settings.Token = "plant_store", url, mode, config.NewSecret("good")
	c, err := newPlantStore(settings, deps(state))
	if err != nil {
		t.Fatal(err)
	}
	return c.(*plantStore)
}

// storeAnswer answers a request and reports whether it did.
type storeAnswer func(http.ResponseWriter) bool

// answers sends a status and a body.
func answers(code int, body string) storeAnswer {
	return func(w http.ResponseWriter) bool {
		w.WriteHeader(code)
		io.WriteString(w, body) //nolint:errcheck // a test's server
		return true
	}
}

func toPlants(answer storeAnswer) func(http.ResponseWriter, plant) bool {
	return func(w http.ResponseWriter, _ plant) bool { return answer(w) }
}

func toDeletions(code int) func(http.ResponseWriter, int64) bool {
	return func(w http.ResponseWriter, _ int64) bool { return answers(code, "")(w) }
}

func reset(w http.ResponseWriter) bool {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		conn.Close() //nolint:errcheck,gosec // that is the point
	}
	return true
}

// wantLeft wants so many plants in the store, and so many deletions owed.
func wantLeft(t *testing.T, when string, s *store, c *plantStore, plants, owed int) {
	t.Helper()
	if len(s.plants) != plants || len(c.owed) != owed {
		t.Errorf("%s: plants %v, owed %v; want %d and %d", when, s.plants, c.owed, plants, owed)
	}
}

func TestCanaryIsCreatedAndDeleted(t *testing.T) {
	s, url := startStore(t)
	state := &memory{}
	c := newStoreProbe(t, url, ModeCanary, state)
	b := readUp(t, c)
	goldenPage(t, "plant_store/canary", b)
	if len(s.plants) != 0 || len(s.deletes) != 1 {
		t.Errorf("left in the store: %v; deleted: %v", s.plants, s.deletes)
	}
	if id := s.deletes[0]; id < c.min || id > c.max {
		t.Errorf("id %d is outside of the range", id)
	}
	if len(state.saves) != 2 || !strings.Contains(string(state.saves[0]), strconv.FormatInt(s.deletes[0], 10)) ||
		string(state.saves[1]) != "[]" {
		t.Errorf("recorded %s; want the canary before it is sent, and nothing in the end", state.saves)
	}
}

func TestRejectModeWritesNothing(t *testing.T) {
	s, url := startStore(t)
	state := &memory{}
	b := readUp(t, newStoreProbe(t, url, ModeReject, state))
	goldenPage(t, "plant_store/reject", b)
	if len(s.plants) != 0 || len(s.deletes) != 0 || string(state.saved) != "[]" {
		t.Errorf("plants %v, deletes %v, recorded %s; want nothing in the end", s.plants, s.deletes, state.saved)
	}
}

// TestCreationThatComesLateIsStillDeleted has a store that carries a creation out after it was given up and its deletion
// answered with 404.
func TestCreationThatComesLateIsStillDeleted(t *testing.T) {
	s, probe := startProbe(t, ModeCanary)
	probe.late = time.Hour
	var late plant
	s.swap(func(w http.ResponseWriter, p plant) bool { late = p; return reset(w) }, nil)
	mustFail(t, probe, failure.Closed)
	if len(s.deletes) != 1 || len(probe.owed) != 1 {
		t.Fatalf("deletes %v, owed %v; want it tried and still owed", s.deletes, probe.owed)
	}
	s.mu.Lock()
	s.plants[late.ID] = late
	s.mu.Unlock()
	s.swap(nil, nil)
	readUp(t, probe)
	wantLeft(t, "in the end", s, probe, 0, 0)
}

func TestLostAnswerToADeletionIsSettledByTheNext(t *testing.T) {
	s, probe := startProbe(t, ModeCanary)
	probe.late = time.Hour
	s.swap(nil, func(w http.ResponseWriter, id int64) bool { delete(s.plants, id); return reset(w) })
	mustFail(t, probe, failure.Closed)
	if len(probe.owed) != 1 {
		t.Errorf("owed %v; nobody knows whether it is deleted", probe.owed)
	}
	s.swap(nil, nil)
	if _, err := read(t, probe, 10*time.Second); err != nil || len(probe.owed) != 0 {
		t.Errorf("got %v, owed %v; that it is not there settles it", err, probe.owed)
	}
}

func TestRefusedConnectionOwesNothing(t *testing.T) {
	state := &memory{}
	probe := newStoreProbe(t, "http://127.0.0.1:1", ModeCanary, state)
	mustFail(t, probe, failure.Refused)
	if len(probe.owed) != 0 || string(state.saved) != "[]" {
		t.Errorf("owed %v, recorded %s; nothing was sent", probe.owed, state.saved)
	}
}

func TestOneDeletionThatIsOwedIsInTheSingular(t *testing.T) {
	s, probe := startProbe(t, ModeCanary)
	s.swap(nil, toDeletions(500))
	mustFail(t, probe, failure.HTTPStatus)
	s.swap(nil, func(w http.ResponseWriter, _ int64) bool { return reset(w) })
	_, err := readFails(t, probe, failure.Closed)
	if !strings.HasPrefix(err.Error(), "1 deletion of canaries pending: ") {
		t.Errorf("got %v", err)
	}
}

func TestFailedDeletionIsOwedUntilItSucceeds(t *testing.T) {
	s, url := startStore(t)
	state := &memory{}
	s.swap(nil, toDeletions(500))
	probe := newStoreProbe(t, url, ModeCanary, state)
	for i := range 3 {
		b, err := readFails(t, probe, failure.HTTPStatus)
		if len(probe.owed) != i+1 {
			t.Errorf("after %d readings %d are owed", i+1, len(probe.owed))
		}
		if i == 2 {
			goldenFailure(t, "plant_store/owed", b, err)
		}
	}
	// A restart of the exporter forgets nothing.
	probe = newStoreProbe(t, url, ModeCanary, state)
	if len(probe.owed) != 3 || len(s.plants) != 3 {
		t.Errorf("owed after a restart: %v, in the store: %v; want 3", probe.owed, s.plants)
	}
	s.swap(nil, nil)
	readUp(t, probe)
	if len(probe.owed) != 0 || len(s.plants) != 0 || string(state.saved) != "[]" {
		t.Errorf("owed %v, plants %v, recorded %s; want none", probe.owed, s.plants, state.saved)
	}
}

func TestStoreThatRefusesDeletionsIsNotFilled(t *testing.T) {
	for _, mode := range []string{ModeCanary, ModeReject} {
		s, probe := startProbe(t, mode)
		accept := func(w http.ResponseWriter, p plant) bool {
			s.plants[p.ID] = p
			json.NewEncoder(w).Encode(plant{Name: p.Name, Tag: p.Tag}) //nolint:errcheck,errchkjson // a test's server
			return true
		}
		s.swap(accept, toDeletions(403))
		for range 3 * maxOwed {
			if _, err := read(t, probe, 10*time.Second); err == nil {
				t.Errorf("%s: up", mode)
			}
		}
		wantLeft(t, mode, s, probe, maxOwed, maxOwed)
	}
}

// TestStoreWithoutAPathToDeletionsIsNotFilled has a proxy that lets plants be created, and finds none to delete.
func TestStoreWithoutAPathToDeletionsIsNotFilled(t *testing.T) {
	for name, onPost := range map[string]func(http.ResponseWriter, plant) bool{"replaces": nil, "conflict": nil} {
		s, probe := startProbe(t, ModeCanary)
		if name == "conflict" {
			onPost = func(w http.ResponseWriter, p plant) bool {
				if _, ok := s.plants[p.ID]; ok {
					w.WriteHeader(http.StatusConflict)
					return true
				}
				return false
			}
		}
		s.swap(onPost, toDeletions(http.StatusNotFound))
		for range 3 * maxOwed {
			if _, err := read(t, probe, 10*time.Second); err == nil {
				t.Errorf("%s: up", name)
			}
		}
		wantLeft(t, name, s, probe, maxOwed, maxOwed)
		s.swap(onPost, nil)
		if _, err := read(t, probe, 10*time.Second); err != nil || len(s.plants) != 0 || len(probe.owed) != 0 {
			t.Errorf("%s: got %v, plants %v, owed %v; want all deleted once deletions find their way", name, err, s.plants, probe.owed)
		}
	}
}

// TestCapIsLeftWhenThePlantsAreGone has somebody else delete the plants that are owed.
func TestCapIsLeftWhenThePlantsAreGone(t *testing.T) {
	s, probe := startProbe(t, ModeCanary)
	s.swap(nil, toDeletions(http.StatusNotFound))
	for range 2 * maxOwed {
		read(t, probe, 10*time.Second) //nolint:errcheck // it fails, as the test before this one shows
	}
	clear(s.plants)
	s.swap(nil, nil)
	if _, err := read(t, probe, 10*time.Second); err != nil || len(s.plants) != 0 || len(probe.owed) != 0 {
		t.Errorf("got %v, plants %v, owed %v; want nothing owed once the store shows that it deletes", err, s.plants, probe.owed)
	}
}

// owedFor is what a state file keeps of plants that were created long ago.
func owedFor(url string, ids ...int64) *memory {
	owed := make([]string, len(ids))
	for i, id := range ids {
		owed[i] = fmt.Sprintf(`{"id":%d,"since":"2026-01-01T00:00:00Z","url":%q,"created":true}`, id, url)
	}
	return &memory{saved: []byte("[" + strings.Join(owed, ",") + "]")}
}

// TestSlowDeletionsLeaveTimeForACanary has a store that answers one deletion in a reading, and not a second one, before the
// exporter gives it up. So do deletions that take a third of the deadline.
func TestSlowDeletionsLeaveTimeForACanary(t *testing.T) {
	t.Parallel()
	s, url := startStore(t)
	before, posts := 0, 0 // deletions of this reading before its plant was sent
	s.swap(func(http.ResponseWriter, plant) bool { posts++; return false }, func(w http.ResponseWriter, _ int64) bool {
		if before++; posts > 0 || before != 2 {
			return false
		}
		s.mu.Unlock() // the store serves others meanwhile
		defer s.mu.Lock()
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			io.Copy(io.Discard, conn) //nolint:errcheck // it ends when the client has given up
			conn.Close()              //nolint:errcheck,gosec // that is the point
		}
		return true
	})
	const first = 9_007_190_000_000_001
	probe := newStoreProbe(t, url, ModeCanary, owedFor(url, first, first+1, first+2, first+3, first+4))
	for i := range 2 {
		s.mu.Lock()
		before, posts = 0, 0
		asked := len(s.deletes)
		s.mu.Unlock()
		if _, err := read(t, probe, 900*time.Millisecond); err != nil {
			t.Errorf("reading %d: %v", i, err)
		}
		s.mu.Lock()
		if posts != 1 || len(probe.owed) != 4-i {
			t.Errorf("reading %d: %d plants were sent, owed %v; want one, and one settled", i, posts, probe.owed)
		}
		if want := int64(first + 2*i); len(s.deletes) <= asked || s.deletes[asked] != want {
			t.Errorf("reading %d: deleted %v, want %d first, which has waited longest", i, s.deletes[asked:], want)
		}
		s.mu.Unlock()
	}
	if len(s.plants) != 0 {
		t.Errorf("left in the store: %v", s.plants)
	}
}

// TestPlantThatCannotBeDeletedHoldsUpNoOther has four plants that are gone and one that the store fails to delete.
func TestPlantThatCannotBeDeletedHoldsUpNoOther(t *testing.T) {
	s, url := startStore(t)
	const stuck = 9_007_190_000_000_003
	s.swap(nil, func(w http.ResponseWriter, id int64) bool {
		if id == stuck {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return id == stuck
	})
	probe := newStoreProbe(t, url, ModeCanary, owedFor(url, stuck-2, stuck-1, stuck, stuck+1, stuck+2))
	if _, err := read(t, probe, 10*time.Second); err != nil {
		t.Error(err)
	}
	if len(probe.owed) != 1 || probe.owed[0].ID != stuck || len(s.plants) != 0 {
		t.Errorf("owed %v, plants %v; want the others settled", probe.owed, s.plants)
	}
}

func TestNothingIsBegunAfterTheStop(t *testing.T) {
	s, url := startStore(t)
	posts := 0
	ctx, cancel := context.WithCancel(t.Context())
	s.swap(func(http.ResponseWriter, plant) bool { posts++; return false },
		func(http.ResponseWriter, int64) bool { cancel(); return false })
	state := &memory{saved: []byte(`[{"id":9007190000000007,"since":"2026-01-01T00:00:00Z","url":"` + url + `"}]`)}
	if err := newStoreProbe(t, url, ModeCanary, state).Collect(ctx, &Batch{}); err == nil {
		t.Error("no error after the stop")
	}
	if posts != 0 {
		t.Errorf("%d plants were sent after the stop", posts)
	}
}

// TestStopLeavesTimeForTheDeletion has a store that is so slow with a creation that the stop ends it.
func TestStopLeavesTimeForTheDeletion(t *testing.T) {
	t.Parallel()
	s, probe := startProbe(t, ModeCanary)
	ctx, cancel := context.WithCancel(t.Context())
	late := make(chan struct{})
	s.swap(func(_ http.ResponseWriter, p plant) bool {
		s.plants[p.ID] = p
		s.mu.Unlock() // the store serves others meanwhile
		cancel()
		<-late
		s.mu.Lock()
		return true
	}, nil)
	probe.grace = 600 * time.Millisecond
	wantReason(t, probe.Collect(ctx, &Batch{}), failure.Internal)
	close(late)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.plants) != 0 || len(s.deletes) != 1 {
		t.Errorf("plants %v, deletes %v; want the plant deleted within the grace", s.plants, s.deletes)
	}
}

func TestOwedPlantThatIsGoneIsDeleted(t *testing.T) {
	s, url := startStore(t)
	state := &memory{saved: []byte(`[{"id":9007190000000007,"since":"2026-01-01T00:00:00Z","url":"` + url +
		`"},{"id":9007190000000008,"since":"2026-01-01T00:00:00Z","url":"http://other"}]`)}
	probe := newStoreProbe(t, url, ModeReject, state)
	readUp(t, probe)
	// It is asked for once more after the store has shown that it works.
	if !slices.Equal(s.deletes, []int64{9007190000000007, 9007190000000007}) || len(probe.owed) != 1 {
		t.Errorf("deletes %v, owed %v; want this store's deleted, and another store's neither deleted nor forgotten", s.deletes, probe.owed)
	}
}

// TestLostPathForgetsNoCanary has everything not found for a while, as a proxy does that has lost its way to the store.
func TestLostPathForgetsNoCanary(t *testing.T) {
	for _, mode := range []string{ModeCanary, ModeReject} {
		t.Run(mode, func(t *testing.T) {
			s, probe := startProbe(t, ModeCanary)
			s.swap(nil, toDeletions(http.StatusNotFound))
			mustFail(t, probe, failure.NotFound)
			probe.mode = mode
			s.swap(toPlants(answers(http.StatusNotFound, "")), toDeletions(http.StatusNotFound))
			for range 2 {
				mustFail(t, probe, failure.NotFound)
				if len(probe.owed) != 1 || len(s.plants) != 1 {
					t.Fatalf("owed %v, plants %v; want the one plant owed", probe.owed, s.plants)
				}
			}
			s.swap(nil, nil)
			if _, err := read(t, probe, 10*time.Second); err != nil || len(s.plants) != 0 || len(probe.owed) != 0 {
				t.Errorf("got %v, plants %v, owed %v; want the plant deleted once the store is back", err, s.plants, probe.owed)
			}
		})
	}
}

func TestHungStoreCostsOneDeadline(t *testing.T) {
	t.Parallel()
	s, probe := startProbe(t, ModeCanary)
	s.swap(func(http.ResponseWriter, plant) bool { <-s.hang; return true }, nil)
	// The server holds its lock while it hangs, so the deletion hangs too.
	b, err := read(t, probe, 200*time.Millisecond)
	wantReason(t, err, failure.Timeout)
	if len(probe.owed) != 1 {
		t.Errorf("owed %v; nobody knows whether the plant is there", probe.owed)
	}
	goldenFailure(t, "plant_store/hung", b, err)
	if _, err := read(t, probe, 200*time.Millisecond); failure.ReasonOf(err) != failure.Timeout || len(probe.owed) != 1 {
		t.Errorf("got %v, owed %v; a store that does not answer is not sent another canary", err, probe.owed)
	}
}

func TestStopInTheMiddleFinishesTheTransaction(t *testing.T) {
	s, probe := startProbe(t, ModeCanary)
	ctx, cancel := context.WithCancel(t.Context())
	s.swap(func(http.ResponseWriter, plant) bool { cancel(); return false }, nil)
	if err := probe.Collect(ctx, &Batch{}); err != nil {
		t.Errorf("got %v, want the transaction finished", err)
	}
	if len(s.plants) != 0 || len(s.deletes) != 1 {
		t.Errorf("plants %v, deletes %v", s.plants, s.deletes)
	}
	if err := probe.Collect(ctx, &Batch{}); !errors.Is(err, context.Canceled) || len(s.deletes) != 1 {
		t.Errorf("got %v, want nothing begun after the stop", err)
	}
}

func TestNothingIsSentThatCannotBeRecorded(t *testing.T) {
	s, url := startStore(t)
	mustFail(t, newStoreProbe(t, url, ModeCanary, &memory{err: errors.New("disk full")}), failure.Internal)
	if len(s.plants) != 0 || len(s.deletes) != 0 {
		t.Errorf("plants %v, deletes %v", s.plants, s.deletes)
	}
}

// TestIDsAreOfTheRangeAlone takes from a range of one id, again and again.
func TestIDsAreOfTheRangeAlone(t *testing.T) {
	s, probe := startProbe(t, ModeCanary)
	probe.min, probe.max = 7, 7
	for range 20 {
		readUp(t, probe)
	}
	if ids := slices.Compact(s.deletes); !slices.Equal(ids, []int64{7}) {
		t.Errorf("ids %v, want 7 alone", ids)
	}
}
