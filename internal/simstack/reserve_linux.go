package simstack

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"syscall"
)

// reserve takes an IPv4 TCP port without listening on it, and returns the address with that port. Until release, connections
// are refused unless the service listens, and no other process can take the port.
func reserve(address string) (own string, release func(), err error) {
	resolved, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return "", nil, err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, os.NewSyscallError("socket", err)
	}
	release = func() { _ = syscall.Close(fd) }
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: resolved.Port, Addr: [4]byte(resolved.IP.To4())})
	}
	bound, nameErr := syscall.Getsockname(fd)
	got, ok := bound.(*syscall.SockaddrInet4)
	if err != nil || !ok {
		release()
		return "", nil, fmt.Errorf("listen on %s: %w", address, cmp.Or(err, nameErr))
	}
	return (&net.TCPAddr{IP: got.Addr[:], Port: got.Port}).String(), release, nil
}
