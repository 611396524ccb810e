package config

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"gopkg.in/yaml.v3"
)

// decoder fills structs from YAML nodes and rejects unknown keys. It continues after an error, to report all of them with
// line and key. Keys are the structs' yaml tags; a struct tagged ",inline" shares its parent's mapping. The key x_file
// names a file with the Secret x.
type decoder struct {
	file     string
	dir      string // of the file, from which relative paths lead
	secret   func(written, path string) (Secret, error)
	faults   *Faults
	origins  map[string]string
	warnings *[]pathWarning
}

func (d *decoder) where(n *yaml.Node) string { return fmt.Sprintf("%s:%d", d.file, n.Line) }

func (d *decoder) faultf(n *yaml.Node, path, format string, args ...any) {
	*d.faults = append(*d.faults, Fault{d.where(n), path, fmt.Sprintf(format, withoutCredentials(args)...)})
}

// mapping reads a mapping into the struct that v points to.
func (d *decoder) mapping(n *yaml.Node, path string, v reflect.Value) {
	n = resolved(n)
	if n.Kind != yaml.MappingNode {
		if n.Tag != "!!null" {
			d.faultf(n, path, "is %s, must be a mapping of keys to values%s", kindOf(n), mappingHint(n))
		}
		return
	}
	fields := keysOf(v)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		full := join(path, key.Value)
		if path == "" {
			fields["targets"] = reflect.ValueOf("") // readTargets reads it
		}
		if first, again := d.origins[full]; again {
			if !shownKey.MatchString(key.Value) {
				full = path
			}
			d.faultf(key, full, "is set twice, first at %s; keep one of them", first)
			continue
		}
		d.origins[full] = d.where(key)
		if field, ok := fields[key.Value]; ok {
			d.warnAboutComment(key, value, full, field)
			d.value(value, full, field)
			if secret, ok := reflect.TypeAssert[Secret](field); ok {
				d.warn(pathWarning{path: full, fault: Fault{d.where(value), full, doubtAbout(secret, "")}})
			}
			continue
		}
		if field, ok := secretFile(fields, key.Value); ok {
			d.secretFile(value, full, field)
			continue
		}
		if shownKey.MatchString(key.Value) {
			d.faultf(key, full, unknownKey+"; %s", keySuggestion(key.Value, fields))
			continue
		}
		d.faultf(key, path, hiddenKey+", not shown because it may contain a secret; most likely the space after a colon is missing: "+
			"write "+withSpace(key.Value, fields)+"; valid keys: %s", strings.Join(knownKeys(fields), ", "))
	}
}

// shownKey matches the unknown keys that a message may repeat. Any other may be a secret behind a colon without its space.
var shownKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// withSpace returns how to write a key and value without the space between them. It names the key only if that is known.
func withSpace(text string, fields map[string]reflect.Value) string {
	key, _, _ := strings.Cut(text, ":")
	if !slices.Contains(knownKeys(fields), key) {
		key = "key"
	}
	return strconv.Quote(key + ": value")
}

// keySuggestion returns what to write instead of an unknown key: a known key, one level deeper if it exists only there.
func keySuggestion(key string, fields map[string]reflect.Value) string {
	known := knownKeys(fields)
	if plain := Nearest(key, known); plain != "" {
		return suggestion(key, known)
	}
	bare := func(name string) string { return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name)) }
	if i := slices.IndexFunc(known, func(k string) bool { return editDistance(bare(k), bare(key)) <= max(2, len(k)/5) }); i >= 0 {
		return fmt.Sprintf("did you mean %q?", known[i])
	}
	var deeper []string
	for name, field := range fields {
		if field.Kind() != reflect.Struct && field.Type() != keyValuesType {
			continue
		}
		if _, ok := keysOf(field)[key]; ok {
			deeper = append(deeper, strconv.Quote(name+"."+key))
		}
	}
	if slices.Sort(deeper); len(deeper) > 0 && len(deeper) <= 3 {
		return "did you mean " + strings.Join(deeper, " or ") + "?"
	}
	return suggestion(key, known)
}

