// Command chatstack_exporter monitors a self-hosted chat stack and serves metrics for Prometheus.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/common/promslog"
	promslogflag "github.com/prometheus/common/promslog/flag"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"

	"github.com/chatstack-exporter/chatstack_exporter/internal/alertpath"
	"github.com/chatstack-exporter/chatstack_exporter/internal/app"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// dockerSocket is the Docker Engine's default socket without a configuration. Packagers and tests change it with
// -ldflags "-X main.dockerSocket=PATH".
var dockerSocket = "/var/run/docker.sock"

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	cli := kingpin.New("chatstack_exporter", "Monitors a self-hosted chat stack (Prosody, UnrealIRCd, Atheme, Docker) and serves metrics for Prometheus.")
	cli.Version(version.Print("chatstack_exporter"))
	cli.HelpFlag.Short('h')
	cli.UsageWriter(os.Stdout)
	var fileGiven, withoutSecrets, checkWrites bool
	configFile := cli.Flag("config.file", "Configuration file. Default: exporter.yaml in the working directory if it exists, else environment variables only.").
		Default(app.DefaultConfigFile).IsSetByUser(&fileGiven).String()
	interval, timeout := durationFlag{name: "--poll.interval"}, durationFlag{name: "--poll.timeout"}
	cli.Flag("poll.interval", "Time between two probes of a target, at least 1s; overrides the configuration.").SetValue(&interval)
	cli.Flag("poll.timeout", "Deadline of one probe, at least 1s; overrides the configuration.").SetValue(&timeout)
	webFlags := kingpinflag.AddFlags(cli, ":9655")
	logging := &promslog.Config{}
	promslogflag.AddFlags(cli, logging)
	lifecycle := cli.Flag("web.enable-lifecycle", "Allow changes over HTTP: reload the configuration (POST /-/reload), set maintenance, forget containers.").Bool()
	serve := cli.Command("serve", "Poll the stack; serve its metrics, a status page and the runbooks of the alerts.").Default()
	demo := cli.Command("demo", "Run against a simulated stack; switch its faults on at http://127.0.0.1:9656/.")
	check := cli.Command("check", "Probe every target once; print what is wrong and what to do. Exit 1 if a target is down.")
	output := check.Flag("output", "Output format: table or json.").Default("table").Enum("table", "json")
	check.Flag("write", "Also send what the running exporter would send: one message each way over the bridge. Canaries are never created.").BoolVar(&checkWrites)
	checkConfig := cli.Command("check-config", "Validate the configuration, the web configuration and the state file's location; print every error with file, line and key.")
	checkConfig.Flag("without-secrets", "Skip the files of secrets and the state file, for users who may not read them.").BoolVar(&withoutSecrets)
	initial := cli.Command("init", "Look for a stack in Docker or on this machine, write a first configuration with it to --config.file, and check it. Overwrites nothing.")
	var initFlags app.InitOptions
	initial.Flag("project", "Compose project of the stack. Default: the one with the most chat services.").StringVar(&initFlags.Project)
	initial.Flag("domain", "Virtual host of the XMPP server, such as chat.example.org.").StringVar(&initFlags.Domain)
	rules := cli.Command("rules", "Print the alert rules with the configured thresholds, as a Prometheus rule file.")
	recording := rules.Flag("recording", "Print the dashboards' recording rules instead.").Bool()
	manifest := rules.Flag("kubernetes", "Print alert and recording rules as a PrometheusRule for the Prometheus Operator.").Bool()
	ruleTests := rules.Flag("tests", "Print promtool unit tests of the alert rules, for both sides of each threshold.").Bool()
	drill := cli.Command("drill", "Follow a test alert over Prometheus and Alertmanager to its receivers; print what is wrong and what to do. Exit 1 if nobody is notified.")
	var drillFlags app.DrillOptions
	drill.Flag("prometheus", "URL of Prometheus.").Required().StringVar(&drillFlags.Prometheus)
	drill.Flag("alertmanager", "URL of Alertmanager.").Required().StringVar(&drillFlags.Alertmanager)
	drill.Flag("exporter", "URL of the exporter. Default: the one on this host with the same --web.listen-address.").StringVar(&drillFlags.Exporter)
	drill.Flag("severity", "Severity of the test alert: none, warning or critical.").Default("none").EnumVar(&drillFlags.Severity, "none", "warning", "critical")
	drill.Flag("yes", "Confirm that the drill may ring real telephones, as with --severity=critical.").BoolVar(&drillFlags.Yes)
	drill.Flag("receiver", "A receiver of Alertmanager that must be notified; may be repeated.").StringsVar(&drillFlags.Receivers)
	drill.Flag("dry-run", "Follow the path without a test alert.").BoolVar(&drillFlags.DryRun)
	drillOutput := drill.Flag("output", "Output format: table or json.").Default("table").Enum("table", "json")
	health := cli.Command("healthcheck", "Exit 0 if the exporter on this host with the same --web.listen-address is polling, else 1.")
	show := cli.Command("version", "Print the version.")

	command, err := cli.Parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "chatstack_exporter: %v; try --help\n", err)
		return 1
	}
	log := promslog.New(logging)
	options := app.Options{
		ConfigFile: existingFile(*configFile, fileGiven), Lookup: os.LookupEnv, Environ: os.Environ, DockerSocket: dockerSocket, MountInfo: "/proc/self/mountinfo",
		RuntimeDirectory: app.RuntimeDirectory(os.LookupEnv), Interval: interval.value.Std(), Timeout: timeout.value.Std(),
		Web: webFlags, Log: log, EnableLifecycle: *lifecycle,
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	switch command {
	case serve.FullCommand():
		err = runServe(ctx, underServiceManager(options))
	case demo.FullCommand():
		err = app.RunDemo(ctx, options, os.Stdout)
	case check.FullCommand():
		options.CheckWrites = checkWrites
		err = runCheck(ctx, options, *output)
	case initial.FullCommand():
		initFlags.File = *configFile
		err = runInit(ctx, options, initFlags)
	case checkConfig.FullCommand():
		options.WithoutSecrets = withoutSecrets
		err = app.CheckConfig(os.Stdout, options)
	case rules.FullCommand():
		switch {
		case *manifest:
			err = app.WriteRuleManifest(os.Stdout, options)
		case *ruleTests:
			err = app.WriteRuleTests(os.Stdout, options)
		default:
			err = app.WriteRules(os.Stdout, options, *recording)
		}
	case drill.FullCommand():
		err = runDrill(ctx, options, drillFlags, *drillOutput)
	case health.FullCommand():
		err = runHealthcheck(ctx, options)
	case show.FullCommand():
		fmt.Println(version.Print("chatstack_exporter"))
	}
	if errors.Is(err, errDown) || errors.Is(err, errNobodyNotified) {
		return 1 // the table shows it
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "chatstack_exporter: %v\n", err)
		return 1
	}
	return 0
}

