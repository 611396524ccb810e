package site

import (
	"sync"
	"sync/atomic"
	"time"
)

// Cache keeps what is made from a source, until it is too old or the source has changed. Those who ask meanwhile wait for the one that
// makes it. The zero value keeps the last value for as long as its key is asked for.
type Cache[K comparable, V any] struct {
	// Age is how long a value is kept; 0 is for no limit.
	Age time.Duration
	// Serves reports whether what was made from one key may be used for another; nil is for never.
	Serves func(made, asked K) bool

	mu      sync.Mutex // held while a value is made
	current atomic.Pointer[cached[K, V]]
}

// cached is a value with what it was made from. It is immutable.
type cached[K, V any] struct {
	key   K
	made  time.Time
	value V
}

// Get returns the value of a key at a time, which produce makes if it is not there. An error is not kept.
func (c *Cache[K, V]) Get(now time.Time, key K, produce func() (V, error)) (V, error) {
	if have := c.current.Load(); c.isFresh(have, now, key) {
		return have.value, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.current.Load(); c.isFresh(have, now, key) {
		return have.value, nil
	}
	value, err := produce()
	if err == nil {
		c.current.Store(&cached[K, V]{key, now, value})
	}
	return value, err
}

func (c *Cache[K, V]) isFresh(have *cached[K, V], now time.Time, key K) bool {
	if have == nil || c.Age > 0 && now.Sub(have.made) >= c.Age {
		return false
	}
	return have.key == key || c.Serves != nil && c.Serves(have.key, key)
}
