package poll

import (
	"hash/fnv"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"
)

// paced is the cron.Schedule of a target that is read once in every. While scrapers come in a rhythm, readings end just
// before them; else targets of the same interval are spread over it. It keeps to the monotonic clock, so that a step of the
// wall clock neither skips nor repeats a reading.
//
// A reading keeps its distance to the one before: it comes a fortieth of the interval early at most. To find its place it
// comes so early, or late by a fifth of the interval at most, as often as it takes, whichever is sooner there.
type paced struct {
	every time.Duration
	// start is when the target was first polled, offset in [every/2, every) where the target is in the spread.
	start  time.Time
	offset time.Duration
	rhythm *rhythm
	// least is the least time between two readings; 0 where there is none.
	least time.Duration
	// ahead is how long before a scrape a reading has to begin.
	ahead func() time.Duration
	// due is when the last reading was due; nil before the second one: the first is made at start, outside of the schedule.
	due atomic.Pointer[time.Time]
}

// early and late are how much sooner or later than after an interval a reading may be due.
func (s *paced) early() time.Duration {
	return min(time.Duration(likeness*float64(s.every)), max(s.every-s.least, scrapeJitter))
}
func (s *paced) late() time.Duration { return s.every / 5 }

// scrapeJitter is how far a reading may undercut its target's least interval, to keep its place before scrapes that are
// never quite regular.
const scrapeJitter = 100 * time.Millisecond

// second is how long after the first reading the second one may be due at the earliest; at the latest it is after every.
func (s *paced) second() time.Duration { return max(s.every/2, s.least-scrapeJitter) }

// Next implements cron.Schedule. A time between the last reading and the next counts as that of the last.
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

// place finds the first place for a reading from t on, or takes what is within as its limit.
func (s *paced) place(t time.Time, within time.Duration) time.Time {
	scrapes, ok := s.rhythm.next(s.every)
	if ok {
		scrapes.from = scrapes.from.Add(-s.ahead())
	} else {
		scrapes = beat{s.start.Add(s.offset), s.every}
	}
	after := modulo(scrapes.from.Sub(t), scrapes.every)
	if before := scrapes.every - after; within < s.every && float64(before)/float64(s.early()) < float64(after)/float64(s.late()) {
		return t // the place before is reached in fewer steps, each a little early
	}
	return t.Add(min(after, within))
}

// again returns when the next reading is due of a target whose readings were interrupted until now.
func (s *paced) again(now time.Time) time.Time {
	last := s.due.Load()
	if last == nil {
		return s.Next(now)
	}
	if next := s.Next(*last); next.After(now) {
		return next
	}
	return now
}

// pace turns an "@every" schedule into a paced one. The offset in the spread comes from a hash of the name. Every other
// schedule keeps the times that its user wrote.
func pace(s cron.Schedule, name string, start time.Time, r *rhythm, ahead func() time.Duration) cron.Schedule {
	constant, ok := s.(cron.ConstantDelaySchedule)
	if known, again := s.(*paced); again {
		known.ahead = ahead // that of another poller knew another page
		return known
	} else if !ok {
		return s
	}
	half := constant.Delay / 2
	offset := half + time.Duration(hash(name)%uint64(constant.Delay))/2
	return &paced{every: constant.Delay, start: start, offset: offset, rhythm: r, ahead: ahead}
}

func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// job is something that is done whenever it is due.
type job struct {
	schedule cron.Schedule
	due      time.Time
	run      func()
}

// jobQueue is a heap.Interface with the job on top that is due first.
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

// begin finds when the job is due first.
func (j *job) begin(now time.Time) {
	if s, ok := j.schedule.(*paced); ok {
		j.due = s.again(now)
	} else {
		j.due = j.schedule.Next(now.Round(0))
	}
}

// isDue reports whether the job is due, and finds when it will be again. A cron line speaks of the wall clock: after a step
// back it comes due sooner than it seemed before.
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
			due = now // the whole process stood still, or the distance to the next one counts
		}
		s.due.Store(&due)
		j.due = s.Next(due)
	} else {
		j.due = j.schedule.Next(now)
	}
	return true
}
