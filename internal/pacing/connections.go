package pacing

import (
	"net"
	"sync"
	"time"
)

// connectionEvery is the time between two connections to a server that limits them by the hour: 6 an hour, where InspIRCd may allow 10, so
// that a person with check, and a relay's session, still get in.
const connectionEvery = 10 * time.Minute

// Connections knows which servers limit the connections of an address by the hour. Targets at such a server share what is allowed. It is
// safe for concurrent use.
type Connections struct {
	mu      sync.Mutex
	limited map[string]map[string]bool // addresses that have shown the limit, by host
	targets map[string]map[string]int  // targets on the default schedule, by host and address
	last    map[string]time.Time       // the last connection, by host
}

// NewConnections returns an empty Connections.
func NewConnections() *Connections {
	return &Connections{limited: map[string]map[string]bool{}, targets: map[string]map[string]int{}, last: map[string]time.Time{}}
}

// Configure sets the addresses, host:port, of the targets that share what is allowed.
func (c *Connections) Configure(addresses []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.targets)
	for _, address := range addresses {
		host := hostOf(address)
		if c.targets[host] == nil {
			c.targets[host] = map[string]int{}
		}
		c.targets[host][address]++
	}
}

// Limit records that the server at an address limits connections by the hour. It reports whether that is new.
func (c *Connections) Limit(address string) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	host := hostOf(address)
	if c.limited[host] == nil {
		c.limited[host] = map[string]bool{}
	}
	isNew := !c.limited[host][address]
	c.limited[host][address] = true
	return isNew
}

// Every returns the time between two connections of one target at an address; 0 without a limit.
func (c *Connections) Every(address string) time.Duration {
	if c == nil || address == "" {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	host := hostOf(address)
	if !c.limited[host][address] {
		return 0
	}
	sharing := 0
	for limited := range c.limited[host] { // a server counts the connections to all its ports
		sharing += c.targets[host][limited]
	}
	return connectionEvery * time.Duration(max(sharing, 1))
}

// Connected records a connection to an address.
func (c *Connections) Connected(address string, now time.Time) {
	if c == nil || address == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[hostOf(address)] = now
}

// NextAsked returns when somebody may ask for another connection to an address; zero without a limit.
func (c *Connections) NextAsked(address string) time.Time {
	if c.Every(address) == 0 {
		return time.Time{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[hostOf(address)].Add(connectionEvery)
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
