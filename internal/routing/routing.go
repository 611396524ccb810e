// Package routing follows an alert through the configurations of Prometheus and Alertmanager: how it is relabelled, who gets it when, and
// what holds it back. It has no I/O and no clock.
package routing

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"gopkg.in/yaml.v3"
)

// Alertmanager's defaults for the waits of a route.
const (
	usualGroupWait     = 30 * time.Second
	usualGroupInterval = 5 * time.Minute
)

// Routing is the part of Alertmanager's configuration that decides who gets which alert, and when.
type Routing struct {
	root *Route
	// Integrations are how often each receiver uses each integration, such as webhook and email.
	Integrations map[string]map[string]int
	inhibitions  []inhibition
	intervals    map[string][]interval
}

// Route is a node of Alertmanager's tree of routes, with the waits that it inherits. It inherits no time intervals.
type Route struct {
	Receiver      string            `yaml:"receiver"`
	Match         map[string]string `yaml:"match"`
	MatchRE       map[string]string `yaml:"match_re"`
	Matchers      []string          `yaml:"matchers"`
	Continue      bool              `yaml:"continue"`
	GroupWait     *model.Duration   `yaml:"group_wait"`
	GroupInterval *model.Duration   `yaml:"group_interval"`
	MuteTimes     []string          `yaml:"mute_time_intervals"`
	ActiveTimes   []string          `yaml:"active_time_intervals"`
	Routes        []*Route          `yaml:"routes"`

	matchers matchers
}

// inhibition holds back targets while a source fires that has the same labels in Equal. A label that both lack is the same.
type inhibition struct {
	SourceMatch    map[string]string `yaml:"source_match"`
	SourceMatchRE  map[string]string `yaml:"source_match_re"`
	SourceMatchers []string          `yaml:"source_matchers"`
	TargetMatch    map[string]string `yaml:"target_match"`
	TargetMatchRE  map[string]string `yaml:"target_match_re"`
	TargetMatchers []string          `yaml:"target_matchers"`
	Equal          []string          `yaml:"equal"`

	source, target matchers
}

// inhibits reports whether an alert holds back a target. Alerts that are sources and targets do not hold back each other.
func (i *inhibition) inhibits(source, target map[string]string) bool {
	return !slices.ContainsFunc(i.Equal, func(name string) bool { return source[name] != target[name] }) &&
		i.source.match(source) && (!i.source.match(target) || !i.target.match(source))
}

// matcher compares one label.
type matcher struct {
	name, value string
	equal       bool
	pattern     *regexp.Regexp // instead of value
}

func (m *matcher) matches(labels map[string]string) bool {
	value := labels[m.name]
	if m.pattern != nil {
		return m.pattern.MatchString(value) == m.equal
	}
	return (value == m.value) == m.equal
}

func newMatcher(name, value string, isRegexp, equal bool) (m matcher, err error) {
	m = matcher{name: name, value: value, equal: equal}
	if isRegexp {
		m.pattern, err = regexp.Compile("^(?:" + value + ")$")
	}
	return m, err
}

// matchers match if each of them does.
type matchers []matcher

func (ms matchers) match(labels map[string]string) bool {
	return !slices.ContainsFunc(ms, func(m matcher) bool { return !m.matches(labels) })
}

