package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/version"
)

// Alerts are the settings of the alert rules. NewAlerts returns the default ones.
type Alerts struct {
	// Job is the label job of the exporter's scrapes; its series up shows that the exporter is gone.
	Job string `yaml:"job"`
	// RunbookURL is the base of runbook links without ExternalURL, and in alerts about the exporter itself.
	RunbookURL string `yaml:"runbook_url"`
	// ExternalURL is a copy of Web.ExternalURL; the exporter serves its runbooks there.
	ExternalURL string `yaml:"-"`
	// Interval is the time between two evaluations of the rules, and should be that between two scrapes.
	Interval Duration `yaml:"interval"`
	// Lookback is how long the last scrape of a series counts, so that one or two lost scrapes change nothing.
	Lookback Duration `yaml:"lookback"`
	// SlowLookback is the same for certificates, which change slowly.
	SlowLookback Duration `yaml:"slow_lookback"`
	// Settings are those of each alert, by its key. The loader finds the keys in them.
	Settings map[string]*AlertSettings `yaml:"-"`
}

// AlertKind is an alert in exporter.yaml: its key, the keys in it, their defaults and checks.
type AlertKind struct {
	Key      string
	Keys     []AlertKey
	Defaults AlertSettings
	Checks   []func(*AlertCheck)
}

// AlertKey is a key of an alert, such as critical.for, and where its value is: a *Duration, *int64, *bool or *[]string.
type AlertKey struct {
	Name string
	At   func(*AlertSettings) any
}

// AlertSettings are the settings of one alert, each with some of these.
type AlertSettings struct {
	// Level is what does not depend on the severity.
	Level
	Warning, Critical Level
	// Window is the time in which events count, or over which they are averaged.
	Window Duration
	// Within is the time until something happens, Remember how long something counts that is gone, Apart by how much times differ.
	Within, Remember, Apart Duration
	// Typical is how many there usually are, 0 for no alert. Bots is how many of them are no people.
	Typical, Bots int64
	// Enabled turns on an alert that is off by default.
	Enabled bool
	// Roles are the container roles that it is about, Ignore the names that are accepted.
	Roles, Ignore []string

	kind *AlertKind
}

// Level is when an alert of one severity fires: above Over, or below Under, for longer than For.
type Level struct {
	Over  int64
	Under Duration
	// For is how long a condition must hold; KeepFiringFor is how long the alert keeps firing after it, so that a flapping
	// condition pages once.
	For, KeepFiringFor Duration
}

// At returns when the alert fires with a severity. An alert has each key once: for one severity, or for both.
func (s *AlertSettings) At(severity string) Level {
	l := s.level(severity)
	return Level{
		Over:          l.Over + s.Over,
		Under:         l.Under + s.Under,
		For:           l.For + s.For,
		KeepFiringFor: l.KeepFiringFor + s.KeepFiringFor,
	}
}

// Values are the values by key, to be read and changed: each a *Duration, *int64, *bool or *[]string.
func (s *AlertSettings) Values() map[string]any {
	values := make(map[string]any, len(s.kind.Keys))
	for _, k := range s.kind.Keys {
		values[k.Name] = k.At(s)
	}
	return values
}

// mapping returns the values as the loader fills them: those of a severity are one level deeper.
func (s *AlertSettings) mapping() reflect.Value {
	all := keyValues{}
	for key, value := range s.Values() {
		into := all
		if severity, inner, ok := strings.Cut(key, "."); ok {
			if !all[severity].IsValid() {
				all[severity] = reflect.ValueOf(&keyValues{}).Elem()
			}
			into, key = keysOf(all[severity]), inner
		}
		into[key] = reflect.ValueOf(value).Elem()
	}
	return reflect.ValueOf(&all).Elem()
}

// Keys are keys such as "for" and "window": of the alert itself, or of its severity after "warning" or "critical".
func Keys(names ...string) (keys []AlertKey) {
	severity := ""
	for _, name := range names {
		if name == "warning" || name == "critical" {
			severity = name
			continue
		}
		of := severity
		keys = append(keys, AlertKey{join(of, name), func(s *AlertSettings) any { return s.fields(of)[name] }})
	}
	return keys
}

// fields are where the values of all keys are: of a severity, or of the alert itself.
func (s *AlertSettings) fields(severity string) map[string]any {
	l := s.level(severity)
	return map[string]any{
		"over":            &l.Over,
		"under":           &l.Under,
		"for":             &l.For,
		"after":           &l.For,
		"keep_firing_for": &l.KeepFiringFor,
		"window":          &s.Window,
		"within":          &s.Within,
		"remember":        &s.Remember,
		"typical":         &s.Typical,
		"bots":            &s.Bots,
		"enabled":         &s.Enabled,
		"roles":           &s.Roles,
		"ignore":          &s.Ignore,
	}
}

func (s *AlertSettings) level(severity string) *Level {
	return map[string]*Level{"": &s.Level, "warning": &s.Warning, "critical": &s.Critical}[severity]
}

