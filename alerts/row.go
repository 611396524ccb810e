package alerts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// row is one alert: everything that is keyed by its name, but its runbook and the code that finds out whether it holds.
type row struct {
	name string
	// AlertKind is its settings. Its key is "" if it has none.
	config.AlertKind
	evidence
	// timed says that Prometheus waits for the rule, since the exporter cannot; percent that Over is a percentage of what is measured.
	timed, percent bool
	// fewest is what the alert needs recorded, if it compares the lowest count of all exporters.
	fewest fewest
	// on reports whether there are rules; nil for always. off is what the index says otherwise.
	on  func(*config.AlertSettings) bool
	off string
	// warning, critical and none are what it says with that severity, if it has it.
	warning, critical, none message
	// page is what the status page says for lack of details, gauge how it shows what the alert compares, state what a bridge does then.
	page  Words
	gauge Gauge
	state string
	// nowAndThen says that something does not work now and then.
	nowAndThen bool
	// inOutage says that the text of a target's outage says the same. ahead says that the target's users have lost nothing yet.
	inOutage, ahead bool
	// panels show it in the dashboards, as dashboard/title. They link to its runbook, and may have its limits.
	panels []string
	// judged is what the exporter's judge needs to know beside the limits; nil if only Prometheus decides.
	judged *health.Rule
	// itself says that the exporter tells people of it without a judgement, as a warning.
	itself bool
	// server is what the alert is about for the label chat_server: its target, if that is not set. together replaces it if it finds any.
	server   server
	together together
	// since says when the problem began, if that is neither when the alert began nor known from how long it has lasted.
	since string
	// target is a template for the label target, if the series have the target's name in another label. Inhibition compares it.
	target string
	// drill marks the alert of a drill, whose series has the severity. elsewhere says that the exporter may not answer while it fires,
	// so that its runbook is not there.
	drill, elsewhere bool
}

// evidence is how rules find out that an alert holds, and with which series that is tried. lasts says that the value of the alert is
// how long it has held, in seconds.
type evidence struct {
	expr   func(a *config.Alerts, t *alert) string
	trials func(a *config.Alerts, t *alert) []trial
	lasts  bool
	// held says that the alert goes on while no exporter answers or one has just started, since then nobody knows.
	held bool
	// records are the recording rules that only these rules need; nil for none.
	records func(a *config.Alerts, s *config.AlertSettings) []rule
}

// fewest records the lowest count of a series of which one with a low count is enough, unless another series excuses it.
type fewest struct{ record, series, excused string }

// message is what an alert of one severity says. Its words in angle brackets are settings: see fill.
type message struct {
	// when it fires, for the index; "" for after a time.
	when string
	// summary and description are templates of Prometheus.
	summary, description string
}

// Words describe a problem for lack of details. In the text, %s is its subject; the hint says what to do.
type Words struct{ Text, Hint string }

// WordsOf returns the words for an alert on the status page.
func WordsOf(alert string) Words { return rowOf(alert).page }

// Gauge is how the status page shows what an alert compares.
type Gauge struct {
	// Place is that in the table of thresholds, from 1; 0 for none.
	Place int
	// Title is the alert's name for people; Unit that of its number: seconds, bytes, ratio, per_minute or "".
	Title, Unit string
	// Below says that less is worse, Lasts that the number is how long a problem has lasted.
	Below, Lasts bool
	// Containers says that it is about containers, Events that their events count within the window of the settings. XMPPApart says that
	// the XMPP server has a row of its own, since only that gets a warning.
	Containers, Events, XMPPApart bool
	// Unknown is the text without a number.
	Unknown string
	// Figure is the name of the number beside a target, Past that of a time that has run out; Chart is the key of its chart.
	Figure, Past, Chart string
	// Problem is the text of a problem, with <value> or <number>, which has no unit; PastProblem that of a time that has run out.
	Problem, PastProblem string
}

// Number is a limit as the table shows it.
func (g *Gauge) Number(l health.Limit) float64 {
	switch {
	case g.Below:
		return l.Under.Seconds()
	case g.Lasts:
		return l.Hold.Seconds()
	}
	return l.Over
}

