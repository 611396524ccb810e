package bench

import (
	"strconv"
	"strings"
)

// load is what one exporter has to carry.
type load struct{ targets, containers, series int }

func (l load) String() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{l.targets, "HTTP targets"}, {l.containers, "containers"}, {l.series, "upstream series"}} {
		if p.n > 0 {
			parts = append(parts, thousands(p.n)+" "+p.what)
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
