package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/alertpath"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// DrillOptions are the flags of a drill.
type DrillOptions struct {
	// Prometheus, Alertmanager and Exporter are URLs. Without the first two, the drill is of the messages that the exporter sends by
	// itself. Without Exporter, it is the one of this host with the same --web.listen-address.
	Prometheus, Alertmanager, Exporter string
	// Others are the URLs of the other Alertmanagers of its cluster.
	Others []string
	// Ruler is the URL of the server that evaluates the rules, if that is not Prometheus.
	Ruler string
	// Severity is that of the alert. Yes confirms that it may ring telephones.
	Severity string
	Yes      bool
	// Receivers must be notified.
	Receivers []string
	// DryRun follows the path without raising an alert. EveryAlert also says where each alert goes.
	DryRun, EveryAlert bool
}

// UsageError is the error of a command that was given flags that it cannot use.
type UsageError struct{ error }

// Unwrap returns what is wrong.
func (e UsageError) Unwrap() error { return e.error }

// drillReport is the JSON of a drill. What it shares with the status report has the same names and types.
type drillReport struct {
	Schema  status.Schema `json:"schema"`
	Time    time.Time     `json:"time"`
	Version string        `json:"version"`
	// Verdict is the worst state of the steps.
	Verdict alertpath.State `json:"verdict"`
	// Steps are the links of the path, in order.
	Steps []alertpath.Step `json:"steps"`
	// Alerts say where each alert goes, with --every-alert.
	Alerts []alertpath.Told `json:"alerts,omitempty"`
}

// Drill follows the path of every alert from the exporter to the receivers, raises a test alert unless that is pointless, and sees where it
// gets to. It calls report whenever steps are known, and announce before it waits. The verdict is the worst of the steps'. It returns where
// each alert goes, if the options ask for that.
func Drill(ctx context.Context, o Options, d DrillOptions, report func([]alertpath.Step), announce func(string)) (
	verdict alertpath.State, told []alertpath.Told, err error,
) {
	if d.Severity == alerts.Critical && !d.Yes && !d.DryRun && !d.EveryAlert {
		return "", nil, UsageError{errors.New("--severity=critical rings real telephones: add --yes to confirm that")}
	}
	if faults := d.check(); faults != nil {
		return "", nil, UsageError{faults}
	}
	path, err := newPath(o, &d)
	if err != nil {
		return "", nil, err
	}
	if d.Prometheus == "" {
		steps := path.OwnReceivers(ctx, d.Severity, d.Receivers, d.DryRun)
		report(steps)
		return alertpath.Verdict(steps), nil, ctx.Err()
	}
	facts := path.Ask(ctx)
	judgement := facts.Judge(d.Severity, d.Receivers)
	steps := slices.Concat(alertpath.Chain(facts), judgement.Steps)
	end := func(last ...alertpath.Step) (alertpath.State, []alertpath.Told, error) {
		report(last)
		return alertpath.Verdict(append(steps, last...)), nil, ctx.Err()
	}
	report(steps)
	if d.DryRun || d.EveryAlert {
		verdict, _, err := end(judgement.Receiver(nil, d.Receivers))
		if !d.EveryAlert {
			return verdict, nil, err
		}
		return verdict, judgement.Told, err
	}
	if blocked := append(alertpath.Blocked(steps), judgement.Stops...); len(blocked) > 0 {
		return end(alertpath.NotRaised(blocked))
	}
	if unconfirmed := judgement.Unconfirmed(); unconfirmed != nil && !d.Yes {
		return end(*unconfirmed)
	}
	announce(fmt.Sprintf("raising the alert %s; this takes up to %s", alerts.DrillAlert, facts.Lasts(d.Severity).Round(time.Second)))
	plan, err := path.Raise(ctx, facts, d.Severity, d.Receivers)
	if err != nil {
		return end(alertpath.RaiseFailed(err))
	}
	drilled := path.Follow(ctx, plan)
	for i := range drilled {
		if drilled[i].Name == alertpath.StepReceiver {
			drilled[i] = judgement.Receiver(&drilled[i], d.Receivers)
		}
	}
	return end(drilled...)
}

// check reports flags that do not go together.
func (d *DrillOptions) check() error {
	switch alone := d.Prometheus == ""; {
	case alone != (d.Alertmanager == ""):
		return errors.New("--prometheus and --alertmanager go together; without both, the drill is of the messages that the exporter " +
			"sends by itself")
	case alone && (d.EveryAlert || d.Ruler != ""):
		return errors.New("--every-alert and --ruler need --prometheus and --alertmanager")
	}
	return nil
}

