package simstack

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// reserve takes a TCP port without listening on it and returns the address with the port it got. Connections to it are
// refused, a listener may come and go on it, and no other process can get it meanwhile. An address that is not IPv4
// is returned as it is.
func reserve(address string) (string, func(), error) {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return "", nil, err
	}
	ip := resolved.IP.To4()
	if ip == nil {
		return address, func() {}, nil
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, os.NewSyscallError("socket", err)
	}
	release := func() { _ = syscall.Close(fd) }
	port, err := bind(fd, &syscall.SockaddrInet4{Port: resolved.Port, Addr: [4]byte(ip)})
	if err != nil {
		release()
		return "", nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return (&net.TCPAddr{IP: ip, Port: port}).String(), release, nil
}

func bind(fd int, address *syscall.SockaddrInet4) (port int, err error) {
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(fd, address); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	if v4, ok := bound.(*syscall.SockaddrInet4); ok {
		return v4.Port, nil
	}
	return address.Port, nil
}
