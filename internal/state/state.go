// Package state keeps what must survive a restart of the process in one file: a journal of records with checksums, of which the newest of
// each name counts. One goroutine writes it, so that a disk that hangs delays nobody for long.
package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// patience is how long somebody waits for the disk.
	patience = 2 * time.Second
	// closeWithin is how long Close waits for the last write.
	closeWithin = time.Second
	// syncEvery is how often the disk is told to keep what was written, unless somebody waits for that.
	syncEvery = time.Second
	// retryEvery is the pause after a write that failed, unless somebody saves a value.
	retryEvery = 10 * time.Second
	// The file is rewritten with the present records when it has growth times the size that it had afterwards, but at least minRewrite.
	growth     = 3
	minRewrite = 8 << 20
	// maxQueue bounds the records that wait for the disk; beyond them, the file is rewritten.
	maxQueue = 1000
	// seriesName is the name of the records of the series.
	seriesName = "past"
)

// errSlow means that the disk takes too long; writing goes on.
var errSlow = fmt.Errorf("the disk has taken longer than %s", patience)

// Series owns the records that only add up, which it has in memory in another form, so that the file does not keep them in memory too. Its
// lock guards it: change it and Add the record of the change under one lock.
type Series interface {
	sync.Locker
	// Read restores a record, before anything else is called. An earlier version had several kinds of them. An error means that the record
	// is damaged. data is valid during the call only.
	Read(kind string, data []byte) error
	// Records returns what replaces all former records. It is called with the lock, and iterated without it.
	Records() iter.Seq[any]
}

// none is the series of a file without one.
type none struct{ sync.Mutex }

func (*none) Read(string, []byte) error { return nil }
func (*none) Records() iter.Seq[any]    { return func(func(any) bool) {} }

// File is a state file. It is safe for concurrent use.
type File struct {
	log     *slog.Logger
	store   store // nil without a path
	series  Series
	wake    chan struct{}
	closing chan struct{}
	ended   chan struct{}

	mu     sync.Mutex // never held during I/O, nor when the lock of the series is taken
	values map[string][]byte
	queue  []record // newest last
	// incomplete says that the file lacks records of the series, so that only a rewrite makes it complete again.
	incomplete bool
	waiting    []waiter
	closed     bool
	// writing is since when the goroutine is busy with the disk; zero if it is not. failure is why the last write failed, told whether
	// that was logged. saved is when the file last had everything, tried when it was last written.
	writing, saved, tried time.Time
	failure               error
	told                  bool

	// What follows is only for the goroutine.
	rewrite  int64 // the size at which the file is rewritten
	synced   time.Time
	unsynced bool
}

// waiter waits until the queue is written, or synced. Unless it insists, it does not wait while the disk fails.
type waiter struct {
	insists, sync bool
	done          chan error
}

func newFile(log *slog.Logger, series Series) *File {
	return &File{
		log:     log,
		series:  series,
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		ended:   make(chan struct{}),
		values:  map[string][]byte{},
		rewrite: minRewrite,
		saved:   time.Now(),
	}
}

// restore hands out what was read.
func (f *File) restore(c *content) {
	for _, r := range c.records {
		switch {
		case r.op == removes:
			delete(f.values, r.name)
		case r.op == replaces:
			f.values[r.name] = r.data
		case f.series.Read(r.name, r.data) != nil:
			c.damaged++
		}
	}
	for name, data := range f.values {
		f.values[name] = slices.Clone(data) // the whole file must not stay in memory
	}
}

// Add queues a record of the series. The caller holds the lock of the series.
func (f *File) Add(value any) {
	if f.store != nil {
		f.put(recordOf(value))
	}
}

func recordOf(value any) record {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("record of the past: %v", err)) // a programming error: the values are ours
	}
	return record{seriesName, adds, raw}
}

func (f *File) put(r record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch old, known := f.values[r.name]; {
	case r.op == removes && !known, r.op == replaces && known && bytes.Equal(old, r.data):
		return
	case r.op == removes:
		delete(f.values, r.name)
	case r.op == replaces:
		f.values[r.name] = r.data
	}
	if f.store == nil || r.op == adds && f.incomplete { // the next rewrite includes it
		return
	}
	if r.op != adds {
		f.queue = slices.DeleteFunc(f.queue, func(q record) bool { return q.name == r.name && q.op != adds })
	}
	f.queue = append(f.queue, r)
	if len(f.queue) > maxQueue {
		f.queue, f.incomplete = nil, true
	}
	if f.failure == nil {
		f.awaken()
	}
}

