package simstack

import (
	"bytes"
	"embed"
	"fmt"
	"strings"
)

// captures are answers of real servers: header, empty line, body.
//
//go:embed captures/*.txt
var captures embed.FS

// captured returns a real server's answer, with a new length and time.
func captured(name string) *answer {
	raw, err := captures.ReadFile("captures/" + name + ".txt")
	if err != nil {
		panic(err) // a programming error: the names are constants
	}
	head, body, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	lines := strings.Split(strings.TrimSuffix(string(head), "\r\n"), "\r\n")
	a := &answer{header: lines[1:], body: body}
	if _, err := fmt.Sscanf(lines[0], "HTTP/1.1 %d", &a.status); err != nil {
		panic(fmt.Errorf("%s: %q is not a status line: %w", name, lines[0], err))
	}
	for i, line := range a.header {
		if field, _, _ := strings.Cut(line, ":"); field == "Content-Length" || field == "Date" {
			a.header[i] = field
		}
	}
	return a
}
