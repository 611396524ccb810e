package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// numbers is a series of numbers, some of which have a key. A rewrite keeps the newest of each key, and the sum of the others.
type numbers struct {
	sync.Mutex

	keyed map[string]int
	sum   int
}

// number is a record.
type number struct {
	Key string `json:"key,omitempty"`
	N   int    `json:"n"`
}

func newNumbers() *numbers { return &numbers{keyed: map[string]int{}} }

func (n *numbers) Read(kind string, data []byte) error {
	one := number{}
	if kind != seriesName { // of an earlier version
		return json.Unmarshal(data, &n.sum)
	}
	err := json.Unmarshal(data, &one)
	n.take(one)
	return err
}

func (n *numbers) take(one number) {
	if one.Key == "" {
		n.sum += one.N
	} else {
		n.keyed[one.Key] = one.N
	}
}

func (n *numbers) Records() iter.Seq[any] {
	keyed, sum := maps.Clone(n.keyed), n.sum
	return func(yield func(any) bool) {
		if !yield(number{N: sum}) {
			return
		}
		for key, i := range keyed {
			if !yield(number{key, i}) {
				return
			}
		}
	}
}

// set gives a key a number; add adds one to the sum.
func (n *numbers) set(f *File, key string, i int) {
	n.Lock()
	defer n.Unlock()
	n.take(number{key, i})
	f.Add(number{key, i})
}

func (n *numbers) add(f *File, i int) { n.set(f, "", i) }

func (n *numbers) text() string {
	n.Lock()
	defer n.Unlock()
	raw, _ := json.Marshal(map[string]any{"keyed": n.keyed, "sum": n.sum})
	return string(raw)
}

// slow is a store that takes a while, or fails.
type slow struct {
	store

	mu     sync.Mutex
	takes  time.Duration
	fails  error
	counts counts
}

// counts are how much was done.
type counts struct{ written, rewrites, syncs int }

func (s *slow) done() counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

func (s *slow) set(takes time.Duration, fails error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes, s.fails = takes, fails
}

func (s *slow) wait(done counts) error {
	s.mu.Lock()
	takes, fails := s.takes, s.fails
	s.counts.written += done.written
	s.counts.rewrites += done.rewrites
	s.counts.syncs += done.syncs
	s.mu.Unlock()
	time.Sleep(takes)
	return fails
}

func (s *slow) append(lines []byte) error {
	if err := s.wait(counts{written: len(lines)}); err != nil {
		return err
	}
	return s.store.append(lines)
}

func (s *slow) rewrite(write func(io.Writer)) error {
	if err := s.wait(counts{rewrites: 1}); err != nil {
		return err
	}
	err := s.store.rewrite(write)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.written += int(s.size())
	return err
}

func (s *slow) sync() error {
	if err := s.wait(counts{syncs: 1}); err != nil {
		return err
	}
	return s.store.sync()
}

// journal is an open file with a part.
type journal struct {
	*File

	t      *testing.T
	path   string
	part   *numbers
	slow   *slow
	notice string
	log    *bytes.Buffer
}

// newJournal is a file that is not open yet, with a store before its disk.
func newJournal(t *testing.T, d *disk) *journal {
	t.Helper()
	j := &journal{
		t:    t,
		path: d.path,
		part: newNumbers(),
		slow: &slow{store: d},
		log:  &bytes.Buffer{},
	}
	j.File = newFile(slog.New(slog.NewTextHandler(j.log, nil)), j.part)
	j.store = j.slow
	return j
}

// openAt opens a file until the end of the test.
func openAt(t *testing.T, path string) *journal {
	t.Helper()
	d := &disk{path: path}
	j := newJournal(t, d)
	d.log = slog.New(slog.NewTextHandler(j.log, nil))
	var err error
	if j.File, j.notice, err = j.open(d, d.load); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() }) //nolint:errcheck // a test that minds closes it itself
	return j
}

func open(t *testing.T) *journal {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "state.json"))
}

func (j *journal) save(name string, value any) {
	j.t.Helper()
	if err := j.Value(name).Save(value); err != nil {
		j.t.Fatal(err)
	}
}

func (j *journal) end() {
	j.t.Helper()
	if err := j.Close(); err != nil {
		j.t.Fatal(err)
	}
}

// kept is everything that a file has, by what a new process would read of a copy.
func kept(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := interpret(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	part := newNumbers()
	f := newFile(nil, part)
	f.restore(&c)
	return valuesOf(f) + part.text()
}

func valuesOf(f *File) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := map[string]json.RawMessage{}
	for name, raw := range f.values {
		text[name] = raw
	}
	raw, _ := json.Marshal(text)
	return string(raw)
}

// isKept holds that the file has what memory has.
func (j *journal) isKept(when string) {
	j.t.Helper()
	if got, want := kept(j.t, j.path), valuesOf(j.File)+j.part.text(); got != want {
		j.t.Errorf("%s: the file has\n%s\nmemory has\n%s", when, got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var errFull = errors.New("the test's disk is full")

// count holds how often the log says each text.
func (j *journal) logged(want map[string]int) {
	j.t.Helper()
	for text, n := range want {
		if got := strings.Count(j.log.String(), text); got != n {
			j.t.Errorf("the log says %q %d times, want %d:\n%s", text, got, n, j.log)
		}
	}
}
