package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/promslog"
	promslogflag "github.com/prometheus/common/promslog/flag"
	"github.com/prometheus/common/version"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"

	"github.com/chatstack-exporter/chatstack_exporter/internal/app"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// The names of the commands.
const (
	serve       = "serve"
	demo        = "demo"
	check       = "check"
	checkConfig = "check-config"
	initial     = "init"
	rules       = "rules"
	drill       = "drill"
	notify      = "notify"
	ack         = "ack"
	forget      = "forget"
	healthcheck = "healthcheck"
	show        = "version"
)

// The flags that several commands use. A name that ends in a dot stands for all that begin with it.
const (
	configFile    = "config.file"
	pollFlags     = "poll."
	listenAddress = "web.listen-address"
	webConfigFile = "web.config.file"
	webFlags      = "web."
	logFlags      = "log."
)

// commands lists each command with the shared flags that it uses. It accepts and hides the others, since scripts may give them.
var commands = []struct {
	name, help string
	uses       []string
	file       bool // the configuration may also be given as an argument
}{
	{
		serve,
		"Poll the stack; serve its metrics, a status page and the runbooks of the alerts. The default.",
		[]string{configFile, pollFlags, webFlags, logFlags},
		false,
	},
	{
		demo,
		"Run against a simulated stack; switch its faults on at http://127.0.0.1:9656/.",
		[]string{pollFlags, webFlags, logFlags},
		false,
	},
	{
		check,
		"Probe every target once; print what is wrong and what to do. Exit 1 if a target is down.",
		[]string{configFile, pollFlags},
		true,
	},
	{
		checkConfig,
		"Validate the configuration, the web configuration and the state file's location; print every error with file, line and key.",
		[]string{configFile, pollFlags, webConfigFile},
		true,
	},
	{
		initial,
		"Look for a stack in Docker or on this machine, write a first configuration with it to FILE, and check it. Overwrites nothing.",
		[]string{configFile, pollFlags},
		true,
	},
	{
		rules,
		"Print the alert rules with the configured thresholds, as a Prometheus rule file.",
		[]string{configFile},
		true,
	},
	{
		drill,
		"Follow a test alert over Prometheus and Alertmanager to its receivers; print what is wrong and what to do. " +
			"Exit 1 if something is wrong, 3 if it is unknown whether somebody is woken.",
		[]string{configFile, listenAddress},
		false,
	},
	{
		notify,
		"With --test, send a test message to the receiver NAME of the configuration's notify, or to all; print what the services answer.",
		[]string{configFile},
		false,
	},
	{
		ack,
		"Say who takes care of the incident ID, to the exporter on this machine or at a URL.",
		[]string{listenAddress},
		false,
	},
	{
		forget,
		"Make the exporter on this machine or at a URL forget a container or service that is gone for good.",
		[]string{listenAddress},
		false,
	},
	{
		healthcheck,
		"Exit 0 if the exporter on this host with the same --web.listen-address is polling, else 1.",
		[]string{listenAddress},
		false,
	},
	{
		show,
		"Print the version.",
		nil,
		false,
	},
}

// commandLine has the values of all flags.
type commandLine struct {
	app *kingpin.Application
	// The shared flags.
	configFile        string
	fileGiven         bool
	argument          fileArgument
	interval, timeout durationFlag
	web               map[string]*toolkit.FlagConfig // by command
	logging           promslog.Config
	lifecycle         bool
	// The commands' own.
	output                       string
	write, withoutSecrets        bool
	recording, manifest, testing bool
	vmalert                      bool
	initial                      app.InitOptions
	drill                        app.DrillOptions
	alertmanagers                []string
	remote                       app.Remote
	incident, as                 string
	gone, dockerHost             string
	testsReceiver                bool
	receiver                     string
}

func newCommandLine() *commandLine {
	c := &commandLine{
		app: kingpin.New("chatstack_exporter",
			"Monitors a self-hosted chat stack (Prosody, UnrealIRCd, Atheme, Docker) and serves metrics for Prometheus."),
		interval: durationFlag{name: "--poll.interval"},
		timeout:  durationFlag{name: "--poll.timeout"},
		web:      map[string]*toolkit.FlagConfig{},
		logging:  promslog.Config{Level: promslog.NewLevel(), Format: promslog.NewFormat()},
	}
	c.app.Version(version.Print("chatstack_exporter"))
	c.app.HelpFlag.Short('h')
	c.app.GetFlag("help").Help("Show help.")
	c.app.UsageWriter(os.Stdout).UsageTemplate(usageTemplate)
	for _, declared := range commands {
		cmd := c.app.Command(declared.name, declared.help)
		c.addOwn(declared.name, cmd)
		c.addShared(declared.name, cmd, declared.uses)
		if declared.file {
			cmd.Arg("FILE", "Same as --config.file.").PlaceHolder("FILE").SetValue(&c.argument)
		}
	}
	c.app.GetCommand(serve).Default()
	return c
}

