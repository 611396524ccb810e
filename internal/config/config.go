// Package config reads exporter.yaml and the environment into validated values. It reports all errors at once.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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
	// Environment and Cluster name what is watched in messages; "" for nothing.
	Environment string `yaml:"environment"`
	Cluster     string `yaml:"cluster"`
	// StateFile is the path of what must survive a restart; "" keeps that in memory.
	StateFile string `yaml:"state_file" path:"file"`
	Poll      Poll   `yaml:"poll"`
	Limits    Limits `yaml:"limits"`
	// Pair is the exporter's role in a pair: PairFirst, PairOther, or "" if it is alone.
	Pair string `yaml:"pair"`
	// Peers are the exporters that GET /api/v1/discovery lists.
	Peers       []Peers       `yaml:"peers"`
	Web         Web           `yaml:"web"`
	Public      Public        `yaml:"public"`
	Alerts      Alerts        `yaml:"alerts"`
	Maintenance []Maintenance `yaml:"maintenance"`
	// Notify are the receivers of the exporter's own messages: those of the file, then that of the environment.
	Notify    []Notify  `yaml:"notify"`
	Heartbeat Heartbeat `yaml:"heartbeat"`
	// Targets are in the order of the file, then of the table of kinds.
	Targets []Settings `yaml:"-"`
	// Secrets finds the secrets of all Targets.
	Secrets *SecretFinder `yaml:"-"`
	// Unconfigured are the names of the targets without an address. They are not polled, but reported.
	Unconfigured []string `yaml:"-"`
	// LeftToFirst are the configured targets that this exporter leaves to the first of the pair.
	LeftToFirst LeftTargets `yaml:"-"`
	// Warnings are likely mistakes that leave the configuration valid.
	Warnings []Warning `yaml:"-"`

	// Overridden are the values of the file that variables replace by others.
	Overridden []Override `yaml:"-"`

	// source is where the configuration comes from, with the content of its file, secretFiles the secrets by the paths of their files.
	source      Source
	secretFiles map[string]Secret
}

// Override is a key of the file whose value a variable replaces. Where is the key's "file:line".
type Override struct{ Variable, Key, Where string }

// Web says how people reach the exporter's pages.
type Web struct {
	// ExternalURL is the address of the status page as people reach it; "" if they cannot.
	ExternalURL string `yaml:"external_url"`
	// Title is the name of what is watched on the pages: "chat stack" by default.
	Title string `yaml:"title"`
}

// Poll is when the exporter probes targets that do not set it themselves.
type Poll struct {
	// Interval is the time between two probes of a target: 30 s by default, at least 1 s.
	Interval Duration `yaml:"interval"`
	// Timeout is the deadline of one probe, at least 1 s: 10 s by default, or the interval if that is shorter.
	Timeout Duration `yaml:"timeout"`
}

// Limits bound how much the exporter reads of an answer.
type Limits struct {
	// MetricsBody bounds a target's metrics, and an answer or one event of a Docker Engine, after decompression: 16 MiB by
	// default. An engine's list of containers may have twice as much.
	MetricsBody Bytes `yaml:"metrics_body"`
	// Body bounds every other answer after decompression: 1 MiB by default.
	Body Bytes `yaml:"body"`
	// Series, Families and LabelBytes bound a target's metrics: 200,000 series, 20,000 families, 4,096 bytes for one series'
	// labels. What exceeds them is dropped and counted.
	Series     int `yaml:"series"`
	Families   int `yaml:"families"`
	LabelBytes int `yaml:"label_bytes"`
}

// Settings is the block of one target in exporter.yaml: a pointer to a struct that embeds Target and has a yaml tag
// on every key of its kind.
type Settings interface {
	// Common returns the part that every kind has.
	Common() *Target
	// Environ overrides the file's values with the stack's environment variables.
	Environ(*Env)
	// Configured reports whether the target can be probed, mostly whether it has an address.
	Configured() bool
	// Check reports what is wrong with a configured target.
	Check(*Report)
	// Warnings are sentences about likely mistakes in a valid target, and what to do.
	Warnings() []string
	// HostName is the host of the URL or address, "" if the exporter does not resolve it itself.
	HostName() string
	// Place is the URL, address or path that the target is about. One of the same kind and place is the same target, whatever its name.
	Place() string
}

// LeftTargets are targets that an exporter does not poll.
type LeftTargets []Target

// Names returns the targets' names.
func (l LeftTargets) Names() (names []string) {
	for i := range l {
		names = append(names, l[i].Name)
	}
	return names
}

