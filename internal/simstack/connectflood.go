package simstack

import (
	"sync"
	"time"
)

const (
	// floodCount connections of an address within floodPeriod are let in: connect-flood 3:60, UnrealIRCd's default.
	floodCount  = 3
	floodPeriod = 60 * time.Second
	// floodSweep is how often the real server looks for addresses whose period is over.
	floodSweep = 5 * time.Second
)

// connectFlood counts every connection of an address, whatever it is used for, from the first one on.
type connectFlood struct {
	mu    sync.Mutex
	first map[string]time.Time
	count map[string]int
}

// admit counts a connection and reports whether it is let in.
func (f *connectFlood) admit(address string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.first[address]) > floodPeriod+floodSweep {
		if f.first == nil {
			f.first, f.count = map[string]time.Time{}, map[string]int{}
		}
		f.first[address], f.count[address] = now, 0
	}
	f.count[address]++
	return f.count[address] <= floodCount
}

func (f *connectFlood) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.first, f.count = nil, nil
}