// addOwn adds the flags that only this command has.
func (c *commandLine) addOwn(name string, cmd *kingpin.CmdClause) {
	output := func() {
		cmd.Flag("output", "Output format: table or json.").Short('o').Default("table").EnumVar(&c.output, "table", "json")
	}
	switch name {
	case check:
		output()
		cmd.Flag("write", "Also send what the running exporter would send: one message each way over the bridge. "+
			"Canaries are never created.").BoolVar(&c.write)
	case checkConfig:
		cmd.Flag("without-secrets", "Skip the files of secrets and the state file, for users who may not read them.").
			BoolVar(&c.withoutSecrets)
	case initial:
		cmd.Flag("project", "Compose project of the stack. Default: the one with the most chat services.").StringVar(&c.initial.Project)
		cmd.Flag("domain", "Virtual host of the XMPP server, such as chat.example.org.").StringVar(&c.initial.Domain)
	case rules:
		cmd.Flag("recording", "Print the dashboards' recording rules instead.").BoolVar(&c.recording)
		cmd.Flag("kubernetes", "Print alert and recording rules as a PrometheusRule for the Prometheus Operator.").BoolVar(&c.manifest)
		cmd.Flag("tests", "Print promtool unit tests of the alert rules, for both sides of each threshold.").BoolVar(&c.testing)
		cmd.Flag("vmalert", "With --tests: print them for vmalert-tool of VictoriaMetrics.").BoolVar(&c.vmalert)
	case drill:
		cmd.Flag("prometheus", "URL of Prometheus. Without it and --alertmanager, the exporter sends its own receivers a test message.").
			StringVar(&c.drill.Prometheus)
		cmd.Flag("alertmanager", "URL of Alertmanager. Repeat it for each Alertmanager of a cluster.").StringsVar(&c.alertmanagers)
		cmd.Flag("ruler", "URL of the server that evaluates the rules, if that is not Prometheus, such as Thanos Ruler or vmalert.").
			StringVar(&c.drill.Ruler)
		cmd.Flag("exporter", "URL of the exporter. Default: the one on this host with the same --web.listen-address.").
			StringVar(&c.drill.Exporter)
		cmd.Flag("severity", "Severity of the test alert: none, warning or critical.").Default("none").
			EnumVar(&c.drill.Severity, "none", "warning", "critical")
		cmd.Flag("yes", "Confirm that the drill may ring real telephones, as with --severity=critical.").BoolVar(&c.drill.Yes)
		cmd.Flag("receiver", "A receiver that must be notified; may be repeated.").StringsVar(&c.drill.Receivers)
		cmd.Flag("dry-run", "Follow the path without a test alert.").BoolVar(&c.drill.DryRun)
		cmd.Flag("every-alert", "As --dry-run; also print where each alert goes now and at 3 am, and whether that wakes somebody.").
			BoolVar(&c.drill.EveryAlert)
		output()
	case notify:
		cmd.Flag("test", "Send a test message.").Required().BoolVar(&c.testsReceiver)
		cmd.Arg("NAME", "Name of the receiver. Default: all.").PlaceHolder("NAME").StringVar(&c.receiver)
	case ack:
		cmd.Arg("ID", "The incident's ID, the last part of its address.").PlaceHolder("ID").Required().StringVar(&c.incident)
		cmd.Flag("as", "The name to show. Default: the one who runs the command, or --user.").PlaceHolder("NAME").StringVar(&c.as)
		c.addRemote(cmd)
	case forget:
		cmd.Arg("NAME", "The container, such as chat-web-1, or the service, such as chat/web.").PlaceHolder("NAME").Required().
			StringVar(&c.gone)
		cmd.Flag("docker-host", "The label docker_host of its engine. Default: local.").StringVar(&c.dockerHost)
		c.addRemote(cmd)
	}
}

// addRemote adds the flags of a command that changes something in a running exporter.
func (c *commandLine) addRemote(cmd *kingpin.CmdClause) {
	cmd.Flag("url", "URL of the exporter, where lifecycle must be enabled. Default: the socket of the one on this machine with the same "+
		"listen address, for its user and root.").StringVar(&c.remote.URL)
	cmd.Flag("user", "User in basic_auth_users of the exporter at --url.").StringVar(&c.remote.User)
	cmd.Flag("password-file", "File with the password of --user.").PlaceHolder("FILE").StringVar(&c.remote.PasswordFile)
}

