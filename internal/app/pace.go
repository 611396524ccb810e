package app

import "time"

// WithPace returns options under which every target is asked once in every, with the given deadline, whatever its
// configuration says: the soak test asks more often than a configuration can say.
func (o Options) WithPace(every, timeout time.Duration) Options {
	o.pace = func(string) (time.Duration, time.Duration) { return every, timeout }
	return o
}
