package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// numbers is a part that remembers numbers.
type numbers struct {
	kind string
	all  []int
}

func (n *numbers) Kind() string { return n.kind }

func (n *numbers) Read(data []byte) error {
	var i int
	err := json.Unmarshal(data, &i)
	n.all = append(n.all, i)
	return err
}

func (n *numbers) Records() iter.Seq[any] {
	all := slices.Clone(n.all)
	return func(yield func(any) bool) {
		for _, i := range all {
			if !yield(i) {
				return
			}
		}
	}
}

// add remembers a number, as a part does.
func (n *numbers) add(r *records, i int) {
	r.Lock()
	defer r.Unlock()
	n.all = append(n.all, i)
	r.put(n, i)
}

// slowStore is a disk that takes a while, or fails.
type slowStore struct {
	recordStore

	mu       sync.Mutex
	takes    time.Duration
	fails    bool
	rewrites int
}

func (s *slowStore) set(takes time.Duration, fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes, s.fails = takes, fails
}

func (s *slowStore) wait(rewrites int) error {
	s.mu.Lock()
	takes, fails := s.takes, s.fails
	s.rewrites += rewrites
	s.mu.Unlock()
	time.Sleep(takes)
	if fails {
		return errors.New("disk full")
	}
	return nil
}

func (s *slowStore) Append(records ...state.Record) error {
	if err := s.wait(0); err != nil {
		return err
	}
	return s.recordStore.Append(records...)
}

func (s *slowStore) Rewrite(records iter.Seq[state.Record]) error {
	if err := s.wait(1); err != nil {
		return err
	}
	return s.recordStore.Rewrite(records)
}

// inRecords runs a test with records in a journal and two parts. want compares the parts with what the journal would restore now.
func inRecords(
	t *testing.T, test func(r *records, s *slowStore, even, odd *numbers, want func(when string, restored bool)),
) (written string) {
	t.Helper()
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state.json")
		even, odd := &numbers{kind: "even"}, &numbers{kind: "odd"}
		r := openRecords(file, slog.New(slog.NewTextHandler(&log, nil)), even, odd)
		s := &slowStore{recordStore: r.journal}
		r.journal = s
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.run(ctx)
		}()
		want := func(when string, restored bool) {
			t.Helper()
			synctest.Wait()
			all := [2]*numbers{{kind: "even"}, {kind: "odd"}}
			other := openRecords(file, slog.New(slog.DiscardHandler), all[0], all[1])
			if got := slices.Equal(all[0].all, even.all) && slices.Equal(all[1].all, odd.all); got != restored {
				t.Errorf("%s: restored %v, %v of %v, %v; want all: %t", when, all[0].all, all[1].all, even.all, odd.all, restored)
			}
			other.close()
		}
		want("at the start", true)
		test(r, s, even, odd, want)
		s.set(0, false)
		cancel()
		<-ended
		want("at the end", true)
		r.close()
	})
	return log.String()
}

func TestRecordsAreRestored(t *testing.T) {
	log := inRecords(t, func(r *records, s *slowStore, even, odd *numbers, want func(string, bool)) {
		for i := range 10 {
			even.add(r, 2*i)
			odd.add(r, 2*i+1)
			want(fmt.Sprint("after ", i), true)
		}
		time.Sleep(5*rewriteEvery + time.Minute)
		if want("after rewrites", true); s.rewrites < 6 {
			t.Errorf("%d rewrites", s.rewrites)
		}
	})
	if log != "" {
		t.Errorf("log:\n%s", log)
	}
}

// TestRecordsDoNotWaitForTheDisk has a disk that hangs. Records beyond the queue are not lost once it works.
func TestRecordsDoNotWaitForTheDisk(t *testing.T) {
	inRecords(t, func(r *records, s *slowStore, even, _ *numbers, want func(string, bool)) {
		s.set(time.Hour, false)
		begin := time.Now()
		for i := range 5 * maxQueue {
			even.add(r, i)
		}
		r.Lock()
		queued := len(r.queue)
		r.Unlock()
		if took := time.Since(begin); took != 0 || queued > maxQueue {
			t.Errorf("took %s, %d records are queued", took, queued)
		}
		s.set(0, false)
		time.Sleep(3 * time.Hour)
		want("the disk works again", true)
	})
}