// addShared adds the flags that every command accepts, and hides those that this one does not use.
func (c *commandLine) addShared(name string, cmd *kingpin.CmdClause, uses []string) {
	own := cmd.Model().Flags
	configHelp := "Configuration file. Default: exporter.yaml in the working directory if it exists, else environment variables only."
	if name == initial {
		configHelp = "Configuration file to write, which must not exist yet."
	}
	cmd.Flag(configFile, configHelp).
		Default(app.DefaultConfigFile).IsSetByUser(&c.fileGiven).StringVar(&c.configFile)
	cmd.Flag("poll.interval", "Time between two probes of a target, at least 1s; overrides the configuration.").SetValue(&c.interval)
	cmd.Flag("poll.timeout", "Deadline of one probe, at least 1s; overrides the configuration.").SetValue(&c.timeout)
	c.web[name] = kingpinflag.AddFlags(cmd, ":9655")
	cmd.Flag("web.enable-lifecycle", "Allow changes over HTTP: reload the configuration (POST /-/reload), set maintenance, "+
		"acknowledge incidents and add notes to them, forget containers, probe a target (POST /api/v1/targets/{target}/probe).").
		BoolVar(&c.lifecycle)
	cmd.Flag(promslogflag.LevelFlagName, promslogflag.LevelFlagHelp).Default("info").HintOptions(promslog.LevelFlagOptions...).
		SetValue(c.logging.Level)
	cmd.Flag(promslogflag.FormatFlagName, promslogflag.FormatFlagHelp).Default("logfmt").HintOptions(promslog.FormatFlagOptions...).
		SetValue(c.logging.Format)
	for _, flag := range cmd.Model().Flags[len(own):] {
		if !slices.ContainsFunc(uses, func(use string) bool {
			return use == flag.Name || strings.HasSuffix(use, ".") && strings.HasPrefix(flag.Name, use)
		}) {
			cmd.GetFlag(flag.Name).Hidden()
		}
	}
}

// parse returns the command. It sets the values of its flags, and prints the help if that is what was asked for.
func (c *commandLine) parse(args []string) (command string, err error) {
	if args, err = c.commandFirst(args); err != nil {
		return "", err
	}
	if command, err = c.app.Parse(args); err != nil {
		return "", err
	}
	switch {
	case c.argument != "" && c.fileGiven:
		return "", errors.New("FILE and --config.file name the configuration twice; give one of them")
	case c.configFile == "-":
		return "", errors.New(notStandardInput)
	case (c.recording && c.manifest) || (c.recording && c.testing) || (c.manifest && c.testing):
		return "", errors.New("--recording, --kubernetes and --tests exclude each other; give one of them")
	case c.vmalert && !c.testing:
		return "", errors.New("--vmalert is for --tests; give both")
	}
	c.configFile = cmp.Or(string(c.argument), c.configFile)
	return command, nil
}

// commandFirst moves the command before the flags, because the parser takes flags before the command for those of serve. It
// returns an error for an unknown command or flag.
func (c *commandLine) commandFirst(args []string) ([]string, error) {
	at := c.commandAt(args)
	if err := c.checkConfigFlag(at, args); err != nil {
		return nil, err
	}
	if at < 0 {
		return args, c.checkFlags(serve, args)
	}
	name, rest := args[at], slices.Concat(args[:at], args[at+1:])
	if name == "help" {
		return c.commandFirst(append(rest, "--help"))
	}
	if cmd := c.app.GetCommand(name); cmd == nil {
		hint := didYouMean(name, commandNames())
		if looksLikeFile(name) {
			hint = fmt.Sprintf("; did you mean --config.file=%[1]s, or check-config %[1]s?", name)
		}
		return nil, fmt.Errorf("unknown command %q%s", name, hint)
	}
	return append([]string{name}, rest...), c.checkFlags(name, rest)
}

// commandAt returns the index of the first argument that is neither a flag nor the value of one, -1 without any.
func (c *commandLine) commandAt(args []string) int {
	takesValue := map[string]bool{}
	for _, cmd := range c.app.Model().Commands {
		for _, flag := range cmd.Flags {
			takesValue["--"+flag.Name] = !flag.IsBoolFlag()
		}
	}
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		switch {
		case takesValue[args[i]]:
			i++
		case !strings.HasPrefix(args[i], "-"):
			return i
		}
	}
	return -1
}

// completionFlag comes before the words to complete, in the scripts that the parser prints.
const completionFlag = "--completion-bash"

// complete prints what the last of the words may be. The parser does not list the commands, since there is a default.
func (c *commandLine) complete(words []string) {
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "=" }) // bash splits --flag=value in three
	at := c.commandAt(words)
	switch {
	case at >= 0 && (at == len(words)-1 || words[at] == "help"):
		fmt.Println(strings.Join(commandNames(), "\n"))
		return
	case at >= 0:
		words = slices.Concat(words[at:at+1], words[:at], words[at+1:])
	}
	_, _ = c.app.Parse(append([]string{completionFlag}, words...)) // an unfinished line need not be right
}

