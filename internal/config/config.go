// Package config reads exporter.yaml and the environment into validated values, and tells everything that is wrong
// with them at once.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"gopkg.in/yaml.v3"
)

// Config is a whole, valid configuration.
type Config struct {
	// StateFile keeps what must outlive the process; "" keeps it in memory only.
	StateFile string `yaml:"state_file"`
	Poll      Poll   `yaml:"poll"`
	Limits    Limits `yaml:"limits"`
	// Pair is what the exporter is among several that ask the same targets: "" where it is alone, PairFirst or PairOther.
	Pair string `yaml:"pair"`
	// Peers are the exporters that GET /api/v1/discovery names.
	Peers []Peers `yaml:"peers"`
	// Web is how people reach the exporter's pages.
	Web Web `yaml:"web"`
	// Alerts are the thresholds of the alert rules.
	Alerts Alerts `yaml:"alerts"`
	// Maintenance are the times in which something is expected to fail.
	Maintenance []Maintenance `yaml:"maintenance"`
	// Targets are the configured ones, in the order of the file, then of the table of kinds.
	Targets []Settings `yaml:"-"`
	// Unconfigured are the names of the targets that nobody configured: not polled, not red, but told.
	Unconfigured []string `yaml:"-"`
	// LeftToFirst are the names of the configured targets that only the first of several exporters polls, where this one is
	// another.
	LeftToFirst []string `yaml:"-"`
	// Doubts are likely mistakes that leave the configuration valid.
	Doubts []Doubt `yaml:"-"`
}

// Web says how people reach the exporter's pages.
type Web struct {
	// ExternalURL is the address of the status page, as people reach it; "" where nobody does.
	ExternalURL string `yaml:"external_url"`
}

// Poll says when targets are asked, where they do not say it themselves.
type Poll struct {
	// Interval is the time between two readings of a target: 30 s by default, from 1 s.
	Interval Duration `yaml:"interval"`
	// Timeout is the deadline of one reading: 10 s by default or the interval if that is shorter; from 1 s.
	Timeout Duration `yaml:"timeout"`
}

// Limits bound what is read of other people's answers.
type Limits struct {
	// MetricsBody bounds a metrics page after decompression, and an answer or one event of a Docker Engine: 16 MiB by default.
	MetricsBody Bytes `yaml:"metrics_body"`
	// Body bounds every other answer after decompression: 1 MiB by default.
	Body Bytes `yaml:"body"`
	// Series, Families and LabelBytes bound a metrics page: 200,000 series, 20,000 families, 4,096 bytes for one
	// series' labels. What exceeds them is left out and counted as dropped.
	Series     int `yaml:"series"`
	Families   int `yaml:"families"`
	LabelBytes int `yaml:"label_bytes"`
}

// Settings is the block of one target in exporter.yaml: a pointer to a struct that embeds Target and has a yaml tag
// on every key of its kind.
type Settings interface {
	// Common returns the part that every kind has.
	Common() *Target
	// Environ lays the stack's environment variables over the values of the file.
	Environ(*Env)
	// Configured reports whether enough is known to ask the target; one that is not is never polled.
	Configured() bool
	// Check reports what is wrong with a configured target.
	Check(*Report)
}

// Addressed is implemented by settings of a target that is asked over the network.
type Addressed interface {
	// HostName is the host of its URL or address, "" if something else than the exporter resolves it.
	HostName() string
}

// Distinct is implemented by settings whose metrics do not carry the label target. Two targets of one kind must not have
// the same value, since their metrics could not be told apart.
type Distinct interface {
	// Distinction is the value, and the key that sets it; without a key, there can be only one target of the kind.
	Distinction() (key, value string)
}

// Sparing is implemented by settings of a target whose server counts who asks, and refuses those that ask too often.
type Sparing interface {
	// LeastInterval bounds the interval from below where the target has no schedule of its own. Of several exporters, only
	// the first polls such a target.
	LeastInterval() time.Duration
}

// Kind is a sort of target: its name in exporter.yaml, and its settings with their defaults.
type Kind struct {
	Name     string
	Defaults func() Settings
	// Watches are the programs that it is made for, in lower case, since people look for a kind by these names.
	Watches []string
}