// NewAlerts returns the default settings. They do not depend on the build, so the shipped rules do not either.
func NewAlerts(table []AlertKind) Alerts {
	a := Alerts{
		Job:          "chatstack_exporter",
		RunbookURL:   Documents("") + "/alerts/runbooks",
		Interval:     Duration(30 * time.Second),
		Lookback:     Duration(2 * time.Minute),
		SlowLookback: Duration(time.Hour),
		Settings:     make(map[string]*AlertSettings, len(table)),
	}
	for i := range table {
		s := table[i].Defaults
		s.kind = &table[i]
		a.Settings[s.kind.Key] = &s
	}
	return a
}

// Of returns the settings of an alert by its key, such as target_down.
func (a *Alerts) Of(key string) *AlertSettings { return a.Settings[key] }

// taggedVersion matches the versions that have a Git tag.
var taggedVersion = regexp.MustCompile(`^v?(\d+\.\d+\.\d+(?:-rc(?:\.?\d+)?)?)$`)

// Documents is the address of a version's documents on GitHub: at its tag, else on the main branch.
func Documents(version string) string {
	const repository = "https://github.com/chatstack-exporter/chatstack_exporter/blob/"
	if m := taggedVersion.FindStringSubmatch(version); m != nil {
		return repository + "v" + m[1]
	}
	return repository + "main"
}

const (
	// MinWindowScrapes is how many scrapes must fit into a window, so that two may be lost.
	MinWindowScrapes = 4
	// MaxCount is the highest number that a metric still counts exactly.
	MaxCount = 1 << 53
)

// jobName matches what becomes part of expressions without quoting.
var jobName = regexp.MustCompile(`^[A-Za-z0-9_./:-]{1,128}$`)

func (l *loader) checkAlerts() {
	a := &l.cfg.Alerts
	r := &Report{loader: l, path: "alerts", where: "default"}
	if !jobName.MatchString(a.Job) {
		r.Faultf("job", "is %q, must be a job name: 1 to 128 letters, digits, '_', '.', '/', ':' or '-'", a.Job)
	}
	if a.RunbookURL == "" {
		a.RunbookURL = Documents(version.Version) + "/alerts/runbooks"
	}
	CheckURL(r, "runbook_url", a.RunbookURL, "http", "https")
	if strings.Contains(a.RunbookURL, "{{") {
		r.Faultf("runbook_url", "is %q, must be a plain address, not a template", a.RunbookURL)
	}
	if interval := a.Interval.Std(); interval < time.Second {
		r.Faultf("interval", "is %s, must be at least 1s", interval)
		return
	}
	own := &AlertCheck{Report: r, Alerts: a}
	own.Scrapes("lookback", a.Lookback)
	own.Scrapes("slow_lookback", a.SlowLookback)
	for _, kind := range l.src.Alerts {
		r := &Report{loader: l, path: join("alerts", kind.Key), where: "default"}
		for _, check := range kind.Checks {
			check(&AlertCheck{a.Of(kind.Key), r, a})
		}
	}
}

// AlertCheck checks the settings of one alert.
type AlertCheck struct {
	*AlertSettings
	*Report
	// Alerts are all settings.
	Alerts *Alerts
}

// Scrapes reports a window into which too few scrapes fit.
func (c *AlertCheck) Scrapes(key string, window Duration) {
	c.AtLeast(key, window, MinWindowScrapes*c.Alerts.Interval,
		fmt.Sprintf("%d times alerts.interval, so that two lost scrapes change nothing", MinWindowScrapes))
}

// Number reports a number that is negative or above the most.
func (c *AlertCheck) Number(key string, is, most int64) {
	if is < 0 {
		c.Faultf(key, "is %d, must be at least 0", is)
	}
	if is > most {
		c.Faultf(key, "is %d, must be at most %d", is, most)
	}
}

// ScrapesFit checks that enough scrapes fit into the window.
func ScrapesFit(c *AlertCheck) { c.Scrapes("window", c.Window) }

// NotShorter checks that the critical alert does not come before the warning.
func NotShorter(c *AlertCheck) {
	if c.Critical.For < c.Warning.For {
		c.Faultf("critical.for", "is %s, must be at least the warning's %s", c.Critical.For.Std(), c.Warning.For.Std())
	}
}

// Amounts and Percents check that the critical limit is not under the warning's.
func Amounts(c *AlertCheck) { c.levels(MaxCount) }

// Percents also check that each is a percentage.
func Percents(c *AlertCheck) { c.levels(99) }

func (c *AlertCheck) levels(most int64) {
	warning, critical := c.Warning.Over, c.Critical.Over
	switch {
	case warning < 0:
		c.Faultf("warning.over", "is %d, must be at least 0", warning)
	case warning > most:
		c.Faultf("warning.over", "is %d, must be at most %d", warning, most)
	case critical > most:
		c.Faultf("critical.over", "is %d, must be at most %d", critical, most)
	case critical < warning && c.loader.origins[join(c.path, "critical.over")] == "":
		c.Faultf("warning.over", "is %d, must be at most %s.critical.over, which is %d by default", warning, c.kind.Key, critical)
	case critical < warning:
		c.Faultf("critical.over", "is %d, must be at least the warning's %d", critical, warning)
	}
}

// Names checks that all words of a list match, since they become part of expressions without quoting.
func (c *AlertCheck) Names(key string, list []string, pattern *regexp.Regexp, what string) {
	if i := slices.IndexFunc(list, func(name string) bool { return !pattern.MatchString(name) }); i >= 0 {
		c.Faultf(key, "holds %q, must be %s", list[i], what)
	}
}