func (d *decoder) value(n *yaml.Node, path string, v reflect.Value) {
	n = resolved(n)
	if v.Type() == keyValuesType {
		d.mapping(n, path, v)
		return
	}
	if d.typed(n, path, v) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.mapping(n, path, v)
	case reflect.String:
		if s, ok := d.scalar(n, path, "a string"); ok {
			if fault := spaceAround(s); fault != "" && isAddressKey(path) {
				d.faultf(n, path, "%s", fault)
				s = strings.TrimSpace(s) // so that no other check reports the same
			}
			v.SetString(s)
		}
	case reflect.Bool:
		s, ok := d.scalar(n, path, "true or false")
		if !ok {
			return
		}
		if s != "true" && s != "false" {
			d.faultf(n, path, "is %q, must be true or false", s)
			return
		}
		v.SetBool(s == "true")
	case reflect.Int64, reflect.Int:
		if s, ok := d.scalar(n, path, "a whole number"); ok {
			parsed, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				d.faultf(n, path, "is %q, must be a whole number%s", s, numberHint(s))
				return
			}
			v.SetInt(parsed)
		}
	case reflect.Slice:
		d.sequence(n, path, v)
	case reflect.Map:
		d.stringMap(n, path, v)
	default:
		panic(fmt.Sprintf("config: no decoding into %s at %s", v.Type(), path))
	}
}

// typed decodes into the types of this package. It returns false for any other.
func (d *decoder) typed(n *yaml.Node, path string, v reflect.Value) bool {
	switch target := v.Addr().Interface().(type) {
	case *Secret:
		if s, ok := d.scalar(n, path, "a string"); ok {
			*target = NewSecret(s)
		}
	case *Duration:
		if s, ok := d.scalar(n, path, "a duration such as 30s"); ok {
			if err := target.Set(s); err != nil {
				d.faultf(n, path, "%v", err)
			}
		}
	case *Time:
		if s, ok := d.scalar(n, path, "a time such as 2026-05-01T22:00:00Z"); ok {
			parsed, err := time.Parse(time.RFC3339, s)
			if err != nil {
				d.faultf(n, path, "is %q, must be a time with its zone such as 2026-05-01T22:00:00Z or 2026-05-02T00:00:00+02:00", s)
				return true
			}
			*target = Time(parsed)
		}
	case *Bytes:
		if s, ok := d.scalar(n, path, "a size such as 16MiB"); ok {
			parsed, err := parseBytes(s)
			if err != nil {
				d.faultf(n, path, "is %q, must be a size such as 65536, 512KiB or 16MiB%s", s, numberHint(s))
				return true
			}
			*target = parsed
		}
	default:
		return false
	}
	return true
}

func (d *decoder) sequence(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.SequenceNode {
		hint := `; begin each entry with "- "`
		if n.Kind == yaml.ScalarNode && v.Type().Elem().Kind() == reflect.String {
			hint = fmt.Sprintf("; write [%s]", n.Value)
		}
		d.faultf(n, path, "is %s, must be a list%s", kindOf(n), hint)
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		full := fmt.Sprintf("%s[%d]", path, i)
		d.origins[full] = d.where(item)
		d.value(item, full, list.Index(i))
	}
	v.Set(list)
}

func (d *decoder) stringMap(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		is := kindOf(n)
		if v.Type().Elem() == secretType && n.Kind == yaml.ScalarNode {
			is = "a single value"
		}
		d.faultf(n, path, "is %s, must be a mapping of names to strings%s", is, mappingHint(n))
		return
	}
	m := reflect.MakeMap(v.Type())
	for i := 0; i+1 < len(n.Content); i += 2 {
		full := join(path, n.Content[i].Value)
		if first, again := d.origins[full]; again {
			d.faultf(n.Content[i], full, "is set twice, first at %s; keep one of them", first)
			continue
		}
		d.origins[full] = d.where(n.Content[i])
		value := reflect.New(v.Type().Elem()).Elem()
		d.warnAboutComment(n.Content[i], n.Content[i+1], full, value)
		if n.Content[i+1].Tag == "!!null" {
			continue
		}
		d.value(n.Content[i+1], full, value)
		m.SetMapIndex(reflect.ValueOf(n.Content[i].Value), value)
	}
	v.Set(m)
}

// scalar returns a scalar's text. A null leaves the default and reports nothing.
func (d *decoder) scalar(n *yaml.Node, path, want string) (string, bool) {
	n = resolved(n)
	if n.Kind != yaml.ScalarNode {
		d.faultf(n, path, "is %s, must be %s", kindOf(n), want)
		return "", false
	}
	if found := reference.FindStringSubmatch(n.Value); found != nil {
		d.faultf(n, path,
			"is ${%s}, but variables are not expanded in this file; write the value, or for a secret set KEY%s to a file's path",
			found[1], fileSuffix)
		return "", false
	}
	return n.Value, n.Tag != "!!null"
}

