package app

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// historySuffix is appended to state_file.
const historySuffix = ".history"

// recordPart is a part of the history, with records of its own kind in the journal. Its methods are called with the lock of records held.
type recordPart interface {
	// Kind marks the part's records.
	Kind() string
	// Read restores one record, before anything else is called. An error means that the record is damaged.
	Read(data []byte) error
	// Records returns the values that replace all former records. It is iterated without the lock, so it must be a copy.
	Records() iter.Seq[any]
}

// recordStore is a state.Journal.
type recordStore interface {
	Append(records ...state.Record) error
	Rewrite(records iter.Seq[state.Record]) error
	Size() int64
	Close() error
}

// records owns the journal: it restores the parts of the history, and writes their records in a goroutine of its own, so that a disk that
// hangs stops no poll and no scrape. Its lock guards the parts too: change a part and put the record of the change under one lock.
type records struct {
	sync.Mutex

	path    string
	journal recordStore
	parts   []recordPart
	log     *slog.Logger
	wake    chan struct{}

	queue  []state.Record
	queued int // the bytes of the queue
	// incomplete says that the journal lacks records, so that only a rewrite makes it complete again.
	incomplete bool

	failing bool // the last attempt to write has failed; only run and its writer use it
	hanging bool // a write has not ended; only run and close use it

	rewriteAt int64 // the size at which the journal is rewritten; only write uses it
}

const (
	// rewriteEvery is how often the file is rewritten with the present records. That also happens when it has twice the size that it had
	// afterwards, but at least minRewrite.
	rewriteEvery = time.Hour
	minRewrite   = 4 << 20
	// maxQueue and maxQueued bound the records that wait for the disk, and their bytes; beyond them, the journal is rewritten once the
	// disk works.
	maxQueue  = 1000
	maxQueued = 4 << 20
	// retryWriting is the pause after a failed write.
	retryWriting = 10 * time.Second
	// lastWriteWithin is how long the end of the process waits for a write that runs, and for the last one.
	lastWriteWithin = time.Second
)

// openRecords restores the parts from the journal beside the state file. Without a state file, nothing is kept over a restart.
func openRecords(stateFile string, log *slog.Logger, parts ...recordPart) *records {
	r := &records{
		parts:      parts,
		log:        log,
		wake:       make(chan struct{}, 1),
		incomplete: true,
	}
	if stateFile != "" {
		r.path = stateFile + historySuffix
	}
	journal, notice := state.OpenJournal(r.path, r.read)
	r.journal = journal
	if notice != "" {
		log.Warn("the history file has a problem", "problem", notice)
	}
	return r
}

func (r *records) read(record state.Record) error {
	for _, p := range r.parts {
		if p.Kind() == record.Kind {
			return p.Read(record.Data)
		}
	}
	return fmt.Errorf("unknown kind %q", record.Kind)
}

// put queues a record of a part. The caller holds the lock.
func (r *records) put(p recordPart, value any) {
	if r.path == "" || r.incomplete {
		return // nothing is kept, or the next rewrite includes it
	}
	record := newRecord(p, value)
	r.queue, r.queued = append(r.queue, record), r.queued+len(record.Data)
	if len(r.queue) > maxQueue || r.queued > maxQueued {
		r.queue, r.queued, r.incomplete = nil, 0, true
	}
	select {
	case r.wake <- struct{}{}:
	default: // run is woken already
	}
}

func newRecord(p recordPart, value any) state.Record {
	record, err := state.NewRecord(p.Kind(), value)
	if err != nil {
		panic(fmt.Sprintf("record of %s: %v", p.Kind(), err)) // a programming error: the values are ours
	}
	return record
}

// run writes records until ctx is done, then all of them once more. It leaves a write behind that hangs.
func (r *records) run(ctx context.Context) {
	if r.path == "" {
		return
	}
	rewrite := time.NewTicker(rewriteEvery)
	defer rewrite.Stop()
	for ctx.Err() == nil && r.writeAside(ctx) {
		wake, retry := r.wake, (<-chan time.Time)(nil)
		if r.failing {
			wake, retry = nil, time.After(retryWriting)
		}
		select {
		case <-ctx.Done():
		case <-wake:
		case <-retry:
		case <-rewrite.C:
			r.markIncomplete()
		}
	}
	// What is queued comes first, since that is quick.
	if !r.hanging && r.writeAside(ctx) {
		r.markIncomplete()
		r.writeAside(ctx)
	}
}

// markIncomplete makes the next write a rewrite.
func (r *records) markIncomplete() {
	r.Lock()
	defer r.Unlock()
	r.incomplete = true
}

// writeAside writes what is queued. It returns false if the disk hangs longer than lastWriteWithin after ctx is done.
func (r *records) writeAside(ctx context.Context) bool {
	written := make(chan error, 1)
	go func() { written <- r.write() }()
	select {
	case err := <-written:
		r.logWriting(err)
		return true
	case <-ctx.Done():
	}
	timer := time.NewTimer(lastWriteWithin)
	defer timer.Stop()
	select {
	case err := <-written:
		r.logWriting(err)
		return true
	case <-timer.C:
		r.hanging = true
		return false
	}
}

// write appends the queue, or rewrites the journal if it is incomplete.
func (r *records) write() error {
	r.Lock()
	queue, rewrite := r.queue, r.incomplete || r.journal.Size() > r.rewriteAt
	r.queue, r.queued, r.incomplete = nil, 0, false
	var all []iter.Seq[any]
	if rewrite {
		for _, p := range r.parts {
			all = append(all, p.Records())
		}
	}
	r.Unlock()
	var err error
	if rewrite {
		err = r.journal.Rewrite(r.encode(all))
		r.rewriteAt = max(2*r.journal.Size(), minRewrite)
	} else {
		err = r.journal.Append(queue...)
	}
	if err != nil {
		r.markIncomplete()
	}
	return err
}

// encode encodes the records of all parts, one at a time.
func (r *records) encode(all []iter.Seq[any]) iter.Seq[state.Record] {
	return func(yield func(state.Record) bool) {
		for i, values := range all {
			for value := range values {
				if !yield(newRecord(r.parts[i], value)) {
					return
				}
			}
		}
	}
}

// logWriting logs when writing begins to fail, and when it works again.
func (r *records) logWriting(err error) {
	switch {
	case err != nil && !r.failing:
		r.log.Error("cannot save history; a restart of the exporter forgets what has happened since", "err", err)
	case err == nil && r.failing:
		r.log.Info("history is saved again")
	}
	r.failing = err != nil
}

// close closes the journal, unless the disk hangs. Call it after run.
func (r *records) close() {
	if r.hanging {
		return
	}
	if err := r.journal.Close(); err != nil {
		r.log.Error("close history file", "err", err)
	}
}