// durationFlag parses a duration like the configuration. Its error names the flag.
type durationFlag struct {
	name  string
	value config.Duration
}

func (f *durationFlag) String() string { return f.value.Std().String() }

func (f *durationFlag) Set(text string) error {
	value := config.Duration(time.Second) // so that the error suggests seconds for a missing unit
	if err := value.Set(text); err != nil {
		return fmt.Errorf("%s %w", f.name, err)
	}
	f.value = value
	return nil
}

// errDown means that a check found a target down.
var errDown = errors.New("a target is down")

func runCheck(ctx context.Context, options app.Options, output string) error {
	results, err := app.Check(ctx, options)
	if err != nil {
		return err
	}
	if output == "json" {
		err = app.WriteJSON(os.Stdout, results)
	} else {
		err = app.WriteTable(os.Stdout, results, isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "")
		if warning := app.StateWarning(options); warning != "" && err == nil {
			_, err = fmt.Println("warning:", warning)
		}
	}
	if err == nil && !app.AllUp(results) {
		err = errDown
	}
	return err
}

// errNobodyNotified means that a drill got stuck.
var errNobodyNotified = errors.New("nobody is notified")

func runDrill(ctx context.Context, options app.Options, flags app.DrillOptions, output string) error {
	var steps []alertpath.Step
	var writeErr error
	report := func(known []alertpath.Step) {
		steps = append(steps, known...)
		if output != "json" {
			writeErr = errors.Join(writeErr, app.WriteDrillSteps(os.Stdout, known, isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == ""))
		}
	}
	ok, err := app.Drill(ctx, options, flags, report, func(text string) { fmt.Fprintln(os.Stderr, text) })
	if output == "json" && len(steps) > 0 {
		writeErr = app.WriteDrillJSON(os.Stdout, steps)
	}
	if err = errors.Join(err, writeErr); err == nil && !ok {
		err = errNobodyNotified
	}
	return err
}

// runInit succeeds if the file is written, whatever the check of it says.
func runInit(ctx context.Context, options app.Options, flags app.InitOptions) error {
	results, err := app.Init(ctx, os.Stdout, options, flags)
	if err != nil {
		return err
	}
	return app.WriteTable(os.Stdout, results, isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "")
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func runHealthcheck(ctx context.Context, options app.Options) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return app.Healthcheck(ctx, options, os.Stdout)
}

// underServiceManager enables systemd's notifications and watchdog, if systemd requests them.
func underServiceManager(options app.Options) app.Options {
	options.Notify = func(state string) error {
		_, err := daemon.SdNotify(false, state)
		return err
	}
	var err error
	if options.Watchdog, err = daemon.SdWatchdogEnabled(false); err != nil {
		options.Log.Warn("invalid watchdog interval from systemd; the watchdog gets no signals", "err", err)
	}
	return options
}

func runServe(ctx context.Context, options app.Options) error {
	a, err := app.New(options)
	if err != nil {
		return err
	}
	options.Log.Info("starting", "version", version.Info())
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	go func() {
		for {
			select {
			case <-hangups:
				a.Reload(ctx) //nolint:errcheck // the log and the metrics report the result
			case <-ctx.Done():
				return
			}
		}
	}()
	return a.Run(ctx)
}

// existingFile returns the path of the configuration, "" if it is the default and does not exist.
func existingFile(path string, given bool) string {
	if given {
		return path
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}