func (d *decoder) secretFile(n *yaml.Node, path string, v reflect.Value) {
	name, ok := d.scalar(n, path, "the path of a file")
	if !ok || name == "" {
		return
	}
	resolved, ok := d.fromFile(n, path, name)
	if !ok {
		return
	}
	secret, err := d.secret(name, resolved)
	if err != nil {
		d.faultf(n, path, "%v; name a file that the exporter's user can read", err)
		return
	}
	if base := strings.TrimSuffix(path, fileSuffix); d.origins[base] != "" {
		d.faultf(n, path, "is set beside %s at %s; keep one of them", base, d.origins[base])
		return
	}
	warning := pathWarning{path: path, fault: Fault{d.where(n), path, doubtAbout(secret, resolved)}}
	v.Set(reflect.ValueOf(secret)) // an empty one too: it is a placeholder
	if secret.IsZero() {
		warning.unset = strings.TrimSuffix(path, fileSuffix)
	}
	d.warn(warning)
}

// warn adds a warning unless its message is "".
func (d *decoder) warn(w pathWarning) {
	if w.fault.Message != "" {
		*d.warnings = append(*d.warnings, w)
	}
}

// resolvePaths makes relative paths in a struct relative to the file. Its fields with the tag path hold paths.
func (d *decoder) resolvePaths(path string, v reflect.Value) {
	for i := range v.NumField() {
		tag, field := v.Type().Field(i).Tag, v.Field(i)
		key, options, _ := strings.Cut(tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			d.resolvePaths(path, field)
		case key == "" || key == "-":
		case field.Kind() == reflect.Struct:
			d.resolvePaths(join(path, key), field)
		case tag.Get("path") != "":
			full := join(path, key)
			if resolved, ok := d.fromFile(nil, full, field.String()); ok {
				field.SetString(resolved)
			}
		}
	}
}

// fromFile returns where a path leads: from the file's directory, if it is relative. If something is there only from the working
// directory, where paths led before, it reports both and returns false. Without a node, the fault is at the key's line.
func (d *decoder) fromFile(n *yaml.Node, key, name string) (string, bool) {
	if name == "" || filepath.IsAbs(name) {
		return name, true
	}
	resolved := filepath.Join(d.dir, name)
	if exists(resolved) || !exists(name) {
		return resolved, true
	}
	where := d.origins[key]
	if n != nil {
		where = d.where(n)
	}
	*d.faults = append(*d.faults, Fault{
		where,
		key,
		fmt.Sprintf("leads to %s, because paths are relative to this file, and nothing is there; but %s exists, "+
			"where it led from the working directory in earlier versions: write that path, or move it", absolute(resolved), absolute(name)),
	})
	return "", false
}

// exists reports whether a path, or a pattern of paths, leads to something.
func exists(path string) bool {
	found, err := filepath.Glob(path)
	return err == nil && len(found) > 0
}

// absolute returns a path from the root, for messages.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// keyValues are the values of a mapping by key, if its keys are no struct's.
type keyValues map[string]reflect.Value

var (
	keyValuesType     = reflect.TypeFor[keyValues]()
	alertSettingsType = reflect.TypeFor[map[string]*AlertSettings]()
)

// keysOf returns the values of a mapping by key.
func keysOf(v reflect.Value) keyValues {
	if known, ok := reflect.TypeAssert[keyValues](v); ok {
		return known
	}
	fields := keyValues{}
	collectFields(v, fields)
	return fields
}

func collectFields(v reflect.Value, into keyValues) {
	t := v.Type()
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		switch {
		case t.Field(i).Type == alertSettingsType:
			alerts, _ := reflect.TypeAssert[map[string]*AlertSettings](v.Field(i))
			for key, settings := range alerts {
				into[key] = reflect.ValueOf(settings.mapping())
			}
		case options == "inline":
			collectFields(v.Field(i), into)
		case name != "" && name != "-":
			into[name] = v.Field(i)
		}
	}
}

var secretType = reflect.TypeFor[Secret]()

// fileSuffix ends the keys of files with secrets.
const fileSuffix = "_file"

// secretFile finds the Secret field x for the key x_file.
func secretFile(fields map[string]reflect.Value, key string) (reflect.Value, bool) {
	base, ok := strings.CutSuffix(key, fileSuffix)
	if !ok {
		return reflect.Value{}, false
	}
	field, ok := fields[base]
	return field, ok && field.Type() == secretType
}

// reference is a value that a shell or Compose would expand.
var reference = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(:?[-?+][^}]*)?\}$`)

// warnAboutComment warns about a secret that YAML cuts at a #. A # that a space follows counts as a real comment. The YAML
// parser attaches the comment of an empty value to its key.
func (d *decoder) warnAboutComment(key, value *yaml.Node, path string, v reflect.Value) {
	comment := key.LineComment + value.LineComment
	if v.Type() != secretType || len(comment) < 2 || comment[1] == ' ' || value.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return
	}
	const text = `ends before " #", where YAML starts a comment; quote the value if the rest belongs to it, else write a space after the #`
	d.warn(pathWarning{path: path, fault: Fault{d.where(key), path, text}})
}