func (f *File) awaken() {
	select {
	case f.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Flush waits until what was put before is written, so that not even SIGKILL loses it. It returns why that fails, at once while the disk
// fails or hangs, and after patience at the latest.
func (f *File) Flush() error { return f.wait(waiter{}) }

// wait waits for the goroutine.
func (f *File) wait(w waiter) error {
	if f.store == nil {
		return nil
	}
	w.done = make(chan error, 1)
	f.mu.Lock()
	switch {
	case f.closed:
		f.mu.Unlock()
		return errors.New("the state file is closed")
	case !f.writing.IsZero() && time.Since(f.writing) >= patience:
		f.mu.Unlock()
		return f.late()
	case !w.insists && (f.failure != nil || len(f.queue) == 0 && f.writing.IsZero() && !f.incomplete):
		defer f.mu.Unlock()
		return f.failure
	}
	f.waiting = append(f.waiting, w)
	f.mu.Unlock()
	f.awaken()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-w.done:
		return err
	case <-timer.C:
		return f.late()
	}
}

// late says that the disk takes too long.
func (f *File) late() error {
	err := withAdvice(errSlow)
	f.report(err)
	return err
}

// Status returns when the file last had everything, by the clock as it is now, and why nothing is kept since; nil if all is.
func (f *File) Status() (saved time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	saved = now.Add(-now.Sub(f.saved)) // it must not look old because the clock was set, or the machine was suspended
	if !f.writing.IsZero() && now.Sub(f.writing) >= patience {
		return saved, withAdvice(errSlow)
	}
	return saved, f.failure
}

// Keeps reports whether there is a file at all.
func (f *File) Keeps() bool { return f.store != nil }

// report logs when saving begins to fail, and when it works again.
func (f *File) report(err error) {
	f.mu.Lock()
	told := f.told
	f.told = err != nil
	f.mu.Unlock()
	switch {
	case err != nil && !told:
		f.log.Error("cannot save the state; a restart of the exporter forgets what happens from now on", "err", err)
	case err == nil && told:
		f.log.Info("the state is saved again")
	}
}

// run writes until Close, once ready returns.
func (f *File) run(ready func()) {
	defer close(f.ended)
	f.setBusy(time.Now())
	ready()
	f.setBusy(time.Time{})
	f.awaken()
	for {
		timer := time.NewTimer(f.pause())
		select {
		case <-f.wake:
		case <-timer.C:
		case <-f.closing:
			timer.Stop()
			f.write()
			if err := f.store.close(); err != nil {
				f.report(err)
			}
			return
		}
		timer.Stop()
		f.write()
	}
}

func (f *File) setBusy(since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writing = since
}

// pause is how long the goroutine may wait until it has something to do by itself.
func (f *File) pause() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.failure != nil:
		return max(retryEvery-time.Since(f.tried), 0)
	case f.unsynced:
		return max(syncEvery-time.Since(f.synced), 0)
	}
	return retryEvery
}

// write brings the disk up to date, and tells who waits for it.
func (f *File) write() {
	f.mu.Lock()
	batch, waiting, whole := f.queue, f.waiting, f.incomplete || f.failure != nil
	f.queue, f.waiting = nil, nil
	f.writing = time.Now()
	f.tried = f.writing
	f.mu.Unlock()
	err := f.transfer(batch, whole)
	f.settle(err, waiting, false)
	syncNow := slices.ContainsFunc(waiting, func(w waiter) bool { return w.sync })
	if err == nil && f.unsynced && (syncNow || time.Since(f.synced) >= syncEvery) {
		err = withAdvice(f.store.sync())
		f.synced, f.unsynced = time.Now(), false
	}
	f.settle(err, waiting, true)
}

// settle notes how writing, or in the end syncing, has ended, and tells who waits for that.
func (f *File) settle(err error, waiting []waiter, end bool) {
	f.mu.Lock()
	f.failure, f.incomplete = err, f.incomplete || err != nil
	if err == nil {
		f.saved = f.tried
	}
	if end {
		f.writing = time.Time{}
	}
	f.mu.Unlock()
	f.report(err)
	for _, w := range waiting {
		if w.sync == end {
			w.done <- err
		}
	}
}

// transfer appends a batch, or rewrites the file.
func (f *File) transfer(batch []record, whole bool) error {
	intact, err := f.store.intact()
	if err != nil {
		return withAdvice(err)
	}
	if whole || !intact || f.store.size() >= f.rewrite {
		return withAdvice(f.rewriteAll())
	}
	var lines []byte
	for _, r := range batch {
		lines = r.appendTo(lines)
	}
	if len(lines) == 0 {
		return nil
	}
	f.unsynced = true
	return withAdvice(f.store.append(lines))
}

// rewriteAll replaces the file by what values and the series have now, which includes what is queued.
func (f *File) rewriteAll() error {
	f.series.Lock()
	f.mu.Lock()
	values := maps.Clone(f.values)
	f.incomplete, f.queue = false, nil
	f.mu.Unlock()
	series := f.series.Records()
	f.series.Unlock()
	err := f.store.rewrite(func(w io.Writer) {
		io.WriteString(w, header) //nolint:errcheck // the flush returns it
		write := func(r record) { w.Write(r.appendTo(nil)) }
		for _, name := range slices.Sorted(maps.Keys(values)) {
			write(record{name, replaces, values[name]})
		}
		for value := range series {
			write(recordOf(value))
		}
	})
	if err == nil {
		f.rewrite, f.synced, f.unsynced = max(growth*f.store.size(), minRewrite), time.Now(), false
	}
	return err
}

// Close writes what is left and unlocks the file for other processes, unless the disk hangs. Afterwards values can be read, but not saved.
func (f *File) Close() error {
	f.mu.Lock()
	closed := f.closed || f.store == nil
	f.closed = true
	f.mu.Unlock()
	if closed {
		return nil
	}
	close(f.closing)
	select {
	case <-f.ended:
		_, err := f.Status()
		return err
	case <-time.After(closeWithin):
		return withAdvice(errSlow)
	}
}
