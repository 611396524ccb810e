//go:build !linux

package simstack

// reserve does nothing: a stopped service's port is free for others meanwhile.
func reserve(address string) (string, func(), error) { return address, func() {}, nil }
