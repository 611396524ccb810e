package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// checkParallelism is how many targets a check probes at once.
	checkParallelism = 8
	// slowCheck is how long a check may take before it says what it waits for, and waitingEvery how often it says so.
	slowCheck    = 2 * time.Second
	waitingEvery = time.Second
)

// probes runs the probes of a check, some at once, and knows which have not finished.
type probes struct {
	running sync.WaitGroup
	slots   chan struct{}

	mu      sync.Mutex
	waiting []string
}

func newProbes() *probes { return &probes{slots: make(chan struct{}, checkParallelism)} }

// Go runs a probe once there is room, unless ctx ends before.
func (p *probes) Go(ctx context.Context, name string, probe func()) {
	p.mu.Lock()
	p.waiting = append(p.waiting, name)
	p.mu.Unlock()
	p.running.Go(func() {
		select {
		case p.slots <- struct{}{}:
			probe()
			<-p.slots
		case <-ctx.Done():
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waiting = slices.DeleteFunc(p.waiting, func(n string) bool { return n == name })
	})
}

// Wait waits for all probes. If that takes long, it calls show, unless nil, with the names of those that have not finished.
func (p *probes) Wait(show func(names []string)) {
	if show == nil {
		p.running.Wait()
		return
	}
	done := make(chan struct{})
	go func() {
		p.running.Wait()
		close(done)
	}()
	timer := time.NewTimer(slowCheck)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			p.mu.Lock()
			names := slices.Clone(p.waiting)
			p.mu.Unlock()
			if len(names) > 0 {
				show(names)
			}
			timer.Reset(waitingEvery)
		case <-done:
			return
		}
	}
}

// WaitingFor names what a check still waits for, short enough for a line.
func WaitingFor(targets []string) string {
	const most = 3
	if len(targets) <= most {
		return "waiting for " + strings.Join(targets, ", ")
	}
	return fmt.Sprintf("waiting for %s and %d more", strings.Join(targets[:most], ", "), len(targets)-most)
}