// Source is what a configuration is read from.
type Source struct {
	// File is the path of exporter.yaml; "" reads the environment alone.
	File string
	// Content, where not nil, is read instead of the file, which then is only a name.
	Content []byte
	// Lookup finds an environment variable, as os.LookupEnv does.
	Lookup func(string) (string, bool)
	// Environ, where not nil, lists all variables, as os.Environ does, to find those that are mistyped.
	Environ func() []string
	// Kinds are the sorts of target that exist.
	Kinds []Kind
	// Interval and Timeout, where not zero, outweigh the file's poll keys.
	Interval, Timeout time.Duration
	// WithoutSecrets takes the files of secrets as given, without looking at them: for those who may not read them.
	WithoutSecrets bool
}

// secret reads the secret in a file, or invents one.
func (s *Source) secret(name string) (Secret, error) {
	if s.WithoutSecrets {
		return NewSecret("not read"), nil
	}
	return readSecret(name)
}

// Load reads and validates a configuration. The environment outweighs the file, flags outweigh both. An error that is
// a Faults names every fault; any other means that the file could not be read at all.
func Load(src Source) (*Config, error) {
	cfg := &Config{
		Poll:   Poll{Interval: Duration(30 * time.Second)},
		Limits: Limits{MetricsBody: 16 << 20, Body: 1 << 20, Series: 200_000, Families: 20_000, LabelBytes: 4096},
		Alerts: DefaultAlerts(),
	}
	cfg.Alerts.RunbookURL = "" // it depends on the build
	l := &loader{src: src, cfg: cfg, origins: map[string]string{}}
	if src.File != "" {
		if err := l.readFile(); err != nil {
			return nil, err
		}
	}
	l.applyFlags()
	l.addFromEnvironment()
	l.check()
	if len(l.faults) > 0 {
		slices.SortStableFunc(l.faults, func(a, b Fault) int { return a.line() - b.line() })
		return nil, l.faults
	}
	for _, d := range l.doubts {
		cfg.Doubts = append(cfg.Doubts, Doubt{l.targetAt(d.path), d.text})
	}
	return cfg, nil
}

type loader struct {
	src     Source
	cfg     *Config
	faults  Faults
	origins map[string]string
	// blocks are the targets with the path of their block, configured or not.
	blocks []block
	doubts []pathDoubt
}

// pathDoubt is a doubt about the key at a path, or about a kind.
type pathDoubt struct{ path, text string }

// targetAt is the name of the target whose block a path is in, or of the first target of a kind, or else the path.
func (l *loader) targetAt(path string) string {
	for _, b := range l.blocks {
		if t := b.settings.Common(); path == t.Kind || strings.HasPrefix(path, b.path+".") {
			return t.Name
		}
	}
	return path
}

type block struct {
	path     string
	where    string
	settings Settings
}

func (l *loader) readFile() error {
	content := l.src.Content
	if content == nil {
		var err error
		if content, err = os.ReadFile(l.src.File); err != nil {
			return fmt.Errorf("read configuration: %w; %s", err, fileHint(l.src.File, err))
		}
	}
	parser := yaml.NewDecoder(bytes.NewReader(content))
	var doc, more yaml.Node
	if err := parser.Decode(&doc); errors.Is(err, io.EOF) {
		return nil // an empty file says nothing
	} else if err != nil {
		return Faults{notYAML(filepath.Base(l.src.File), err)}
	}
	if err := parser.Decode(&more); !errors.Is(err, io.EOF) {
		return Faults{{Where: l.src.File, Message: "holds more than one YAML document; keep one"}}
	}
	d := &decoder{file: filepath.Base(l.src.File), secret: l.src.secret, faults: &l.faults, origins: l.origins, doubts: &l.doubts}
	root := doc.Content[0]
	targets, rest := splitTargets(root)
	if targets != nil {
		l.origins["targets"] = d.where(targets)
	}
	d.mapping(rest, "", reflect.ValueOf(l.cfg).Elem())
	if targets != nil {
		l.readTargets(d, targets)
	}
	return nil
}

