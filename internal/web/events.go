package web

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

const (
	// maxStreams is how many clients may listen at once, where the process may open four times as many files.
	maxStreams = 2000
	// streamRetry is after how long a client that was refused or lost may come again.
	streamRetry = 3 * time.Second
	// streamHeartbeat is how often a stream shows that it lives where there is nothing to tell.
	streamHeartbeat = 15 * time.Second
	// streamPatience is how long a client may take to accept a message. One that takes longer is dropped.
	streamPatience = 10 * time.Second
)

// event is the data of an event of the name status.
type event struct {
	Revision uint64       `json:"revision"`
	Time     time.Time    `json:"time"`
	Level    status.Level `json:"level"`
	Summary  string       `json:"summary"`
}

// watcher tells of new reports.
type watcher interface {
	// Watch returns the report that watchers have been told of last, and a channel that is closed when there is another.
	Watch() (told *status.Report, superseded <-chan struct{})
}

// streams are the open event streams.
type streams struct {
	open     atomic.Int64
	most     int64 // how many there may be
	messages kept
	// stopping ends all streams when it is closed.
	stopping <-chan struct{}
}

func newStreams(stopping <-chan struct{}) *streams {
	return &streams{stopping: stopping, most: streamsFor(OpenFiles()), messages: kept{make: message, plainly: true}}
}

// OpenFiles returns how many files this process may open.
func OpenFiles() uint64 {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 4 * maxStreams // nobody says that there are fewer
	}
	return uint64(files.Cur) //nolint:gosec,unconvert // signed on FreeBSD
}

// streamsFor is how many streams are served by a process that may open so many files: polls and scrapes need some too.
func streamsFor(files uint64) int64 { return int64(min(maxStreams, files/4)) }

// message is what all clients are told of a report.
func message(r *status.Report) ([]byte, error) {
	data, err := json.Marshal(event{r.Revision, r.Time, r.Level, r.Summary})
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "id: %s\nevent: status\ndata: %s\n\n", tag(r), data), nil
}

// serve tells a client of the present report and of each one that watchers are told of, until it goes, it does not
// read, or the server stops.
func (s *streams) serve(w http.ResponseWriter, r *http.Request, src watcher, log *slog.Logger) {
	if s.open.Add(1) > s.most {
		s.open.Add(-1)
		w.Header().Set("Retry-After", strconv.Itoa(int(streamRetry.Seconds())))
		writeError(w, http.StatusServiceUnavailable, fmt.Errorf("%d event streams are open, no more are served", s.most), log)
		return
	}
	defer s.open.Add(-1)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // or nginx would keep events back
	send := sender(w)
	if !send(fmt.Appendf(nil, "retry: %d\n\n", streamRetry.Milliseconds())) {
		return
	}
	heartbeat := time.NewTicker(streamHeartbeat)
	defer heartbeat.Stop()
	known := r.Header.Get("Last-Event-ID")
	for {
		report, superseded := src.Watch()
		if id := tag(report); id != known {
			known = id
			if m := s.messages.of(report); m.err != nil || !send(m.plain) {
				return
			}
			heartbeat.Reset(streamHeartbeat)
		}
		for waiting := true; waiting; {
			select {
			case <-superseded:
				waiting = false
			case <-heartbeat.C:
				if !send([]byte(": still here\n\n")) {
					return
				}
			case <-r.Context().Done():
				return
			case <-s.stopping:
				return
			}
		}
	}
}

// sender returns what writes a message to a client and reports whether the client took it in time. The server's own
// deadlines for a request and its answer are put off with each message, since a stream has no end.
func sender(w http.ResponseWriter) func([]byte) bool {
	c := http.NewResponseController(w)
	return func(message []byte) bool {
		if err := c.SetWriteDeadline(time.Now().Add(streamPatience)); err != nil {
			return false
		}
		if _, err := w.Write(message); err != nil {
			return false
		}
		if err := c.Flush(); err != nil {
			return false
		}
		// Until the next message, which renews it. Without any, a request whose body never comes would outlive its stream.
		if err := c.SetReadDeadline(time.Now().Add(streamHeartbeat + streamPatience)); err != nil {
			return false
		}
		// HTTP/2 resets a stream whose deadline passes, whether or not anything is being written.
		return c.SetWriteDeadline(time.Time{}) == nil
	}
}
