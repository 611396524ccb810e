package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// DefaultConfigFile is the configuration in the working directory, if no file is named.
const DefaultConfigFile = "exporter.yaml"

// CheckConfig validates what the exporter reads at start: the configuration, the web configuration and the state file. It
// writes a summary with warnings to w; the error lists everything that is wrong. It changes nothing. With
// Options.WithoutSecrets it opens no state file and no file of a secret, such as the TLS key of the exporter's port.
func CheckConfig(w io.Writer, o Options) error {
	cfg, err := LoadConfig(o)
	faults, ok := errors.AsType[config.Faults](err)
	if err != nil && !ok {
		return err
	}
	sound := func(key string) bool {
		return !slices.ContainsFunc(faults, func(f config.Fault) bool { return f.Key == key })
	}
	var doubt string
	if cfg != nil && cfg.StateFile != "" && !o.WithoutSecrets && sound("state_file") {
		var fault *config.Fault
		if doubt, fault = checkState(cfg.StateFile, o); fault != nil {
			faults = append(faults, *fault)
			slices.SortStableFunc(faults, config.Fault.Compare)
		}
	}
	webFile := ""
	if o.Web != nil && o.Web.WebConfigFile != nil {
		webFile = *o.Web.WebConfigFile
	}
	if webFile != "" {
		faults = append(faults, webFaults(webFile, o.WithoutSecrets)...)
	}
	if cfg != nil && cfg.Public.WebConfigFile != "" && sound("public.web_config_file") {
		faults = append(faults, webFaults(cfg.Public.WebConfigFile, o.WithoutSecrets)...)
	}
	if len(faults) > 0 {
		return faults
	}
	var b strings.Builder
	b.WriteString(whatIsRead(o) + ".\n")
	if webFile != "" {
		fmt.Fprintf(&b, "Web configuration: %s.\n", absolute(webFile))
	}
	are := "are"
	if len(cfg.Targets) == 1 {
		are = "is"
	}
	fmt.Fprintf(&b, "The configuration is valid: %s %s configured", wording.Count(len(cfg.Targets), "target"), are)
	if n := len(cfg.Unconfigured); n > 0 {
		fmt.Fprintf(&b, "; %d are not: %s", n, strings.Join(cfg.Unconfigured, ", "))
	}
	if n := len(cfg.LeftToFirst); n > 0 {
		fmt.Fprintf(&b, "; pair: other leaves %s to the first exporter: %s",
			wording.Count(n, "target"), strings.Join(cfg.LeftToFirst.Names(), ", "))
	}
	b.WriteString(".\n")
	if asks := whomItAsks(cfg); asks != "" {
		b.WriteString("A running exporter " + asks + ".\n")
	}
	for _, warning := range Warnings(cfg) {
		fmt.Fprintf(&b, "warning: %s: %s\n", warning.Target, warning.Text)
	}
	if warning := unknownZone(cfg, o); warning != "" {
		b.WriteString("warning: " + warning + "\n")
	}
	if doubt != "" {
		b.WriteString("warning: " + doubt + "\n")
	}
	if len(cfg.Targets)+len(cfg.LeftToFirst) == 0 {
		b.WriteString("warning: " + NothingWatched + "\n")
	}
	writeWindows(&b, cfg, time.Now())
	_, err = io.WriteString(w, b.String())
	return err
}

// shownWindows is how many windows of one maintenance are shown.
const shownWindows = 3

// writeWindows writes when the next maintenance is, so that people see whether the schedule means what they think.
func writeWindows(b *strings.Builder, cfg *config.Config, now time.Time) {
	const layout = "Mon 2006-01-02 15:04 -07:00"
	for i := range cfg.Maintenance {
		m := &cfg.Maintenance[i]
		windows := m.Windows(now, shownWindows)
		if len(windows) > 0 {
			fmt.Fprintf(b, "Next maintenance of %s %s (maintenance[%d]):\n", m.Kind, m.Name, i)
		}
		for _, w := range windows {
			fmt.Fprintf(b, "  %s until %s\n", w.From.Format(layout), w.Until.Format(layout))
		}
	}
}

// unknownZone warns of a variable TZ that Go silently takes for UTC, if a schedule depends on it; else it is "".
func unknownZone(cfg *config.Config, o Options) string {
	zone, _ := o.Lookup("TZ")
	if _, err := time.LoadLocation(strings.TrimPrefix(zone, ":")); err == nil || strings.HasPrefix(zone, "/") {
		return ""
	}
	if !cfg.FollowsTZ() {
		return ""
	}
	return fmt.Sprintf("the variable TZ is %q, which is not the name of a time zone, so schedules without CRON_TZ= and "+
		"receivers without time_zone follow UTC; set a name such as Europe/Berlin", zone)
}

// whatIsRead names the file that was read, or says that there was none.
func whatIsRead(o Options) string {
	if o.ConfigFile == "" {
		return "No configuration file: there is no " + absolute(DefaultConfigFile) + ", so only the environment counts"
	}
	return "Read: " + absolute(o.ConfigFile) + ", and the environment"
}

// absolute returns the absolute path of a file, or path if that fails.
func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// checkState checks the location of a state file. A directory that systemd creates with the service need not exist.
func checkState(path string, o Options) (doubt string, fault *config.Fault) {
	doubt, err := state.Inspect(path)
	if err == nil || (errors.Is(err, os.ErrNotExist) && madeBySystemd(filepath.Dir(path), o)) {
		return doubt, nil
	}
	where := filepath.Base(o.ConfigFile)
	content := o.configContent
	if content == nil {
		content, _ = os.ReadFile(o.ConfigFile) // only for the line number; LoadConfig has reported errors
	}
	var doc yaml.Node
	if yaml.Unmarshal(content, &doc) == nil {
		where = atLine(where, nodeAt(&doc, "state_file"))
	}
	return "", &config.Fault{Where: where, Key: "state_file", Message: err.Error()}
}

// madeBySystemd reports whether systemd creates a directory for the service.
func madeBySystemd(dir string, o Options) bool {
	list, _ := o.Lookup("STATE_DIRECTORY")
	return slices.ContainsFunc(filepath.SplitList(list), func(made string) bool { return filepath.Clean(made) == dir })
}

// nodeAt returns the value at a path of keys, or nil.
func nodeAt(n *yaml.Node, path ...string) *yaml.Node {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	for _, key := range path {
		var value *yaml.Node
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				value = n.Content[i+1]
			}
		}
		if value == nil {
			return nil
		}
		n = value
	}
	return n
}

// atLine adds a node's line to a file's name, if known.
func atLine(file string, n *yaml.Node) string {
	if n == nil || n.Line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, n.Line)
}
