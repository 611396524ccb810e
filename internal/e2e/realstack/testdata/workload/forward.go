package main

import (
	"fmt"
	"io"
	"net"
)

// forward passes on connections: pairs of an address to listen on and the one that is connected to.
func forward(args []string) error {
	if len(args) == 0 || len(args)%2 != 0 {
		return fmt.Errorf("usage: workload forward ADDRESS TARGET...")
	}
	for ; len(args) > 0; args = args[2:] {
		l, err := net.Listen("tcp", args[0])
		if err != nil {
			return err
		}
		go accept(l, args[1])
	}
	return nil
}

func accept(l net.Listener, target string) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		go pass(from.(*net.TCPConn), target)
	}
}

// pass tells each side when the other has said its last.
func pass(from *net.TCPConn, target string) {
	defer from.Close()
	conn, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer conn.Close()
	to := conn.(*net.TCPConn)
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(to, from)
		to.CloseWrite()
	}()
	io.Copy(from, to)
	from.CloseWrite()
	<-done
}
