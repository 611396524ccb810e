package deploy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shellCommands are the words of each simple command in a script, also of those in substitutions, without redirections
// and assignments. What a variable or a substitution stands for is not known: it counts as one letter.
func shellCommands(script string) [][]string {
	l := &shellLexer{rest: script}
	l.list(0)
	return l.commands
}

type shellLexer struct {
	rest     string
	words    []string
	word     strings.Builder
	inWord   bool
	discard  bool // the next word is the target of a redirection
	commands [][]string
}

// list reads commands up to the byte that ends them, 0 for the end of the script.
func (l *shellLexer) list(end byte) {
	for l.rest != "" {
		c := l.rest[0]
		l.rest = l.rest[1:]
		switch {
		case c == end:
			l.endCommand()
			return
		case c == '\\' && l.rest != "":
			if l.rest[0] != '\n' {
				l.add(l.rest[:1])
			}
			l.rest = l.rest[1:]
		case c == '\'':
			text, after, _ := strings.Cut(l.rest, "'")
			l.add(text)
			l.rest = after
		case c == '"':
			l.quoted()
		case c == '$':
			l.expansion()
		case c == '#' && !l.inWord:
			_, l.rest, _ = strings.Cut(l.rest, "\n")
			l.endCommand()
		case c == ' ' || c == '\t':
			l.endWord()
		case c == '>' || c == '<':
			if word := l.word.String(); word == "1" || word == "2" {
				l.word.Reset()
				l.inWord = false
			}
			l.endWord()
			l.rest = strings.TrimLeft(strings.TrimLeft(l.rest, ">&"), " ")
			l.discard = true
		case strings.IndexByte("\n;&|()", c) >= 0:
			l.endCommand()
		default:
			l.add(string(c))
		}
	}
	l.endCommand()
}

// quoted reads what stands between double quotes.
func (l *shellLexer) quoted() {
	l.add("")
	for l.rest != "" {
		c := l.rest[0]
		l.rest = l.rest[1:]
		switch c {
		case '"':
			return
		case '\\':
			l.add(l.rest[:1])
			l.rest = l.rest[1:]
		case '$':
			l.expansion()
		default:
			l.add(string(c))
		}
	}
}

// expansion reads what follows a dollar sign.
func (l *shellLexer) expansion() {
	switch {
	case strings.HasPrefix(l.rest, "("):
		inner := &shellLexer{rest: l.rest[1:]}
		inner.list(')')
		l.commands, l.rest = append(l.commands, inner.commands...), inner.rest
	case strings.HasPrefix(l.rest, "{"):
		_, l.rest, _ = strings.Cut(l.rest, "}")
	default:
		l.rest = strings.TrimLeft(l.rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz0123456789@")
	}
	l.add("x")
}

func (l *shellLexer) add(text string) {
	l.word.WriteString(text)
	l.inWord = true
}

func (l *shellLexer) endWord() {
	if l.inWord && !l.discard {
		name, _, assigned := strings.Cut(l.word.String(), "=")
		if !assigned || len(l.words) > 0 || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
			l.words = append(l.words, l.word.String())
		}
	}
	if l.inWord {
		l.discard = false
	}
	l.word.Reset()
	l.inWord = false
}

func (l *shellLexer) endCommand() {
	l.endWord()
	if len(l.words) > 0 {
		l.commands = append(l.commands, l.words)
	}
	l.words, l.discard = nil, false
}

func TestShellCommandsAreReadAsTheShellReadsThem(t *testing.T) {
	for script, want := range map[string][][]string{
		"a -b 'c d' # e\nf":                           {{"a", "-b", "c d"}, {"f"}},
		"a 2>&1 | b --x=\"y z\" >out && c </dev/null": {{"a"}, {"b", "--x=y z"}, {"c"}},
		"A=b c \\\n  -d":                              {{"c", "-d"}},
		"A=$(b -c d)":                                 {{"b", "-c", "d"}},
		"(cd a && b \"${E:-f}\" \"$G\") 2>/dev/null":  {{"cd", "a"}, {"b", "x", "x"}},
		"a {} + ; b":                                  {{"a", "{}", "+"}, {"b"}},
		"a \"x\\\"y\"; b '{\"c\": \"d\"}'":            {{"a", "x\"y"}, {"b", "{\"c\": \"d\"}"}},
	} {
		if diff := cmp.Diff(want, shellCommands(script)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", script, diff)
		}
	}
}
