//go:build !linux

package simstack

// reserve does nothing: another process can take the port of a stopped service.
func reserve(address string) (string, func(), error) { return address, func() {}, nil }
