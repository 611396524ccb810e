package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// CheckResult is the result of checking one target. Its fields have the names and types of a service in the status report.
type CheckResult struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// State is up or down, or one of the states of targets that are not probed, which the JSON lists by name only.
	State string `json:"state"`
	// Duration of the probe in seconds.
	Duration float64        `json:"duration_seconds"`
	Reason   failure.Reason `json:"reason,omitempty"`
	Error    string         `json:"error,omitempty"`
	// Hint says what the failure means and what to do.
	Hint string `json:"hint,omitempty"`
	// Problems are about the target and, for an engine, about its containers. A container's problem leaves the engine up.
	Problems []status.Problem `json:"problems"`
	// Impairments are the parts of an up target that do not work.
	Impairments []string `json:"impairments"`
	Notes       []string `json:"notes"`
	// Warnings are likely mistakes in the target's configuration.
	Warnings []string `json:"warnings"`
}

// The states of targets that a check does not probe.
const (
	notConfigured = "not configured"
	// notFinished is the state of a target whose probe was running, or had not begun, when the check was interrupted.
	notFinished = "not finished"
	// leftToFirst is the state of a target that this exporter leaves to the first of its pair.
	leftToFirst = "left to the first"
)

// checkReport is the JSON of a check. What it shares with the status report has the same names and types.
type checkReport struct {
	Schema  status.Schema `json:"schema"`
	Time    time.Time     `json:"time"`
	Version string        `json:"version"`
	// Services are the targets that were probed, those that are down first.
	Services      []CheckResult `json:"services"`
	NotConfigured []string      `json:"not_configured"`
	NotFinished   []string      `json:"not_finished,omitempty"`
	LeftToFirst   []string      `json:"left_to_first,omitempty"`
	// Warnings are likely mistakes in the configuration of targets that were not probed.
	Warnings []string `json:"warnings"`
}

// Check probes every configured target once and returns the results, failures first. For work that only one exporter may
// do, it also asks the peers whether they do it. It does not touch the state file. If ctx ends first, it returns what has finished.
func Check(ctx context.Context, o Options) ([]CheckResult, error) {
	cfg, err := LoadConfig(o)
	if err != nil {
		return nil, err
	}
	memory, _, err := state.Open("", o.Log, nil)
	if err != nil {
		return nil, err
	}
	results, facts := make([]CheckResult, len(cfg.Targets)), make([]health.Facts, len(cfg.Targets))
	probing, probes := make([]poll.Target, len(cfg.Targets)), newProbes()
	warnings, duties := Warnings(cfg), dutiesOf(cfg)
	var peers []peer
	if len(duties) > 0 {
		probes.Go(ctx, "the peers", func() { peers = askPeers(ctx, cfg.Peers) })
	}
	for i, settings := range cfg.Targets {
		target, err := o.newTarget(cfg, settings, memory, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			return nil, err
		}
		probing[i] = target
	}
	for i, settings := range cfg.Targets {
		name := settings.Common().Name
		results[i] = CheckResult{Name: name, Kind: settings.Common().Kind, State: notFinished}
		probes.Go(ctx, name, func() {
			result, known := resultOf(poll.Once(ctx, probing[i], slog.New(slog.DiscardHandler)))
			if result.State != "up" && ctx.Err() != nil {
				return
			}
			result.Warnings = addExpected(known.Engines, settings)
			results[i], facts[i] = result, known
		})
	}
	probes.Wait(o.Waiting)
	if err := addProblems(results, facts, cfg, memory); err != nil {
		return nil, err
	}
	addWarnings(results, warnings)
	for i := range results {
		if d := duties[results[i].Name]; d != nil {
			warnings, notes := dutyConflicts(d, peers)
			results[i].Warnings = append(results[i].Warnings, warnings...)
			results[i].Notes = append(results[i].Notes, notes...)
		}
	}
	slices.SortStableFunc(results, func(a, b CheckResult) int { return strings.Compare(a.State, b.State) })
	var unprobed []CheckResult
	for _, name := range cfg.LeftToFirst.Names() {
		unprobed = append(unprobed, CheckResult{Name: name, State: leftToFirst})
	}
	for _, name := range cfg.Unconfigured {
		unprobed = append(unprobed, CheckResult{Name: name, State: notConfigured})
	}
	addWarnings(unprobed, warnings)
	return slices.Concat(results, unprobed), nil
}