// newMatchers parses the three forms in which a configuration has matchers.
func newMatchers(values, patterns map[string]string, lines []string) (all matchers, err error) {
	for name, value := range values {
		all = append(all, matcher{name: name, value: value, equal: true})
	}
	for name, value := range patterns {
		m, err := newMatcher(name, value, true, true)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	for _, line := range lines {
		parsed, err := parseMatchers(line)
		if err != nil {
			return nil, err
		}
		all = append(all, parsed...)
	}
	return all, nil
}

// Parse reads the configuration as Alertmanager reports it. The location of Alertmanager's machine is local.
func Parse(config string, local *time.Location) (*Routing, error) {
	type named struct {
		Name      string     `yaml:"name"`
		Intervals []interval `yaml:"time_intervals"`
	}
	var file struct {
		Route       *Route           `yaml:"route"`
		Receivers   []map[string]any `yaml:"receivers"`
		Inhibitions []inhibition     `yaml:"inhibit_rules"`
		Intervals   []named          `yaml:"time_intervals"`
		MuteTimes   []named          `yaml:"mute_time_intervals"` // of older configurations
	}
	if err := yaml.Unmarshal([]byte(config), &file); err != nil {
		return nil, err
	}
	if file.Route == nil {
		return nil, fmt.Errorf("it has no route")
	}
	r := &Routing{
		root:         file.Route,
		Integrations: map[string]map[string]int{},
		inhibitions:  file.Inhibitions,
		intervals:    map[string][]interval{},
	}
	for _, receiver := range file.Receivers {
		name := fmt.Sprint(receiver["name"])
		r.Integrations[name] = map[string]int{}
		for key, value := range receiver {
			if list, ok := value.([]any); ok && strings.HasSuffix(key, "_configs") && len(list) > 0 {
				r.Integrations[name][strings.TrimSuffix(key, "_configs")] = len(list)
			}
		}
	}
	for _, one := range slices.Concat(file.Intervals, file.MuteTimes) {
		for i := range one.Intervals {
			if err := one.Intervals[i].prepare(local); err != nil {
				return nil, err
			}
		}
		r.intervals[one.Name] = one.Intervals
	}
	for i := range r.inhibitions {
		var err error
		rule := &r.inhibitions[i]
		if rule.source, err = newMatchers(rule.SourceMatch, rule.SourceMatchRE, rule.SourceMatchers); err != nil {
			return nil, err
		}
		if rule.target, err = newMatchers(rule.TargetMatch, rule.TargetMatchRE, rule.TargetMatchers); err != nil {
			return nil, err
		}
	}
	wait, interval := model.Duration(usualGroupWait), model.Duration(usualGroupInterval)
	return r, r.root.prepare(&Route{GroupWait: &wait, GroupInterval: &interval})
}

// prepare parses the matchers of a route and those below it, and inherits what they leave out.
func (r *Route) prepare(parent *Route) (err error) {
	r.Receiver = cmp.Or(r.Receiver, parent.Receiver)
	r.GroupWait, r.GroupInterval = cmp.Or(r.GroupWait, parent.GroupWait), cmp.Or(r.GroupInterval, parent.GroupInterval)
	if r.matchers, err = newMatchers(r.Match, r.MatchRE, r.Matchers); err != nil {
		return err
	}
	for _, below := range r.Routes {
		if below == nil {
			return errors.New("a route is empty")
		}
		if err := below.prepare(r); err != nil {
			return err
		}
	}
	return nil
}

var oneMatcher = regexp.MustCompile(`^\s*("(?:[^"\\]|\\.)*"|[^\s=!~"{},]+)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^,{}"]*?)\s*(?:,|$)`)

// parseMatchers parses matchers such as stack="chat", severity=~"warning|critical".
func parseMatchers(line string) (parsed matchers, err error) {
	rest := strings.TrimSpace(line)
	if inner, ok := strings.CutPrefix(rest, "{"); ok {
		rest = strings.TrimSpace(strings.TrimSuffix(inner, "}"))
	}
	for rest != "" {
		found := oneMatcher.FindStringSubmatch(rest)
		if found == nil {
			return nil, fmt.Errorf("unknown form of matcher: %s", line)
		}
		name := found[1]
		if plain, err := strconv.Unquote(name); err == nil {
			name = plain
		}
		m, err := newMatcher(name, Unescaped(found[3]), strings.Contains(found[2], "~"), !strings.HasPrefix(found[2], "!"))
		if err != nil {
			return nil, err
		}
		parsed, rest = append(parsed, m), strings.TrimSpace(rest[len(found[0]):])
	}
	return parsed, nil
}

var escapes = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")

// Unescaped is a value of a matcher, or of a label of a metric, with or without its quotes. Other escapes stand for themselves, as in "\d".
func Unescaped(text string) string {
	if len(text) > 1 && text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	return escapes.Replace(text)
}

// RoutesOf returns the routes that an alert takes.
func (r *Routing) RoutesOf(labels map[string]string) []*Route { return r.root.taken(labels) }

func (r *Route) taken(labels map[string]string) []*Route {
	if !r.matchers.match(labels) {
		return nil
	}
	var taken []*Route
	for _, below := range r.Routes {
		deeper := below.taken(labels)
		taken = append(taken, deeper...)
		if len(deeper) > 0 && !below.Continue {
			break
		}
	}
	if len(taken) == 0 {
		taken = []*Route{r}
	}
	return taken
}

// Moment is what decides beside the configuration who is notified: the time, the alerts that fire, and silences.
type Moment struct {
	At       time.Time
	Firing   []map[string]string
	Silences []Silence
}

// Fate is what becomes of an alert at a moment.
type Fate struct {
	// Receivers get it, if nothing holds it back. Muted are those to which no route sends at this time, with the reasons.
	Receivers []string
	Muted     map[string]string
	// Silence and Inhibitor hold it back; both may be nil.
	Silence   *Silence
	Inhibitor map[string]string
}

// FateOf follows an alert through the configuration.
func (r *Routing) FateOf(labels map[string]string, m *Moment) Fate {
	fate := Fate{Muted: map[string]string{}, Inhibitor: r.inhibitor(labels, m.Firing)}
	for _, route := range r.RoutesOf(labels) {
		if why := r.Mutes(route, m.At); why != "" {
			fate.Muted[route.Receiver] = why
		} else if !slices.Contains(fate.Receivers, route.Receiver) {
			fate.Receivers = append(fate.Receivers, route.Receiver)
		}
	}
	for _, name := range fate.Receivers {
		delete(fate.Muted, name)
	}
	for i := range m.Silences {
		if m.Silences[i].Covers(labels, m.At) {
			fate.Silence = &m.Silences[i]
		}
	}
	return fate
}

// inhibitor is an alert among those that fire that holds back another one; nil if none does.
func (r *Routing) inhibitor(labels map[string]string, firing []map[string]string) map[string]string {
	for i := range r.inhibitions {
		if !r.inhibitions[i].target.match(labels) {
			continue
		}
		for _, source := range firing {
			if r.inhibitions[i].inhibits(source, labels) {
				return source
			}
		}
	}
	return nil
}

// Mutes says why a route sends nothing at a time; "" if it sends.
func (r *Routing) Mutes(route *Route, t time.Time) string {
	holds := func(name string) bool {
		return slices.ContainsFunc(r.intervals[name], func(i interval) bool { return i.contains(t) })
	}
	if i := slices.IndexFunc(route.MuteTimes, holds); i >= 0 {
		return "sends nothing during " + route.MuteTimes[i]
	}
	if len(route.ActiveTimes) > 0 && !slices.ContainsFunc(route.ActiveTimes, holds) {
		return "sends only during " + strings.Join(route.ActiveTimes, ", ")
	}
	return ""
}

// ReceiversOf are the receivers of routes, each once.
func ReceiversOf(routes []*Route) (names []string) {
	for _, r := range routes {
		if !slices.Contains(names, r.Receiver) {
			names = append(names, r.Receiver)
		}
	}
	return names
}

// Uses names the integrations of a receiver, "" if it has none.
func (r *Routing) Uses(receiver string) string {
	return strings.Join(slices.Sorted(maps.Keys(r.Integrations[receiver])), ", ")
}

// Waits returns the longest waits of routes: before the first message of a group, and between two.
func Waits(routes []*Route) (first, next time.Duration) {
	for _, r := range routes {
		first, next = max(first, time.Duration(*r.GroupWait)), max(next, time.Duration(*r.GroupInterval))
	}
	return first, next
}

// Served are those of some receivers that notify somebody.
func (r *Routing) Served(receivers []string) []string {
	return slices.DeleteFunc(slices.Clone(receivers), func(name string) bool { return len(r.Integrations[name]) == 0 })
}

// Silence is a silence as Alertmanager's API shows it.
type Silence struct {
	ID        string    `json:"id"`
	StartsAt  time.Time `json:"startsAt"`
	EndsAt    time.Time `json:"endsAt"`
	CreatedBy string    `json:"createdBy"`
	Comment   string    `json:"comment"`
	Matchers  []struct {
		Name    string `json:"name"`
		Value   string `json:"value"`
		IsRegex bool   `json:"isRegex"`
		// IsEqual is missing in old versions, where it is always true.
		IsEqual *bool `json:"isEqual"`
	} `json:"matchers"`
}

func (s *Silence) String() string {
	matchers := make([]string, len(s.Matchers))
	for i, m := range s.Matchers {
		sign := map[bool]string{false: "=", true: "=~"}[m.IsRegex]
		if m.IsEqual != nil && !*m.IsEqual {
			sign = map[bool]string{false: "!=", true: "!~"}[m.IsRegex]
		}
		matchers[i] = fmt.Sprintf("%s%s%q", m.Name, sign, m.Value)
	}
	return fmt.Sprintf("silence %s by %s until %s (%s) of {%s}",
		s.ID, s.CreatedBy, s.EndsAt.UTC().Format("2006-01-02 15:04 UTC"), s.Comment, strings.Join(matchers, ", "))
}

// Covers reports whether the silence is in force at a time and covers an alert.
func (s *Silence) Covers(labels map[string]string, t time.Time) bool {
	if t.Before(s.StartsAt) || !t.Before(s.EndsAt) {
		return false
	}
	for _, given := range s.Matchers {
		m, err := newMatcher(given.Name, given.Value, given.IsRegex, given.IsEqual == nil || *given.IsEqual)
		if err != nil || !m.matches(labels) {
			return false
		}
	}
	return true
}
