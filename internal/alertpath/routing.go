package alertpath

import (
	"cmp"
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

// routing is the part of Alertmanager's configuration that decides who gets which alert.
type routing struct {
	root *route
	// integrations are how often each receiver uses each integration, such as webhook and email.
	integrations map[string]map[string]int
}

// route is a node of Alertmanager's tree of routes, with the waits that it inherits.
type route struct {
	Receiver      string            `yaml:"receiver"`
	Match         map[string]string `yaml:"match"`
	MatchRE       map[string]string `yaml:"match_re"`
	Matchers      []string          `yaml:"matchers"`
	Continue      bool              `yaml:"continue"`
	GroupWait     *model.Duration   `yaml:"group_wait"`
	GroupInterval *model.Duration   `yaml:"group_interval"`
	MuteTimes     []string          `yaml:"mute_time_intervals"`
	ActiveTimes   []string          `yaml:"active_time_intervals"`
	Routes        []*route          `yaml:"routes"`

	matchers []matcher
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

// parseRouting reads the configuration as Alertmanager reports it.
func parseRouting(config string) (*routing, error) {
	var file struct {
		Route     *route           `yaml:"route"`
		Receivers []map[string]any `yaml:"receivers"`
	}
	if err := yaml.Unmarshal([]byte(config), &file); err != nil {
		return nil, err
	}
	if file.Route == nil {
		return nil, fmt.Errorf("it has no route")
	}
	r := &routing{root: file.Route, integrations: map[string]map[string]int{}}
	for _, receiver := range file.Receivers {
		name := fmt.Sprint(receiver["name"])
		r.integrations[name] = map[string]int{}
		for key, value := range receiver {
			if list, ok := value.([]any); ok && strings.HasSuffix(key, "_configs") && len(list) > 0 {
				r.integrations[name][strings.TrimSuffix(key, "_configs")] = len(list)
			}
		}
	}
	wait, interval := model.Duration(usualGroupWait), model.Duration(usualGroupInterval)
	return r, r.root.prepare(&route{GroupWait: &wait, GroupInterval: &interval})
}

// prepare parses the matchers of a route and those below it, and inherits what they leave out.
func (r *route) prepare(parent *route) error {
	r.Receiver = cmp.Or(r.Receiver, parent.Receiver)
	r.GroupWait, r.GroupInterval = cmp.Or(r.GroupWait, parent.GroupWait), cmp.Or(r.GroupInterval, parent.GroupInterval)
	for name, value := range r.Match {
		r.matchers = append(r.matchers, matcher{name: name, value: value, equal: true})
	}
	for name, value := range r.MatchRE {
		m, err := newMatcher(name, value, true, true)
		if err != nil {
			return err
		}
		r.matchers = append(r.matchers, m)
	}
	for _, line := range r.Matchers {
		parsed, err := parseMatchers(line)
		if err != nil {
			return err
		}
		r.matchers = append(r.matchers, parsed...)
	}
	for _, below := range r.Routes {
		if err := below.prepare(r); err != nil {
			return err
		}
	}
	return nil
}

var oneMatcher = regexp.MustCompile(`^\s*("(?:[^"\\]|\\.)*"|[^\s=!~"{},]+)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^,{}"]*?)\s*(?:,|$)`)

// parseMatchers parses matchers such as stack="chat", severity=~"warning|critical".
func parseMatchers(line string) (parsed []matcher, err error) {
	rest := strings.TrimSpace(line)
	if inner, ok := strings.CutPrefix(rest, "{"); ok {
		rest = strings.TrimSpace(strings.TrimSuffix(inner, "}"))
	}
	for rest != "" {
		found := oneMatcher.FindStringSubmatch(rest)
		if found == nil {
			return nil, fmt.Errorf("unknown form of matcher: %s", line)
		}
		name, value := unquoted(found[1]), unquoted(found[3])
		m, err := newMatcher(name, value, strings.Contains(found[2], "~"), !strings.HasPrefix(found[2], "!"))
		if err != nil {
			return nil, err
		}
		parsed, rest = append(parsed, m), strings.TrimSpace(rest[len(found[0]):])
	}
	return parsed, nil
}

func unquoted(text string) string {
	if plain, err := strconv.Unquote(text); err == nil {
		return plain
	}
	return text
}

// routesOf returns the routes that an alert takes.
func (r *routing) routesOf(labels map[string]string) []*route { return r.root.taken(labels) }

func (r *route) taken(labels map[string]string) []*route {
	if slices.ContainsFunc(r.matchers, func(m matcher) bool { return !m.matches(labels) }) {
		return nil
	}
	var taken []*route
	for _, below := range r.Routes {
		deeper := below.taken(labels)
		taken = append(taken, deeper...)
		if len(deeper) > 0 && !below.Continue {
			break
		}
	}
	if len(taken) == 0 {
		taken = []*route{r}
	}
	return taken
}

// receiversOf are the receivers of routes, each once.
func receiversOf(routes []*route) (names []string) {
	for _, r := range routes {
		if !slices.Contains(names, r.Receiver) {
			names = append(names, r.Receiver)
		}
	}
	return names
}

// uses names the integrations of a receiver, "" if it has none.
func (r *routing) uses(receiver string) string {
	return strings.Join(slices.Sorted(maps.Keys(r.integrations[receiver])), ", ")
}

// timed are the time intervals that the routes to a receiver name, in words; "" without any.
func timed(routes []*route) string {
	var words []string
	for _, r := range routes {
		if len(r.ActiveTimes) > 0 {
			words = append(words, "sends only during "+strings.Join(r.ActiveTimes, ", "))
		}
		if len(r.MuteTimes) > 0 {
			words = append(words, "sends nothing during "+strings.Join(r.MuteTimes, ", "))
		}
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), "; ")
}

// waits returns the longest waits of routes: before the first message of a group, and between two.
func waits(routes []*route) (first, next time.Duration) {
	for _, r := range routes {
		first, next = max(first, time.Duration(*r.GroupWait)), max(next, time.Duration(*r.GroupInterval))
	}
	return first, next
}
