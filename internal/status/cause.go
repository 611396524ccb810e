package status

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// Cause is a target or container with a problem, or a server with several targets, and what it explains.
type Cause struct {
	// Title is its human name; State says what it is: "is down", "is partly down", "refuses the exporter", "is not running",
	// "has a problem".
	Title string `json:"title"`
	State string `json:"state"`
	// Level is the worst of its members; Since is when the first problem of that level began. SinceAtLeast says that it existed at the
	// first probe, so it may have begun earlier.
	Level        Level     `json:"level"`
	Since        time.Time `json:"since,omitzero"`
	SinceAtLeast bool      `json:"since_at_least,omitempty"`
	// Loss says what users lose, "" if that is unknown.
	Loss string `json:"loss,omitempty"`
	// Text says what is wrong, Hint what to do, and Alert is the name of the alert with the runbook.
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"`
	Alert string `json:"alert,omitempty"`
	// Affected are the human names of the members but the first; of many targets of one kind, their number.
	Affected []string `json:"affected,omitempty"`
	// Members are the targets and containers; the first is the cause itself, if it has a problem.
	Members []health.Subject `json:"members"`

	down bool // users notice it
}

// ExporterWide reports whether the cause is about everything that the exporter watches.
func (c *Cause) ExporterWide() bool { return c.Members[0] == health.ExporterSubject }

// member is a target or container with a problem.
type member struct {
	health.Subject
	service   *Service
	container *Container
	problem   *Problem // the one whose cause counts; nil for a service that works only partly
}

// findCauses groups what has a problem by cause: the worst first, then by what users lose.
func findCauses(r *Report) []Cause {
	first := map[health.Subject]*Problem{}
	var order []health.Subject
	members := map[health.Subject][]member{}
	add := func(m member) {
		cause := m.Subject
		if m.problem = first[m.Subject]; m.problem != nil && m.problem.Cause.Kind != "" {
			cause = m.problem.Cause
		}
		if members[cause] == nil {
			order = append(order, cause)
		}
		if m.Subject == cause {
			members[cause] = slices.Insert(members[cause], 0, m)
		} else {
			members[cause] = append(members[cause], m)
		}
	}
	for i := range r.Problems {
		p := &r.Problems[i]
		if known := first[p.Subject]; known == nil || health.IsOutage(p.Alert) && !health.IsOutage(known.Alert) {
			first[p.Subject] = p
		}
		if p.ExporterWide() && first[p.Subject] == p {
			add(member{Subject: p.Subject})
		}
	}
	for i := range r.Services {
		if s := &r.Services[i]; s.Level > Unknown {
			add(member{Subject: health.TargetSubject(s.Name), service: s})
		}
	}
	for i := range r.Containers {
		if c := &r.Containers[i]; c.Level > Unknown {
			add(member{Subject: health.ContainerSubject(c.DockerHost, c.Name), container: c})
		}
	}
	causes := make([]Cause, 0, len(order))
	for _, s := range order {
		causes = append(causes, newCause(r, members[s]))
	}
	slices.SortStableFunc(causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), -compareBool(a.ExporterWide(), b.ExporterWide()), -compareBool(a.down, b.down))
	})
	return causes
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// newCause describes a cause by its members.
func newCause(r *Report, members []member) Cause {
	var c Cause
	for i := range members {
		m := &members[i]
		level, began := m.began()
		if level > c.Level || level == c.Level && !began.at.IsZero() && (c.Since.IsZero() || began.at.Before(c.Since)) {
			c.Level, c.Since, c.SinceAtLeast = level, began.at, began.atLeast
		}
		c.Members = append(c.Members, m.Subject)
		c.down = c.down || m.isDown()
	}
	main := &members[0]
	role := main.role()
	c.Title, c.Text, c.Hint = main.describe()
	if main.problem != nil {
		c.Alert = main.problem.Alert
	}
	switch {
	case main.service != nil && role != "" &&
		slices.ContainsFunc(members[1:], func(m member) bool { return m.service != nil && m.role() == role }):
		c.Title, c.State = main.service.Row.Role.Title, serverState(r, role, members)
		c.Affected = affected(members, role)
	case main.service != nil && main.service.Row.Relay:
		c.State, c.down = relayState(main)
	case main.refuses():
		c.State = "refuses the exporter"
	case main.service != nil && main.isDown():
		c.State = "is down"
	case main.container != nil && main.isDown():
		c.State = "is not running"
	case main.container != nil && main.container.Health == health.Unhealthy:
		c.State = "is unhealthy"
	case main.Subject == health.ExporterSubject:
		c.State = "are down"
	default:
		c.State = "has a problem"
	}
	c.Text = strings.TrimPrefix(c.Text, c.State+": ") // the title says it
	if isPlural(c.Title) {
		c.State = strings.NewReplacer("is ", "are ", "has ", "have ", "refuses ", "refuse ").Replace(c.State)
	}
	if c.Affected == nil {
		c.Affected = affected(members[1:], role)
	}
	c.Loss = loss(members)
	return c
}