// Gauged returns the alerts in the table of thresholds, in its order.
func Gauged() []string {
	var names []string
	for _, r := range rows {
		if r.gauge.Place > 0 {
			names = append(names, r.name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return GaugeOf(a).Place - GaugeOf(b).Place })
	return names
}

// State returns what a bridge does while it has a problem with the alert, such as "does not relay"; "" for most alerts.
func State(alert string) string { return rowOf(alert).state }

// InOutage reports whether the text of a target's outage says the same as that of a problem with the alert.
func InOutage(alert string) bool { return rowOf(alert).inOutage }

// Ahead reports whether a problem with the alert is one of what users will lose, not of what they have lost.
func Ahead(alert string) bool { return rowOf(alert).ahead || rowOf(alert).itself }

// GaugeOf returns how the status page shows what an alert compares.
func GaugeOf(alert string) Gauge { return rowOf(alert).gauge }

// Limits returns when an alert fires as a warning and as critical.
func Limits(a *config.Alerts, alert string) (warning, critical health.Limit) {
	r, s := rowOf(alert), Settings(a, alert)
	return r.limit(s, Warning), r.limit(s, Critical)
}

// Settings returns the settings of an alert.
func Settings(a *config.Alerts, alert string) *config.AlertSettings { return a.Of(Key(alert)) }

// Key returns the key of an alert's settings.
func Key(alert string) string { return rowOf(alert).Key }

// Panels returns the alerts that the panels of the dashboards are about, by dashboard/title.
func Panels() map[string]string {
	all := map[string]string{}
	for _, r := range rows {
		for _, panel := range r.panels {
			all[panel] = r.name
		}
	}
	return all
}

// rowOf returns the row of an alert; an empty one for a name that no alert has.
func rowOf(alert string) *row {
	for _, r := range rows {
		if r.name == alert {
			return r
		}
	}
	return &row{}
}

// alert is an alert of one severity with the settings.
type alert struct {
	*row
	message
	severity string
	settings *config.AlertSettings
	config.Level
	// hold is the rule's for. keep is keep_firing_for.
	hold, keep config.Duration
	pace
	// checksum is that of the rules, and rules is how many there are, for the alert that compares them.
	checksum string
	rules    int
}

// alerts returns the alerts of the row.
func (r *row) alerts(a *config.Alerts, checksum string) []alert {
	var list []alert
	for i, m := range []message{r.warning, r.critical, r.none} {
		if m.summary == "" {
			continue
		}
		t := alert{
			row:      r,
			message:  m,
			severity: []string{Warning, Critical, None}[i],
			settings: &config.AlertSettings{},
			pace:     pace(a.Interval),
			checksum: checksum,
		}
		if r.Key != "" {
			t.settings = a.Of(r.Key)
			t.Level = t.settings.At(t.severity)
		}
		if t.keep = t.KeepFiringFor; r.timed {
			t.hold = t.For
		}
		list = append(list, t)
	}
	return list
}

// isOn reports whether there are rules for the alert.
func (r *row) isOn(a *config.Alerts) bool { return r.on == nil || r.on(a.Of(r.Key)) }

// table returns the alerts of all rows that are on. With a checksum, they know how many rules there are.
func table(a *config.Alerts, checksum string) (list []alert) {
	for _, r := range rows {
		if r.isOn(a) {
			list = append(list, r.alerts(a, checksum)...)
		}
	}
	for i := range list {
		if checksum != "" { // recorded also looks at this table
			list[i].rules = len(recorded(a)) + len(list)
		}
	}
	return list
}

// fill replaces the words in angle brackets by settings.
func (t *alert) fill(a *config.Alerts, text string) string {
	s := t.settings
	return strings.NewReplacer(
		"<for>", inWords(t.For), "<after>", after(t.For), "<held>", forOver(t.For), "<under>", inWords(t.Under),
		"<over>", fmt.Sprint(t.Over), "<more>", fmt.Sprint(t.Over+1), "<size>", size(t.Over),
		"<window>", inWords(s.Window), "<windows>", inWords(restartWindows*s.Window),
		"<within>", inWords(s.Within), "<remember>", inWords(s.Remember), "<apart>", inWords(s.Apart),
		"<typical>", fmt.Sprint(s.Typical), "<nobody>", nobody(s.Bots), "<roles>", strings.Join(s.Roles, ", "),
		"<interval>", inWords(a.Interval), "<lookback>", inWords(a.Lookback),
		"<scrapes>", fmt.Sprint(fewestScrapes), "<lookbacks>", inWords(fewestScrapes*a.Lookback),
	).Replace(text)
}

// nobody is in words that only bots are left.
func nobody(bots int64) string {
	if bots > 0 {
		return fmt.Sprintf("%d or fewer", bots)
	}
	return "nobody"
}

// after is in words how long it takes until an alert fires.
func after(d config.Duration) string {
	if d == 0 {
		return "at once"
	}
	return "after " + inWords(d)
}

// forOver ends a sentence with a minimum duration.
func forOver(d config.Duration) string {
	if d == 0 {
		return ""
	}
	return " for over " + inWords(d)
}

// Kinds returns the table for internal/config.
func Kinds() (kinds []config.AlertKind) {
	for _, r := range rows {
		if r.Key != "" {
			kinds = append(kinds, r.AlertKind)
		}
	}
	return kinds
}

// Rules returns what the exporter's judge needs of the settings.
func Rules(a *config.Alerts) health.Rules {
	all := health.Rules{
		Lookback:     a.Lookback.Std(),
		SlowLookback: a.SlowLookback.Std(),
		Alerts:       map[string]*health.Rule{},
	}
	for _, r := range rows {
		if r.judged == nil {
			continue
		}
		s, rule := a.Of(r.Key), *r.judged
		rule.Warning, rule.Critical, rule.Window = r.limit(s, Warning), r.limit(s, Critical), s.Window.Std()
		rule.Roles, rule.Ignore = s.Roles, s.Ignore
		all.Alerts[r.name] = &rule
	}
	return all
}

// excusedBy is for alerts of which the judge needs to know nothing but what explains a condition.
func excusedBy(excuses ...health.Excuser) *health.Rule { return &health.Rule{Excuses: excuses} }

// limit is when an alert fires, in the unit of what is measured.
func (r *row) limit(s *config.AlertSettings, severity string) health.Limit {
	l := s.At(severity)
	over := float64(l.Over)
	if r.percent {
		over /= 100
	}
	return health.Limit{
		Over:  over,
		Under: l.Under.Std(),
		Hold:  l.For.Std(),
		Keep:  l.KeepFiringFor.Std(),
	}
}

// The shapes of settings that several alerts have.

const (
	second = config.Duration(time.Second)
	minute = config.Duration(time.Minute)
	hour   = config.Duration(time.Hour)
	// day is also the history that defines what is usual.
	day = 24 * hour
)

func kind(key string, keys []config.AlertKey, defaults config.AlertSettings, checks ...func(*config.AlertCheck)) config.AlertKind {
	return config.AlertKind{
		Key:      key,
		Keys:     keys,
		Defaults: defaults,
		Checks:   checks,
	}
}

// flat has one duration for both severities.
func flat(key string, wait, keep config.Duration) config.AlertKind {
	return kind(key, holdKeys, config.AlertSettings{Level: lasting(wait, keep)})
}

// holds has a duration for each severity.
func holds(key string, warning, critical config.Level, checks ...func(*config.AlertCheck)) config.AlertKind {
	return kind(key, levelKeys, config.AlertSettings{Warning: warning, Critical: critical}, checks...)
}

// amounts has a limit and a duration for each severity. check is config.Amounts or config.Percents.
func amounts(key string, check func(*config.AlertCheck), warning, critical config.Level) config.AlertKind {
	return kind(key, amountKeys, config.AlertSettings{Warning: warning, Critical: critical}, check)
}

var (
	holdKeys   = config.Keys("for", "keep_firing_for")
	levelKeys  = config.Keys("warning", "for", "keep_firing_for", "critical", "for", "keep_firing_for")
	amountKeys = config.Keys("warning", "over", "for", "keep_firing_for", "critical", "over", "for", "keep_firing_for")
)

func lasting(wait, keep config.Duration) config.Level {
	return config.Level{For: wait, KeepFiringFor: keep}
}

func over(limit int64, wait, keep config.Duration) config.Level {
	return config.Level{Over: limit, For: wait, KeepFiringFor: keep}
}

// NeedsPrometheus reports whether only Prometheus decides whether an alert fires: it is about how both work together, or compares with the
// day before.
func NeedsPrometheus(alert string) bool {
	r := rowOf(alert)
	return !r.itself && (r.judged == nil || r.fewest != fewest{})
}

// TellsOutage reports whether an alert says that something does not work, now and then or at all. All such alerts of one cause are told as
// one; others are told apart.
func TellsOutage(alert string) bool {
	r := rowOf(alert)
	return health.IsOutage(alert) || r.nowAndThen || r.judged != nil && r.judged.Unsettles
}