// Source is where a configuration comes from.
type Source struct {
	// File is the path of exporter.yaml; "" reads the environment alone.
	File string
	// Content, unless nil, replaces the content of File.
	Content []byte
	// Lookup works like os.LookupEnv.
	Lookup func(string) (string, bool)
	// Environ works like os.Environ. Unless nil, it is searched for mistyped variables.
	Environ func() []string
	Kinds   []Kind
	Alerts  []AlertKind
	// CheckURL returns what is wrong with the URL of a receiver of messages, or with what belongs to it; nil only requires a scheme. Load
	// masks the URL in its error.
	CheckURL func(receiver *Notify) error
	// HostOf returns the host to which messages for the URL of a receiver go, "" if that is unknown; nil knows none.
	HostOf func(url string) string
	// Interval and Timeout, unless zero, override the file's poll keys.
	Interval, Timeout time.Duration
	// WithoutSecrets skips the files of secrets, for users who may not read them.
	WithoutSecrets bool

	// former are the secrets of files that are used if a file has none.
	former map[string]Secret
}

// Load reads and validates a configuration. Flags override environment variables, which override the file. A Faults error
// lists everything that is wrong, and comes with what could be read, so that more can be checked; any other error means that the file
// could not be read.
func Load(src Source) (*Config, error) {
	cfg := &Config{
		Poll:      Poll{Interval: Duration(30 * time.Second)},
		Web:       Web{Title: "chat stack"},
		Heartbeat: Heartbeat{Every: Duration(time.Minute), Method: HeartbeatGet},
		Public:    Public{TrustedProxies: []string{"127.0.0.1", "::1"}},
		Limits: Limits{
			MetricsBody: 16 << 20,
			Body:        1 << 20,
			Series:      200_000,
			Families:    20_000,
			LabelBytes:  4096,
		},
		Alerts: NewAlerts(src.Alerts),

		source:      src,
		secretFiles: map[string]Secret{},
	}
	cfg.Alerts.RunbookURL = "" // the default depends on the build
	l := newLoader(src, cfg)
	if src.File != "" {
		if err := l.readFile(); err != nil {
			return nil, err
		}
	}
	l.applyFlags()
	l.addFromEnvironment()
	l.check()
	l.explainUnsetSecrets()
	if len(l.faults) > 0 {
		slices.SortStableFunc(l.faults, Fault.Compare)
		return cfg, l.faults
	}
	cfg.Secrets = findSecrets(cfg.Targets)
	for _, w := range l.warnings {
		if b := l.blockAt(w.path); b == nil {
			cfg.Warnings = append(cfg.Warnings, Warning{topKey(w.path), w.fault.String()})
		} else if b.settings.Configured() || b.settings.Common().Kind == w.path {
			cfg.Warnings = append(cfg.Warnings, Warning{b.settings.Common().Name, w.fault.String()})
		}
	}
	return cfg, nil
}

type loader struct {
	src      Source
	cfg      *Config
	faults   Faults
	warnings []pathWarning
	// origins are where the keys are set that are, by their paths.
	origins map[string]string
	// blocks are the targets with the path of their block, configured or not.
	blocks []block
	// read are the variables that have been read, and the first kind that did.
	read map[string]string
	// taken is what Report.Unique was called with, by any target, and where.
	taken map[string]string
}

func newLoader(src Source, cfg *Config) *loader {
	return &loader{
		src:     src,
		cfg:     cfg,
		origins: map[string]string{},
		read:    map[string]string{},
		taken:   map[string]string{},
	}
}

// pathWarning is a warning about the key at a path, or about a kind.
type pathWarning struct {
	path  string
	fault Fault
	// unset says that the key is a secret that an empty file leaves unset.
	unset bool
}

// warn adds a warning unless its message is "".
func (l *loader) warn(w pathWarning) {
	if w.fault.Message != "" {
		l.warnings = append(l.warnings, w)
	}
}

// topKey is the first key of a path, such as notify of notify[0].url.
func topKey(path string) string {
	if end := strings.IndexAny(path, ".["); end >= 0 {
		return path[:end]
	}
	return path
}

// faultf adds a fault. Credentials in its arguments are masked.
func (l *loader) faultf(where, key, format string, args ...any) {
	l.faults = append(l.faults, Fault{where, key, fmt.Sprintf(format, withoutCredentials(args)...)})
}

