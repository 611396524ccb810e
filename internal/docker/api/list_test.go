package api

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// endless begins with a text and goes on with blanks.
type endless struct{ begin *strings.Reader }

func (e endless) Read(p []byte) (int, error) {
	if e.begin.Len() > 0 {
		return e.begin.Read(p)
	}
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestEndlessListIsTooLarge(t *testing.T) {
	for _, begin := range []string{"", "[", `[{"Id":"a"}`, `[{"Id":"a"},`, `[{"Id":`} {
		err := readList(endless{strings.NewReader(begin)}, func(*container.Summary) {})
		if err == nil || failure.ReasonOf(err) != failure.TooLarge {
			t.Errorf("%q: %v, want that it is too large", begin, err)
		}
	}
}
