package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// checkParallelism is how many targets a check reads at once.
const checkParallelism = 8

// CheckResult is what a check found out about one target.
type CheckResult struct {
	Target string `json:"target"`
	Kind   string `json:"kind"`
	// Verdict is "up", "down", "not configured", or "left to the first" of several exporters.
	Verdict string `json:"verdict"`
	// Seconds is how long the reading took.
	Seconds float64        `json:"seconds"`
	Reason  failure.Reason `json:"reason,omitempty"`
	Error   string         `json:"error,omitempty"`
	// Todo says what the failure means and what to do.
	Todo string `json:"todo,omitempty"`
	// ContainersInTrouble are the names of those behind an engine that should run and do not, or are unhealthy. They make
	// no target down: the engine itself answers.
	ContainersInTrouble []string `json:"containers_in_trouble,omitempty"`
	// Impairments are the parts of a target that do not work although it is up.
	Impairments []string `json:"impairments,omitempty"`
	Notes       []string `json:"notes,omitempty"`
	// Warnings are what is doubtful about the target's configuration.
	Warnings []string `json:"warnings,omitempty"`
}

// leftToFirst is the verdict on a target that pair: other leaves to another exporter.
const leftToFirst = "left to the first"

// harmless is implemented by settings of a probe that writes, which a check outside of the exporter's own state must not.
type harmless interface {
	// Harmless makes the settings such, and reports whether that changed them.
	Harmless() bool
}

// Check reads every configured target once and returns what it found, the failures first. Where only one of several
// exporters may do what is configured, it also asks those under peers: whether they do it. It keeps nothing: what a running
// exporter has in its state file is not touched.
func Check(ctx context.Context, o Options) ([]CheckResult, error) {
	cfg, err := LoadConfig(o)
	if err != nil {
		return nil, err
	}
	memory, _, err := state.Open("")
	if err != nil {
		return nil, err
	}
	results := make([]CheckResult, len(cfg.Targets))
	targets, engines := make([]poll.Target, len(cfg.Targets)), make([]*health.Engine, len(cfg.Targets))
	var readings sync.WaitGroup
	slots := make(chan struct{}, checkParallelism)
	// Asked before anything is made harmless, which is not how the exporter will run.
	doubts, duties := Warnings(cfg), dutiesOf(cfg)
	var peers []peer
	if len(duties) > 0 {
		readings.Go(func() { peers = askPeers(ctx, cfg.Peers) })
	}
	for i, settings := range cfg.Targets {
		if h, ok := settings.(harmless); ok && h.Harmless() {
			doubts = append(doubts, Warning{settings.Common().Name, "a check writes nothing, so it asked in mode reject; whether a plant can be created and deleted was not tried"})
		}
		target, err := o.newTarget(cfg, settings, memory, slog.New(slog.DiscardHandler), true)
		if err != nil {
			return nil, err
		}
		targets[i] = target
		readings.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = resultOf(poll.Once(ctx, target, slog.New(slog.DiscardHandler)))
			engines[i] = results[i].lookBehind(target, settings)
		})
	}
	readings.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	addWarnings(results, doubts)
	tellServers(results, targets, engines)
	for i := range results {
		if d := duties[results[i].Target]; d != nil {
			warnings, notes := othersThatDo(d, peers)
			results[i].Warnings = append(results[i].Warnings, warnings...)
			results[i].Notes = append(results[i].Notes, notes...)
		}
	}
	slices.SortStableFunc(results, func(a, b CheckResult) int { return strings.Compare(a.Verdict, b.Verdict) })
	var silent []CheckResult
	for _, name := range cfg.LeftToFirst {
		silent = append(silent, CheckResult{Target: name, Verdict: leftToFirst})
	}
	for _, name := range cfg.Unconfigured {
		silent = append(silent, CheckResult{Target: name, Verdict: "not configured"})
	}
	addWarnings(silent, doubts)
	return slices.Concat(results, silent), nil
}

func addWarnings(results []CheckResult, warnings []Warning) {
	for _, w := range warnings {
		// A window of maintenance that is over belongs to no target, and says nothing about a reading.
		if i := slices.IndexFunc(results, func(r CheckResult) bool { return r.Target == w.Target }); i >= 0 {
			results[i].Warnings = append(results[i].Warnings, unrepeated(w.Text, results[i].Todo))
		}
	}
}

// unrepeated is a warning without the advice at its end that stands in todo too.
func unrepeated(warning, todo string) string {
	if i := strings.LastIndex(warning, "; "); i >= 0 && strings.Contains(todo, warning[i+2:]) {
		return warning[:i]
	}
	return warning
}

func resultOf(s poll.Status, r poll.Reading) CheckResult {
	result := CheckResult{
		Target: s.Target, Kind: s.Kind, Verdict: "up", Seconds: s.Duration.Seconds(),
		Reason: s.Reason, Error: s.Error, Todo: s.Hint, Impairments: s.Impairments, Notes: r.Notes,
	}
	if !s.Up {
		result.Verdict = "down"
	}
	return result
}

// tellServers notes which containers serve the targets whose configuration names none.
func tellServers(results []CheckResult, targets []poll.Target, engines []*health.Engine) {
	var containers []*health.Container
	for _, e := range engines {
		if e != nil {
			for i := range e.Containers {
				containers = append(containers, &e.Containers[i])
			}
		}
	}
	directory := health.NewDirectory(containers)
	for i := range targets {
		server := directory.Server(&health.Target{HostName: targets[i].HostName, Container: targets[i].Container})
		note := server.Ambiguity()
		if server.Inferred {
			note = "container " + server.Origin()
		}
		if note != "" {
			results[i].Notes = append(results[i].Notes, note)
		}
	}
}

