package status

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// Cause is a target or container with a problem, or a server with several targets, and what it explains.
type Cause struct {
	// Title is its human name; State says what it is: "is down", "is partly down", "goes down again and again", "refuses the exporter",
	// "is not running", "has a problem".
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

// sameNews reports whether only ages and texts have changed.
func (c Cause) sameNews(o Cause) bool {
	return c.Level == o.Level && slices.Equal(c.Members, o.Members)
}

// order is the rank among causes of one level: what concerns all targets, what users notice, the rest.
func (c *Cause) order() int {
	switch {
	case c.Members[0] == health.ExporterSubject:
		return 0
	case c.down:
		return 1
	}
	return 2
}

// member is a target or container with a problem, or what is wrong with all targets.
type member struct {
	health.Subject
	Shown
	title, role string // its human name, and its server's role
	// down says that it does not work at all, refuses that it answers, but not to the exporter: users may not notice.
	down, refuses bool
	service       *Service   // nil unless it is one
	container     *Container // nil unless it is one
	alert         string     // on the problem whose cause counts; "" for a service that works only partly
	upAgain       bool       // it was down too often
}

func (s *Service) member() member {
	refuses := s.State == down && s.Reason.RefusesUs()
	return member{
		Subject: s.subject(),
		Shown:   s.Shown,
		title:   HumanName(s.subject(), s.Kind),
		role:    s.Row.Role.Name,
		down:    s.State == down && !refuses,
		refuses: refuses,
		service: s,
	}
}

func (c *Container) member() member {
	return member{
		Subject:   c.Subject(),
		Shown:     c.Shown,
		title:     cmp.Or(c.RoleRow.Title, "container "+c.Name),
		role:      c.Role,
		down:      c.State != health.Running,
		container: c,
	}
}

// ofAll is what is wrong with all targets.
func (p *Problem) ofAll() member {
	m := member{Subject: p.Subject, title: "most targets", down: true}
	m.tell(p)
	m.Level = p.Level()
	return m
}

// findCauses groups what has a problem by cause: the worst first, then by what users lose.
func findCauses(r *Report) []Cause {
	first := map[health.Subject]*Problem{}
	for i := range r.Problems {
		p := &r.Problems[i]
		if known := first[p.Subject]; known == nil || health.IsOutage(p.Alert) && !byCertificate(p) && !health.IsOutage(known.Alert) {
			first[p.Subject] = p
		}
	}
	var order []health.Subject
	members := map[health.Subject][]member{}
	add := func(m member) {
		p := cmp.Or(first[m.Subject], &Problem{})
		m.alert, m.upAgain = p.Alert, p.UpAgain
		cause := cmp.Or(p.Cause, m.Subject)
		if members[cause] == nil {
			order = append(order, cause)
		}
		members[cause] = insert(members[cause], m, m.Subject == cause)
	}
	if p := first[health.ExporterSubject]; p != nil {
		add(p.ofAll())
	}
	for i := range r.Services {
		if s := &r.Services[i]; s.Level > Unknown {
			add(s.member())
		}
	}
	for i := range r.Containers {
		if c := &r.Containers[i]; c.Level > Unknown {
			add(c.member())
		}
	}
	causes := make([]Cause, 0, len(order))
	for _, s := range order {
		causes = append(causes, newCause(r, members[s]))
	}
	slices.SortStableFunc(causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(a.order(), b.order()))
	})
	return causes
}