func TestRecordsOutliveAFullDisk(t *testing.T) {
	log := inRecords(t, func(r *records, s *slowStore, even, odd *numbers, want func(string, bool)) {
		even.add(r, 1)
		want("before", true)
		s.set(0, true)
		even.add(r, 2)
		odd.add(r, 3)
		want("the disk is full", false)
		time.Sleep(10 * retryWriting)
		s.set(0, false)
		time.Sleep(2 * retryWriting)
		want("it is no longer full", true)
		even.add(r, 4)
		want("it still works", true)
	})
	for text, want := range map[string]int{"cannot save history": 1, "history is saved again": 1} {
		if got := strings.Count(log, text); got != want {
			t.Errorf("the log says %q %d times, want %d:\n%s", text, got, want, log)
		}
	}
}

// TestRecordsEndWithoutTheDisk holds that a disk that hangs delays the end of the process by lastWriteWithin at most.
func TestRecordsEndWithoutTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &numbers{kind: "n"}
		r := openRecords(filepath.Join(t.TempDir(), "state.json"), slog.New(slog.DiscardHandler), n)
		s := &slowStore{recordStore: r.journal}
		s.set(time.Hour, false)
		r.journal = s
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		r.run(ctx)
		r.close()
		if took := time.Since(begin); took != time.Minute+lastWriteWithin {
			t.Errorf("it ended after %s", took)
		}
		time.Sleep(time.Hour)
		must(t, s.recordStore.Close())
	})
}

func TestRecordsWithoutStateFile(t *testing.T) {
	n := &numbers{kind: "n"}
	r := openRecords("", slog.New(slog.DiscardHandler), n)
	n.add(r, 1)
	r.run(t.Context())
	if len(r.queue) > 0 {
		t.Errorf("%d records are queued for no file", len(r.queue))
	}
	r.close()
}

// TestRecordsEndWithTheLastOne has the end come while a write runs: what was remembered meanwhile is written too.
func TestRecordsEndWithTheLastOne(t *testing.T) {
	inRecords(t, func(r *records, s *slowStore, even, odd *numbers, _ func(string, bool)) {
		s.set(100*time.Millisecond, false)
		even.add(r, 2)
		time.Sleep(50 * time.Millisecond)
		odd.add(r, 1) // inRecords ends run while 2 is still written
	})
}

// texts is a part with long records, of which it keeps the last.
type texts struct{ last string }

func (x *texts) Kind() string           { return "text" }
func (x *texts) Read(data []byte) error { return json.Unmarshal(data, &x.last) }
func (x *texts) Records() iter.Seq[any] { return slices.Values([]any{x.last}) }

// TestRecordsAreRewrittenWhenTheyGrow holds that one long record that changes often cannot fill the disk within the hour.
func TestRecordsAreRewrittenWhenTheyGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &texts{}
		r := openRecords(filepath.Join(t.TempDir(), "state.json"), slog.New(slog.DiscardHandler), x)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.run(ctx) }()
		for n := range 60 {
			synctest.Wait()
			r.Lock()
			x.last = strings.Repeat(string(rune('a'+n%26)), minRewrite/8)
			r.put(x, x.last)
			r.Unlock()
			synctest.Wait()
			if size := r.journal.Size(); size > 2*minRewrite {
				t.Fatalf("after %d records, the file has %d bytes", n, size)
			}
		}
		cancel()
		<-ended
		r.close()
	})
}

func TestQueuedRecordsAreBoundedInBytes(t *testing.T) {
	x := &texts{last: strings.Repeat("x", maxQueued/8)}
	r := &records{path: "x", wake: make(chan struct{}, 1)}
	for range 20 {
		r.put(x, x.last)
		if r.queued > maxQueued {
			t.Fatalf("%d bytes are queued", r.queued)
		}
	}
	if !r.incomplete {
		t.Error("what was dropped is not rewritten")
	}
}
