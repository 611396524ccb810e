package config

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Fault is one error in the configuration.
type Fault struct {
	// Where is "file:line" or the name of an environment variable.
	Where string
	// Key is the path of the key, such as targets[2].url; empty for the whole file.
	Key string
	// Message says what is wrong and what to do.
	Message string
}

func (f Fault) String() string {
	parts := slices.DeleteFunc([]string{f.Where, f.Key, f.Message}, func(part string) bool { return part == "" })
	return strings.Join(parts, ": ")
}

// line is the line in the file; faults in variables and flags sort behind all lines.
func (f Fault) line() int {
	_, after, _ := strings.Cut(f.Where, ":")
	if n, err := strconv.Atoi(after); err == nil {
		return n
	}
	return math.MaxInt32
}

// Compare orders faults by their line in the file; those in variables and flags are last.
func (f Fault) Compare(other Fault) int { return cmp.Compare(f.line(), other.line()) }

// Faults are all errors in a configuration: those in the file by line, then those in the environment and the flags. As an
// error it is never empty.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// Prefixes of messages about unknown keys. A key that resembles no known one is hidden: it may be a secret.
const (
	unknownKey = "unknown key"
	hiddenKey  = "has an unknown key"
)

// Places lists where the faults are, one line each. It omits values, unknown keys and label names, because any of them can
// be a misplaced secret.
func (f Faults) Places() string {
	var unknown []string
	for _, fault := range f {
		if strings.HasPrefix(fault.Message, unknownKey) {
			unknown = append(unknown, fault.Key)
		}
	}
	lines := make([]string, len(f))
	for i, fault := range f {
		place := Fault{Where: fault.Where, Key: fault.Key}
		if strings.HasPrefix(fault.Message, hiddenKey) || strings.HasPrefix(fault.Message, unknownKey) {
			place.Message = unknownKey
		}
		if before, _, ok := strings.Cut(place.Key, ".labels."); ok {
			place.Key = before + ".labels"
		}
		for _, key := range unknown {
			if place.Key == key || strings.HasPrefix(place.Key, key+".") {
				place.Key = key[:max(0, strings.LastIndexByte(key, '.'))]
				break
			}
		}
		lines[i] = place.String()
	}
	return strings.Join(lines, "\n")
}

// Report collects the faults of one block of the configuration.
type Report struct {
	loader *loader
	path   string // of the block, such as targets[2]
	where  string // of the block itself, for keys that are not set
	row    Row    // of the block's kind; zero for what is no target
}

// Faultf reports an error in a key of the block. An empty key means the block.
func (r *Report) Faultf(key, format string, args ...any) {
	full := join(r.path, key)
	r.loader.faultf(cmp.Or(r.loader.origins[full], r.where), full, format, args...)
}

// warnf warns about a likely mistake in a key of the block. An empty key means the block.
func (r *Report) warnf(key, format string, args ...any) {
	full := join(r.path, key)
	message := fmt.Sprintf(format, withoutCredentials(args)...)
	r.loader.warn(pathWarning{path: full, fault: Fault{cmp.Or(r.loader.origins[full], r.where), full, message}})
}

// AtLeast reports a duration that is shorter. why, unless "", says where the limit comes from.
func (r *Report) AtLeast(key string, is, least Duration, why string) {
	if why != "" {
		why = ": " + why
	}
	if is < least {
		r.Faultf(key, "is %s, must be at least %s%s", is.Std(), least.Std(), why)
	}
}

// runs reports whether the configuration is in use: a file that each probe reads is the probe's affair.
func (r *Report) runs() bool { return r.loader.src.former != nil }

// Unique reports an error if another target of the kind has the same value, since their metrics or messages would mix. key sets the
// value; without one, an exporter may have only one target of the kind.
func (r *Report) Unique(key, value string) {
	mark := r.row.Name + "\x00" + value
	first, again := r.loader.taken[mark]
	r.loader.taken[mark] = r.where
	switch {
	case !again:
	case key == "":
		r.Faultf("kind", "%s already has kind %s, which allows one target per exporter; let another exporter watch the second",
			first, r.row.Name)
	default:
		r.Faultf(key, "is %q, already used by %s; give each %s target its own", value, first, r.row.Name)
	}
}

// In returns a report on the mapping under a key of the block.
func (r *Report) In(key string) *Report {
	inner := *r
	inner.path = join(r.path, key)
	inner.where = cmp.Or(r.loader.origins[inner.path], r.where)
	return &inner
}

// HasFault reports whether a fault in one of these keys of the block is already known, so that its value may not be the one of the file.
func (r *Report) HasFault(keys ...string) bool {
	return slices.ContainsFunc(r.loader.faults, func(f Fault) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return f.Key == join(r.path, key) })
	})
}

// folded is a secret that YAML has added to the value of the line above.
var folded = regexp.MustCompile(`(?is)\b(\w*(?:password|token|secret)\w*\s*[:=])\s*\S.*?("?)$`)

// withoutCredentials masks what precedes the last @ of a value, which in an address is a name and a password, and what follows
// the name of a secret.
func withoutCredentials(args []any) []any {
	shown := slices.Clone(args)
	for i, arg := range shown {
		if text, ok := arg.(string); ok {
			text = folded.ReplaceAllString(text, "${1}"+mask+"${2}")
			shown[i] = text
			if at := strings.LastIndexByte(text, '@'); at > 0 {
				shown[i] = mask + text[at:]
			}
		}
	}
	return shown
}

func join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}