// fileHint says what to do about a configuration file that cannot be read.
func fileHint(file string, err error) string {
	switch {
	case errors.Is(err, syscall.EISDIR):
		return "--config.file must name a file; where Docker was told to mount one that did not exist, it made a directory of that name"
	case errors.Is(err, os.ErrPermission):
		return "let the user that the exporter runs as read the file of --config.file, and enter every directory above it"
	}
	var siblings []string
	entries, _ := os.ReadDir(filepath.Dir(file)) // without it, there is nothing to suggest
	for _, e := range entries {
		siblings = append(siblings, e.Name())
	}
	if name := Nearest(filepath.Base(file), siblings); name != "" {
		return fmt.Sprintf("did you mean --config.file=%s?", filepath.Join(filepath.Dir(file), name))
	}
	return "correct the path in --config.file; in a container, the file must be mounted there"
}

// yamlLine finds the line in what the YAML reader says.
var yamlLine = regexp.MustCompile(`line (\d+): `)

// notYAML words what the YAML reader says, without the values that it may repeat: an unquoted password that begins with
// an asterisk is to it the name of an anchor.
func notYAML(file string, err error) Fault {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	where := file
	if found := yamlLine.FindStringSubmatch(text); found != nil {
		where += ":" + found[1]
		text = strings.Replace(text, found[0], "", 1)
	}
	if strings.HasPrefix(text, "unknown anchor") {
		text = "a value begins with *"
	}
	return Fault{Where: where, Message: "not YAML: " + text + "; indent with spaces, never with tabs, and put values with special characters into quotes"}
}

// splitTargets takes the key targets out of the root mapping, since what its entries may hold depends on their kind.
func splitTargets(root *yaml.Node) (targets, rest *yaml.Node) {
	if root.Kind != yaml.MappingNode {
		return nil, root
	}
	remaining := *root
	remaining.Content = nil
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "targets" && targets == nil {
			targets = root.Content[i+1]
			continue
		}
		remaining.Content = append(remaining.Content, root.Content[i], root.Content[i+1])
	}
	return targets, &remaining
}

func (l *loader) readTargets(d *decoder, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.faultf(n, "targets", "is %s, must be a list; begin each target with %q", kindOf(n), "- kind: "+l.kindIn(n))
		return
	}
	for i, item := range n.Content {
		path := fmt.Sprintf("targets[%d]", i)
		settings := l.settingsFor(d, item, path)
		if settings == nil {
			continue
		}
		d.mapping(item, path, reflect.ValueOf(settings).Elem())
		l.blocks = append(l.blocks, block{path, d.where(item), settings})
	}
}

func (l *loader) settingsFor(d *decoder, item *yaml.Node, path string) Settings {
	item = resolved(item)
	if item.Kind != yaml.MappingNode {
		d.faultf(item, path, "is %s, must be a mapping; begin it with %q", kindOf(item), "kind: "+l.kindIn(item))
		return nil
	}
	for i := 0; i+1 < len(item.Content); i += 2 {
		if item.Content[i].Value != "kind" {
			continue
		}
		name := item.Content[i+1].Value
		for _, k := range l.src.Kinds {
			if k.Name == name {
				return k.Defaults()
			}
		}
		d.faultf(item.Content[i+1], path+".kind", "there is no kind %q; %s", name, kindSuggestion(name, l.src.Kinds))
		return nil
	}
	d.faultf(item, path, "has no kind; begin it with %q", "kind: "+l.kindIn(item))
	return nil
}

// kindIn is the kind that somebody has written as a key or alone in place of "kind: NAME"; "NAME" where there is none.
func (l *loader) kindIn(n *yaml.Node) string {
	words := []*yaml.Node{n}
	if n.Kind == yaml.MappingNode {
		words = n.Content
	}
	for i, word := range words {
		isKind := func(k Kind) bool { return k.Name == word.Value }
		if known := slices.ContainsFunc(l.src.Kinds, isKind); known && (i%2 == 0 || words[i-1].Value == "kind") {
			return word.Value
		}
	}
	return "NAME"
}