// explainUnsetSecrets replaces faults about secrets that are not set because their file is empty.
func (l *loader) explainUnsetSecrets() {
	for i, fault := range l.faults {
		if n := slices.IndexFunc(l.warnings, func(w pathWarning) bool { return w.unset && w.path == fault.Key }); n >= 0 {
			l.faults[i] = l.warnings[n].fault
		}
	}
}

// blockAt is the block that a path is in, or the first of a kind; nil if there is none.
func (l *loader) blockAt(path string) *block {
	for i, b := range l.blocks {
		if path == b.settings.Common().Kind || strings.HasPrefix(path, b.path+".") {
			return &l.blocks[i]
		}
	}
	return nil
}

// block is a target with the path of its keys.
type block struct {
	path     string
	settings Settings
}

// fromEnvironment is where a block is that the file does not have.
const fromEnvironment = "environment"

// warnAboutNoAddress warns about a target in the file that is not configured, because none of its address keys is written. An empty one,
// as in the shipped file, is written on purpose.
func (l *loader) warnAboutNoAddress(b block) {
	keys := addressKeys(b.settings)
	written := func(key string) bool { return l.origins[join(b.path, key)] != "" }
	where := l.origins[b.path]
	if where == fromEnvironment || slices.ContainsFunc(keys, written) {
		return
	}
	warning := Fault{where, b.path, "is not configured, so it is not probed; set " + strings.Join(keys, " or ") + ", or remove the entry"}
	l.cfg.Warnings = append(l.cfg.Warnings, Warning{b.settings.Common().Name, warning.String()})
}

// addressKeys returns the keys of a target that is not configured, of which one is enough to configure it, in alphabetical order.
func addressKeys(settings Settings) (keys []string) {
	for _, field := range leaves(reflect.ValueOf(settings).Elem(), "") {
		if field.Kind() != reflect.String {
			continue
		}
		before := field.String()
		field.SetString("an address")
		if settings.Configured() {
			keys = append(keys, field.path)
		}
		field.SetString(before)
	}
	slices.Sort(keys)
	return keys
}

func (l *loader) readFile() error {
	content := l.src.Content
	if content == nil {
		var err error
		if content, err = os.ReadFile(l.src.File); err != nil {
			return fmt.Errorf("read configuration: %w; %s", err, fileHint(l.src.File, err))
		}
	}
	l.cfg.source.Content = content
	parser := yaml.NewDecoder(bytes.NewReader(content))
	var doc, more yaml.Node
	if err := parser.Decode(&doc); errors.Is(err, io.EOF) {
		return nil // an empty file is valid
	} else if err != nil {
		return Faults{notYAML(filepath.Base(l.src.File), err)}
	}
	if err := parser.Decode(&more); !errors.Is(err, io.EOF) {
		return Faults{{Where: l.src.File, Message: "contains more than one YAML document; keep one"}}
	}
	var file struct {
		*Config `yaml:",inline"`
		Targets []block `yaml:"targets"`
	}
	file.Config = l.cfg
	l.value(doc.Content[0], "", reflect.ValueOf(&file).Elem())
	l.resolvePaths("", reflect.ValueOf(l.cfg).Elem())
	for i := range l.cfg.Notify {
		l.resolvePaths(fmt.Sprintf("notify[%d]", i), reflect.ValueOf(&l.cfg.Notify[i]).Elem())
	}
	return nil
}

// fileHint returns what to do about a configuration file that cannot be read.
func fileHint(file string, err error) string {
	switch {
	case errors.Is(err, syscall.EISDIR):
		return "--config.file must name a file; Docker creates a directory of that name if the mounted file does not exist"
	case errors.Is(err, os.ErrPermission):
		return "allow the exporter's user to read the file of --config.file and to enter every directory above it"
	}
	var siblings []string
	entries, _ := os.ReadDir(filepath.Dir(file)) // without it, there is nothing to suggest
	for _, e := range entries {
		siblings = append(siblings, e.Name())
	}
	if name := Nearest(filepath.Base(file), siblings); name != "" {
		return fmt.Sprintf("did you mean --config.file=%s?", filepath.Join(filepath.Dir(file), name))
	}
	return "correct the path in --config.file; in a container, mount the file there"
}

// yamlLine finds the line number in an error of the YAML parser.
var yamlLine = regexp.MustCompile(`line (\d+): `)

