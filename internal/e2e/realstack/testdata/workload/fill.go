package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
)

// fill holds memory, and has the kernel keep a file in its page cache that was read once. The container is unhealthy until
// both are so.
func fill(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: workload fill MEGABYTES MEGABYTES_OF_FILE")
	}
	memory, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("read megabytes: %w", err)
	}
	file, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("read megabytes of file: %w", err)
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		return err
	}
	held := make([]byte, memory<<20)
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1 // a page is taken once it is written to
	}
	if err := cache(file); err != nil {
		return err
	}
	if err := os.Remove(flag); err != nil {
		return err
	}
	err = serve()
	runtime.KeepAlive(held)
	return err
}

// cache makes a file and reads it. What was written is dropped from the cache before, since a page that is used a second
// time counts as active.
func cache(megabytes int) error {
	f, err := os.Create("/file")
	if err != nil {
		return err
	}
	defer f.Close()
	chunk := make([]byte, 1<<20)
	for range megabytes {
		if _, err := f.Write(chunk); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	if _, _, errno := syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, dontNeed, 0, 0); errno != 0 {
		return fmt.Errorf("drop %s from the cache: %w", f.Name(), errno)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, f)
	return err
}
