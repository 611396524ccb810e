package web

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
)

// serveCalendar serves current and planned maintenance as an iCalendar, RFC 5545.
func serveCalendar(w http.ResponseWriter, r *http.Request, src maintainer, reports reporter) {
	calendar := newCalendar(reports.Report().PageTitle, src.Maintenance())
	site.NewDocument("text/calendar; charset=utf-8", calendar).Serve(w, r, "no-cache")
}

// newCalendar writes the calendar. A library would add recurrence rules and time zones, of which these events need none.
func newCalendar(title string, entries []maintenance.Entry) []byte {
	var c calendar
	c.line("BEGIN", "VCALENDAR")
	c.line("VERSION", "2.0")
	c.line("PRODID", "-//chatstack_exporter//maintenance//EN")
	c.text("X-WR-CALNAME", "Maintenance · "+title)
	if len(entries) == 0 { // a calendar must have a component
		for _, l := range []string{
			"BEGIN:VTIMEZONE", "TZID:Etc/UTC", "BEGIN:STANDARD", "DTSTART:19700101T000000", "TZOFFSETFROM:+0000", "TZOFFSETTO:+0000",
			"END:STANDARD", "END:VTIMEZONE",
		} {
			name, value, _ := strings.Cut(l, ":")
			c.line(name, value)
		}
	}
	for _, e := range entries {
		uid := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d", e.Kind, e.Name, e.Source, e.From.Unix()))
		c.line("BEGIN", "VEVENT")
		c.line("UID", fmt.Sprintf("%x@chatstack-exporter.invalid", uid[:12]))
		c.line("DTSTAMP", calendarTime(e.From)) // not now, so that an unchanged calendar keeps its entity tag
		c.line("DTSTART", calendarTime(e.From))
		c.line("DTEND", calendarTime(e.Until))
		c.text("SUMMARY", "Maintenance: "+e.Kind+" "+e.Name)
		if e.Reason != "" {
			c.text("DESCRIPTION", e.Reason)
		}
		c.line("TRANSP", "TRANSPARENT")
		c.line("END", "VEVENT")
	}
	c.line("END", "VCALENDAR")
	return []byte(c.b.String())
}

// calendar writes content lines.
type calendar struct{ b strings.Builder }

// maxContentLine is the longest content line, in bytes.
const maxContentLine = 75

// line writes a content line, folded between characters.
func (c *calendar) line(name, value string) {
	used := 0
	for _, r := range name + ":" + value {
		if n := utf8.RuneLen(r); used+n > maxContentLine {
			c.b.WriteString("\r\n ")
			used = 1
		}
		n, _ := c.b.WriteRune(r)
		used += n
	}
	c.b.WriteString("\r\n")
}

var calendarEscapes = strings.NewReplacer(`\`, `\\`, ";", `\;`, ",", `\,`, "\r\n", `\n`, "\n", `\n`)

// text writes a content line whose value is a text. It drops control characters, which a text cannot have.
func (c *calendar) text(name, value string) {
	c.line(name, strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, calendarEscapes.Replace(strings.ToValidUTF8(value, "\uFFFD"))))
}

func calendarTime(t time.Time) string { return t.UTC().Format("20060102T150405Z") }
