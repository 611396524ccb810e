package app

import "time"

// WithPace returns options that override the interval and timeout of every target: the soak test probes more often than a configuration
// allows.
func (o Options) WithPace(every, timeout time.Duration) Options {
	o.pace = func(string) (time.Duration, time.Duration) { return every, timeout }
	return o
}
