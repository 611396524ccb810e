package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Warning is a likely mistake in a valid configuration.
type Warning struct {
	// Target is the name of the target with the mistake.
	Target string
	Text   string
}

// cluster matches the variables that Kubernetes and Docker links set for every service in the network.
var cluster = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_\w+)?)?)$`)

// warnAboutUnusedVariables warns about unused variables that resemble a used one. They are not errors, because the whole stack may share
// one .env.
func (l *loader) warnAboutUnusedVariables() {
	if l.src.Environ == nil {
		return
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(l.read)), func(name string) bool {
		return strings.HasPrefix(name, "DOCKER_") || !strings.Contains(name, "_") // the docker command's own
	})
	for _, assignment := range slices.Sorted(slices.Values(l.src.Environ())) {
		name, value, _ := strings.Cut(assignment, "=")
		if _, known := l.read[name]; known || value == "" || cluster.MatchString(name) {
			continue
		}
		if meant := nearestVariable(name, names); meant != "" && !l.isSet(meant) {
			fault := Fault{Message: fmt.Sprintf("no target reads the variable %s; did you mean %s?", name, meant)}
			l.warn(pathWarning{path: l.read[meant], fault: fault})
		}
	}
}

// isSet reports whether a variable, or its form with _FILE, has a value.
func (l *loader) isSet(name string) bool {
	name = strings.TrimSuffix(name, "_FILE")
	value, _ := l.src.Lookup(name)
	file, _ := l.src.Lookup(name + "_FILE")
	return value != "" || file != ""
}

// nearestVariable is the variable that a name resembles most, or "": one that it abbreviates, else one with a typo or of the
// same service.
func nearestVariable(name string, known []string) string {
	best, distance := "", 0
	name = strings.ToUpper(name)
	for _, k := range known {
		d := editDistance(name, k)
		switch {
		case shortens(name, k):
		case d <= 2 || sharesService(name, k) && abbreviates(lastWord(name), lastWord(k)):
			d += 1000 // behind all that it abbreviates
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

// shortens reports whether the words of name are prefixes of words of known, in order: IRC_PASS for IRC_RPC_PASSWORD.
func shortens(name, known string) bool {
	words, remaining := strings.Split(name, "_"), strings.Split(known, "_")
	for _, word := range words {
		i := slices.IndexFunc(remaining, func(r string) bool { return strings.HasPrefix(r, word) })
		if i < 0 || len(word) < 3 {
			return false
		}
		remaining = remaining[i+1:]
	}
	return len(words) > 1
}

// abbreviates reports whether a word has the first letter of another and more of its letters in order: PWD for PASSWORD.
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

func lastWord(name string) string { return name[strings.LastIndex(name, "_")+1:] }

// sharesService reports whether two names begin with the same two words, underscores ignored.
func sharesService(name, known string) bool {
	words := strings.SplitN(known, "_", 3)
	service := words[0] + words[1]
	return strings.HasPrefix(strings.ReplaceAll(name, "_", ""), service) && service != known
}
