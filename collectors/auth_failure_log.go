package collectors

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// AuthFailureLog says where failed logins can be counted from a container's log, for an XMPP server that counts none.
// The zero AuthFailureLog counts nothing.
type AuthFailureLog struct {
	// Container is the name of the XMPP server's container; nothing is read where it is empty.
	Container string `yaml:"container"`
	// DockerHost is its engine, unix:// or tcp:// without TLS.
	DockerHost string `yaml:"docker_host"`
	// Pattern is the regular expression that a line about a failed login matches.
	Pattern string `yaml:"pattern"`
}

// defaultFailurePattern is what the community's mod_log_auth writes, for logins of clients and by HTTP or OAuth2 alike.
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

var authFailuresDesc = prometheus.NewDesc(authFailures, "Failed client logins.", nil, nil)

// loginLog counts the lines of a container's log that tell of a failed login. It begins at the end of the log as it is
// at the first reading, so that the count starts at 0 and misses what fails while the exporter is restarted. No line is
// kept.
type loginLog struct {
	container string
	pattern   *regexp.Regexp
	engine    *api.Client
	// begun is set once last is known: the engine's stamp of the last line that was seen, zero for an empty log.
	begun    bool
	last     time.Time
	failures float64
}

// newLoginLog returns nil where no container is named. The settings must have been found free of faults.
func newLoginLog(s AuthFailureLog, d Deps) (*loginLog, error) {
	if s.Container == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	pattern, err := regexp.Compile(s.Pattern)
	if err != nil {
		return nil, fmt.Errorf("auth_failure_log.pattern: %w", err)
	}
	endpoint, err := api.ParseEndpoint(s.DockerHost, false)
	if err != nil {
		return nil, fmt.Errorf("auth_failure_log.docker_host: %w", err)
	}
	return &loginLog{
		container: s.Container, pattern: pattern,
		engine: &api.Client{Host: s.DockerHost, Endpoint: endpoint, Limit: int64(d.Limits.MetricsBody), UserAgent: d.UserAgent},
	}, nil
}

// logTimeout bounds the reading of a log, whose failure must not be the target's.
const logTimeout = 3 * time.Second

// read reads what the log has gained since the last reading. After an error, what was read before it is counted, and
// the next reading goes on there.
func (l *loginLog) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	s, err := l.engine.Open(1)
	if err != nil {
		return err
	}
	defer s.Close()
	inspected, described, err := s.Inspect(ctx, l.container)
	switch {
	case err != nil:
		return err
	case inspected == nil || inspected.Config == nil:
		return failure.Errorf(failure.NotFound, "read log of container %s: there is no such container", l.container)
	}
	anew := l.begun && ahead(l.last, described.Date)
	if anew {
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
	if errors.Is(counted, errClockWentBack) || err == nil && anew {
		return errClockWentBack
	}
	return err
}

var errClockWentBack = errors.New("the engine's clock went back before the last counted line; counting continues at the end of the log, and the lines in between are not counted")

// clockSlack is how much later than the engine's Date, which is cut to the second, a line can be written that is read
// with it.
const clockSlack = logTimeout + 2*time.Second

// ahead reports whether a line's stamp lies ahead of the engine's clock, which must have gone back since: newer lines
// have older stamps. Where the clock is not known, none does.
func ahead(stamp, now time.Time) bool {
	return !now.IsZero() && stamp.After(now.Add(clockSlack))
}

// count counts the lines of a log that are newer than the last one: those with later stamps, after it if it is there. A
// terminal's log is bare; the other kind says before each piece which of two streams it is from. Now is the engine's clock.
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
			// What stands before it was seen, even with a later stamp: the clock went back between them.
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

// demultiplex hands on the pieces of a log that is of two streams. Before each piece stand the stream's number and, in four
// bytes, the length, which memory is never taken for: the client library's own function believes it, up to 4 GiB.
func demultiplex(log io.Reader, out, other io.Writer) error {
	in := bufio.NewReader(log)
	for {
		head, err := in.Peek(8)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		stream, piece := stdcopy.StdType(head[0]), io.LimitReader(in, int64(binary.BigEndian.Uint32(head[4:])))
		if _, err := in.Discard(len(head)); err != nil {
			return err
		}
		var to io.Writer
		switch stream {
		case stdcopy.Stdin, stdcopy.Stdout:
			to = out
		case stdcopy.Stderr:
			to = other
		case stdcopy.Systemerr:
			text, err := io.ReadAll(io.LimitReader(piece, maxLineBytes))
			if err != nil {
				return err
			}
			return fmt.Errorf("the engine cut the log off: %s", failure.OneLine(string(text)))
		default:
			return fmt.Errorf("the log has an unknown stream type: %d", stream)
		}
		if _, err := io.Copy(to, piece); err != nil {
			return err
		}
	}
}

// maxLineBytes is how much of one line is looked at.
const maxLineBytes = 8 << 10

// lineWriter hands on the lines of what is written to it, without their ends, and each to its first maxLineBytes. What
// has no end is no line yet.
type lineWriter struct {
	line func([]byte)
	kept []byte
}

// Write implements io.Writer. It never fails.
func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		w.kept = append(w.kept, part[:min(len(part), maxLineBytes-len(w.kept))]...)
		if !ended {
			return n, nil
		}
		w.line(bytes.TrimSuffix(w.kept, []byte{'\r'}))
		w.kept, p = w.kept[:0], rest
	}
}

// tell adds the count to b, and reports whether there is one. That a log cannot be read is a note.
func (l *loginLog) tell(ctx context.Context, b *Batch) bool {
	err := l.read(ctx)
	if err != nil {
		b.Note("failed logins cannot be counted from the log: " + err.Error())
	}
	// A log that has gained too much at once is read in several readings, and counted as far as it was. Where even its
	// last line is too much, the count has not begun.
	if err != nil && (failure.ReasonOf(err) != failure.TooLarge || !l.begun) {
		return false
	}
	b.Counter(authFailuresDesc, l.failures)
	b.conditions = append(b.conditions, health.Condition{Alert: health.AlertAuthFailureRate, Counts: map[string]float64{"": l.failures}})
	return true
}
