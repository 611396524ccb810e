// Command chatstack_exporter monitors a self-hosted chat stack and serves metrics for Prometheus.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
	_ "time/tzdata" // the image has no zone files

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/common/version"

	"github.com/chatstack-exporter/chatstack_exporter/internal/alertpath"
	"github.com/chatstack-exporter/chatstack_exporter/internal/app"
)

// dockerSocket is the Docker Engine's default socket without a configuration. Packagers and tests change it with
// -ldflags "-X main.dockerSocket=PATH".
var dockerSocket = "/var/run/docker.sock"

func main() {
	// First of all, since a reload that is asked for during the start would end the process.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	os.Exit(run(os.Args[1:], hangups))
}

// The exit codes besides 0.
const (
	notWell   = 1
	wrongUse  = 2
	notProven = 3
)

func run(args []string, hangups <-chan os.Signal) int {
	line := newCommandLine()
	if len(args) > 0 && args[0] == completionFlag {
		line.complete(args[1:])
		return 0
	}
	command, err := line.parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "chatstack_exporter: %v; try --help\n", err)
		if at := line.commandAt(args); at >= 0 && args[at] == healthcheck {
			return notWell // Docker reserves 2
		}
		return wrongUse
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if command != serve {
		signal.Reset(syscall.SIGHUP) // no other command reloads: it ends with its terminal
	}
	return exitCode(line.execute(ctx, command, hangups))
}

// exitCode is that of a command, whose error it prints.
func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errDown), errors.Is(err, errNobodyNotified):
		return notWell // the table shows it
	}
	fmt.Fprintf(os.Stderr, "chatstack_exporter: %v\n", err)
	if errors.Is(err, errNotProven) {
		return notProven
	}
	if _, ok := errors.AsType[app.UsageError](err); ok {
		return wrongUse
	}
	return notWell
}

func (c *commandLine) execute(ctx context.Context, command string, hangups <-chan os.Signal) error {
	options := c.options(command)
	// Libraries print with package log, partly in the words of servers: that is only for debugging.
	slog.SetDefault(options.Log)
	slog.SetLogLoggerLevel(slog.LevelDebug)
	switch command {
	case demo:
		return app.RunDemo(ctx, options, os.Stdout)
	case check:
		return runCheck(ctx, options, c.output)
	case initial:
		c.initial.File = c.configFile
		return runInit(ctx, options, c.initial)
	case checkConfig:
		return app.CheckConfig(os.Stdout, options)
	case rules:
		switch {
		case c.manifest:
			return app.WriteRuleManifest(os.Stdout, options)
		case c.testing:
			return app.WriteRuleTests(os.Stdout, options, c.vmalert)
		}
		return app.WriteRules(os.Stdout, options, c.recording)
	case drill:
		if len(c.alertmanagers) > 0 {
			c.drill.Alertmanager, c.drill.Others = c.alertmanagers[0], c.alertmanagers[1:]
		}
		return runDrill(ctx, options, c.drill, c.output)
	case notify:
		return runNotify(ctx, options, c)
	case ack:
		return runAck(ctx, options, c)
	case forget:
		return runForget(ctx, options, c)
	case healthcheck:
		return runHealthcheck(ctx, options)
	case show:
		fmt.Println(version.Print("chatstack_exporter"))
		return nil
	}
	return runServe(ctx, underServiceManager(options), hangups)
}

func (c *commandLine) options(command string) app.Options {
	return app.Options{
		ConfigFile:              c.existingFile(),
		Lookup:                  os.LookupEnv,
		Environ:                 os.Environ,
		DockerSocket:            dockerSocket,
		MountInfo:               "/proc/self/mountinfo",
		RuntimeDirectory:        app.RuntimeDirectory(os.LookupEnv),
		OtherRuntimeDirectories: app.OtherRuntimeDirectories(os.LookupEnv),
		Interval:                c.interval.value.Std(),
		Timeout:                 c.timeout.value.Std(),
		Web:                     c.web[command],
		Log:                     promslog.New(&c.logging),
		EnableLifecycle:         c.lifecycle,
		CheckWrites:             c.write,
		WithoutSecrets:          c.withoutSecrets,
	}
}

// errDown means that a check found a target down, or did not finish.
var errDown = errors.New("a target is down")

func runCheck(ctx context.Context, options app.Options, output string) error {
	shown := false
	if isTerminal(os.Stderr) {
		options.Waiting = func(targets []string) {
			shown = true
			fmt.Fprint(os.Stderr, clearLine+app.WaitingFor(targets))
		}
	}
	results, err := app.Check(ctx, options)
	if shown {
		fmt.Fprint(os.Stderr, clearLine)
	}
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

// clearLine clears the terminal's current line.
const clearLine = "\r\x1b[K"

// errNobodyNotified means that something is wrong on the way of the alerts, errNotProven that nothing is, but something is unknown.
var (
	errNobodyNotified = errors.New("nobody is notified")
	errNotProven      = errors.New("it is unknown whether somebody is woken")
)

func runDrill(ctx context.Context, options app.Options, flags app.DrillOptions, output string) error {
	var steps []alertpath.Step
	var writeErr error
	report := func(known []alertpath.Step) {
		steps = append(steps, known...)
		if output != "json" {
			writeErr = errors.Join(writeErr, app.WriteDrillSteps(os.Stdout, known, isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == ""))
		}
	}
	verdict, told, err := app.Drill(ctx, options, flags, report, func(text string) { fmt.Fprintln(os.Stderr, text) })
	switch {
	case output == "json" && len(steps) > 0:
		writeErr = app.WriteDrillJSON(os.Stdout, steps, told)
	case flags.EveryAlert && err == nil:
		writeErr = errors.Join(writeErr, app.WriteTold(os.Stdout, told))
	}
	if err = errors.Join(err, writeErr); err != nil {
		return err
	}
	return drillError(verdict, steps)
}

// drillError is nil only if every step works. What is unknown is no success.
func drillError(verdict alertpath.State, steps []alertpath.Step) error {
	switch verdict {
	case alertpath.Works:
		return nil
	case alertpath.Unknown:
		i := slices.IndexFunc(steps, func(s alertpath.Step) bool { return s.State == alertpath.Unknown })
		return fmt.Errorf("%w: %s: %s", errNotProven, steps[i].Name, steps[i].Error)
	case alertpath.Wrong:
	}
	return errNobodyNotified
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

func runNotify(ctx context.Context, options app.Options, c *commandLine) error {
	return app.TestNotify(ctx, options, c.receiver, os.Stdout)
}

func runAck(ctx context.Context, options app.Options, c *commandLine) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return app.Ack(ctx, options, c.remote, c.incident, c.as, os.Stdout, os.Stderr)
}

func runForget(ctx context.Context, options app.Options, c *commandLine) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return app.Forget(ctx, options, c.remote, c.dockerHost, c.gone, os.Stdout)
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

func runServe(ctx context.Context, options app.Options, hangups <-chan os.Signal) error {
	a, err := app.New(options) //nolint:contextcheck // its socket lives as long as the process
	if err != nil {
		return err
	}
	options.Log.Info("starting", "version", version.Info())
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
func (c *commandLine) existingFile() string {
	if c.fileGiven || c.argument != "" {
		return c.configFile
	}
	if _, err := os.Stat(c.configFile); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return c.configFile
}