// relayState says how a bridge is: if the check has no session, it may well work.
func relayState(m *member) (state string, isDown bool) {
	switch {
	case m.problem == nil:
	case m.problem.Alert == health.AlertBridgeNotRelaying:
		return "does not relay", true
	case m.problem.Alert == health.AlertRelaySessionDown || m.problem.Alert == health.AlertRelayUnwatched:
		return "is not checked", false
	}
	return "has a problem", false
}

// began returns the level of a member, and when its first problem of that level began.
func (m *member) began() (Level, beginning) {
	switch {
	case m.service != nil:
		return m.service.Level, beginning{m.service.ProblemSince, m.service.ProblemSinceAtLeast}
	case m.container != nil:
		return m.container.Level, beginning{m.container.ProblemSince, m.container.ProblemSinceAtLeast}
	}
	return m.problem.Level(), beginning{m.problem.Since, m.problem.AtLeast}
}

// refuses reports whether it is a target that answers, but not to the exporter. Users may not notice.
func (m *member) refuses() bool {
	return m.service != nil && m.service.State == down &&
		slices.Contains([]failure.Reason{failure.Unauthorized, failure.Forbidden, failure.Throttled}, failure.Reason(m.service.Reason))
}

// isDown reports whether it does not work at all.
func (m *member) isDown() bool {
	switch {
	case m.service != nil:
		return m.service.State == down && !m.refuses()
	case m.container != nil:
		return m.container.State != health.Running
	}
	return true
}

// role returns the role of a container, or of the server of a target.
func (m *member) role() string {
	switch {
	case m.service != nil:
		return m.service.Row.Role.Name
	case m.container != nil:
		return m.container.Role
	}
	return ""
}

// describe returns a member's human name, what is wrong, and what to do.
func (m *member) describe() (title, text, hint string) {
	switch {
	case m.service != nil:
		return m.service.title(), m.service.Text, m.service.Hint
	case m.container != nil:
		return cmp.Or(m.container.RoleRow.Title, "container "+m.container.Name), m.container.Text, m.container.Hint
	}
	return "most targets", m.problem.Text, m.problem.Hint
}

// title is the human name if the target has its kind's default name, and else its own name.
func (s *Service) title() string {
	if s.HasDefaultName() {
		return s.Row.Title
	}
	return s.Name
}

// HasDefaultName reports whether the target has its kind's default name, so that the kind's title is its human name.
func (s *Service) HasDefaultName() bool { return s.Name == s.Kind && s.Row.Title != "" }

// serverState says how a server with that role is, by those of its targets that have one cause.
func serverState(r *Report, role string, members []member) string {
	all, failing := 0, 0
	for i := range r.Services {
		if s := &r.Services[i]; s.Row.Role.Name == role {
			all++
			if s.State == up {
				return "is partly down"
			}
		}
	}
	for i := range members {
		if members[i].service != nil && members[i].role() == role {
			failing++
		}
	}
	if 2*failing <= all { // the others failed earlier or later
		return "is partly down"
	}
	return "is down"
}

// maxAffected limits the names of a list.
const maxAffected = 8

// affected returns the names of members. Targets of the server with this role go by what they are of it.
func affected(members []member, role string) []string {
	kinds := map[string]int{}
	for i := range members {
		if s := members[i].service; s != nil {
			kinds[s.Kind]++
		}
	}
	var names []string
	for i := range members {
		m := &members[i]
		name, _, _ := m.describe()
		if m.container != nil {
			name = "container " + m.container.Name
		}
		if s := m.service; s != nil && kinds[s.Kind] > 1 && s.Row.Role.Name != "" {
			name = wording.Count(kinds[s.Kind], shortName(&s.Row, role))
		} else if s != nil && s.HasDefaultName() {
			name = shortName(&s.Row, role)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if more := len(names) - maxAffected; more > 0 {
		names = append(names[:maxAffected], strconv.Itoa(more)+" more")
	}
	return names
}

// shortName returns the name of a kind without its server's name, if the server has this role.
func shortName(row *config.Row, role string) string {
	switch {
	case role == "" || row.Role.Name != role:
		return row.Title
	case row.Part != "":
		return row.Part
	case row.Title == row.Role.Title:
		return "its probe"
	}
	return strings.TrimPrefix(row.Title, row.Role.Title+" ")
}