// notYAML rewrites an error of the YAML parser without the values that it repeats: the parser takes an unquoted password
// that begins with an asterisk for the name of an anchor.
func notYAML(file string, err error) Fault {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	where := file
	if found := yamlLine.FindStringSubmatch(text); found != nil {
		where += ":" + found[1]
		text = strings.Replace(text, found[0], "", 1)
	}
	switch {
	case strings.HasPrefix(text, "unknown anchor"):
		text = "a value begins with *"
	case strings.HasPrefix(text, "could not find expected ':'"):
		text += "; " + spaceAfterColon
	}
	return Fault{where, "", "not valid YAML: " + text + "; indent with spaces, not tabs, and quote values with special characters"}
}

func (l *loader) readTargets(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		l.nodeFaultf(n, "targets", "is %s, must be a list; begin each target with %q", kindOf(n), "- kind: "+l.kindIn(n))
		return
	}
	for i, item := range n.Content {
		path := fmt.Sprintf("targets[%d]", i)
		l.origins[path] = l.lineOf(item)
		item = resolved(item)
		if settings := l.settingsFor(item, path); settings != nil {
			v := reflect.ValueOf(settings).Elem()
			l.mapping(item, path, keysOf(v))
			l.resolvePaths(path, v)
			l.blocks = append(l.blocks, block{path, settings})
		}
	}
}

// settingsFor returns the defaults of a target's kind, nil if it has none.
func (l *loader) settingsFor(item *yaml.Node, path string) Settings {
	if item.Kind != yaml.MappingNode {
		l.nodeFaultf(item, path, "is %s, must be a mapping; begin it with %q%s", kindOf(item), "kind: "+l.kindIn(item), mappingHint(item))
		return nil
	}
	for pair := range slices.Chunk(item.Content, 2) {
		if pair[0].Value == "kind" {
			return l.defaultsOf(pair[1], path+".kind")
		}
	}
	l.nodeFaultf(item, path, "has no kind; begin it with %q", "kind: "+l.kindIn(item))
	return nil
}

// defaultsOf returns the defaults of the kind that a node names, nil if there is no such kind.
func (l *loader) defaultsOf(n *yaml.Node, path string) Settings {
	kind := l.kind(n.Value)
	switch {
	case kind != nil:
		return kind.Defaults()
	case !shownKey.MatchString(n.Value): // YAML may have added the next line to it
		l.nodeFaultf(n, path, "is not a kind, and not shown because it may contain a secret; check the indentation of the next line")
	default:
		l.nodeFaultf(n, path, "is %q, which is not a kind; %s", n.Value, l.kindSuggestion(n.Value))
	}
	return nil
}

// kind returns a kind by its name, nil if there is none.
func (l *loader) kind(name string) *Kind {
	if i := slices.IndexFunc(l.src.Kinds, func(k Kind) bool { return k.Name == name }); i >= 0 {
		return &l.src.Kinds[i]
	}
	return nil
}

// kindIn finds a kind that was written as a key or alone instead of "kind: NAME"; "NAME" if there is none.
func (l *loader) kindIn(n *yaml.Node) string {
	words := []*yaml.Node{n}
	if n.Kind == yaml.MappingNode {
		words = n.Content
	}
	for i, word := range words {
		if l.kind(word.Value) != nil && (i%2 == 0 || words[i-1].Value == "kind") {
			return word.Value
		}
	}
	return "NAME"
}

// kindSuggestion returns what to write instead of an unknown kind: for a program's name, the kinds that support it.
func (l *loader) kindSuggestion(name string) string {
	var supporting, known []string
	lower := strings.ToLower(name)
	for _, k := range l.src.Kinds {
		known = append(known, k.Name)
		if slices.Contains(k.Programs, lower) || strings.HasPrefix(k.Name, lower+"_") {
			supporting = append(supporting, k.Name)
		}
	}
	if len(supporting) > 0 {
		return "use " + strings.Join(supporting, ", ")
	}
	slices.Sort(known)
	return suggestion(name, known)
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
	// --poll.interval also shortens a timeout that no flag sets.
	if poll.Timeout == 0 || (l.src.Interval != 0 && l.src.Timeout == 0 && poll.Timeout > poll.Interval) {
		poll.Timeout = Duration(min(10*time.Second, poll.Interval.Std()))
	}
}

// addFromEnvironment applies the environment to one target of each kind, and creates it if the file has none.
func (l *loader) addFromEnvironment() {
	for _, kind := range l.src.Kinds {
		b, applies := l.ownBlock(kind)
		b.settings.Environ(&Env{l, kind.Name, b.path})
		if !applies {
			l.refuseVariables(kind.Name, b.path)
		}
	}
	l.addReceiver()
	l.warnAboutUnusedVariables()
}

