package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
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

// This file fills structs from YAML nodes and rejects unknown keys. It continues after an error, to report all of them with
// line and key. Keys are the structs' yaml tags; a struct tagged ",inline" shares its parent's mapping. The key x_file
// names a file with the Secret x.

func (l *loader) lineOf(n *yaml.Node) string {
	return fmt.Sprintf("%s:%d", filepath.Base(l.src.File), n.Line)
}

func (l *loader) nodeFaultf(n *yaml.Node, path, format string, args ...any) {
	l.faultf(l.lineOf(n), path, format, args...)
}

// mapping reads a mapping into the values of its keys.
func (l *loader) mapping(n *yaml.Node, path string, fields keyValues) {
	if n.Kind != yaml.MappingNode {
		l.notAMapping(n, path, fields)
		return
	}
	for pair := range slices.Chunk(n.Content, 2) {
		key, value := pair[0], pair[1]
		full, shown := join(path, key.Value), shownKey.MatchString(key.Value)
		if first, again := l.origins[full]; again {
			if !shown {
				full = path
			}
			l.nodeFaultf(key, full, setTwice, first)
			continue
		}
		l.origins[full] = l.lineOf(key)
		field, known := fields[key.Value]
		switch {
		case known:
			l.warnAboutComment(key, value, full, field)
			l.value(value, full, field)
			if secret, ok := reflect.TypeAssert[Secret](field); ok {
				if first := l.origins[full+fileSuffix]; first != "" && !isNull(value) {
					l.nodeFaultf(key, full, setBeside, full+fileSuffix, first)
				}
				l.warn(pathWarning{path: full, fault: Fault{l.lineOf(value), full, doubtAbout(secret, "")}})
			}
		case shown:
			l.nodeFaultf(key, full, unknownKey+"; %s", keySuggestion(key.Value, fields))
		default:
			l.nodeFaultf(key, path, hiddenKey+", not shown because it may contain a secret; "+
				"most likely the space after a colon is missing: write "+withSpace(key.Value, fields)+"; valid keys: %s",
				strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
	}
}

// notAMapping reports something else where a mapping must be. Beside a secret it is not shown, since it may be that.
func (l *loader) notAMapping(n *yaml.Node, path string, fields keyValues) {
	is, hint := kindOf(n), mappingHint(n)
	if n.Kind == yaml.ScalarNode && fields.haveSecret() {
		is = "a single value"
		if fields["url"].IsValid() && strings.Contains(n.Value, "://") {
			hint = `; write "url: " before an address`
		}
	}
	l.nodeFaultf(n, path, "is %s, must be a mapping of keys to values%s", is, hint)
}

const (
	setTwice  = "is set twice, first at %s; keep one of them"
	setBeside = "is set beside %s at %s; keep one of them"
)

// shownKey matches the unknown keys that a message may repeat. Any other may be a secret behind a colon without its space.
var shownKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// withSpace returns how to write a key and value without the space between them. It names the key only if that is known.
func withSpace(text string, fields keyValues) string {
	key, _, _ := strings.Cut(text, ":")
	if _, known := fields[key]; !known {
		key = "key"
	}
	return strconv.Quote(key + ": value")
}

// keySuggestion returns what to write instead of an unknown key: a known key, one level deeper if it exists only there.
func keySuggestion(key string, fields keyValues) string {
	known := slices.Sorted(maps.Keys(fields))
	if Nearest(key, known) != "" {
		return suggestion(key, known)
	}
	bare := func(name string) string { return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name)) }
	if i := slices.IndexFunc(known, func(k string) bool { return editDistance(bare(k), bare(key)) <= max(2, len(k)/5) }); i >= 0 {
		return fmt.Sprintf("did you mean %q?", known[i])
	}
	var deeper []string
	for _, name := range known {
		if _, ok := keysOf(fields[name])[key]; ok {
			deeper = append(deeper, strconv.Quote(name+"."+key))
		}
	}
	if len(deeper) > 0 && len(deeper) <= 3 {
		return "did you mean " + strings.Join(deeper, " or ") + "?"
	}
	return suggestion(key, known)
}

// value reads a node into a value of any type that a key has. A null leaves the default.
func (l *loader) value(n *yaml.Node, path string, v reflect.Value) {
	n = resolved(n)
	if isNull(n) {
		return
	}
	switch target := v.Addr().Interface().(type) {
	case *keyValues:
		l.mapping(n, path, *target)
	case *[]block:
		l.readTargets(n)
	case *secretFile:
		l.secretFile(n, path, target.secret)
	case *Secret:
		l.scalar(n, path, "a string", func(text string) error { *target = NewSecret(text); return nil })
	case *Duration:
		l.scalar(n, path, "a duration such as 30s", target.Set)
	case *time.Time:
		l.scalar(n, path, "a time such as 2026-05-01T22:00:00Z", func(text string) (err error) {
			if *target, err = time.Parse(time.RFC3339, text); err != nil {
				return errors.New("must be a time with its zone such as 2026-05-01T22:00:00Z or 2026-05-02T00:00:00+02:00")
			}
			return nil
		})
	case *Bytes:
		l.scalar(n, path, "a size such as 16MiB", target.Set)
	case *Hours:
		l.scalar(n, path, "hours such as 07:30-22:30", target.Set)
	default:
		l.valueOfKind(n, path, v)
	}
}

