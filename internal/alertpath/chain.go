package alertpath

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/routing"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// Expected is what the exporter's configuration says about the path.
type Expected struct {
	// ConfigFile is its path; "" if there is none.
	ConfigFile string
	// Job is the job that the rules expect the scrapes to have.
	Job string
	// Lookback is how far apart scrapes may be.
	Lookback time.Duration
	// Clocks is how far the clocks may be apart.
	Clocks time.Duration
	// LabelCheck are the labels of the series chatstack_label_check, unless Prometheus changes them.
	LabelCheck map[string]string
	// Drill is the name of the alert that a drill raises.
	Drill string
	// ExporterLabels are labels of the exporter's series that its alerts do not have.
	ExporterLabels []string
	// Rules are those that the command rules prints, as Prometheus shows them, and Checksum is theirs.
	Rules    Group
	Checksum string
}

// Facts are what the three servers say before a drill.
type Facts struct {
	Expected
	// Now is the time by our clock.
	Now                                time.Time
	Exporter, Prometheus, Alertmanager Server

	// Checksums are those of the rules that the exporter expects, by its own page.
	Checksums []string
	// Setup is Prometheus' configuration.
	Setup   Setup
	Targets []Target
	// Builds are the labels of the series chatstack_exporter_build_info, LabelChecks those of chatstack_label_check.
	Builds, LabelChecks []map[string]string
	// Subjects are the labels of the series that name the server of each target and container, and what an operator adds to all series.
	Subjects []map[string]string
	// Quiet are the labels of targets that do not page.
	Quiet []map[string]string
	// Own are the labels of the scrapes of the exporter that was asked, which is found by begun, the start time on its page.
	Own    []map[string]string
	begun  string
	Groups []Group
	// missing are series that Prometheus lacks: metrics that rules read and the exporter has, and what should be recorded now. missingErr
	// is why that cannot be asked.
	missing    []string
	missingErr error
	// unserved are the paths of Prometheus' API that the server lacks, as others do that have rules: Mimir, Thanos, vmalert.
	unserved map[string]error
	// Known are the addresses of the Alertmanagers that Prometheus sends to.
	Known []string
	// SendErrors are how many times Prometheus failed to send alerts to each since it started, Lost those to which it fails now.
	SendErrors map[string]float64
	Lost       []string

	// routing is nil if routingErr says why it cannot be read.
	routing    *routing.Routing
	routingErr error
	// Peers are how many Alertmanagers form its cluster, itself included. One of them sends a message. Asked are how many of them show
	// their counters, and Silent is why another one does not.
	Peers, Asked int
	Silent       error
	// Alerts are all alerts in Alertmanager. Those of others may inhibit ours.
	Alerts   []Received
	Silences []routing.Silence
}

// Server is one of the three servers.
type Server struct {
	URL string
	// Err is why it does not answer as it should.
	Err     error
	Version string
	Started time.Time
	// Ahead is how far its clock is ahead of ours, to a second, unless ClockKnown is false.
	Ahead      time.Duration
	ClockKnown bool
}

// Setup is the part of Prometheus' configuration that matters here.
type Setup struct {
	Global struct {
		EvaluationInterval string            `yaml:"evaluation_interval"`
		ExternalLabels     map[string]string `yaml:"external_labels"`
	} `yaml:"global"`
	Alerting struct {
		Relabel []routing.Relabeling `yaml:"alert_relabel_configs"`
		Servers []alertmanagers      `yaml:"alertmanagers"`
	} `yaml:"alerting"`
	RuleFiles []string `yaml:"rule_files"`
	Scrapes   []struct {
		Job         string               `yaml:"job_name"`
		HonorLabels bool                 `yaml:"honor_labels"`
		Relabel     []routing.Relabeling `yaml:"metric_relabel_configs"`
	} `yaml:"scrape_configs"`
}

// alertmanagers are a group of Alertmanagers in Prometheus' configuration.
type alertmanagers struct {
	Relabel []routing.Relabeling `yaml:"alert_relabel_configs"`
}

// Target is a target of Prometheus.
type Target struct {
	Labels    map[string]string `json:"labels"`
	ScrapeURL string            `json:"scrapeUrl"`
	Health    string            `json:"health"`
	LastError string            `json:"lastError"`
	// Interval is missing in versions before 2.29, and in VictoriaMetrics, which has it among the labels before relabeling.
	Interval   string            `json:"scrapeInterval"`
	Discovered map[string]string `json:"discoveredLabels"`
}

// address is the address without what may be secret in it.
func (t *Target) address() string { return exchange.PrintableURL(t.ScrapeURL) }

