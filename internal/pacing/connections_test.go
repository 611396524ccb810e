package pacing

import (
	"testing"
	"time"
)

func TestTargetsShareTheConnectionsOfALimitedServer(t *testing.T) {
	c := NewConnections()
	c.Configure([]string{"irc:6697", "irc:6697", "irc:6667", "irc:5222", "other:6697"})
	if got := c.Every("irc:6697"); got != 0 {
		t.Errorf("a server that has shown no limit: %s", got)
	}
	if !c.Limit("irc:6697") || c.Limit("irc:6697") {
		t.Error("a limit is new once")
	}
	want := func(address string, every time.Duration) {
		t.Helper()
		if got := c.Every(address); got != every {
			t.Errorf("%s: one in %s, want %s", address, got, every)
		}
	}
	want("irc:6697", 20*time.Minute)
	want("irc:6667", 0)
	c.Limit("irc:6667") // the server counts its ports together
	want("irc:6697", 30*time.Minute)
	want("irc:6667", 30*time.Minute)
	want("irc:5222", 0)
	want("other:6697", 0)
	c.Connected("irc:6667", start)
	if got := c.NextAsked("irc:6697"); got != start.Add(10*time.Minute) {
		t.Errorf("somebody may ask from %s on", got)
	}
	if !c.NextAsked("other:6697").IsZero() {
		t.Error("a limit of another server applies")
	}
}