// kindSuggestion says what to write for a kind that does not exist: of a program, the kinds that watch it.
func kindSuggestion(name string, kinds []Kind) string {
	var watching []string
	for _, k := range kinds {
		if lower := strings.ToLower(name); slices.Contains(k.Watches, lower) || strings.HasPrefix(k.Name, lower+"_") {
			watching = append(watching, k.Name)
		}
	}
	if len(watching) > 0 {
		return "what watches it is called " + strings.Join(watching, ", ")
	}
	var known []string
	for _, k := range kinds {
		known = append(known, k.Name)
	}
	return suggestion(name, slices.Sorted(slices.Values(known)))
}

func (l *loader) applyFlags() {
	poll := &l.cfg.Poll
	if l.src.Interval != 0 {
		poll.Interval = Duration(l.src.Interval)
		l.origins["poll.interval"] = "--poll.interval"
	}
	if l.src.Timeout != 0 {
		poll.Timeout = Duration(l.src.Timeout)
		l.origins["poll.timeout"] = "--poll.timeout"
	}
	// An interval that was given as a flag also shortens a timeout that was not.
	if poll.Timeout == 0 || (l.src.Interval != 0 && l.src.Timeout == 0 && poll.Timeout > poll.Interval) {
		poll.Timeout = Duration(min(10*time.Second, poll.Interval.Std()))
	}
}

// addFromEnvironment lays the environment over each kind's own target, which it makes where the file has none.
func (l *loader) addFromEnvironment() {
	read := map[string]string{}
	for _, kind := range l.src.Kinds {
		b, speaksOf := l.ownBlock(kind)
		origins := l.origins
		if speaksOf == "" {
			origins = map[string]string{}
		}
		lookup := func(name string) (string, bool) {
			if read[name] == "" {
				read[name] = kind.Name
			}
			return l.src.Lookup(name)
		}
		b.settings.Environ(&Env{lookup: lookup, secret: l.src.secret, faults: &l.faults, origins: origins, path: b.path})
		// Variables that other kinds read too may well be meant for those.
		own := strings.ToUpper(kind.Name) + "_"
		names := slices.DeleteFunc(slices.Sorted(maps.Values(origins)), func(name string) bool {
			return !strings.HasPrefix(name, own) || strings.HasPrefix(name, "XMPP_REST_")
		})
		if speaksOf == "" && len(names) > 0 {
			l.faults = append(l.faults, Fault{Where: names[0], Message: fmt.Sprintf(
				"is set, but none of the targets of kind %s is called %s; name the one that it speaks of so, or unset it", kind.Name, kind.Name)})
		}
	}
	l.doubtVariables(read)
}

// ownBlock finds the block that a kind's environment variables speak of: the one that bears the kind's name, or the
// only one of the kind, or a new one where there is none. Where there are several and none bears the name, they speak
// of nobody: the block is then to be thrown away, and the second result is empty.
func (l *loader) ownBlock(kind Kind) (own block, name string) {
	var others []block
	for _, b := range l.blocks {
		if t := b.settings.Common(); t.Kind == kind.Name {
			if t.Name == "" || t.Name == kind.Name {
				return b, kind.Name
			}
			others = append(others, b)
		}
	}
	if len(others) == 1 {
		return others[0], others[0].settings.Common().Name
	}
	made := block{path: "targets(" + kind.Name + ")", where: "environment", settings: kind.Defaults()}
	made.settings.Common().Kind = kind.Name
	if len(others) > 1 {
		return made, ""
	}
	l.blocks = append(l.blocks, made)
	return made, kind.Name
}

// maxBody is the largest bound on an answer.
const maxBody = 1 << 30

func (l *loader) check() {
	r := &Report{faults: &l.faults, origins: l.origins, where: "default"}
	l.checkPoll(r)
	l.checkWeb()
	l.checkAlerts()
	l.checkHosts(r)
	names, distinctions := map[string]string{}, map[string]string{}
	for _, b := range l.blocks {
		l.checkTarget(b, names, distinctions)
	}
	l.checkMaintenance()
}