var urlInText = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"]+`)

// withPrintableURLs removes from the URLs in a message what may be secret.
func withPrintableURLs(message string) string {
	return urlInText.ReplaceAllStringFunc(message, exchange.PrintableURL)
}

func (t *Target) interval() time.Duration {
	every, err := model.ParseDuration(cmp.Or(t.Interval, t.Discovered["__scrape_interval__"]))
	if err != nil {
		return time.Minute // Prometheus' default
	}
	return time.Duration(every)
}

// Group is a group of rules in Prometheus.
type Group struct {
	Name           string    `json:"name"`
	File           string    `json:"file"`
	Interval       float64   `json:"interval"`
	LastEvaluation time.Time `json:"lastEvaluation"`
	Rules          []Rule    `json:"rules"`
}

// Rule is a rule in Prometheus.
type Rule struct {
	Name     string  `json:"name"`
	Type     string  `json:"type"`
	Query    string  `json:"query"`
	Duration float64 `json:"duration"`
	// Keep is nil for a server that does not show keep_firing_for; vmalert has it in KeepOfVMAlert.
	Keep          *float64          `json:"keepFiringFor"`
	KeepOfVMAlert *float64          `json:"keep_firing_for"`
	Labels        map[string]string `json:"labels"`
	Annotations   map[string]string `json:"annotations"`
	Health        string            `json:"health"`
	LastError     string            `json:"lastError"`
	Alerts        []Alert           `json:"alerts"`
}

// Alert is an alert in Prometheus.
type Alert struct {
	Labels   map[string]string `json:"labels"`
	State    string            `json:"state"`
	ActiveAt time.Time         `json:"activeAt"`
}

// Received is an alert in Alertmanager.
type Received struct {
	Labels    map[string]string `json:"labels"`
	StartsAt  time.Time         `json:"startsAt"`
	Receivers []struct {
		Name string `json:"name"`
	} `json:"receivers"`
	Status struct {
		State string `json:"state"`
	} `json:"status"`
}

