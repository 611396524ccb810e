// Workload is what the containers of the test against a real Docker Engine run: their main process, and their health
// command.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// flag is the file whose existence makes the container unhealthy.
const flag = "/unhealthy"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: workload serve | health | exit CODE... | last SECONDS | hold MEGABYTES | starve MEGABYTES | lose " +
			"MEGABYTES SECONDS | forward ADDRESS TARGET... | fill MEGABYTES MEGABYTES_OF_FILE")
	}
	switch args[0] {
	case "serve":
		return serve()
	case "health":
		if _, err := os.Stat(flag); err == nil {
			return fmt.Errorf("%s exists", flag)
		}
		return nil
	case "hold":
		if len(args) < 2 {
			return fmt.Errorf("usage: workload hold MEGABYTES")
		}
		megabytes, err := strconv.Atoi(args[1])
		if err != nil {
			return fmt.Errorf("read megabytes: %w", err)
		}
		held := make([]byte, megabytes<<20)
		for i := 0; i < len(held); i += 4096 {
			held[i] = 1 // a page is taken once it is written to
		}
		err = serve()
		runtime.KeepAlive(held)
		return err
	case "starve":
		if err := lose(3*time.Second, args[1:]); err != nil {
			return err
		}
		time.Sleep(2 * time.Second) // for the same reason
		os.Exit(128 + int(syscall.SIGKILL))
	case "lose":
		if len(args) < 3 {
			return fmt.Errorf("usage: workload lose MEGABYTES SECONDS")
		}
		seconds, err := strconv.Atoi(args[2])
		if err != nil {
			return fmt.Errorf("read seconds: %w", err)
		}
		if err := lose(time.Duration(seconds)*time.Second, args[1:2]); err != nil {
			return err
		}
		return serve()
	case "forward":
		if err := forward(args[1:]); err != nil {
			return err
		}
		return serve()
	case "fill":
		return fill(args[1:])
	case "last":
		if len(args) < 2 {
			return fmt.Errorf("usage: workload last SECONDS")
		}
		seconds, err := strconv.Atoi(args[1])
		if err != nil {
			return fmt.Errorf("read seconds: %w", err)
		}
		time.AfterFunc(time.Duration(seconds)*time.Second, func() { os.Exit(1) })
		return serve()
	case "exit":
		return exit(args[1:])
	}
	return fmt.Errorf("there is no command %q", args[0])
}

// exit ends the container's first run with the first code, and so on; all that follow with the last.
func exit(codes []string) error {
	const runs = "/runs"
	before, err := os.ReadFile(runs)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(runs, append(before, '.'), 0o600); err != nil {
		return err
	}
	if len(codes) == 0 {
		return errors.New("usage: workload exit CODE...")
	}
	code, err := strconv.Atoi(codes[min(len(before), len(codes)-1)])
	if err != nil {
		return fmt.Errorf("read exit code: %w", err)
	}
	os.Exit(code)
	return nil
}

// lose has a child hold, after a while, more than there is, and returns when that is killed.
// The engine begins to listen for want of memory once the container runs, and one that hears of a container's end first tells of the end
// alone, so it is given time before.
func lose(after time.Duration, args []string) error {
	time.Sleep(after)
	child := exec.Command("/proc/self/exe", append([]string{"hold"}, args...)...)
	child.Stderr = os.Stderr
	var killed *exec.ExitError
	if err := child.Run(); !errors.As(err, &killed) || killed.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		return fmt.Errorf("the child was not killed, but: %w", err)
	}
	return nil
}

// serve waits. SIGUSR1 makes the container unhealthy and healthy again in turn, SIGUSR2 busy and idle, SIGTERM ends it.
func serve() error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM)
	work := time.NewTicker(time.Second)
	work.Stop()
	busy := false
	for {
		var s os.Signal
		select {
		case s = <-signals:
		case begin := <-work.C:
			for time.Since(begin) < time.Millisecond {
				runtime.Gosched()
			}
			if err := os.WriteFile("/work", make([]byte, 16<<10), 0o600); err != nil {
				return err
			}
			continue
		}
		switch s {
		case syscall.SIGTERM:
			return nil
		case syscall.SIGUSR2:
			if busy = !busy; busy {
				work.Reset(time.Second)
			} else {
				work.Stop()
			}
			continue
		}
		if os.Remove(flag) == nil {
			continue
		}
		if err := os.WriteFile(flag, nil, 0o600); err != nil {
			return err
		}
	}
}