func addWarnings(results []CheckResult, warnings []Warning) {
	for _, w := range warnings {
		// Warnings about past maintenance belong to no target.
		if i := slices.IndexFunc(results, func(r CheckResult) bool { return r.Name == w.Target }); i >= 0 {
			results[i].Warnings = append(results[i].Warnings, withoutRepeatedAdvice(w.Text, results[i].Hint))
		}
	}
}

// withoutRepeatedAdvice cuts the advice after a warning's last semicolon if todo contains it.
func withoutRepeatedAdvice(warning, todo string) string {
	if i := strings.LastIndex(warning, "; "); i >= 0 && strings.Contains(todo, warning[i+2:]) {
		return warning[:i]
	}
	return warning
}

func resultOf(s poll.Status, r poll.Reading, facts health.Facts) (CheckResult, health.Facts) {
	result := CheckResult{
		Name:        s.Target,
		Kind:        s.Kind,
		State:       "up",
		Duration:    s.Duration.Seconds(),
		Reason:      s.Reason,
		Error:       s.Error,
		Hint:        s.Hint,
		Impairments: s.Impairments,
		Notes:       r.Notes,
	}
	if !s.Up {
		result.State = "down"
	}
	return result, facts
}

// addExpected adds the expected containers and services that do not exist, because a check does not wait until they count as missing. It
// returns what their names may mean instead.
func addExpected(engines []health.Engine, settings config.Settings) (warnings []string) {
	engine, isEngine := settings.(*collectors.Docker)
	for i := range engines {
		e := &engines[i]
		if !isEngine || !e.Read {
			continue
		}
		seen := slices.Clone(e.Containers)
		expect := func(key string, t health.Target) {
			found, advice := health.Find(seen, &t)
			if found {
				return
			}
			if advice != "" {
				warnings = append(warnings,
					fmt.Sprintf("%s names %s, which does not exist; %s", key, cmp.Or(t.Container, t.Service), advice))
			}
			e.Containers = append(e.Containers, health.Container{
				Host:     e.Host,
				Name:     cmp.Or(t.Container, t.Service),
				Workload: t.Service,
				Shared:   t.Service != "",
				State:    health.Missing,
				Health:   "none",
				Expected: true,
			})
		}
		for _, name := range engine.Expected {
			expect("expected", health.Target{Container: name})
		}
		for _, name := range engine.ExpectedServices {
			expect("expected_services", health.Target{Service: name})
		}
	}
	return warnings
}

// addProblems judges all probes together. It also notes which container serves a target without a container setting.
func addProblems(results []CheckResult, facts []health.Facts, cfg *config.Config, memory *state.File) error {
	log := slog.New(slog.DiscardHandler)
	register, err := maintenance.New(memory.Value("maintenance"), log)
	if err != nil {
		return err
	}
	register.Configure(cfg.Maintenance)
	all, engineOf := health.Facts{Now: time.Now()}, map[string]int{}
	for i := range facts {
		all.Targets = append(all.Targets, facts[i].Targets...)
		for _, e := range facts[i].Engines {
			engineOf[e.Host] = i
			all.Engines = append(all.Engines, e)
		}
	}
	judgement := newJudge(alerts.Rules(&cfg.Alerts), register, memory, nil, log).Judge(&all)
	var unserved []string
	for i := range results {
		server := judgement.Servers[results[i].Name]
		local := rowOf(cfg.Targets[i]).Local
		if results[i].State != notFinished && server.Container == "" && server.Service == "" && len(server.Candidates) == 0 && !local {
			unserved = append(unserved, results[i].Name)
		}
		note := server.Warning()
		if r := &results[i]; server.Unseen { // it has no log
			r.Hint = strings.Replace(r.Hint, failure.WhereToLook(r.Reason, "", server.Container), failure.WhereToLook(r.Reason, "", ""), 1)
		}
		if server.Origin() != server.Container {
			note = "container " + server.Origin()
		}
		if note != "" {
			results[i].Notes = append(results[i].Notes, note)
		}
	}
	for i := range results {
		if rowOf(cfg.Targets[i]).Engine && results[i].State == "up" && len(unserved) > 0 {
			results[i].Notes = append(results[i].Notes,
				fmt.Sprintf("no container found for %s; if one serves the target, set container", strings.Join(unserved, ", ")))
		}
	}
	for _, p := range status.Describe(judgement) {
		i, known := engineOf[p.Host]
		if p.Kind == health.KindTarget {
			i = slices.IndexFunc(results, func(r CheckResult) bool { return r.Name == p.Name })
			known = i >= 0
		}
		if known {
			results[i].Problems = append(results[i].Problems, p)
		}
	}
	return nil
}

