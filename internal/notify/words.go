package notify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/notify/service"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// maxLines is how many threads a summary names.
const maxLines = 10

// say takes over what a report says of the problems that last.
func (t *thread) say(r *status.Report) {
	p := t.lasting[0] // the worst
	c := causeOf(r, t.Root, p.Subject)
	if c != nil && c.Members[0] == health.ExporterSubject && t.Root != health.ExporterSubject {
		c = nil // it went down later than most targets
	}
	down := slices.IndexFunc(t.lasting, func(p *status.Problem) bool { return health.IsOutage(p.Alert) })
	switch {
	case c == nil || down < 0:
		t.Said = said{
			Title: status.Headline(&p.Problem, kindOf(r, p.Subject)),
			Text:  status.UpperFirst(p.Text),
			Hint:  p.Hint,
		}
		if c != nil && !alerts.Ahead(p.Alert) {
			t.Said.Loss, t.Said.Affected = c.Loss, c.Affected
		}
	default:
		title := status.UpperFirst(c.Title + " " + c.State)
		if c.IsVague() {
			title = status.Headline(&t.lasting[down].Problem, kindOf(r, t.lasting[down].Subject))
		}
		t.Said = said{
			Title:    title,
			Loss:     c.Loss,
			Text:     status.UpperFirst(c.Text),
			Hint:     c.Hint,
			Affected: c.Affected,
		}
	}
}

// causeOf returns the cause that a report shows for one of the subjects, the first that has one; nil for none.
func causeOf(r *status.Report, subjects ...health.Subject) *status.Cause {
	for _, s := range subjects {
		for i := range r.Causes {
			if slices.Contains(r.Causes[i].Members, s) {
				return &r.Causes[i]
			}
		}
	}
	return nil
}

// kindOf returns the kind of a target, "" for other subjects.
func kindOf(r *status.Report, s health.Subject) string {
	for i := range r.Services {
		if s.Kind == health.KindTarget && r.Services[i].Name == s.Name {
			return r.Services[i].Kind
		}
	}
	return ""
}

// message puts news into words. The first say what fires.
func (n *news) message(now time.Time, site *Site) *service.Message {
	t := n.threads[0]
	m := &service.Message{
		ID:     fmt.Sprintf("%s%s%d", t.ID, n.kind, n.times),
		Thread: t.ID,
		Link:   site.link(t),
	}
	w := &writer{now: now, zone: n.receiver.zone()}
	switch n.kind {
	case summary:
		m.Thread, m.Link = "", site.URL
		n.sumUp(m, w)
	case over:
		n.end(m, w)
	case text:
		m.Level, m.Title = service.LevelInfo, "[NOTE] "+t.Said.Title
		for _, note := range t.texts()[n.first:] {
			w.line(strings.TrimPrefix(cmp.Or(note.Author, "somebody")+": "+note.Text, ": "))
		}
	case began, worse, again:
		severity := n.level()
		m.Level, m.Title = levelOf(severity), "["+strings.ToUpper(severity.String())+"] "+t.Said.Title
		w.describe(t, n.kind)
		if t.isOwn() && site.Exporter != "" {
			w.line("The exporter is " + site.Exporter + ".")
		}
	}
	if m.Title += site.place(); w.Len() > 0 {
		m.Text = strings.TrimSuffix(w.String(), "\n")
	}
	return m
}

// end puts the end of a thread into words.
func (n *news) end(m *service.Message, w *writer) {
	t := n.threads[0]
	title := cmp.Or(n.title, t.Said.Title)
	m.Level, m.Title = service.LevelOver, "[RESOLVED] It was: "+title
	if t.Unwatched {
		m.Title = "[NO LONGER WATCHED] It was: " + title
	}
	w.line("From " + w.since(t) + " to " + w.clock(n.ended) + ", for " + wording.Duration(n.ended.Sub(t.Began)) + ".")
	if t.Cleared.IsZero() && t.about(n.receiver.Targets) {
		w.line("A warning lasts, which you are not told of.")
	}
}

// TestMessage is a message that only says that it arrived.
func TestMessage(now time.Time, site *Site) *service.Message {
	return &service.Message{
		ID:    fmt.Sprintf("test%d", now.UnixNano()),
		Title: "[TEST] chatstack_exporter can reach you" + site.place(),
		Text:  "Somebody sent this with `chatstack_exporter notify --test`. Nothing is wrong.",
		Link:  site.URL,
		Level: service.LevelInfo,
	}
}

