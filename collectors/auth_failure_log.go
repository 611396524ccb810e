package collectors

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// AuthFailureLog configures counting failed logins in a container's log, for an XMPP server that does not count them. The
// zero AuthFailureLog counts nothing.
type AuthFailureLog struct {
	// Container is the name of the XMPP server's container; "" switches counting off.
	Container string `yaml:"container"`
	// DockerHost is its engine, unix:// or tcp:// without TLS.
	DockerHost string `yaml:"docker_host"`
	// Pattern is a regular expression that matches lines about failed logins.
	Pattern string `yaml:"pattern"`
}

// defaultFailurePattern is what the community's mod_log_auth writes for failed logins of clients and over HTTP or OAuth2.
const defaultFailurePattern = "Failed authentication attempt"

func newAuthFailureLog() AuthFailureLog {
	return AuthFailureLog{DockerHost: "unix:///var/run/docker.sock", Pattern: defaultFailurePattern}
}

func (s *AuthFailureLog) check(r *config.Report) {
	if s.Container == "" {
		return
	}
	if !fleet.ContainerName.MatchString(s.Container) {
		r.Faultf("auth_failure_log.container", "is %q, which is not a container name", s.Container)
	}
	if _, err := regexp.Compile(s.Pattern); err != nil || s.Pattern == "" {
		r.Faultf("auth_failure_log.pattern", "is %q, must be a regular expression that matches lines about failed logins", s.Pattern)
	}
	if _, err := api.ParseEndpoint(s.DockerHost, false); err != nil {
		r.Faultf("auth_failure_log.docker_host", "%v", err)
	}
}

var authFailuresDesc = readDesc(authFailures, "Failed client logins. Made of the lines of a container's log, by auth_failure_log.")

// loginLog counts the lines about failed logins in a container's log. It starts at the log's end, so the count starts at 0
// and misses what fails while the exporter restarts. It keeps no line.
type loginLog struct {
	container string
	pattern   *regexp.Regexp
	engine    *api.Client
	// begun is set once last is known: the engine's timestamp of the last line read, zero for an empty log.
	begun    bool
	last     time.Time
	failures float64
}

// newLoginLog returns nil without a container. The settings must be valid.
func newLoginLog(s AuthFailureLog, d Deps) (*loginLog, error) {
	if s.Container == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	pattern, err := regexp.Compile(s.Pattern)
	if err != nil {
		return nil, fmt.Errorf("auth_failure_log.pattern: %w", err)
	}
	engine, err := (&Docker{Host: s.DockerHost}).Client(int64(d.Limits.MetricsBody), d.UserAgent)
	if err != nil {
		return nil, fmt.Errorf("auth_failure_log.docker_host: %w", err)
	}
	return &loginLog{container: s.Container, pattern: pattern, engine: engine}, nil
}

// logTimeout is short so that a hanging log does not fail the whole probe.
const logTimeout = 3 * time.Second

// read counts the lines that are new since the last call. After an error, the lines before it count, and the next call
// continues there.
func (l *loginLog) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	s, err := l.engine.Open(1)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Negotiate(ctx); err != nil {
		return err
	}
	inspected, described, err := s.Inspect(ctx, l.container)
	switch {
	case err != nil:
		return err
	case inspected == nil || inspected.Config == nil:
		return failure.Errorf(failure.NotFound, "read log of container %s: there is no such container", l.container)
	}
	clockWentBack := l.begun && ahead(l.last, described.Date)
	if clockWentBack {
		l.begun, l.last = false, time.Time{}
	}
	options := container.LogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true}
	switch {
	case !l.begun:
		options.Tail = "1"
	case !l.last.IsZero():
		options.Since = fmt.Sprintf("%d.%09d", l.last.Unix(), l.last.Nanosecond())
	}
	var counted error
	err = s.Log(ctx, inspected.ID, options, func(log io.Reader) error {
		counted = l.count(log, inspected.Config.Tty, described.Date)
		return counted
	})
	if errors.Is(counted, errClockWentBack) || err == nil && clockWentBack {
		return errClockWentBack
	}
	return err
}

