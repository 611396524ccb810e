package status

import (
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// HumanName returns what people call a subject, such as "IRC server" for the target irc_rpc. row is that of the target's kind.
func HumanName(s health.Subject, row *config.Row) string {
	name := failure.Printable(s.Name, maxName)
	switch {
	case s == health.ExporterSubject:
		return "the exporter"
	case s.Kind == health.KindContainer:
		return "container " + name
	case name == row.Name && row.Title != "":
		return row.Title
	}
	return name
}

// Headline says in human names what is wrong with which subject, such as "IRC server is down". row is that of the target's kind.
func Headline(given *health.Problem, row *config.Row) string {
	p := *given
	p.Of, p.Name = failure.Printable(p.Of, maxName), failure.Printable(p.Name, maxName)
	name, text := HumanName(given.Subject, row), plainText(&p)
	switch verb, _, _ := strings.Cut(text, " "); verb {
	case "is":
		if strings.HasSuffix(name, " services") {
			text = "are" + strings.TrimPrefix(text, verb)
		}
		text = name + " " + text
	case "does", "was", "uses", "serves", "waits":
		text = name + " " + text
	default:
		if given.Subject != health.ExporterSubject {
			text = name + ": " + text
		}
	}
	return UpperFirst(text)
}