// configFlags are names that other programs have for --config.file.
var configFlags = []string{"--config", "--config-file", "--config_file", "--configfile", "--conf", "--file", "-c", "-f"}

// checkConfigFlag returns an error for another program's name of --config.file. The command is at an index of the arguments, or -1.
func (c *commandLine) checkConfigFlag(at int, args []string) error {
	command := serve
	if at >= 0 && c.app.GetCommand(args[at]) != nil {
		command = args[at]
	}
	for i, arg := range args {
		if arg == "--" {
			break
		}
		flag, value, _ := strings.Cut(arg, "=")
		if !slices.Contains(configFlags, flag) {
			continue
		}
		if value == "" && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") && !slices.Contains(commandNames(), args[i+1]) {
			value = args[i+1]
		}
		return fmt.Errorf("%s has no flag %s; did you mean --config.file=%s?", command, flag, cmp.Or(value, "FILE"))
	}
	return nil
}

// looksLikeFile reports whether an argument is a configuration file in the place of a command.
func looksLikeFile(name string) bool {
	if ending := filepath.Ext(name); ending == ".yaml" || ending == ".yml" {
		return true
	}
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// notStandardInput is the error for a file that is named -, as which other programs read standard input.
const notStandardInput = "- is not a file, and standard input is not read; write the path of the configuration file"

// fileArgument is the argument FILE, which must not be empty.
type fileArgument string

func (f *fileArgument) String() string { return string(*f) }

func (f *fileArgument) Set(name string) error {
	if name == "" {
		return errors.New("FILE is empty; name the configuration file, or leave the argument out")
	}
	*f = fileArgument(name)
	return nil
}

// checkFlags returns an error for a flag that the command does not know.
func (c *commandLine) checkFlags(command string, args []string) error {
	var known []string
	for _, flag := range slices.Concat(c.app.Model().Flags, c.app.GetCommand(command).Model().Flags) {
		known = append(known, "--"+flag.Name)
		if flag.IsBoolFlag() {
			known = append(known, "--no-"+flag.Name)
		}
	}
	value := false // of the flag before
	for _, arg := range args {
		if arg == "--" {
			break
		}
		if arg == "-" && !value { // the parser takes it for an empty argument
			return errors.New(notStandardInput)
		}
		value = strings.HasPrefix(arg, "--") && !strings.Contains(arg, "=")
		if flag, _, _ := strings.Cut(arg, "="); strings.HasPrefix(flag, "--") && !slices.Contains(known, flag) {
			return fmt.Errorf("%s has no flag %s%s", command, flag, didYouMean(flag, known))
		}
	}
	return nil
}

func didYouMean(name string, known []string) string {
	if nearest := config.Nearest(name, known); nearest != "" {
		return fmt.Sprintf("; did you mean %s?", nearest)
	}
	return ""
}

func commandNames() (names []string) {
	for _, c := range commands {
		names = append(names, c.name)
	}
	return append(names, "help")
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
		return fmt.Errorf("%s is %q, %w", f.name, text, err)
	}
	f.value = value
	return nil
}

// usageTemplate is the help, with a command's own flags first; without a command, with those of serve.
const usageTemplate = `{{define "flags"}}{{.|FlagsToTwoColumns|FormatTwoColumns}}{{end -}}
{{define "argument"}} {{if .Required}}{{.PlaceHolder}}{{else}}[{{.PlaceHolder}}]{{end}}{{end -}}
{{with .Context.SelectedCommand -}}
usage: chatstack_exporter {{.Name}}{{if .FlagSummary}} {{.FlagSummary}}{{end}}{{range .Args}}{{template "argument" .}}{{end}}

{{.Help|Wrap 0}}
Flags:
{{template "flags" .Flags}}{{template "flags" $.App.Flags}}
{{- with .Args}}
Arguments:
{{.|ArgsToTwoColumns|FormatTwoColumns}}{{end}}
{{- else -}}
usage: chatstack_exporter [COMMAND] [<flags>]

{{.App.Help|Wrap 0}}
Commands; COMMAND --help shows the flags of one:
{{range .App.Commands}}{{if ne .Name "help"}}  {{.Name}}
{{.Help|Wrap 4}}{{end}}{{end}}
Flags of serve, which runs if no command is named:
{{range .App.Commands}}{{if .Default}}{{template "flags" .Flags}}{{end}}{{end}}{{template "flags" .App.Flags}}
Exit codes: 0 all is well, 1 something is not, 2 wrong use, 3 a drill cannot tell. healthcheck has only 0 and 1.
{{end}}`
