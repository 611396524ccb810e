package api

import "testing"

func TestNoProxyIsTakenFromTheEnvironment(t *testing.T) {
	c := &Client{Host: "tcp://engine.example:1", Endpoint: Endpoint{Network: "tcp", Address: "engine.example:1"}}
	s, err := c.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	if s.transport.Proxy != nil {
		t.Error("the transport looks for a proxy")
	}
}