// problemCount says how many containers have problems; "" if none has.
func problemCount(problems []status.Problem) string {
	names := map[health.Subject]bool{}
	for _, p := range problems {
		if p.OnEngine() {
			names[p.Subject] = true
		}
	}
	if len(names) == 0 {
		return ""
	}
	return wording.Count(len(names), "container") + " in trouble"
}

// problemText returns a problem's line in the table; "" if the target's row already says it.
func problemText(p *status.Problem) string {
	text := p.Text
	switch {
	case p.OnEngine():
		text = p.Name + ": " + text
	case p.Alert == health.AlertTargetDown && p.Excuse.Reason == "" && p.Also == "":
		return ""
	}
	if p.Lasted >= 1 {
		text += ", for " + time.Duration(p.Lasted*float64(time.Second)).Truncate(time.Second).String()
	}
	return p.Severity.String() + ": " + failure.Printable(text, maxCell)
}

// AllUp reports whether every probe has finished and no target is down.
func AllUp(results []CheckResult) bool {
	return !slices.ContainsFunc(results, func(r CheckResult) bool { return r.State == "down" || r.State == notFinished })
}

// WriteJSON writes results for programs.
func WriteJSON(w io.Writer, results []CheckResult) error {
	report := checkReport{
		Time:          time.Now(),
		Version:       version.Version,
		Services:      []CheckResult{},
		NotConfigured: []string{},
		Warnings:      []string{},
	}
	for _, r := range results {
		switch r.State {
		case notConfigured:
			report.NotConfigured = append(report.NotConfigured, r.Name)
		case notFinished:
			report.NotFinished = append(report.NotFinished, r.Name)
		case leftToFirst:
			report.LeftToFirst = append(report.LeftToFirst, r.Name)
		default:
			r.Problems = append([]status.Problem{}, r.Problems...) // an empty list is not null
			for _, list := range []*[]string{&r.Impairments, &r.Notes, &r.Warnings} {
				*list = append([]string{}, *list...)
			}
			report.Services = append(report.Services, r)
			continue
		}
		for _, text := range r.Warnings {
			report.Warnings = append(report.Warnings, r.Name+": "+text)
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

// NothingWatched is the warning if no target is configured.
const NothingWatched = "nothing is monitored; add targets to the file, or set the stack's environment variables"

// maxCell bounds one text of the table, in characters.
const maxCell = 2000

// printable removes from the results' texts what moves the cursor, begins a line or changes the writing direction.
func printable(results []CheckResult) []CheckResult {
	shown := slices.Clone(results)
	for i := range shown {
		r := &shown[i]
		for _, text := range []*string{&r.Name, &r.Error, &r.Hint} {
			*text = failure.Printable(*text, maxCell)
		}
		for _, list := range []*[]string{&r.Impairments, &r.Notes, &r.Warnings} {
			*list = slices.Clone(*list)
			for j, text := range *list {
				(*list)[j] = failure.Printable(text, maxCell)
			}
		}
	}
	return shown
}

// painter colours text for a terminal.
type painter bool

func (p painter) paint(code, text string) string {
	if !p {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// WriteTable writes results for people.
func WriteTable(w io.Writer, results []CheckResult, colours bool) error {
	results = printable(results)
	widest := len("TARGET")
	unconfigured := namesOf(results, notConfigured)
	for i := range results {
		if results[i].State != notConfigured {
			widest = max(widest, len(results[i].Name))
		}
	}
	p := painter(colours)
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s  %-4s  %8s  REASON\n", widest, "TARGET", "IS", "TOOK")
	for i := range results {
		p.writeResult(&b, &results[i], widest)
	}
	if len(unconfigured) > 0 {
		fmt.Fprintf(&b, "not configured, so not checked: %s\n", strings.Join(unconfigured, ", "))
	}
	p.writeSummary(&b, results, len(unconfigured))
	_, err := io.WriteString(w, b.String())
	return err
}

// namesOf returns the names of the targets in a state.
func namesOf(results []CheckResult, state string) (names []string) {
	for i := range results {
		if results[i].State == state {
			names = append(names, results[i].Name)
		}
	}
	return names
}

// writeResult writes a target's row and the lines below it. A target that is not configured has only its warnings.
func (p painter) writeResult(b *strings.Builder, r *CheckResult, widest int) {
	took := time.Duration(r.Duration * float64(time.Second)).Round(100 * time.Microsecond).String()
	indent, warning := strings.Repeat(" ", widest+2), "warning:"
	switch r.State {
	case "up":
		fmt.Fprintf(b, "%-*s  %s  %8s", widest, r.Name, p.paint("32", "up  "), took)
		if text := problemCount(r.Problems); text != "" {
			fmt.Fprintf(b, "  %s", p.paint("33", text))
		}
		if len(r.Impairments) > 0 {
			fmt.Fprintf(b, "  %s", p.paint("33", "partly working: "+strings.Join(r.Impairments, "; ")))
		}
		b.WriteString("\n")
	case "down":
		fmt.Fprintf(b, "%-*s  %s  %8s  %s: %s\n", widest, r.Name, p.paint("31", "DOWN"), took, r.Reason, r.Error)
		fmt.Fprintf(b, "%s%s %s\n", indent, p.paint("1", "what to do:"), r.Hint)
	case leftToFirst:
		fmt.Fprintf(b, "%-*s  -     %8s  pair: other, so only the first exporter checks it\n", widest, r.Name, "")
	case notFinished:
		fmt.Fprintf(b, "%-*s  -     %8s  not finished: the check was interrupted\n", widest, r.Name, "")
	default:
		indent, warning = "", "warning: "+r.Name+":"
	}
	for i := range r.Problems {
		if text := problemText(&r.Problems[i]); text != "" {
			fmt.Fprintf(b, "%s%s\n", indent, p.paint("33", text))
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(b, "%snote: %s\n", indent, n)
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(b, "%s%s %s\n", indent, p.paint("33", warning), text)
	}
}

// writeSummary writes how many targets are in which state, and what does not work although its target is up.
func (p painter) writeSummary(b *strings.Builder, results []CheckResult, unconfigured int) {
	fmt.Fprintf(b, "\n%d up, %d down, %d not configured", len(namesOf(results, "up")), len(namesOf(results, "down")), unconfigured)
	if left := len(namesOf(results, leftToFirst)); left > 0 {
		fmt.Fprintf(b, ", %d left to the first exporter", left)
	}
	if n := len(namesOf(results, notFinished)); n > 0 {
		fmt.Fprintf(b, ", %d not finished", n)
	}
	for i := range results {
		r := &results[i]
		if text := problemCount(r.Problems); text != "" && r.State == "up" {
			fmt.Fprintf(b, "; %s up, %s", r.Name, text)
		}
		if len(r.Impairments) > 0 && r.State == "up" {
			fmt.Fprintf(b, "; %s up, partly working", r.Name)
		}
	}
	b.WriteString("\n")
	if len(results) == unconfigured {
		fmt.Fprintf(b, "%s %s\n", p.paint("33", "warning:"), NothingWatched)
	}
}