// lookBehind adds what is wrong behind an engine that answers, and returns what is known of its containers; nil for other targets.
func (r *CheckResult) lookBehind(target poll.Target, settings config.Settings) *health.Engine {
	engine, isEngine := settings.(*collectors.Docker)
	known, tells := target.Collector.(collectors.Follower)
	if !isEngine || !tells || r.Verdict != "up" {
		return nil
	}
	b := &collectors.Batch{Target: target.Name}
	known.Present(b)
	troubled, err := status.Troubled(b.Metrics(true), engine.Expected)
	if err != nil {
		r.Notes = append(r.Notes, "how its containers are is not known: "+err.Error())
	}
	r.ContainersInTrouble = troubled
	return b.Engine
}

// troubledText is how many containers are in trouble, "" where none is.
func troubledText(containers []string) string {
	if len(containers) == 0 {
		return ""
	}
	return count(len(containers), "container") + " in trouble"
}

// count is a number of things in words: 1 target, 2 targets.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// maxTroubledNames is how many containers a line of the table names.
const maxTroubledNames = 5

// troubledNames is troubledText with the first names.
func troubledNames(containers []string) string {
	text := troubledText(containers)
	if text == "" {
		return ""
	}
	shown := containers[:min(len(containers), maxTroubledNames)]
	text += ": " + strings.Join(shown, ", ")
	if left := len(containers) - len(shown); left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}

// AllUp reports whether no target is down.
func AllUp(results []CheckResult) bool {
	return !slices.ContainsFunc(results, func(r CheckResult) bool { return r.Verdict == "down" })
}

// WriteJSON writes results for programs.
func WriteJSON(w io.Writer, results []CheckResult) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(results)
}

// NothingWatched is the warning where no target is configured.
const NothingWatched = "nothing is watched; write targets into the file, or set the stack's environment variables"

// maxCell bounds one text of the table. What a service says is shorter already.
const maxCell = 2000

// printable returns results of which no text can move the cursor, begin a line or turn the direction of writing.
func printable(results []CheckResult) []CheckResult {
	shown := slices.Clone(results)
	for i := range shown {
		r := &shown[i]
		for _, text := range []*string{&r.Target, &r.Error, &r.Todo} {
			*text = failure.Printable(*text, maxCell)
		}
		for _, list := range []*[]string{&r.ContainersInTrouble, &r.Impairments, &r.Notes, &r.Warnings} {
			*list = slices.Clone(*list)
			for j, text := range *list {
				(*list)[j] = failure.Printable(text, maxCell)
			}
		}
	}
	return shown
}

// WriteTable writes results for people, with colours if they are wanted.
func WriteTable(w io.Writer, results []CheckResult, colours bool) error {
	results = printable(results)
	widest := len("TARGET")
	for _, r := range results {
		widest = max(widest, len(r.Target))
	}
	paint := func(code, text string) string {
		if !colours {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	var b strings.Builder
	down, up, left := 0, 0, 0
	var behind strings.Builder
	fmt.Fprintf(&b, "%-*s  %-4s  %8s  REASON\n", widest, "TARGET", "IS", "TOOK")
	indent := strings.Repeat(" ", widest+2)
	for _, r := range results {
		took := time.Duration(r.Seconds * float64(time.Second)).Round(100 * time.Microsecond).String()
		switch r.Verdict {
		case "up":
			up++
			fmt.Fprintf(&b, "%-*s  %s  %8s", widest, r.Target, paint("32", "up  "), took)
			if text := troubledNames(r.ContainersInTrouble); text != "" {
				fmt.Fprintf(&b, "  %s", paint("33", text))
				fmt.Fprintf(&behind, "; %s up, %s", r.Target, troubledText(r.ContainersInTrouble))
			}
			if len(r.Impairments) > 0 {
				fmt.Fprintf(&b, "  %s", paint("33", "partly working: "+strings.Join(r.Impairments, "; ")))
				fmt.Fprintf(&behind, "; %s up, partly working", r.Target)
			}
			b.WriteString("\n")
		case "down":
			down++
			fmt.Fprintf(&b, "%-*s  %s  %8s  %s: %s\n", widest, r.Target, paint("31", "DOWN"), took, r.Reason, r.Error)
			fmt.Fprintf(&b, "%s%s %s\n", indent, paint("1", "what to do:"), r.Todo)
		case leftToFirst:
			left++
			fmt.Fprintf(&b, "%-*s  -     %8s  pair: other, so only the first exporter checks it\n", widest, r.Target, "")
		default:
			fmt.Fprintf(&b, "%-*s  -     %8s  not configured, so not asked\n", widest, r.Target, "")
		}
		for _, n := range r.Notes {
			fmt.Fprintf(&b, "%snote: %s\n", indent, n)
		}
		for _, text := range r.Warnings {
			fmt.Fprintf(&b, "%s%s %s\n", indent, paint("33", "warning:"), text)
		}
	}
	fmt.Fprintf(&b, "\n%d up, %d down, %d not configured", up, down, len(results)-up-down-left)
	if left > 0 {
		fmt.Fprintf(&b, ", %d left to the first exporter", left)
	}
	b.WriteString(behind.String() + "\n")
	if up+down == 0 {
		fmt.Fprintf(&b, "%s %s\n", paint("33", "warning:"), NothingWatched)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
