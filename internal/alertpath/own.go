package alertpath

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// ownReceivers is where the exporter sends its own receivers a test message.
const ownReceivers = "/api/v1/notifications"

// OwnReceivers drills the messages that the exporter sends by itself, without Prometheus and Alertmanager. Without names, all receivers
// must get one. A dry run only says how the last messages got on.
func (p *Path) OwnReceivers(ctx context.Context, severity string, names []string, dry bool) []Step {
	var report struct {
		Version   string        `json:"version"`
		Receivers []lastMessage `json:"receivers"`
	}
	if err := p.Exporter.get(ctx, "/api/v1/status", nil, &report); err != nil {
		return []Step{refused(StepExporter, err)}
	}
	report.Receivers = slices.DeleteFunc(report.Receivers, func(r lastMessage) bool { return r.Name == "heartbeat" })
	var known []string
	for i := range report.Receivers {
		known = append(known, report.Receivers[i].Name)
	}
	steps := []Step{works(StepExporter, "version %s; its receivers are %s", report.Version, quoted(known))}
	if len(known) == 0 {
		return []Step{wrong(StepExporter,
			"add notify to its configuration, or drill the way over Alertmanager with --prometheus and --alertmanager",
			"the exporter has no receivers of its own")}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return append(steps, wrong(StepReceiver, "its receivers are "+quoted(known), "the exporter has no receiver %q", name))
		}
	}
	if len(names) == 0 {
		names = known
	}
	if dry {
		for i := range report.Receivers {
			if r := &report.Receivers[i]; slices.Contains(names, r.Name) {
				steps = append(steps, r.step())
			}
		}
		return steps
	}
	body, err := json.Marshal(map[string]any{"severity": severity, "receivers": names})
	if err != nil {
		return append(steps, RaiseFailed(err))
	}
	answer, _, err := p.Exporter.do(ctx, http.MethodPost, ownReceivers, body)
	if err != nil {
		return append(steps, RaiseFailed(withRaiseHint(err)))
	}
	var result struct {
		Receivers []drilledReceiver `json:"receivers"`
	}
	if err := json.Unmarshal(answer.Body, &result); err != nil {
		return append(steps, RaiseFailed(failure.Errorf(failure.Malformed, "read the exporter's answer: %w", err)))
	}
	for i := range result.Receivers {
		steps = append(steps, result.Receivers[i].step())
	}
	return steps
}

// lastMessage is how the last messages to a receiver got on.
type lastMessage struct {
	Name    string    `json:"name"`
	Success time.Time `json:"last_success"`
	Failing string    `json:"failing"`
}

func (r *lastMessage) step() Step {
	switch {
	case r.Failing != "":
		return wrong(StepReceiver, "run `chatstack_exporter notify --test "+r.Name+"`: it says what the service answers",
			"the last message to %s failed: %s", r.Name, r.Failing)
	case r.Success.IsZero():
		return unknown(StepReceiver, "drill without --dry-run", "%s has not been sent anything yet", r.Name)
	}
	return unknown(StepReceiver, "drill without --dry-run", "%s has got the last message at %s; only another one shows that it still works",
		r.Name, r.Success.UTC().Format("2006-01-02 15:04 UTC"))
}

// drilledReceiver is what became of the test message to a receiver.
type drilledReceiver struct {
	Name      string  `json:"name"`
	Delivered bool    `json:"delivered"`
	Answer    string  `json:"answer"`
	Error     string  `json:"error"`
	Hint      string  `json:"hint"`
	Duration  float64 `json:"duration_seconds"`
}

func (r *drilledReceiver) step() Step {
	took := time.Duration(r.Duration * float64(time.Second))
	if !r.Delivered {
		return wrong(StepReceiver, r.Hint, "%s did not get the message: %s", r.Name, r.Error).took(took)
	}
	return works(StepReceiver, "%s", strings.TrimSuffix(fmt.Sprintf("%s got the message: %s", r.Name, r.Answer), ": ")).took(took)
}
