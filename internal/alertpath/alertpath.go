// Package alertpath follows an alert from the exporter over Prometheus and Alertmanager to the receivers, and says of each step whether
// it works.
package alertpath

import (
	"fmt"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// State is the verdict on a step.
type State string

// The states. Unknown means that the step was not tried, or that nothing shows its result.
const (
	Works   State = "works"
	Wrong   State = "wrong"
	Unknown State = "unknown"
)

// Basis is what a verdict was judged by.
type Basis string

// The bases of verdicts: what the servers show, what follows from the configuration that a server shows, and what nothing shows.
const (
	Asked    Basis = "asked"
	Computed Basis = "computed"
	Assumed  Basis = "assumed"
)

// Step is one link of the path with its verdict.
type Step struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	By    Basis  `json:"judged_by"`
	// Since is when what works began, if that is known.
	Since *time.Time `json:"since,omitempty"`
	// Duration is the seconds that the step of a drill took.
	Duration *float64 `json:"duration_seconds,omitempty"`
	// Text is what was seen. With another state than Works it is Error, and Hint says what to do.
	Text string `json:"text,omitempty"`
	// Reason is why a request of the step failed.
	Reason failure.Reason `json:"reason,omitempty"`
	Error  string         `json:"error,omitempty"`
	Hint   string         `json:"hint,omitempty"`
	Notes  []string       `json:"notes"`
}

// The names of the steps that need no drill, in order.
const (
	StepExporter     = "exporter"
	StepPrometheus   = "prometheus"
	StepScrape       = "scrape"
	StepLabels       = "labels"
	StepMetric       = "metric"
	StepRules        = "rules"
	StepVersion      = "rules_version"
	StepEvaluation   = "evaluation"
	StepRecording    = "recording_rules"
	StepSending      = "sending"
	StepAlertmanager = "alertmanager"
	StepWatchdog     = "watchdog"
	StepClocks       = "clocks"
)

// The names of the steps in Alertmanager, which are computed for every alert.
const (
	StepRoute        = "route"
	StepInhibition   = "inhibition"
	StepSilence      = "silence"
	StepTimeInterval = "time_interval"
)

// The names of the steps of a drill, in order. The receiver has a verdict without a drill, too.
const (
	StepRaise      = "raise"
	StepSample     = "sample"
	StepAlert      = "alert"
	StepDelivery   = "delivery"
	StepReceiver   = "receiver"
	StepResolution = "resolution"
)

func works(name, format string, args ...any) Step {
	return Step{
		Name:  name,
		State: Works,
		By:    Asked,
		Text:  fmt.Sprintf(format, args...),
	}
}

func wrong(name, hint, format string, args ...any) Step {
	return Step{
		Name:  name,
		State: Wrong,
		By:    Asked,
		Hint:  hint,
		Error: fmt.Sprintf(format, args...),
	}
}

func unknown(name, hint, format string, args ...any) Step {
	step := wrong(name, hint, format, args...)
	step.State = Unknown
	return step
}

// refused is a step whose request failed.
func refused(name string, err error) Step {
	step := wrong(name, failure.HintOf(err), "%s", err)
	step.Reason = failure.ReasonOf(err)
	return step
}

func (s Step) by(b Basis) Step {
	s.By = b
	return s
}

func (s Step) since(t time.Time) Step {
	if !t.IsZero() {
		s.Since = &t
	}
	return s
}

func (s Step) took(d time.Duration) Step {
	seconds := max(d, 0).Round(100 * time.Millisecond).Seconds()
	s.Duration = &seconds
	return s
}

func (s Step) note(format string, args ...any) Step {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
	return s
}

// quoted lists names, each in quotes.
func quoted(names []string) string {
	marked := make([]string, len(names))
	for i, name := range names {
		marked[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(marked, ", ")
}

// Verdict is the worst state of steps. Unknown is no success.
func Verdict(steps []Step) State {
	verdict := Works
	for i := range steps {
		if state := steps[i].State; state == Wrong || verdict == Works {
			verdict = state
		}
	}
	return verdict
}