// refuseVariables reports a variable that sets a key of a block for no target. Variables that several kinds read may be meant for the
// others.
func (l *loader) refuseVariables(kind, path string) {
	var names []string
	for key, name := range l.origins {
		if strings.HasPrefix(key, path+".") && strings.HasPrefix(name, strings.ToUpper(kind)+"_") &&
			!strings.HasPrefix(name, "XMPP_REST_") {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		l.faultf(slices.Min(names), "",
			"is set, but no target of kind %s has the name %s; give one of them that name, or unset the variable", kind, kind)
	}
}

// ownBlock finds the block that a kind's environment variables apply to: the one with the kind's name, else the only one
// of the kind, else a new one. If there are several without that name, the variables apply to none of them: it is then a block that
// nobody reads, and applies is false.
func (l *loader) ownBlock(kind Kind) (own block, applies bool) {
	var others []block
	for _, b := range l.blocks {
		if t := b.settings.Common(); t.Kind == kind.Name {
			if t.Name == "" || t.Name == kind.Name {
				return b, true
			}
			others = append(others, b)
		}
	}
	if len(others) == 1 {
		return others[0], true
	}
	created := block{"targets(" + kind.Name + ")", kind.Defaults()}
	created.settings.Common().Kind = kind.Name
	l.origins[created.path] = fromEnvironment
	if len(others) == 0 {
		l.blocks = append(l.blocks, created)
	}
	return created, len(others) == 0
}

// maxBody is the maximum of limits.metrics_body and limits.body.
const maxBody = 1 << 30

func (l *loader) check() {
	r := &Report{loader: l, where: "default"}
	l.checkPoll(r)
	l.checkWeb(r)
	l.checkAlerts()
	l.checkHosts(r)
	names := map[string]string{}
	for _, b := range l.blocks {
		l.checkTarget(b, r.In(b.path), names)
	}
	l.cfg.Unconfigured = slices.DeleteFunc(l.cfg.Unconfigured, func(name string) bool { return names[name] != "" })
	l.checkMaintenance(r)
	l.checkPublic(r)
	l.checkNotify(r)
	l.checkHeartbeat(r.In("heartbeat"))
}

// checkWeb also passes the external URL to the alerts, which link there.
func (l *loader) checkWeb(r *Report) {
	external := strings.TrimSuffix(l.cfg.Web.ExternalURL, "/")
	l.cfg.Alerts.ExternalURL = external
	r.checkText("web.title", l.cfg.Web.Title, maxTitle)
	if external == "" {
		return
	}
	CheckURL(r, "web.external_url", external, "http", "https")
	if strings.ContainsAny(external, "?# ") || strings.Contains(external, "{{") {
		r.Faultf("web.external_url", "is %q, must be an address without spaces, query, fragment or template", external)
	}
	if strings.HasSuffix(external, "/runbooks") {
		r.Faultf("web.external_url", "is %q, must be the address of the status page, without /runbooks", external)
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
			r.Faultf("limits."+limit.key, "is %d bytes, must be at most 1GiB", limit.n)
		}
	}
	r.AtLeast("poll.timeout", cfg.Poll.Timeout, second, "")
	if cfg.Poll.Timeout > cfg.Poll.Interval {
		r.Faultf("poll.timeout", "is %s, must be at most poll.interval (%s)", cfg.Poll.Timeout.Std(), cfg.Poll.Interval.Std())
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

// checkTarget fills in a target's defaults and checks it. names are those of the previous targets.
func (l *loader) checkTarget(b block, r *Report, names map[string]string) {
	cfg, t := l.cfg, b.settings.Common()
	r.row = l.kind(t.Kind).Row
	if t.Name == "" {
		t.Name = t.Kind
	}
	if !b.settings.Configured() {
		cfg.Unconfigured = append(cfg.Unconfigured, t.Name)
		l.warnAboutNoAddress(b)
		return
	}
	if first, again := names[t.Name]; again {
		r.Faultf("name", "is %q, already used by %s; give each target its own name", t.Name, first)
	}
	names[t.Name] = r.where
	t.check(r, cfg.Poll)
	checkSecrets(r, b.settings)
	b.settings.Check(r)
	t.checkAddresses(r, b.settings.HostName())
	if r.row.Alone {
		r.Unique("", "")
	}
	if r.row.OnlyFirst && cfg.Pair == PairOther {
		cfg.LeftToFirst = append(cfg.LeftToFirst, *t)
		return
	}
	cfg.Targets = append(cfg.Targets, b.settings)
}
