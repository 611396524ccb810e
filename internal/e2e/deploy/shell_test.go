package deploy

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// shellCommands are the words of each simple command in a script, also of those in substitutions, without redirections
// and assignments. What a variable or a substitution stands for is not known: it counts as one letter.
func shellCommands(t *testing.T, script string) (commands [][]string) {
	t.Helper()
	file, err := syntax.NewParser().Parse(strings.NewReader(script), "")
	if err != nil {
		t.Fatalf("%v:\n%s", err, script)
	}
	unknown := &expand.Config{
		Env:      expand.FuncEnviron(func(string) string { return "x" }),
		CmdSubst: func(w io.Writer, _ *syntax.CmdSubst) error { _, err := io.WriteString(w, "x"); return err },
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		var words []string
		for _, arg := range call.Args {
			word, err := expand.Literal(unknown, arg)
			if err != nil {
				t.Fatalf("%v:\n%s", err, script)
			}
			words = append(words, word)
		}
		commands = append(commands, words)
		return true
	})
	return commands
}

func TestShellCommandsAreReadAsTheShellReadsThem(t *testing.T) {
	for script, want := range map[string][][]string{
		"a -b 'c d' # e\nf": {{"a", "-b", "c d"}, {"f"}},
		"A=$(b -c d)":       {{"b", "-c", "d"}},
		"(cd a && b \"${E:-f}\" \"$G\") 2>/dev/null": {{"cd", "a"}, {"b", "x", "x"}},
		"a {} + ; A=b c \"x\\\"y\" $(d)":             {{"a", "{}", "+"}, {"c", "x\"y", "x"}, {"d"}},
	} {
		if diff := cmp.Diff(want, shellCommands(t, script)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", script, diff)
		}
	}
}