// newCause describes a cause by its members.
func newCause(r *Report, members []member) Cause {
	main := &members[0]
	c := Cause{
		Title:    main.title,
		State:    main.state(),
		Hint:     main.Hint,
		Alert:    main.alert,
		Affected: affected(members[1:], main.role),
	}
	var w worst
	for i := range members {
		m := &members[i]
		w.add(m.Level, m.Onset)
		c.Members = append(c.Members, m.Subject)
		c.down = c.down || m.down
	}
	c.Level, c.Since, c.SinceAtLeast = w.level, w.ProblemSince, w.ProblemSinceAtLeast
	switch {
	case main.service == nil:
	case main.role != "" &&
		slices.ContainsFunc(members[1:], func(m member) bool { return m.service != nil && m.role == main.role }):
		c.Title, c.State = main.service.Row.Role.Title, serverState(r, main.role, members)
		c.Affected = affected(members, main.role)
	case main.service.Row.Relay:
		c.down = c.State == doesNotRelay
	}
	c.Text = strings.TrimPrefix(main.Text, c.State+": ") // the title says it
	if isPlural(c.Title) {
		c.State = strings.NewReplacer("is ", "are ", "has ", "have ", "refuses ", "refuse ").Replace(c.State)
	}
	c.Loss = loss(members)
	return c
}

// loss says what users lose first.
func loss(members []member) string {
	first, text := lastRank, ""
	for i := range members {
		m := &members[i]
		if m.service == nil || !m.down || m.service.Row.Relay && m.state() != doesNotRelay {
			continue
		}
		if row := &m.service.Row; row.Loss != "" && row.Rank < first {
			first, text = row.Rank, row.Loss
		}
	}
	return text
}

// worst is the worst level of several, and when the first problem of that level began.
type worst struct {
	level Level
	Onset
}

func (w *worst) add(l Level, o Onset) {
	earlier := !o.ProblemSince.IsZero() && (w.ProblemSince.IsZero() || o.ProblemSince.Before(w.ProblemSince))
	if l > w.level || l == w.level && earlier {
		w.level, w.Onset = l, o
	}
}

// doesNotRelay is the state of a bridge that users notice. If the check has no session, the bridge may well work.
const doesNotRelay = "does not relay"

// state says how a member is, apart from the others.
func (m *member) state() string {
	isRelay := m.service != nil && m.service.Row.Relay
	switch {
	case m.Subject == health.ExporterSubject:
		return "are down"
	case isRelay:
		return cmp.Or(alerts.State(m.alert), someProblem)
	case m.refuses:
		return "refuses the exporter"
	case m.upAgain:
		return "goes down again and again"
	case m.service != nil && m.down:
		return "is down"
	case m.container != nil && m.down:
		return "is not running"
	case m.container != nil && m.container.Health == health.Unhealthy:
		return "is unhealthy"
	}
	return someProblem
}

// someProblem is the state of what works somehow.
const someProblem = "has a problem"

// IsVague reports whether the state does not say what is wrong.
func (c *Cause) IsVague() bool { return c.State == someProblem }

// HasDefaultName reports whether the target has its kind's default name, so that the kind's title is its human name.
func (s *Service) HasDefaultName() bool { return s.Name == s.Kind && s.Row.Title != "" }

// serverState says how a server with that role is, by those of its targets that have one cause.
func serverState(r *Report, role string, members []member) string {
	of := func(state string) int {
		return count(r.Services, func(s *Service) bool { return s.Row.Role.Name == role && (state == "" || s.State == state) })
	}
	failing := count(members, func(m *member) bool { return m.service != nil && m.role == role })
	if of(up) > 0 || 2*failing <= of("") { // the others failed earlier or later
		return "is partly down"
	}
	return "is down"
}

// maxAffected limits the names of a list.
const maxAffected = 8

// affected returns the names of members. Targets of the server with this role go by what they are of it.
func affected(members []member, role string) []string {
	var names []string
	for i := range members {
		m := &members[i]
		name := m.title
		if m.container != nil {
			name = "container " + m.Name
		} else if s := m.service; s != nil {
			same := count(members, func(o *member) bool { return o.service != nil && o.service.Kind == s.Kind })
			switch {
			case same > 1 && m.role != "":
				name = wording.Count(same, shortName(&s.Row, role))
			case s.HasDefaultName():
				name = shortName(&s.Row, role)
			}
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
