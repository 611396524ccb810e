package status

import (
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// HumanName returns what people call a subject, such as "IRC server" for the target irc_rpc. kind is the target's.
func HumanName(s health.Subject, kind string) string {
	name, title := printableName(s.Name), rowOf(kind).Title
	switch {
	case s == health.ExporterSubject:
		return "the exporter"
	case s.Kind == health.KindContainer:
		return "container " + name
	case name == kind && title != "":
		return title
	}
	return name
}

// Headline says in human names what is wrong with which subject, such as "IRC server is down". kind is the target's.
func Headline(given *health.Problem, kind string) string {
	p := *given
	p.Of, p.Name = printableName(p.Of), printableName(p.Name)
	name, text := HumanName(given.Subject, kind), plainText(&p)
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