// valueOfKind reads a node into a value of a type that only Go knows.
func (l *loader) valueOfKind(n *yaml.Node, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		l.mapping(n, path, keysOf(v))
	case reflect.String:
		l.scalar(n, path, "a string", func(text string) error { v.SetString(text); return nil })
	case reflect.Bool:
		l.scalar(n, path, "true or false", func(text string) error {
			if text != "true" && text != "false" {
				return errors.New("must be true or false")
			}
			v.SetBool(text == "true")
			return nil
		})
	case reflect.Int64, reflect.Int:
		l.scalar(n, path, "a whole number", func(text string) error {
			number, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return errors.New("must be a whole number" + numberHint(text))
			}
			v.SetInt(number)
			return nil
		})
	case reflect.Slice:
		l.sequence(n, path, v)
	case reflect.Map:
		l.stringMap(n, path, v)
	default:
		panic(fmt.Sprintf("config: no decoding into %s at %s", v.Type(), path))
	}
}

func (l *loader) sequence(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		is, hint := kindOf(n), `; begin each entry with "- "`
		switch {
		case n.Kind != yaml.ScalarNode:
		case v.Type().Elem().Kind() == reflect.String:
			hint = fmt.Sprintf("; write [%s]", n.Value)
		case keysOf(reflect.New(v.Type().Elem()).Elem()).haveSecret():
			is, hint = "a single value", `; write "- url: " before an address`
		}
		l.nodeFaultf(n, path, "is %s, must be a list%s", is, hint)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		full := fmt.Sprintf("%s[%d]", path, i)
		l.origins[full] = l.lineOf(item)
		if entry, ok := reflect.TypeAssert[interface{ setDefaults() }](v.Index(i).Addr()); ok {
			entry.setDefaults()
		}
		l.value(item, full, v.Index(i))
	}
}

func (l *loader) stringMap(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		is := kindOf(n)
		if v.Type().Elem() == secretType && n.Kind == yaml.ScalarNode {
			is = "a single value"
		}
		l.nodeFaultf(n, path, "is %s, must be a mapping of names to strings%s", is, mappingHint(n))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for pair := range slices.Chunk(n.Content, 2) {
		key, item := pair[0], pair[1]
		full := join(path, key.Value)
		if first, again := l.origins[full]; again {
			l.nodeFaultf(key, full, setTwice, first)
			continue
		}
		l.origins[full] = l.lineOf(key)
		value := reflect.New(v.Type().Elem()).Elem()
		l.warnAboutComment(key, item, full, value)
		if isNull(item) {
			continue
		}
		l.value(item, full, value)
		v.SetMapIndex(reflect.ValueOf(key.Value), value)
	}
}

// scalar passes the text of a scalar to a function that sets the value, whose error says what the text must be.
func (l *loader) scalar(n *yaml.Node, path, want string, set func(text string) error) {
	if n.Kind != yaml.ScalarNode {
		l.nodeFaultf(n, path, "is %s, must be %s", kindOf(n), want)
		return
	}
	text := n.Value
	if found := reference.FindStringSubmatch(text); found != nil {
		l.nodeFaultf(n, path,
			"is ${%s}, but variables are not expanded in this file; write the value, or for a secret set KEY%s to a file's path",
			found[1], fileSuffix)
		return
	}
	if fault := spaceAround(text); fault != "" && isAddressKey(path) {
		l.nodeFaultf(n, path, "%s", fault)
		text = strings.TrimSpace(text) // so that no other check reports the same
	}
	if err := set(text); err != nil {
		l.nodeFaultf(n, path, "is %q, %v", text, err)
	}
}

func (l *loader) secretFile(n *yaml.Node, path string, into *Secret) {
	name := ""
	l.scalar(n, path, "the path of a file", func(text string) error { name = text; return nil })
	resolved, ok := l.fromFile(l.lineOf(n), path, name)
	if name == "" || !ok {
		return
	}
	secret, err := l.secret(name, resolved)
	if err != nil {
		l.nodeFaultf(n, path, "%v; name a file that the exporter's user can read", err)
		return
	}
	base := strings.TrimSuffix(path, fileSuffix)
	if first := l.origins[base]; first != "" {
		l.nodeFaultf(n, path, setBeside, base, first)
		return
	}
	*into = secret // an empty one too: it is a placeholder
	l.warn(pathWarning{base, Fault{l.lineOf(n), path, doubtAbout(secret, resolved)}, secret.IsZero()})
}

