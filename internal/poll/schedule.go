package poll

import (
	"hash/fnv"
	"time"

	"github.com/robfig/cron/v3"
)

// spread is a cron.Schedule that comes due every interval from first on. It keeps to the monotonic clock, so that a
// step of the wall clock neither skips nor repeats a reading.
type spread struct {
	first time.Time
	every time.Duration
}

// Next implements cron.Schedule.
func (s spread) Next(t time.Time) time.Time {
	since := t.Sub(s.first)
	if since < 0 {
		return t.Add(-since)
	}
	return t.Add(s.every - since%s.every)
}

// spreadFrom turns an "@every" schedule into one whose offset comes from a hash of the target's name, so that targets
// of the same interval are not asked in one burst. The first reading of a target is made at start, outside of the
// schedule; the second follows half an interval later at the earliest and one and a half at the latest. Every other
// schedule keeps the times that its user wrote.
func spreadFrom(s cron.Schedule, name string, start time.Time) cron.Schedule {
	constant, ok := s.(cron.ConstantDelaySchedule)
	if !ok {
		return s
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	offset := time.Duration(h.Sum64() % uint64(constant.Delay))
	if offset < constant.Delay/2 {
		offset += constant.Delay
	}
	return spread{first: start.Add(offset), every: constant.Delay}
}
