package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Doubt is something about a valid configuration that its user should know.
type Doubt struct {
	// Target is the name of the target that it is about.
	Target string
	Text   string
}

// cluster matches what Kubernetes, and Docker's old links, set for every service of the same network.
var cluster = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_\w+)?)?)$`)

// doubtVariables warns about variables that nothing reads and that resemble one that a target reads. Others belong to the
// rest of the stack, which may share one .env with the exporter; so it is never more than a warning.
func (l *loader) doubtVariables(read map[string]string) {
	if l.src.Environ == nil {
		return
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(read)), func(name string) bool {
		return strings.HasPrefix(name, "DOCKER_") || !strings.Contains(name, "_") // the docker command's own
	})
	for _, assignment := range slices.Sorted(slices.Values(l.src.Environ())) {
		name, value, _ := strings.Cut(assignment, "=")
		if _, known := read[name]; known || value == "" || cluster.MatchString(name) {
			continue
		}
		if meant := nearestVariable(name, names); meant != "" && !l.isSet(meant) {
			l.doubts = append(l.doubts, pathDoubt{read[meant], fmt.Sprintf("%s is set, but no target reads it; did you mean %s?", name, meant)})
		}
	}
}

// isSet reports whether a variable or its other form, the path of a file, has a value: then nobody has mistyped it.
func (l *loader) isSet(name string) bool {
	name = strings.TrimSuffix(name, "_FILE")
	value, _ := l.src.Lookup(name)
	file, _ := l.src.Lookup(name + "_FILE")
	return value != "" || file != ""
}

// nearestVariable is the one that a name resembles most, or "": one that it shortens, else one of the same service or with
// a slip of the keys.
func nearestVariable(name string, known []string) string {
	best, distance := "", 0
	name = strings.ToUpper(name)
	for _, k := range known {
		d := editDistance(name, k)
		switch {
		case shortens(name, k):
		case d <= 2 || sharesService(name, k) && abbreviates(lastWord(name), lastWord(k)):
			d += 1000 // behind every one that it shortens
		case sharesService(name, k):
			d += 2000
		default:
			continue
		}
		if best == "" || d < distance {
			best, distance = k, d
		}
	}
	return best
}

// shortens reports whether each word of name begins a word of known, in their order: IRC_PASS for IRC_RPC_PASSWORD.
func shortens(name, known string) bool {
	words, rest := strings.Split(name, "_"), strings.Split(known, "_")
	for _, word := range words {
		i := slices.IndexFunc(rest, func(r string) bool { return strings.HasPrefix(r, word) })
		if i < 0 || len(word) < 3 {
			return false
		}
		rest = rest[i+1:]
	}
	return len(words) > 1
}

// abbreviates reports whether a word has letters of another, from its first on and in their order: PWD for PASSWORD.
func abbreviates(word, whole string) bool {
	if word == "" || !strings.HasPrefix(whole, word[:1]) {
		return false
	}
	for _, letter := range word {
		_, after, found := strings.Cut(whole, string(letter))
		if !found {
			return false
		}
		whole = after
	}
	return true
}

// lastWord is what stands behind the last underscore of a name.
func lastWord(name string) string { return name[strings.LastIndex(name, "_")+1:] }

// sharesService reports whether two names begin with the same two words, as if written without underscores.
func sharesService(name, known string) bool {
	words := strings.SplitN(known, "_", 3)
	service := words[0] + words[1]
	return strings.HasPrefix(strings.ReplaceAll(name, "_", ""), service) && service != known
}
