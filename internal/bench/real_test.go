//go:build realservers

package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// awaitWithin bounds the wait for a server to be as it should.
const awaitWithin = time.Minute

func get(ctx context.Context, url, encoding string) ([]byte, error) {
	return getBy(ctx, http.DefaultTransport, url, encoding)
}

func getBy(ctx context.Context, by http.RoundTripper, url, encoding string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", metricsAccept)
	req.Header.Set("Accept-Encoding", encoding)
	resp, err := by.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: status %d", url, resp.StatusCode)
	}
	return io.ReadAll(resp.Body)
}

// cpuTime is how long a process has been on a processor.
func cpuTime(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		tb.Fatalf("process %d tells no processor time: %v", pid, err)
	}
	var sum time.Duration
	for _, name := range threads {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		first, _, _ := strings.Cut(string(stat), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		sum += time.Duration(ns)
	}
	return sum
}