func levelOf(s health.Severity) service.Level {
	if s == health.Critical {
		return service.LevelCritical
	}
	return service.LevelWarning
}

// place names the environment and the cluster, "" without any.
func (s *Site) place() string {
	var parts []string
	for _, part := range []string{s.Environment, s.Cluster} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// link is the address of a thread's incident, else of the status page; "" if people cannot reach it.
func (s *Site) link(t *thread) string {
	if s.URL == "" || t.incident == nil {
		return s.URL
	}
	return s.URL + "/incidents/" + t.incident.ID
}

// writer writes the lines of a message for people in one time zone.
type writer struct {
	strings.Builder

	now  time.Time
	zone *time.Location
}

func (w *writer) line(text string) {
	if text != "" {
		w.WriteString(text + "\n")
	}
}

// describe says what users lose, why, since when, what else fails, and what to do.
func (w *writer) describe(t *thread, k kind) {
	if t.Said.Loss != "" {
		w.line(sentence(status.UpperFirst(t.Said.Loss)))
	}
	w.line(sentence(t.Said.Text))
	since := "Since " + w.since(t) // not for how long: it may be sent much later
	if k == again {
		since += "; nobody has acknowledged it"
	}
	w.line(since + ".")
	if n := len(t.Said.Affected); n > 0 {
		w.line("Also affected: " + strings.Join(t.Said.Affected, ", ") + ".")
	}
	if t.Said.Hint != "" {
		w.line("To do: " + sentence(t.Said.Hint))
	}
}

// sentence ends a text with a full stop, unless it ends with one, or with something to copy.
func sentence(text string) string {
	if text == "" || strings.HasSuffix(text, ".") || strings.HasSuffix(text, "`") {
		return text
	}
	return text + "."
}

// since is when a thread began.
func (w *writer) since(t *thread) string {
	if t.AtLeast {
		return w.clock(t.Began) + " or earlier"
	}
	return w.clock(t.Began)
}

// clock is a time as the receiver's clock shows it, with the date if that is another.
func (w *writer) clock(at time.Time) string {
	at = at.In(w.zone)
	if at.Format(time.DateOnly) == w.now.In(w.zone).Format(time.DateOnly) {
		return at.Format("15:04 MST")
	}
	return at.Format("2006-01-02 15:04 MST")
}

// sumUp lists what could not be sent when it happened.
func (n *news) sumUp(m *service.Message, w *writer) {
	lasting := 0
	for _, t := range n.threads {
		if t.Cleared.IsZero() {
			lasting++
		}
	}
	switch severity := n.level(); {
	case lasting == 0 && n.gathered:
		m.Level = service.LevelOver
		m.Title = fmt.Sprintf("[RESOLVED] It was: %s, and %s more", n.threads[0].Said.Title, wording.Count(len(n.threads)-1, "problem"))
	case lasting == 0:
		m.Level, m.Title = service.LevelOver, "[RESOLVED] "+wording.Count(len(n.threads), "problem")+" came and went meanwhile"
	case len(n.threads) == 1:
		m.Level, m.Title = levelOf(severity), "["+strings.ToUpper(severity.String())+"] "+n.threads[0].Said.Title
	default:
		m.Level = levelOf(severity)
		m.Title = fmt.Sprintf("[%s] %s, and %s more", strings.ToUpper(severity.String()), n.worst().Said.Title,
			wording.Count(len(n.threads)-1, "problem"))
	}
	for i, t := range n.threads {
		if i == maxLines {
			w.line(fmt.Sprintf("And %s more.", wording.Count(len(n.threads)-i, "problem")))
			break
		}
		if t.Cleared.IsZero() {
			w.line("- " + t.Said.Title + ", since " + w.since(t) + ".")
		} else {
			w.line("- Over: " + t.Said.Title + ", from " + w.since(t) + " to " + w.clock(t.Cleared) + ".")
		}
	}
}

// worst is the worst of the threads, the oldest if several are.
func (n *news) worst() *thread {
	return slices.MaxFunc(n.threads, func(a, b *thread) int { return cmp.Compare(a.Stage, b.Stage) })
}
