package collectors

import (
	"bytes"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/pkg/stdcopy"
)

// FuzzLoginLog counts failed logins in a made-up log, twice, as two readings do. The count never falls, has no more than
// there are lines, begins at 0, and a line that was seen is not counted again.
func FuzzLoginLog(f *testing.F) {
	line := func(n int, text string) string {
		return time.Unix(1_800_000_000+int64(n), 1).UTC().Format(time.RFC3339Nano) + " " + text + "\n"
	}
	bare := line(1, "started") + line(2, "Failed authentication attempt (not-authorized)") + line(2, "Failed authentication attempt") +
		line(1, "Failed authentication attempt\r") + "no stamp\n" + line(3, "cut")
	var framed bytes.Buffer
	for i, text := range strings.SplitAfter(bare, "\n") {
		//nolint:errcheck,gosec // a buffer takes everything
		stdcopy.NewStdWriter(&framed, []stdcopy.StdType{stdcopy.Stdout, stdcopy.Stderr}[i%2]).Write([]byte(text))
	}
	f.Add([]byte(bare), true, int64(0))
	f.Add([]byte(bare), true, int64(1_800_000_000))
	f.Add(framed.Bytes(), false, int64(1_800_000_002))
	f.Add([]byte("\x03\x00\x00\x00\x00\x00\x00\x05error"), false, int64(0))
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xff"), false, int64(0))
	f.Add([]byte(strings.Repeat("x", 2*maxLineBytes)), true, int64(0))
	f.Fuzz(func(t *testing.T, content []byte, terminal bool, clock int64) {
		var now time.Time
		if clock > 0 && clock < math.MaxInt32*4 {
			now = time.Unix(clock, 0)
		}
		l := &loginLog{pattern: regexp.MustCompile(defaultFailurePattern)}
		err := l.count(bytes.NewReader(content), terminal, now)
		if l.failures != 0 {
			t.Errorf("the first reading counts %v", l.failures)
		}
		first := *l
		again := l.count(bytes.NewReader(content), terminal, now)
		for _, err := range []error{err, again} {
			if err != nil {
				judgeText(t, "error", err.Error())
			}
		}
		most := float64(bytes.Count(content, []byte{'\n'}))
		if l.failures < first.failures || l.failures > most || math.IsNaN(l.failures) {
			t.Errorf("%v failures after %v, in %v lines", l.failures, first.failures, most)
		}
		if err == nil && again == nil && first.begun && !first.last.IsZero() && l.failures > first.failures && l.last.Equal(first.last) {
			// Lines of an older stamp behind the last one are those of a clock that went back; they cannot be told from new ones.
			if monotonic(content) {
				t.Errorf("%v failures are counted again", l.failures-first.failures)
			}
		}
		if !now.IsZero() && ahead(l.last, now) {
			t.Errorf("the last line is of %s, the clock says %s", l.last, now)
		}
	})
}

// monotonic reports whether no line of a log that begins with a stamp has one that is older than, or the same as, that of a
// line before it.
func monotonic(content []byte) bool {
	var last time.Time
	for line := range bytes.Lines(content) {
		for word := range bytes.FieldsSeq(line) {
			if len(word) > 8 {
				word = word[max(0, bytes.IndexByte(word, '2')):] // behind the head of a frame
			}
			if at, err := time.Parse(time.RFC3339Nano, string(word)); err == nil {
				if !at.After(last) {
					return false
				}
				last = at
			}
		}
	}
	return true
}