func (r *Received) receivers() []string {
	names := make([]string, len(r.Receivers))
	for i, to := range r.Receivers {
		names[i] = to.Name
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Chain judges each step that needs no drill. Steps that cannot be judged, because one before them is wrong, are left out.
func Chain(f *Facts) []Step {
	steps := []Step{
		f.server(StepExporter, &f.Exporter), f.server(StepPrometheus, &f.Prometheus),
		f.server(StepAlertmanager, &f.Alertmanager), f.clocks(),
	}
	if f.Alertmanager.Err == nil && f.Silent != nil {
		steps[2] = unknown(StepAlertmanager, failure.HintOf(f.Silent), "%s; another one does not: %v", steps[2].Text, f.Silent)
	}
	if f.Prometheus.Err != nil {
		return steps
	}
	steps = append(steps, f.scrape(), f.labels())
	steps = append(append(steps, f.series()...), f.rules()...)
	if len(f.Known) == 0 && len(f.Setup.Alerting.Servers) > 0 && f.unserved["alertmanagers"] == nil {
		return append(steps, unknown(StepSending,
			"wait ten seconds, and try again; if it stays so, see Prometheus' page /service-discovery",
			"Prometheus has not found yet the Alertmanager that its configuration names"))
	}
	if len(f.Known) == 0 && f.unserved["alertmanagers"] == nil {
		return append(steps, wrong(StepSending, "name it under alerting: alertmanagers: in prometheus.yml, and reload Prometheus",
			"Prometheus knows no Alertmanager"))
	}
	if f.Alertmanager.Err != nil || f.alwaysFiring() == nil {
		return append(steps, works(StepSending, "Prometheus sends to %s", strings.Join(f.Known, ", ")))
	}
	return append(steps, f.sending(), f.watchdog())
}

// Blocked names the steps without which a drill shows nothing more.
func Blocked(steps []Step) (names []string) {
	needed := []string{StepExporter, StepPrometheus, StepAlertmanager, StepScrape, StepRules, StepEvaluation, StepSending}
	for i := range steps {
		if steps[i].State == Wrong && slices.Contains(needed, steps[i].Name) {
			names = append(names, steps[i].Name)
		}
	}
	return names
}

func (f *Facts) server(name string, s *Server) Step {
	if s.Err != nil {
		return refused(name, s.Err)
	}
	return works(name, "%s answers, version %s", s.URL, cmp.Or(s.Version, "unknown")).since(s.Started)
}

// clocks compares the clocks of the servers that answer.
func (f *Facts) clocks() Step {
	var first, last *Server
	var names []string
	nameOf := map[*Server]string{&f.Exporter: "the exporter", &f.Prometheus: "Prometheus", &f.Alertmanager: "Alertmanager"}
	for _, s := range []*Server{&f.Exporter, &f.Prometheus, &f.Alertmanager} {
		if !s.ClockKnown {
			continue
		}
		names = append(names, nameOf[s])
		if first == nil || s.Ahead < first.Ahead {
			first = s
		}
		if last == nil || s.Ahead > last.Ahead {
			last = s
		}
	}
	if len(names) < 2 {
		return unknown(StepClocks, "", "fewer than two servers show their time")
	}
	if apart := last.Ahead - first.Ahead; apart > f.Clocks {
		return wrong(StepClocks, "run timedatectl on their machines, and have NTP set both clocks",
			"the clock of %s is %s ahead of the clock of %s; the limit is %s",
			nameOf[last], wording.AsPrometheus(apart), nameOf[first], wording.AsPrometheus(f.Clocks))
	}
	return works(StepClocks, "the clocks of %s agree to %s", strings.Join(names, ", "),
		wording.AsPrometheus(max(time.Second, last.Ahead-first.Ahead)))
}

// ours are Prometheus' targets with the job that the rules expect.
func (f *Facts) ours() []Target {
	return slices.DeleteFunc(slices.Clone(f.Targets), func(t Target) bool { return t.Labels["job"] != f.Job })
}

func (f *Facts) scrape() Step {
	targets := f.ours()
	hasOurs := slices.ContainsFunc(f.Builds, func(l map[string]string) bool { return l["job"] == f.Job })
	if hasOurs && f.unserved["targets"] != nil {
		return unknown(StepScrape, "", "%s has the exporter's series, but does not say how often it gets them: %v", f.Prometheus.URL,
			f.unserved["targets"])
	}
	if len(targets) == 0 {
		jobs := map[string]bool{}
		for _, labels := range f.Builds {
			jobs[labels["job"]] = true
		}
		if len(jobs) > 0 {
			found := slices.Sorted(maps.Keys(jobs))
			return wrong(StepScrape, fmt.Sprintf("set job_name: %s in prometheus.yml; or set alerts.job in %s, and %s", f.Job,
				cmp.Or(f.ConfigFile, "exporter.yaml"), f.deployRules()),
				"Prometheus scrapes the exporter as job %s, but the rules expect %q", quoted(found), f.Job)
		}
		return wrong(StepScrape, "add the job to prometheus.yml, as deploy/prometheus/scrape.yml shows, and reload Prometheus",
			"Prometheus has no target of the job %q", f.Job)
	}
	var up, down, untried []string
	interval := time.Duration(0)
	for _, t := range targets {
		switch t.Health {
		case "up":
			up = append(up, t.address())
			interval = max(interval, t.interval())
		case "down":
			down = append(down, fmt.Sprintf("%s: %s", t.address(), withPrintableURLs(t.LastError)))
		default:
			untried = append(untried, t.address())
		}
	}
	switch {
	case len(up)+len(down) == 0:
		return unknown(StepScrape, "wait for the first scrape, and try again",
			"Prometheus has not scraped %s yet", strings.Join(untried, ", "))
	case len(up) == 0:
		return wrong(StepScrape, "open that address from Prometheus' machine; check its network, and the credentials in the job",
			"Prometheus cannot scrape the exporter: %s", strings.Join(down, "; "))
	case !hasOurs:
		return wrong(StepScrape, "correct the address in the job", "what Prometheus scrapes at %s is not a chatstack_exporter",
			strings.Join(up, ", "))
	case interval > f.Lookback:
		return wrong(StepScrape, "set scrape_interval: 30s in the job",
			"Prometheus scrapes the exporter every %s; the rules need a scrape every %s",
			wording.AsPrometheus(interval), wording.AsPrometheus(f.Lookback))
	}
	step := works(StepScrape, "Prometheus scrapes %s every %s", strings.Join(up, ", "), wording.AsPrometheus(interval))
	if len(down) > 0 {
		step = step.note("another target of the job fails: %s", strings.Join(down, "; "))
	}
	return step
}

// labels checks honor_labels: by a series, and in the configuration, since nothing may clash today.
func (f *Facts) labels() Step {
	const hint = "set honor_labels: true in the job in prometheus.yml (honorLabels in a ServiceMonitor), and reload Prometheus"
	for _, labels := range f.LabelChecks {
		for name, value := range f.LabelCheck {
			if labels[name] != value {
				return wrong(StepLabels, hint, "Prometheus overwrites the exporter's label %s with %q", name, labels[name])
			}
		}
	}
	for _, scrape := range f.Setup.Scrapes {
		if scrape.Job == f.Job && !scrape.HonorLabels {
			return wrong(StepLabels, hint,
				"the job %s lacks honor_labels: true; a label of the exporter is lost as soon as a target has the same one", f.Job)
		}
	}
	if len(f.LabelChecks) == 0 {
		return unknown(StepLabels, "first repair the scrape", "Prometheus has no chatstack_label_check")
	}
	step := works(StepLabels, "Prometheus keeps the exporter's labels")
	if err := f.unserved["status/config"]; err != nil && len(f.Setup.Scrapes) == 0 {
		step = step.note("nothing shows whether the job has honor_labels: true: %v", err)
	}
	return step
}

// alwaysFiring is the rule of the alert that always fires.
func (f *Facts) alwaysFiring() *Rule { return f.rule("Watchdog") }

// received is the alert Watchdog of our rules in Alertmanager, as this Prometheus sends it.
func (f *Facts) received() *Received {
	for i := range f.Alerts {
		labels := f.Alerts[i].Labels
		if labels["alertname"] == "Watchdog" && labels["stack"] == "chat" && f.sentByThisPrometheus(labels) {
			return &f.Alerts[i]
		}
	}
	return nil
}

// sentByThisPrometheus compares the labels of a Watchdog with those that this Prometheus sends to one of its groups of Alertmanagers.
// Several Prometheus at one Alertmanager differ by their external labels.
func (f *Facts) sentByThisPrometheus(labels map[string]string) bool {
	rule := f.alwaysFiring()
	if f.unserved["status/config"] != nil || rule == nil {
		return true // nothing shows what it sends
	}
	sent := f.asSent(rule.Labels, map[string]string{"alertname": rule.Name})
	ways := []map[string]string{sent}
	for _, servers := range f.Setup.Alerting.Servers {
		ways = append(ways, routing.Relabel(sent, servers.Relabel))
	}
	return slices.ContainsFunc(ways, func(way map[string]string) bool {
		lacks := func(name string) bool { return labels[name] != way[name] }
		return way != nil && !slices.ContainsFunc(slices.Collect(maps.Keys(way)), lacks)
	})
}

// howToSend says what Prometheus needs to send to this Alertmanager.
func (f *Facts) howToSend() string {
	if f.clocks().State == Wrong {
		return "first set the clocks; Alertmanager drops alerts that end in its past"
	}
	return "under alerting: alertmanagers: in prometheus.yml, name the address of " + f.Alertmanager.URL + ", as Prometheus reaches it, " +
		"and its basic_auth or authorization, if Alertmanager wants a password; reload Prometheus, and read its log"
}

// resent is how long an Alertmanager that has started may lack alerts that fire.
const resent = 2 * time.Minute

// sending judges by Watchdog, which always fires, whether alerts arrive.
func (f *Facts) sending() Step {
	to := cmp.Or(strings.Join(f.Known, ", "), "an Alertmanager that it does not name")
	rule, errors := f.alwaysFiring(), 0.0
	for _, n := range f.SendErrors {
		errors += n
	}
	if arrived := f.received(); arrived != nil && len(f.Lost) > 0 {
		return unknown(StepSending,
			"start it, or remove it from alerting: alertmanagers: in prometheus.yml; if it has just started, wait 5 minutes",
			"of %d Alertmanagers, Prometheus cannot send to %s; Watchdog has arrived before", len(f.Known), strings.Join(f.Lost, ", "))
	} else if arrived != nil {
		step := works(StepSending, "Prometheus sends to %s; Watchdog has arrived", to).since(arrived.StartsAt)
		if errors > 0 {
			step = step.note("since Prometheus started, it failed %.0f times to send", errors)
		}
		return step
	}
	if len(rule.Alerts) == 0 {
		return unknown(StepSending, "wait for the first evaluation, and try again", "Watchdog does not fire yet")
	}
	fired := f.Now.Add(f.Prometheus.Ahead).Sub(rule.Alerts[0].ActiveAt)
	hint := f.howToSend()
	const fails = "alerts do not arrive at %s: Prometheus sends to %s"
	switch {
	case f.Now.Add(f.Alertmanager.Ahead).Sub(f.Alertmanager.Started) < resent:
		return unknown(StepSending, "wait two minutes, and try again: Prometheus sends every alert again each minute",
			"Watchdog has not arrived yet at %s, which has just started", f.Alertmanager.URL).since(f.Alertmanager.Started)
	case errors > 0:
		return wrong(StepSending, hint, fails+", and failed %.0f times", f.Alertmanager.URL, to, errors)
	case fired > 90*time.Second:
		return wrong(StepSending, hint, fails+", without an error", f.Alertmanager.URL, to)
	}
	return unknown(StepSending, "wait a minute, and try again", "Watchdog has not arrived at %s yet", f.Alertmanager.URL)
}

// watchdog judges whether the dead man's switch has an outside end.
func (f *Facts) watchdog() Step {
	arrived := f.received()
	if arrived == nil {
		return unknown(StepWatchdog, "first repair the sending", "Watchdog does not arrive at Alertmanager")
	}
	if f.routing == nil {
		return unknown(StepWatchdog, "", "Alertmanager's configuration cannot be read: %v", f.routingErr)
	}
	moment := routing.Moment{At: f.Now.Add(f.Alertmanager.Ahead), Firing: labelsOf(f.Alerts), Silences: f.Silences}
	if why := heldBack(arrived, f.routing, &moment); why != "" {
		return wrong(StepWatchdog, "end it: Watchdog must always reach the outside service", "Watchdog is %s", why)
	}
	var served, uses, ordinary []string
	alerts := f.ourAlerts()
	others := append(f.receiversOf(alerts, warning), f.receiversOf(alerts, critical)...)
	for _, name := range arrived.receivers() {
		switch by := f.routing.Uses(name); {
		case by != "" && slices.Contains(others, name):
			ordinary = append(ordinary, name)
		case by != "":
			served, uses = append(served, name), append(uses, fmt.Sprintf("%s (%s)", name, by))
		}
	}
	const hint = "send it to an outside service that calls you when it stops: deploy/alertmanager/README.md, The dead man's switch"
	switch {
	case len(served)+len(ordinary) == 0:
		return wrong(StepWatchdog, hint, "nobody notices when alerting stops: Watchdog goes to %s, which notifies nobody",
			quoted(arrived.receivers()))
	case len(served) == 0:
		return wrong(StepWatchdog, hint, "nobody notices when alerting stops: Watchdog goes to %s, as other alerts do", quoted(ordinary))
	}
	for _, at := range append(f.routing.Boundaries(moment.At), moment.At) {
		fate := f.routing.FateOf(arrived.Labels, &routing.Moment{At: at})
		if !slices.ContainsFunc(served, func(name string) bool { return fate.Muted[name] == "" }) {
			return wrong(StepWatchdog, "remove the intervals of that route: Watchdog must always reach the outside service",
				"at %s, the route to %q %s", at.Format("Mon 15:04 -0700"), served[0], fate.Muted[served[0]]).by(Computed)
		}
	}
	return works(StepWatchdog, "Watchdog goes to %s", strings.Join(uses, ", ")).since(arrived.StartsAt)
}

func labelsOf(alerts []Received) (all []map[string]string) {
	for i := range alerts {
		all = append(all, alerts[i].Labels)
	}
	return all
}

// heldBack says what silences or inhibits an alert; "" if nothing does.
func heldBack(r *Received, by *routing.Routing, m *routing.Moment) string {
	fate := by.FateOf(r.Labels, m)
	switch {
	case fate.Silence != nil:
		return "silenced: " + fate.Silence.String()
	case fate.Inhibitor != nil:
		return "inhibited by " + describe(fate.Inhibitor)
	case r.Status.State == "suppressed":
		return r.Status.State
	}
	return ""
}

// describe names an alert by its labels, its name first.
func describe(labels map[string]string) string {
	words := []string{labels["alertname"]}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name != "alertname" {
			words = append(words, fmt.Sprintf("%s=%q", name, labels[name]))
		}
	}
	return strings.Join(words, " ")
}

// NotRaised is the step of a drill that would show nothing more than what is wrong already.
func NotRaised(blocked []string) Step {
	return unknown(StepRaise, "first repair: "+strings.Join(blocked, ", "), "no test alert was raised")
}

// Unconfirmed is the step of a drill that is not raised, since it would notify receivers of worse alerts, which nobody has confirmed. It is
// nil if the drill would not.
func (j *Judgement) Unconfirmed() *Step {
	step := wrong(StepRaise,
		"add a route for drills: deploy/alertmanager/README.md, Drill; or add --yes to confirm that their telephones may ring",
		"no test alert was raised: it would notify %s, as real problems do", quoted(j.Rung))
	switch {
	case j.facts.routing == nil:
		step.Error = fmt.Sprintf("no test alert was raised: Alertmanager's configuration cannot be read: %v", j.facts.routingErr)
	case len(j.Rung) == 0:
		return nil
	}
	return &step
}

// RaiseFailed is the step of a drill that the exporter refused.
func RaiseFailed(err error) Step { return refused(StepRaise, err) }