// resolvePaths makes relative paths in a struct relative to the file. Its fields with the tag path hold paths.
func (l *loader) resolvePaths(path string, v reflect.Value) {
	for _, field := range leaves(v, path) {
		if field.tag.Get("path") == "" {
			continue
		}
		if resolved, ok := l.fromFile(l.origins[field.path], field.path, field.String()); ok {
			field.SetString(resolved)
		}
	}
}

// fromFile returns where a path leads: from the file's directory, if it is relative. If something is there only from the working
// directory, where paths led before, it reports both and returns false.
func (l *loader) fromFile(where, key, name string) (string, bool) {
	if name == "" || filepath.IsAbs(name) {
		return name, true
	}
	resolved := filepath.Join(filepath.Dir(l.src.File), name)
	if exists(resolved) || !exists(name) {
		return resolved, true
	}
	l.faults = append(l.faults, Fault{
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

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// keyValues are the values of a mapping by key.
type keyValues map[string]reflect.Value

// haveSecret reports whether one of the values is a secret.
func (k keyValues) haveSecret() bool {
	for _, v := range k {
		if v.Type() == secretType {
			return true
		}
	}
	return false
}

// secretFile is the value of the key x_file beside the Secret x.
type secretFile struct{ secret *Secret }

// fileSuffix ends the keys of files with secrets.
const fileSuffix = "_file"

// keysOf returns what the keys of a mapping are read into. A value that is no mapping has none.
func keysOf(v reflect.Value) keyValues {
	keys := keyValues{}
	switch target := v.Addr().Interface().(type) {
	case *keyValues:
		return *target
	case *Alerts:
		for key, settings := range target.Settings {
			keys[key] = settings.mapping()
		}
	}
	for _, f := range fieldsOf(v) {
		keys[f.path] = f.Value
		if secret, ok := reflect.TypeAssert[*Secret](f.Addr()); ok {
			keys[f.path+fileSuffix] = reflect.ValueOf(&secretFile{secret}).Elem()
		}
	}
	return keys
}

// field is a value of a struct that has a key.
type field struct {
	path string
	tag  reflect.StructTag
	reflect.Value
}

// fieldsOf returns the fields of a struct, none for another value. An inline struct shares its parent's mapping.
func fieldsOf(v reflect.Value) (fields []field) {
	if v.Kind() != reflect.Struct {
		return nil
	}
	for f, value := range v.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if options == "inline" {
			fields = append(fields, fieldsOf(reflect.Indirect(value))...)
		} else if key != "" && key != "-" {
			fields = append(fields, field{key, f.Tag, value})
		}
	}
	return fields
}

// leaves returns the fields of a struct, and those of the structs in it in their place.
func leaves(v reflect.Value, path string) (fields []field) {
	for _, f := range fieldsOf(v) {
		f.path = join(path, f.path)
		if f.Kind() == reflect.Struct && f.Type() != secretType {
			fields = append(fields, leaves(f.Value, f.path)...)
		} else {
			fields = append(fields, f)
		}
	}
	return fields
}

var secretType = reflect.TypeFor[Secret]()

// reference is a value that a shell or Compose would expand.
var reference = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(:?[-?+][^}]*)?\}$`)

// warnAboutComment warns about a secret that YAML cuts at a #. A # that a space follows counts as a real comment. The YAML
// parser attaches the comment of an empty value to its key.
func (l *loader) warnAboutComment(key, value *yaml.Node, path string, v reflect.Value) {
	comment := key.LineComment + value.LineComment
	if v.Type() != secretType || len(comment) < 2 || comment[1] == ' ' || value.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return
	}
	const text = `ends before " #", where YAML starts a comment; quote the value if the rest belongs to it, else write a space after the #`
	l.warn(pathWarning{path: path, fault: Fault{l.lineOf(key), path, text}})
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
	written := strings.ToLower(found[2])
	unit := cmp.Or(units[written], units[strings.TrimSuffix(written, "s")])
	if unit == "" {
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

// isNull reports whether a value is left out, so that the default remains.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

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

const second = Duration(time.Second)

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
		return errors.New("must be a duration such as 500ms, 30s, 5m or 14d" + durationHint(text, d.Std()))
	}
	*d = parsed
	return nil
}

// Std returns d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// Bytes is a size that YAML spells as a number of bytes, or with KiB, MiB or GiB.
type Bytes int64

// Set reads a size. Its error says what to write.
func (b *Bytes) Set(text string) error {
	number, factor := text, int64(1)
	for suffix, f := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if before, ok := strings.CutSuffix(text, suffix); ok {
			number, factor = strings.TrimSpace(before), f
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/factor {
		return errors.New("must be a size such as 65536, 512KiB or 16MiB" + numberHint(text))
	}
	*b = Bytes(n * factor)
	return nil
}
