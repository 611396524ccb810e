package simstack

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// captures are answers of real servers: header, empty line, body.
//
//go:embed captures/*.txt
var captures embed.FS

// captured returns a real server's answer. The caller may change its header lines, not the bytes of its body.
func captured(name string) *answer {
	a := library()[name]
	if a == nil {
		panic("there is no capture " + name) // a slip of ours: the names are constants
	}
	fresh := *a
	fresh.header = slices.Clone(a.header)
	return &fresh
}

// library reads all captures once.
var library = sync.OnceValue(func() map[string]*answer {
	entries, err := captures.ReadDir("captures")
	if err != nil {
		panic(err) // they are part of the binary
	}
	all := map[string]*answer{}
	for _, entry := range entries {
		raw, err := captures.ReadFile("captures/" + entry.Name())
		if err != nil {
			panic(err)
		}
		a, err := parseCapture(raw)
		if err != nil {
			panic(fmt.Errorf("%s: %w", entry.Name(), err))
		}
		all[strings.TrimSuffix(entry.Name(), ".txt")] = a
	}
	return all
})

// parseCapture splits an answer into lines. The length and the time of a capture are forgotten.
func parseCapture(raw []byte) (*answer, error) {
	head, body, ok := bytes.Cut(raw, []byte("\r\n\r\n"))
	if !ok {
		head, body = bytes.TrimSuffix(raw, []byte("\r\n")), nil
	}
	lines := strings.Split(string(head), "\r\n")
	words := strings.SplitN(lines[0], " ", 3)
	if len(words) < 2 {
		return nil, fmt.Errorf("%q is no status line", lines[0])
	}
	status, err := strconv.Atoi(words[1])
	if err != nil {
		return nil, fmt.Errorf("%q is no status line: %w", lines[0], err)
	}
	a := &answer{status: status, header: lines[1:], body: body}
	for i, line := range a.header {
		for _, computed := range []string{"Content-Length", "Date"} {
			if strings.HasPrefix(line, computed+":") {
				a.header[i] = computed
			}
		}
	}
	return a, nil
}