// mappingHint returns what to do about something that must be a mapping.
func mappingHint(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "; remove its dashes or brackets"
	case n.Kind == yaml.ScalarNode && strings.Contains(n.Value, ":"):
		return "; " + spaceAfterColon
	}
	return ""
}

// spaceAfterColon is what to do about password:secret, which is one word to YAML.
const spaceAfterColon = "write a space after the colon of each key"

// quantity is a number with a unit.
var quantity = regexp.MustCompile(`^(\d+) ?([A-Za-z%]*)$`)

// numberHint returns what to write for a number with a unit.
func numberHint(text string) string {
	found := quantity.FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	power := map[string]float64{
		"%": 0, "b": 0, "k": 1, "kb": 1, "m": 2, "mb": 2, "g": 3, "gb": 3, "t": 4, "tb": 4, "kib": 1, "mib": 2, "gib": 3, "tib": 4,
	}
	n, known := power[strings.ToLower(found[2])]
	number, err := strconv.ParseInt(found[1], 10, 64)
	if !known || err != nil {
		return ""
	}
	base := 1000.
	if strings.HasSuffix(strings.ToLower(found[2]), "ib") {
		base = 1024
	}
	return fmt.Sprintf("; write %.0f", float64(number)*math.Pow(base, n))
}

// durationHint returns what to write for a duration with a missing or unknown unit. It suggests seconds for a missing unit
// only if the default is in seconds.
func durationHint(text string, standard time.Duration) string {
	found := quantity.FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	if number := found[1]; found[2] == "" && (standard <= 0 || standard >= time.Minute) {
		return fmt.Sprintf("; add a unit: %[1]ss, %[1]sm, %[1]sh or %[1]sd", number)
	}
	units := map[string]string{
		"": "s", "s": "s", "sec": "s", "second": "s", "m": "m", "min": "m", "minute": "m", "h": "h", "hr": "h", "hour": "h", "d": "d",
		"day": "d", "w": "w", "week": "w",
	}
	unit, known := units[strings.ToLower(found[2])]
	if !known {
		unit, known = units[strings.TrimSuffix(strings.ToLower(found[2]), "s")]
	}
	if !known {
		return ""
	}
	return "; write " + found[1] + unit
}

// suggestion names the known key most similar to a mistyped one, else all of them.
func suggestion(key string, known []string) string {
	if nearest := Nearest(key, known); nearest != "" {
		return fmt.Sprintf("did you mean %q?", nearest)
	}
	return "valid: " + strings.Join(known, ", ")
}

// knownKeys returns the keys of fields in alphabetical order.
func knownKeys(fields map[string]reflect.Value) []string {
	var known []string
	for name, field := range fields {
		known = append(known, name)
		if field.Type() == secretType {
			known = append(known, name+fileSuffix)
		}
	}
	slices.Sort(known)
	return known
}

// Nearest returns the known name that a mistyped one resembles, "" if there is none.
func Nearest(name string, known []string) string {
	best, distance := "", 3
	for _, k := range known {
		if d := editDistance(name, k); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// resolved follows an alias.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		return fmt.Sprintf("%q", n.Value)
	case yaml.DocumentNode, yaml.AliasNode:
	}
	return "something else"
}

// Duration is a time.Duration that YAML spells 30s; see ParseDuration.
type Duration time.Duration

// ParseDuration reads a duration as Go writes it, such as 1h30m or 0.5s, or as Prometheus does, such as 14d or 1d12h. The
// error means that it is neither, or below zero.
func ParseDuration(text string) (Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		var days model.Duration
		if days, err = model.ParseDuration(text); err != nil {
			return 0, fmt.Errorf("parse duration %q: %w", text, err)
		}
		d = time.Duration(days)
	}
	if d < 0 {
		return 0, fmt.Errorf("parse duration %q: below zero", text)
	}
	return Duration(d), nil
}

// Set works like ParseDuration, but its error says what to write. It expects d to hold the default.
func (d *Duration) Set(text string) error {
	parsed, err := ParseDuration(text)
	if err != nil {
		return fmt.Errorf("is %q, must be a duration such as 500ms, 30s, 5m or 14d%s", text, durationHint(text, d.Std()))
	}
	*d = parsed
	return nil
}

// Std returns d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// Bytes is a size that YAML spells as a number of bytes, or with KiB, MiB or GiB.
type Bytes int64

func parseBytes(s string) (Bytes, error) {
	factor := int64(1)
	for suffix, f := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if number, ok := strings.CutSuffix(s, suffix); ok {
			s, factor = strings.TrimSpace(number), f
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/factor {
		return 0, fmt.Errorf("parse size %q", s)
	}
	return Bytes(n * factor), nil
}