// newPath reads the configuration, without its secrets, and the credentials of the three servers.
func newPath(o Options, d *DrillOptions) (*alertpath.Path, error) {
	o.WithoutSecrets = true
	cfg, err := LoadConfig(o)
	if err != nil {
		return nil, err
	}
	if d.Exporter == "" {
		address, err := ownAddress((*o.Web.WebListenAddresses)[0])
		if err != nil {
			return nil, err
		}
		d.Exporter = "http://" + address
	}
	path := &alertpath.Path{Expected: alertpath.Expected{
		ConfigFile:     o.ConfigFile,
		Job:            cfg.Alerts.Job,
		Lookback:       cfg.Alerts.Lookback.Std(),
		Clocks:         cfg.Alerts.Of("clock_skew").Apart.Std(),
		LabelCheck:     alerts.LabelCheck(),
		Drill:          alerts.DrillAlert,
		ExporterLabels: alerts.ExporterLabels(),
		Checksum:       alerts.Checksum(cfg.Alerts),
	}}
	if err := json.Unmarshal(alerts.Loaded(cfg.Alerts), &path.Expected.Rules); err != nil {
		return nil, err
	}
	type server struct {
		name, url string
		client    **alertpath.Client
	}
	servers := []server{{"exporter", d.Exporter, &path.Exporter}}
	if d.Prometheus != "" {
		servers = append(servers,
			server{"prometheus", d.Prometheus, &path.Prometheus}, server{"alertmanager", d.Alertmanager, &path.Alertmanager})
	}
	if d.Ruler != "" {
		servers = append(servers, server{"ruler", d.Ruler, &path.Ruler})
	}
	path.Others = make([]*alertpath.Client, len(d.Others))
	for i, url := range d.Others {
		servers = append(servers, server{"alertmanager", url, &path.Others[i]})
	}
	var faults []error
	for _, server := range servers {
		var credentials exchange.Credentials
		settings, prefix := config.HTTP{URL: server.url}, "DRILL_"+strings.ToUpper(server.name)
		faults = append(faults,
			config.ReadEnvironment(o.Lookup, map[string]string{"url": "--" + server.name}, func(e *config.Env, r *config.Report) {
				e.Secret("token", prefix+"_TOKEN", &credentials.Token)
				e.String("user", prefix+"_USER", &credentials.User)
				e.Secret("password", prefix+"_PASSWORD", &credentials.Password)
				e.TLS(prefix, &settings.TLS)
				settings.Check(r)
				credentials.CheckCredentials(r)
			}))
		*server.client = alertpath.NewClient(server.name,
			exchange.HTTP{Settings: settings, UserAgent: "chatstack_exporter/" + version.Version}, credentials)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, UsageError{err}
	}
	path.Ruler = cmp.Or(path.Ruler, path.Prometheus)
	return path, nil
}

// WriteDrillJSON writes steps, and where each alert goes, for programs.
func WriteDrillJSON(w io.Writer, steps []alertpath.Step, told []alertpath.Told) error {
	steps = slices.Clone(steps)
	for i := range steps {
		steps[i].Notes = append([]string{}, steps[i].Notes...) // an empty list is not null
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(drillReport{
		Time:    time.Now(),
		Version: version.Version,
		Verdict: alertpath.Verdict(steps),
		Steps:   steps,
		Alerts:  told,
	})
}

// WriteTold writes where each alert goes, for people: one line an alert and severity.
func WriteTold(w io.Writer, told []alertpath.Told) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-27s %-8s  %-22s  NOW; AT 3 AM\n", "ALERT", "SEVERITY", "A PROBLEM AT 3 AM")
	to := func(receivers []string) string { return cmp.Or(strings.Join(receivers, ", "), "-") }
	for _, t := range told {
		fmt.Fprintf(&b, "%-27s %-8s  %-22s  %s; %s\n", t.Alert, t.Severity, t.Told, to(t.Now), to(t.Night))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteDrillSteps writes steps for people.
func WriteDrillSteps(w io.Writer, steps []alertpath.Step, colours bool) error {
	paint := func(code, text string) string {
		if !colours {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	verdicts := map[alertpath.State]string{
		alertpath.Works: paint("32", "works  "), alertpath.Wrong: paint("31", "WRONG  "), alertpath.Unknown: paint("33", "unknown"),
	}
	var b strings.Builder
	indent := strings.Repeat(" ", 17)
	for i := range steps {
		s, took := &steps[i], ""
		if s.Duration != nil {
			took = fmt.Sprintf("%.1fs", *s.Duration)
		}
		text := s.Text + s.Error
		if s.Since != nil && s.Duration == nil {
			text += ", since " + s.Since.UTC().Format("2006-01-02 15:04:05 UTC")
		}
		fmt.Fprintf(&b, "%-15s  %s  %-8s  %6s  %s\n", s.Name, verdicts[s.State], s.By, took, failure.Printable(text, maxCell))
		if s.Hint != "" {
			fmt.Fprintf(&b, "%s%s %s\n", indent, paint("1", "what to do:"), failure.Printable(s.Hint, maxCell))
		}
		for _, n := range s.Notes {
			fmt.Fprintf(&b, "%snote: %s\n", indent, failure.Printable(n, maxCell))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
