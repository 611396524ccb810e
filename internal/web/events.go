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

	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

const (
	// maxStreams limits the open streams of a process that may open at least four times as many files.
	maxStreams = 2000
	// streamRetry is how long a refused or disconnected client should wait before it reconnects.
	streamRetry = 3 * time.Second
	// streamHeartbeat is how long a stream may be silent before it sends a heartbeat.
	streamHeartbeat = 15 * time.Second
	// streamWriteTimeout is how long a client may take to accept a message. A slower one is disconnected.
	streamWriteTimeout = 10 * time.Second
)

// event is the data of a status event.
type event struct {
	Schema   status.Schema `json:"schema"`
	Revision uint64        `json:"revision"`
	Time     time.Time     `json:"time"`
	Level    status.Level  `json:"level"`
	Summary  string        `json:"summary"`
}

// watcher announces new reports.
type watcher interface {
	// Watch returns the last report for watchers, and a channel that is closed when there is another.
	Watch() (published *status.Report, superseded <-chan struct{})
}

// streams are the open event streams.
type streams struct {
	open     atomic.Int64
	limit    int64
	messages *site.Cache[*status.Report, []byte]
	// stopping ends all streams when closed.
	stopping <-chan struct{}
}

func newStreams(stopping <-chan struct{}) *streams {
	return &streams{stopping: stopping, limit: maxStreamsFor(OpenFiles()), messages: reportCache[[]byte]()}
}

// OpenFiles returns how many files this process may open.
func OpenFiles() uint64 {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 4 * maxStreams // assume enough
	}
	return uint64(files.Cur) //nolint:gosec,unconvert // signed on FreeBSD
}

// maxStreamsFor limits the streams of a process that may open that many files: polls and scrapes need files too.
func maxStreamsFor(files uint64) int64 { return int64(min(maxStreams, files/4)) }

// message returns the event that announces a report, the same for all clients.
func message(r *status.Report) ([]byte, error) {
	data, err := json.Marshal(event{
		Revision: r.Revision,
		Time:     r.Time,
		Level:    r.Level,
		Summary:  r.Summary,
	})
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "id: %s\nevent: status\ndata: %s\n\n", tag(r), data), nil
}

// serve sends a client the present report's event and each further one, until the client disconnects, does not read, or the server
// stops.
func (s *streams) serve(w http.ResponseWriter, r *http.Request, src watcher, log *slog.Logger) {
	if s.open.Add(1) > s.limit {
		s.open.Add(-1)
		w.Header().Set("Retry-After", strconv.Itoa(int(streamRetry.Seconds())))
		writeError(w, http.StatusServiceUnavailable, fmt.Errorf("all %d event streams are in use: try again later", s.limit), log)
		return
	}
	defer s.open.Add(-1)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // nginx would buffer events otherwise
	send := newSender(w)
	if !send(fmt.Appendf(nil, "retry: %d\n\n", streamRetry.Milliseconds())) {
		return
	}
	heartbeat := time.NewTicker(streamHeartbeat)
	defer heartbeat.Stop()
	lastID := r.Header.Get("Last-Event-ID")
	for {
		report, superseded := src.Watch()
		if id := tag(report); id != lastID {
			lastID = id
			message, err := s.messages.Get(report.Made, report, func() ([]byte, error) { return message(report) })
			if err != nil || !send(message) {
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

// tag identifies a report, also across restarts of the process.
func tag(r *status.Report) string {
	return strconv.FormatInt(r.Made.UnixMilli(), 36) + "-" + strconv.FormatUint(r.Revision, 36)
}

// newSender returns a function that writes a message and reports whether the client accepted it in time. Each message extends the
// server's read and write deadlines, since a stream has no end.
func newSender(w http.ResponseWriter) func([]byte) bool {
	c := http.NewResponseController(w)
	return func(message []byte) bool {
		if err := c.SetWriteDeadline(time.Now().Add(streamWriteTimeout)); err != nil {
			return false
		}
		if _, err := w.Write(message); err != nil {
			return false
		}
		if err := c.Flush(); err != nil {
			return false
		}
		// The next message extends it. Without a deadline, a request whose body never arrives would outlive its stream.
		if err := c.SetReadDeadline(time.Now().Add(streamHeartbeat + streamWriteTimeout)); err != nil {
			return false
		}
		// HTTP/2 resets a stream at its write deadline even if nothing is being written.
		return c.SetWriteDeadline(time.Time{}) == nil
	}
}
