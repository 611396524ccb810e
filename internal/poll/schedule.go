package poll

import (
	"hash/fnv"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"
)

// paced is the cron.Schedule of a target with a constant interval. While scrapes are regular, readings end just before them; else
// the targets of one interval are spread evenly. It uses the monotonic clock, so that a step of the wall clock neither skips nor
// repeats a reading.
//
// To reach its place, a reading moves in steps: each comes early by at most a fortieth of the interval, or late by at most a fifth.
// It moves in the direction that takes fewer steps.
type paced struct {
	every time.Duration
	// start is when the target was first polled. offset, in [every/2, every), is its place while targets are spread evenly.
	start  time.Time
	offset time.Duration
	rhythm *rhythm
	// least is the least time between two readings; 0 if the target has none.
	least time.Duration
	// ahead returns how long before a scrape a reading must begin.
	ahead func() time.Duration
	// due is when the last scheduled reading was due; nil before the first. The reading at start is not scheduled.
	due atomic.Pointer[time.Time]
}

// early and late are how much a reading may deviate from the interval.
func (s *paced) early() time.Duration {
	return min(time.Duration(likeness*float64(s.every)), max(s.every-s.least, scrapeJitter))
}
func (s *paced) late() time.Duration { return s.every / 5 }

// scrapeJitter is how far a reading may undercut its target's least interval, since scrapes are never perfectly regular.
const scrapeJitter = 100 * time.Millisecond

// second is the least time between the first and the second reading; the most is every.
func (s *paced) second() time.Duration { return max(s.every/2, s.least-scrapeJitter) }

// Next implements cron.Schedule. For any time between the last reading and the next, the next one is the same.
func (s *paced) Next(t time.Time) time.Time {
	if last := s.due.Load(); last != nil {
		if since := t.Sub(*last); since >= 0 && since < s.every-s.early() {
			t = *last
		}
	} else if second := s.start.Add(s.second()); t.Before(second) {
		return s.place(second, s.every-s.second())
	}
	return s.place(t.Add(s.every-s.early()), s.early()+s.late())
}

// place returns when the next reading from t on is due: at its place before a scrape, but no later than within after t.
func (s *paced) place(t time.Time, within time.Duration) time.Time {
	scrapes, ok := s.rhythm.next(s.every)
	if ok {
		scrapes.from = scrapes.from.Add(-s.ahead())
	} else {
		scrapes = beat{s.start.Add(s.offset), s.every}
	}
	after := modulo(scrapes.from.Sub(t), scrapes.every)
	if before := scrapes.every - after; within < s.every && float64(before)/float64(s.early()) < float64(after)/float64(s.late()) {
		return t // moving early reaches the place in fewer steps
	}
	return t.Add(min(after, within))
}

// resume returns when the next reading is due after an interruption, such as a reload.
func (s *paced) resume(now time.Time) time.Time {
	last := s.due.Load()
	if last == nil {
		return s.Next(now)
	}
	if next := s.Next(*last); next.After(now) {
		return next
	}
	return now
}

// pace turns an "@every" schedule into a paced one, whose offset is a hash of the name. It does not change cron fields.
func pace(s cron.Schedule, name string, start time.Time, r *rhythm, ahead func() time.Duration) cron.Schedule {
	constant, ok := s.(cron.ConstantDelaySchedule)
	if existing, isPaced := s.(*paced); isPaced {
		existing.ahead = ahead // the old one belongs to the former poller
		return existing
	} else if !ok {
		return s
	}
	half := constant.Delay / 2
	offset := half + time.Duration(hash(name)%uint64(constant.Delay))/2
	return &paced{
		every:  constant.Delay,
		start:  start,
		offset: offset,
		rhythm: r,
		ahead:  ahead,
	}
}

func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// job is work on a schedule.
type job struct {
	schedule cron.Schedule
	due      time.Time
	run      func()
}

// jobQueue is a heap.Interface; the job that is due first is on top.
type jobQueue []*job

func (q jobQueue) Len() int           { return len(q) }
func (q jobQueue) Less(i, k int) bool { return q[i].due.Before(q[k].due) }
func (q jobQueue) Swap(i, k int)      { q[i], q[k] = q[k], q[i] }

// Push implements heap.Interface.
func (q *jobQueue) Push(j any) { *q = append(*q, j.(*job)) }

// Pop implements heap.Interface.
func (q *jobQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// begin sets when the job is first due.
func (j *job) begin(now time.Time) {
	if s, ok := j.schedule.(*paced); ok {
		j.due = s.resume(now)
	} else {
		j.due = j.schedule.Next(now.Round(0))
	}
}

// isDue reports whether the job is due, and if so sets when it is due next. Cron fields mean the wall clock: after a step back, the
// job may be due sooner than computed before.
func (j *job) isDue(now time.Time) bool {
	s, ok := j.schedule.(*paced)
	if !ok {
		now = now.Round(0)
	}
	if j.due.After(now) {
		if !ok {
			if next := j.schedule.Next(now); next.Before(j.due) {
				j.due = next
			}
		}
		return false
	}
	if ok {
		due := j.due
		if s.least > 0 || now.Sub(due) >= s.every/2 {
			due = now // the process was suspended, or the target has a least interval
		}
		s.due.Store(&due)
		j.due = s.Next(due)
	} else {
		j.due = j.schedule.Next(now)
	}
	return true
}
