package deploy

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// builtins are the shell's own. eval's words are those of a substitution, which is read by itself.
var builtins = []string{"[", "export", "cd", "set", ".", "eval", "x"}

// lineCount is how head and tail are told a number of lines.
const lineCount = "-0123456789"

// use is a command as a document has it, taken apart.
type use struct {
	tool     string   // with its subcommands
	operands []string // after these
	options  []option
	unknown  string   // what is wrong with it
	nested   []string // the command that it runs
}

type option struct{ tool, name, value string }

// takeApart reads the words of a command by the table.
func takeApart(words []string) use {
	u := use{tool: strings.TrimPrefix(strings.TrimPrefix(words[0], "bin/"), "/")}
	u.tool = u.tool[strings.LastIndex(u.tool, "/")+1:]
	if !isKnown(u.tool) {
		u.unknown = "no known tool"
		return u
	}
	rest := words[1:]
	for len(rest) > 0 && u.unknown == "" {
		word := rest[0]
		rest = rest[1:]
		switch {
		case word == "--" || word == "-exec":
			u.nested, rest = rest, nil
		case len(word) > 1 && word[0] == '-':
			rest = u.option(word, rest)
		case len(u.operands) == 0 && isKnown(u.tool+" "+word):
			u.tool += " " + word
		case u.tool == "docker exec" || u.tool == "docker compose exec":
			u.nested, rest = rest, nil
		default:
			u.operands = append(u.operands, word)
		}
	}
	if _, ok := known.Tools[u.tool]; !ok && u.unknown == "" {
		u.unknown = "no known subcommand"
	}
	return u
}

// option reads one word of options, whose value may be the next word.
func (u *use) option(word string, rest []string) []string {
	name, value, given := strings.Cut(word, "=")
	if tool, takes, ok := u.find(name); ok {
		if takes && !given && len(rest) > 0 {
			value, rest = rest[0], rest[1:]
		}
		u.options = append(u.options, option{tool, name, value})
		return rest
	}
	if (u.tool == "head" || u.tool == "tail") && strings.Trim(word, lineCount) == "" {
		return rest
	}
	if strings.HasPrefix(word, "--") {
		u.unknown = name
		return rest
	}
	for i, letter := range word[1:] {
		name := "-" + string(letter)
		tool, takes, ok := u.find(name)
		if !ok {
			u.unknown = name + " of " + word
			return rest
		}
		value := ""
		if takes {
			if value = word[1+i+1:]; value == "" && len(rest) > 0 {
				value, rest = rest[0], rest[1:]
			}
		}
		u.options = append(u.options, option{tool, name, value})
		if takes {
			break
		}
	}
	return rest
}

// find looks an option up, of the subcommand or of what it belongs to.
func (u *use) find(name string) (tool string, takes, ok bool) {
	for tool = u.tool; ; tool = tool[:strings.LastIndex(tool, " ")] {
		options := strings.Fields(known.Tools[tool])
		if slices.Contains(options, name) {
			return tool, false, true
		}
		if slices.Contains(options, name+":") {
			return tool, true, true
		}
		if !strings.Contains(tool, " ") {
			return "", false, false
		}
	}
}

// isKnown reports whether the table has a tool or subcommand of this name, or something below it.
func isKnown(name string) bool {
	for tool := range known.Tools {
		if tool == name || strings.HasPrefix(tool, name+" ") {
			return true
		}
	}
	return false
}

// usesIn are the commands of a script, also those that are handed to another shell.
func usesIn(t *testing.T, script string) []use {
	t.Helper()
	var found []use
	for _, words := range shellCommands(t, script) {
		for len(words) > 0 && (words[0] == "sudo" || words[0] == "exec") {
			words = words[1:]
		}
		switch {
		case len(words) == 0 || slices.Contains(builtins, words[0]):
			continue
		case words[0] == "sh" && len(words) > 2 && words[1] == "-c":
			found = append(found, usesIn(t, words[2])...)
			continue
		}
		for len(words) > 0 && words[0] != "..." {
			u := takeApart(words)
			found = append(found, u)
			words = u.nested
		}
	}
	return found
}

// usesOf are the commands of a document: of its blocks, and of code in a sentence that begins with a known tool.
func usesOf(t *testing.T) map[string][]use {
	t.Helper()
	found := map[string][]use{}
	for _, b := range scripts(t) {
		found[b.document] = append(found[b.document], usesIn(t, b.text)...)
	}
	for _, d := range documents(t) {
		for _, span := range codeSpan.FindAllStringSubmatch(fencedBlock.ReplaceAllString(d.text, ""), -1) {
			if first, args, _ := strings.Cut(span[1], " "); args != "" && isKnown(first) {
				found[d.name] = append(found[d.name], usesIn(t, strings.ReplaceAll(span[1], "\n", " "))...)
			}
		}
	}
	return found
}

func TestCommandsInDocumentsHaveKnownToolsAndOptions(t *testing.T) {
	used, n := map[string]bool{}, 0
	for name, uses := range usesOf(t) {
		for _, u := range uses {
			n++
			if u.unknown != "" {
				t.Errorf("%s: %s: %s", name, u.tool, u.unknown)
			}
			used[u.tool] = true
			for _, o := range u.options {
				used[o.tool], used[o.tool+" "+o.name] = true, true
			}
		}
	}
	for _, tool := range slices.Sorted(maps.Keys(known.Tools)) {
		if !used[tool] {
			t.Errorf("no document uses %s", tool)
		}
		for o := range strings.FieldsSeq(known.Tools[tool]) {
			if !used[tool+" "+strings.TrimSuffix(o, ":")] {
				t.Errorf("no document uses %s %s", tool, o)
			}
		}
	}
	if n < 150 {
		t.Errorf("only %d commands were found", n)
	}
}

// TestRunbooksAskNothingThatTheShippedDeploymentsRefuse: without --web.enable-lifecycle, the exporter and Prometheus refuse
// every request that changes something.
func TestRunbooksAskNothingThatTheShippedDeploymentsRefuse(t *testing.T) {
	for _, name := range []string{
		"compose.yaml", "compose.web-config.yaml", "systemd/chatstack_exporter.service", "systemd/chatstack_exporter.env",
		"swarm/stack.yaml", "kubernetes/base/deployment.yaml",
	} {
		if strings.Contains(read(t, name), "--web.enable-lifecycle") {
			t.Errorf("%s enables changes over HTTP: then runbooks may use them", name)
		}
	}
	for name, uses := range usesOf(t) {
		if !strings.HasPrefix(name, "alerts/runbooks/") {
			continue
		}
		for _, u := range uses {
			changes := slices.ContainsFunc(u.options, func(o option) bool { return o.name == "-d" || o.name == "-X" })
			for _, address := range u.operands {
				if ours := strings.HasPrefix(address, "http://localhost:9655/") ||
					strings.HasPrefix(address, "http://localhost:9090/"); u.tool == "curl" && changes && ours {
					t.Errorf("%s: %s needs --web.enable-lifecycle, which no deployment in deploy/ has", name, address)
				}
			}
		}
	}
}