var errClockWentBack = errors.New("the engine's clock went back before the last counted line; counting continues at the end of the log, " +
	"and the lines in between are not counted")

// clockSlack is how much later than the engine's Date, which is rounded down to the second, a line in the same answer can be.
const clockSlack = logTimeout + 2*time.Second

// ahead reports whether a line's timestamp is ahead of the engine's clock, which then must have gone back. It is false if
// the clock is unknown.
func ahead(stamp, now time.Time) bool {
	return !now.IsZero() && stamp.After(now.Add(clockSlack))
}

// count counts the matching lines after the last counted one. The log of a terminal is plain text; other logs are a
// multiplex of two streams. now is the engine's clock.
func (l *loginLog) count(log io.Reader, terminal bool, now time.Time) error {
	before, counts := l.last, l.begun
	last, failures := before, 0
	line := func(text []byte) {
		stamp, rest, ok := bytes.Cut(text, []byte{' '})
		at, err := time.Parse(time.RFC3339Nano, string(stamp))
		switch {
		case !ok || err != nil || at.Before(before):
			return
		case at.Equal(before):
			// Lines before it were counted, even with a later timestamp: the clock went back between them.
			last, failures = before, 0
			return
		case at.After(last):
			last = at
		}
		if counts && l.pattern.Match(rest) {
			failures++
		}
	}
	out, other := &lineWriter{line: line}, &lineWriter{line: line}
	var err error
	if terminal {
		_, err = io.Copy(out, log)
	} else {
		err = demultiplex(log, out, other)
	}
	if ahead(last, now) {
		l.begun, l.last = false, time.Time{}
		return errClockWentBack
	}
	l.last, l.failures, l.begun = last, l.failures+float64(failures), l.begun || err == nil
	return err
}

// demultiplex splits a log into its two streams. Each piece begins with the stream's number and a length in four bytes.
// Unlike the client library's function, it does not allocate memory by that length, which can be 4 GiB.
func demultiplex(log io.Reader, out, other io.Writer) error {
	var head [8]byte
	for {
		_, err := io.ReadFull(log, head[:])
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		piece := io.LimitReader(log, int64(binary.BigEndian.Uint32(head[4:])))
		switch stream := stdcopy.StdType(head[0]); stream {
		case stdcopy.Stdin, stdcopy.Stdout:
			_, err = io.Copy(out, piece)
		case stdcopy.Stderr:
			_, err = io.Copy(other, piece)
		case stdcopy.Systemerr:
			text, unread := io.ReadAll(io.LimitReader(piece, maxLineBytes))
			err = cmp.Or(unread, fmt.Errorf("the engine cut the log off: %s", failure.OneLine(string(text))))
		default:
			err = fmt.Errorf("the log has an unknown stream type: %d", stream)
		}
		if err != nil {
			return err
		}
	}
}

// maxLineBytes is how much of one line is matched.
const maxLineBytes = 8 << 10

// lineWriter calls line for each complete line, without its line break and cut to maxLineBytes.
type lineWriter struct {
	line    func([]byte)
	partial []byte
}

// Write implements io.Writer. It never fails.
func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		w.partial = append(w.partial, part[:min(len(part), maxLineBytes-len(w.partial))]...)
		if !ended {
			return n, nil
		}
		w.line(bytes.TrimSuffix(w.partial, []byte{'\r'}))
		w.partial, p = w.partial[:0], rest
	}
}

// report adds the count to b, or a note why there is none. It returns whether there is one.
func (l *loginLog) report(ctx context.Context, b *Batch) bool {
	err := l.read(ctx)
	if err != nil {
		b.Note("failed logins cannot be counted from the log: " + err.Error())
	}
	// A log that grew too much for one probe is counted over several. If even its last line is too long, counting has not begun.
	if err != nil && (failure.ReasonOf(err) != failure.TooLarge || !l.begun) {
		return false
	}
	b.Counter(authFailuresDesc, l.failures)
	b.reportFailedLogins(map[string]float64{"": l.failures})
	return true
}