// checkWeb checks the address of the exporter's pages and hands it to the alerts, which link there.
func (l *loader) checkWeb() {
	external := strings.TrimSuffix(l.cfg.Web.ExternalURL, "/")
	l.cfg.Alerts.ExternalURL = external
	if external == "" {
		return
	}
	r := &Report{faults: &l.faults, origins: l.origins, path: "web", where: "default"}
	CheckURL(r, "external_url", external, "http", "https")
	if strings.ContainsAny(external, "?# ") || strings.Contains(external, "{{") {
		r.Faultf("external_url", "is %q, must be a plain address, without spaces, query, fragment or template", external)
	}
	if strings.HasSuffix(external, "/runbooks") {
		r.Faultf("external_url", "is %q, must be the address of the status page; /runbooks is added to it", external)
	}
}

func (l *loader) checkPoll(r *Report) {
	cfg := l.cfg
	if i := cfg.Poll.Interval.Std(); i < time.Second || i%time.Second != 0 {
		r.Faultf("poll.interval", "is %s, must be a whole number of seconds, at least 1s", i)
	}
	for _, limit := range []struct {
		key string
		n   Bytes
	}{{"metrics_body", cfg.Limits.MetricsBody}, {"body", cfg.Limits.Body}} {
		if limit.n > maxBody {
			r.Faultf("limits."+limit.key, "is %d bytes, at most 1GiB makes sense", limit.n)
		}
	}
	if cfg.Poll.Timeout.Std() < time.Second {
		r.Faultf("poll.timeout", "is %s, must be at least 1s", cfg.Poll.Timeout.Std())
	}
	if cfg.Poll.Timeout > cfg.Poll.Interval {
		r.Faultf("poll.timeout", "is %s, longer than poll.interval (%s); a reading must end before the next is due", cfg.Poll.Timeout.Std(), cfg.Poll.Interval.Std())
	}
	for _, limit := range []struct {
		key string
		n   int
	}{{"series", cfg.Limits.Series}, {"families", cfg.Limits.Families}, {"label_bytes", cfg.Limits.LabelBytes}} {
		if limit.n <= 0 {
			r.Faultf("limits."+limit.key, "is %d, must be above 0", limit.n)
		}
	}
}

// checkTarget completes a target's settings and checks them. Names and distinctions are those of the targets before.
func (l *loader) checkTarget(b block, names, distinctions map[string]string) {
	cfg, t := l.cfg, b.settings.Common()
	if t.Name == "" {
		t.Name = t.Kind
	}
	r := &Report{faults: &l.faults, origins: l.origins, path: b.path, where: b.where}
	if first, again := names[t.Name]; again {
		r.Faultf("name", "%q is taken by %s; give each target a name of its own", t.Name, first)
	}
	names[t.Name] = b.where
	if !b.settings.Configured() {
		cfg.Unconfigured = append(cfg.Unconfigured, t.Name)
		return
	}
	sparing, isSparing := b.settings.(Sparing)
	if t.Schedule == "" {
		interval := cfg.Poll.Interval.Std()
		if isSparing {
			interval = max(interval, sparing.LeastInterval())
		}
		t.Schedule = "@every " + interval.String()
	}
	if t.Timeout == 0 {
		t.Timeout = cfg.Poll.Timeout
		if s, err := ParseSchedule(t.Schedule); err == nil {
			t.Timeout = min(t.Timeout, Duration(shortestGap(s)))
		}
	}
	t.check(r)
	checkSecrets(r, b.settings)
	b.settings.Check(r)
	if d, ok := b.settings.(Distinct); ok {
		checkDistinction(r, d, t.Kind, b.where, distinctions)
	}
	if isSparing && cfg.Pair == PairOther {
		cfg.LeftToFirst = append(cfg.LeftToFirst, t.Name)
		return
	}
	cfg.Targets = append(cfg.Targets, b.settings)
}

func checkDistinction(r *Report, d Distinct, kind, where string, seen map[string]string) {
	key, value := d.Distinction()
	first, again := seen[kind+"\x00"+value]
	seen[kind+"\x00"+value] = where
	switch {
	case !again:
	case key == "":
		r.Faultf("kind", "%s is a %s too, and the metrics of two could not be told apart; let a second exporter watch it", first, kind)
	default:
		r.Faultf(key, "%q is taken by %s; give each %s another, so that their metrics can be told apart", value, first, kind)
	}
}
