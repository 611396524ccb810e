// Command chatstack_exporter watches a self-hosted chat stack and tells Prometheus how it is.
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

	"github.com/chatstack-exporter/chatstack_exporter/internal/app"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// dockerSocket is where a Docker Engine is looked for without a configuration. Packagers and tests set another with
// -ldflags "-X main.dockerSocket=PATH".
var dockerSocket = "/var/run/docker.sock"

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	cli := kingpin.New("chatstack_exporter", "Watches a self-hosted chat stack and tells Prometheus how it is.")
	cli.Version(version.Print("chatstack_exporter"))
	cli.HelpFlag.Short('h')
	cli.UsageWriter(os.Stdout)
	var fileGiven, withoutSecrets bool
	configFile := cli.Flag("config.file", "Configuration file. Without this flag, exporter.yaml in the working directory if there is one, else the environment alone.").
		Default(app.DefaultConfigFile).IsSetByUser(&fileGiven).String()
	interval, timeout := durationFlag{name: "--poll.interval"}, durationFlag{name: "--poll.timeout"}
	cli.Flag("poll.interval", "Time between two readings of a target, from 1s; outweighs the configuration.").SetValue(&interval)
	cli.Flag("poll.timeout", "Deadline of one reading, from 1s; outweighs the configuration.").SetValue(&timeout)
	webFlags := kingpinflag.AddFlags(cli, ":9655")
	logging := &promslog.Config{}
	promslogflag.AddFlags(cli, logging)
	lifecycle := cli.Flag("web.enable-lifecycle", "Allow POST /-/reload, and over HTTP to set maintenance and to forget containers.").Bool()
	serve := cli.Command("serve", "Poll the stack; serve its metrics, a status page and, at /runbooks, what to do about each alert.").Default()
	demo := cli.Command("demo", "The same, against a simulated stack whose faults can be switched on, at http://127.0.0.1:9656/.")
	check := cli.Command("check", "Read every target once and say what is wrong and what to do about it; exit 1 if a target is down.")
	output := check.Flag("output", "table or json.").Default("table").Enum("table", "json")
	checkConfig := cli.Command("check-config", "Validate the configuration, the file of --web.config.file and the place of the state file, and print every fault with file, line and key.")
	checkConfig.Flag("without-secrets", "Take the files of secrets and the state file as given, where this user may not read them.").BoolVar(&withoutSecrets)
	rules := cli.Command("rules", "Print the alert rules for the thresholds in the configuration, as a rule file of Prometheus.")
	recording := rules.Flag("recording", "Print the recording rules of the dashboards instead.").Bool()
	manifest := rules.Flag("kubernetes", "Print all of them as a PrometheusRule of the Prometheus Operator.").Bool()
	ruleTests := rules.Flag("tests", "Print promtool's unit tests of the alert rules, for both sides of each threshold.").Bool()
	health := cli.Command("healthcheck", "Ask the exporter of this host with the same --web.listen-address whether its poll loop is running; exit 0 or 1.")
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
		err = runCheck(ctx, options, *output)
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
	case health.FullCommand():
		err = runHealthcheck(ctx, options)
	case show.FullCommand():
		fmt.Println(version.Print("chatstack_exporter"))
	}
	if errors.Is(err, errDown) {
		return 1 // the table has said it
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "chatstack_exporter: %v\n", err)
		return 1
	}
	return 0
}

// durationFlag reads a duration as the configuration does, and says which flag is wrong.
type durationFlag struct {
	name  string
	value config.Duration
}

func (f *durationFlag) String() string { return f.value.Std().String() }

func (f *durationFlag) Set(text string) error {
	value := config.Duration(time.Second) // so that a number without a unit is taken for seconds
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

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func runHealthcheck(ctx context.Context, options app.Options) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return app.Healthcheck(ctx, options, os.Stdout)
}

// underServiceManager has systemd told of what the exporter does, where systemd has started it and wants to know.
func underServiceManager(options app.Options) app.Options {
	options.Notify = func(state string) error {
		_, err := daemon.SdNotify(false, state)
		return err
	}
	var err error
	if options.Watchdog, err = daemon.SdWatchdogEnabled(false); err != nil {
		options.Log.Warn("signs of life cannot be timed; the watchdog gets none", "err", err)
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
				a.Reload(ctx) //nolint:errcheck // the log and the metrics say how it went
			case <-ctx.Done():
				return
			}
		}
	}()
	return a.Run(ctx)
}

// existingFile is the path of the configuration, or "" where the user named none and the default does not exist.
func existingFile(path string, given bool) string {
	if given {
		return path
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}
