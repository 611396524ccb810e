package service

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxWords is how many characters of a service's words are shown.
const maxWords = 300

// more ends a text that was cut.
const more = "…"

// A measure is how a service counts the length of a text.
type measure func(string) int

func inBytes(s string) int      { return len(s) }
func inCharacters(s string) int { return utf8.RuneCountInString(s) }

// inUTF16 counts as services do that are written in Java or JavaScript: most symbols beyond the BMP count twice.
func inUTF16(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// cut keeps the whole lines of a text that fit a limit, and "…" if some do not. If not even the first line fits, it cuts that at a
// character.
func cut(text string, limit int, size measure) string {
	if size(text) <= limit {
		return text
	}
	room := limit - size("\n"+more)
	end := 0
	for i, r := range text {
		if r != '\n' {
			continue
		}
		if size(text[:i]) > room {
			break
		}
		end = i
	}
	if end > 0 {
		return text[:end] + "\n" + more
	}
	room = limit - size(more)
	for i := range text {
		if size(text[:i]) > room {
			break
		}
		end = i
	}
	if room <= 0 {
		return ""
	}
	return text[:end] + more
}

// whole returns title, text and link in one text within a limit. The text is cut first.
func (d *delivery) whole(limit int, size measure) string {
	title := cut(d.Title, limit, size)
	link := ""
	if d.Link != "" && size(title)+size("\n"+d.Link) <= limit {
		link = "\n" + d.Link
	}
	text := ""
	if room := limit - size(title) - size(link) - 1; d.Text != "" && room > size(more) {
		text = "\n" + cut(d.Text, room, size)
	}
	return strings.TrimSpace(title + text + link)
}

// body returns text and link within a limit, for services that show the title elsewhere. Without a text, it returns the title.
func (d *delivery) body(limit int, size measure, withLink bool) string {
	link := ""
	if withLink && d.Link != "" && size(d.Link)+1 < limit {
		link = "\n" + d.Link
	}
	text := d.Text
	if text == "" {
		text = d.Title
	}
	return cut(text, limit-size(link), size) + link
}
