package exportertest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// Eventually checks a condition repeatedly, and reports whether it held within the given time.
func Eventually(within, every time.Duration, holds func() bool) bool {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return false
		}
	}
	return true
}

// Pause waits, and returns false if ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Fetch gets the body of a status 200 within a time, uncompressed and on its own connection.
func Fetch(ctx context.Context, within time.Duration, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return Answer((&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip, req)
}

// Answer sends a request with do and reads the whole answer, which must have status 200.
func Answer(do func(*http.Request) (*http.Response, error), req *http.Request) ([]byte, error) {
	resp, err := do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("get %s: status %d", req.URL, resp.StatusCode)
	}
	return body, err
}

// ProcNumber returns the number after a key in a file of /proc/PID.
func ProcNumber(pid int, file, key string) (n uint64, err error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(content), key)
	_, err = fmt.Sscan(rest, &n)
	return n, err
}

// Descriptors returns the number of open files of a process.
func Descriptors(pid int) (int, error) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(open), err
}
