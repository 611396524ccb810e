// Places counts, for each alert and each kind of target, the places of the product's code that name it, and the files that they are in:
// what somebody has to find to add another. Tests, comments and runbooks are left out; documents are counted apart. It also counts
// statements and lines of each package.
//
//	go run .ci/tools/places/main.go                     # the working tree
//	go run .ci/tools/places/main.go v0.1.0 HEAD         # before and after
//	go run .ci/tools/places/main.go --max 3             # only says, with status 1, which ones more files name
//	go run .ci/tools/places/main.go --where TargetDown  # each place
package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	most := flag.Int("max", 0, "print nothing, and exit with 1 if more files than this name an alert or a kind; 0 prints all")
	where := flag.String("where", "", "print each place that names this alert or kind")
	flag.Parse()
	if err := run(flag.Args(), *most, *where); err != nil {
		fmt.Fprintln(os.Stderr, "places:", err)
		os.Exit(1)
	}
}

func run(commits []string, most int, where string) error {
	if len(commits) == 0 {
		commits = []string{""} // the working tree
	}
	var counts []*count
	for _, commit := range commits {
		files, err := read(commit)
		if err != nil {
			return err
		}
		c, err := countIn(files)
		if err != nil {
			return err
		}
		counts = append(counts, c)
	}
	last := counts[len(counts)-1]
	if where != "" {
		last.show(where)
		return nil
	}
	if most > 0 {
		return errors.Join(tooMany("alert", last.alerts, most), tooMany("kind", last.kinds, most))
	}
	printNamed("alert", counts, func(c *count) map[string]*named { return c.alerts })
	printNamed("kind", counts, func(c *count) map[string]*named { return c.kinds })
	printPackages(counts)
	return nil
}

// read returns the files of a commit, or those of the working tree that git knows or would add.
func read(commit string) (map[string][]byte, error) {
	files := map[string][]byte{}
	if commit == "" {
		list, err := git("ls-files", "--cached", "--others", "--exclude-standard")
		for name := range strings.Lines(string(list)) {
			name = strings.TrimSpace(name)
			if content, err := os.ReadFile(name); err == nil && counts(name) { // it may be deleted
				files[name] = content
			}
		}
		return files, err
	}
	archive, err := git("archive", commit)
	if err != nil {
		return nil, err
	}
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if counts(header.Name) {
			if files[header.Name], err = io.ReadAll(reader); err != nil {
				return nil, err
			}
		}
	}
}

func git(args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...) //nolint:noctx // it ends by itself
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

var (
	// apart are files that are no part of the product, or are generated, and the simulated stack, whose servers have names of their own
	// that are also those of kinds.
	apart = regexp.MustCompile(
		`^\.ci/|^internal/(e2e|bench|simstack)/|(^|/)testdata/|_test\.go$|^alerts/runbooks/|^BENCHMARKS|^CHANGELOG|` +
			`^alerts/.*\.(yml|md)$|prometheusrule\.yaml$|^dashboards/.*\.(json|md)$|^METRICS\.md$`)
	documents = regexp.MustCompile(`\.(md|ya?ml|lua|html|tmpl|js)$`)
)

// sources name the alerts and the kinds.
const (
	rules    = "alerts/chatstack.rules.yml"
	settings = "exporter.yaml"
)

func counts(name string) bool {
	return name == rules || !apart.MatchString(name) && (strings.HasSuffix(name, ".go") || documents.MatchString(name))
}

// named is where an alert or a kind is named.
type named struct {
	places    []string
	files     map[string]bool
	documents map[string]bool
}

// size is that of a package.
type size struct{ statements, lines int }

type count struct {
	alerts, kinds map[string]*named
	constants     map[string]string // the alerts that constants are the names of
	keys          map[string]bool   // all of the configuration
	packages      map[string]*size
}

func countIn(files map[string][]byte) (*count, error) {
	c := &count{alerts: map[string]*named{}, kinds: map[string]*named{}, packages: map[string]*size{}}
	for of, names := range map[*map[string]*named][]string{
		&c.alerts: matches(`(?m)^ +- alert: "?(\w+)`, files[rules]), &c.kinds: matches(`(?m)^  - kind: (\w+)$`, files[settings]),
	} {
		for _, name := range names {
			(*of)[name] = &named{files: map[string]bool{}, documents: map[string]bool{}}
		}
	}
	if len(c.alerts) == 0 || len(c.kinds) == 0 {
		return nil, fmt.Errorf("found %d alerts in %s and %d kinds in %s", len(c.alerts), rules, len(c.kinds), settings)
	}
	c.constants, c.keys = map[string]string{}, map[string]bool{}
	for _, key := range matches(`(?m)^ +#? ?(\w+):`, files[settings]) {
		c.keys[key] = true
	}
	for name, content := range files {
		for _, m := range constant.FindAllSubmatch(content, -1) {
			if alert := string(m[2]); strings.HasSuffix(name, ".go") && c.alerts[alert] != nil {
				c.constants[string(m[1])] = alert
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch {
		case name == rules:
		case !strings.HasSuffix(name, ".go"):
			c.readDocument(name, string(files[name]))
		default:
			if err := c.readCode(name, files[name]); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// constant finds the constants of texts.
var constant = regexp.MustCompile(`(?m)^\s*(?:const )?(\w+) += "(\w+)"`)

func matches(pattern string, in []byte) (found []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(in, -1) {
		found = append(found, string(m[1]))
	}
	return found
}

func (c *count) readDocument(name, text string) {
	for alert, n := range c.alerts {
		if c.words(alert).MatchString(text) {
			n.documents[name] = true
		}
	}
	for kind, n := range c.kinds {
		pattern := `\bkind: ` + kind + `\b|\x60` + kind + `\x60`
		if strings.Contains(kind, "_") {
			pattern = `\b` + kind + `\b`
		}
		if compiled(pattern).MatchString(text) {
			n.documents[name] = true
		}
	}
}

// words finds an alert by its name, or by its key in the configuration if it has one. chatstack:container_down is no alert.
func (c *count) words(alert string) *regexp.Regexp {
	key := compiled(`([a-z0-9])([A-Z])`).ReplaceAllString(compiled(`([A-Z]+)([A-Z][a-z])`).ReplaceAllString(alert, `${1}_$2`), `${1}_$2`)
	if key = strings.ToLower(key); !c.keys[key] {
		key = alert
	}
	return compiled(`(^|[^\w:])(` + alert + `|` + key + `)\b`)
}

var patterns = map[string]*regexp.Regexp{}

func compiled(pattern string) *regexp.Regexp {
	if patterns[pattern] == nil {
		patterns[pattern] = regexp.MustCompile(pattern)
	}
	return patterns[pattern]
}

func (c *count) readCode(name string, content []byte) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, content, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	pkg := path.Dir(name)
	if c.packages[pkg] == nil {
		c.packages[pkg] = &size{}
	}
	c.packages[pkg].lines += bytes.Count(content, []byte("\n"))
	for _, declared := range file.Decls {
		d := declaration{count: c, fset: fset, about: map[ast.Node]bool{}}
		ast.Inspect(declared, d.look)
		c.packages[pkg].statements += d.statements
		d.note()
	}
	return nil
}

// declaration is what a declaration at the top of a file has in it.
type declaration struct {
	*count
	fset       *token.FileSet
	statements int
	literals   []*ast.BasicLit
	// about are literals that stand where a kind does: compared with one, or the value of one.
	about map[ast.Node]bool
}

func (d *declaration) look(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			d.literals = append(d.literals, n)
		}
	case *ast.Ident:
		d.name(n)
	case *ast.BinaryExpr:
		d.mark(isKind(n.X) || isKind(n.Y), n.X, n.Y)
	case *ast.KeyValueExpr:
		d.mark(isKind(n.Key), n.Value)
	case *ast.ValueSpec:
		isOne := func(name *ast.Ident) bool { return isKind(name) || strings.HasPrefix(name.Name, "kind") }
		d.mark(slices.ContainsFunc(n.Names, isOne), n.Values...)
	case *ast.SwitchStmt:
		for _, clause := range n.Body.List {
			d.mark(isKind(n.Tag), clause.(*ast.CaseClause).List...) //nolint:forcetypeassert // nothing else is in a switch
		}
	}
	// A clause is part of its switch, and a block of what has it.
	switch node.(type) {
	case *ast.BlockStmt, *ast.EmptyStmt, *ast.LabeledStmt, *ast.CaseClause, *ast.CommClause:
	case ast.Stmt:
		d.statements++
	}
	return true
}

// mark notes that expressions stand where a kind does, if they do.
func (d *declaration) mark(really bool, list ...ast.Expr) {
	for _, e := range list {
		if really {
			d.about[e] = true
		}
	}
}

// isKind reports whether an expression is called a kind, such as t.Kind.
func isKind(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.HasSuffix(e.Name, "kind") || strings.HasSuffix(e.Name, "Kind")
	case *ast.SelectorExpr:
		return isKind(e.Sel)
	}
	return false
}

// otherMeaning are alerts whose name identifiers also have for something else: the watchdog of systemd.
var otherMeaning = []string{"Watchdog"}

// name notes an identifier that is the name of an alert, as a field or as a constant.
func (d *declaration) name(id *ast.Ident) {
	alert := cmp.Or(d.constants[id.Name], id.Name)
	if n := d.alerts[alert]; n != nil && (alert != id.Name || !slices.Contains(otherMeaning, alert)) {
		n.add(d.fset.Position(id.Pos()))
	}
}

func (n *named) add(at token.Position) {
	n.places = append(n.places, fmt.Sprintf("%s:%d", at.Filename, at.Line))
	n.files[at.Filename] = true
}

// note notes what the literals name. A kind that is called by a common word, such as http, is named where a kind stands, and in tables:
// declarations that name three kinds or more.
func (d *declaration) note() {
	known := map[string]bool{}
	for _, l := range d.literals {
		if text, err := strconv.Unquote(l.Value); err == nil && d.kinds[text] != nil {
			known[text] = true
		}
	}
	for _, l := range d.literals {
		text, err := strconv.Unquote(l.Value)
		if err != nil {
			continue
		}
		if n := d.kinds[text]; n != nil && (strings.Contains(text, "_") || len(known) >= 3 || d.about[l]) {
			n.add(d.fset.Position(l.Pos()))
		}
		for alert, n := range d.alerts {
			for range d.words(alert).FindAllString(text, -1) {
				n.add(d.fset.Position(l.Pos()))
			}
		}
	}
}

func (c *count) show(name string) {
	for _, all := range []map[string]*named{c.alerts, c.kinds} {
		if n := all[name]; n != nil {
			fmt.Println(strings.Join(n.places, "\n"))
			for _, document := range slices.Sorted(maps.Keys(n.documents)) {
				fmt.Println(document)
			}
		}
	}
}

// printNamed prints a row for each name, with the places, files and documents of each count.
func printNamed(what string, counts []*count, of func(*count) map[string]*named) {
	fmt.Printf("%-34s%s\n", what, strings.Repeat("  places   files  documents", len(counts)))
	names := map[string]bool{}
	for _, c := range counts {
		for name := range of(c) {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Printf("%-34s", name)
		for _, c := range counts {
			if n := of(c)[name]; n != nil {
				fmt.Printf("%8d%8d%11d", len(n.places), len(n.files), len(n.documents))
			} else {
				fmt.Printf("%8s%8s%11s", "-", "-", "-")
			}
		}
		fmt.Println()
	}
	rows := map[string]string{"mean": "", "max": ""}
	for _, c := range counts {
		var places, files, documents []int
		for _, n := range of(c) {
			places, files, documents = append(places, len(n.places)), append(files, len(n.files)), append(documents, len(n.documents))
		}
		rows["mean"] += fmt.Sprintf("%8.1f%8.1f%11.1f", mean(places), mean(files), mean(documents))
		rows["max"] += fmt.Sprintf("%8d%8d%11d", slices.Max(places), slices.Max(files), slices.Max(documents))
	}
	fmt.Printf("%-34s%s\n%-34s%s\n\n", "mean", rows["mean"], "max", rows["max"])
}

func mean(list []int) float64 {
	sum := 0
	for _, n := range list {
		sum += n
	}
	return float64(sum) / float64(len(list))
}

// printPackages prints a row for each package.
func printPackages(counts []*count) {
	fmt.Printf("%-34s%s\n", "package", strings.Repeat("  statements   lines", len(counts)))
	sums := make([]size, len(counts))
	packages := map[string]bool{}
	for _, c := range counts {
		for name := range c.packages {
			packages[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		fmt.Printf("%-34s", name)
		for i, c := range counts {
			s := c.packages[name]
			if s == nil {
				s = &size{}
			}
			fmt.Printf("%12d%8d", s.statements, s.lines)
			sums[i].statements += s.statements
			sums[i].lines += s.lines
		}
		fmt.Println()
	}
	fmt.Printf("%-34s", "all")
	for _, s := range sums {
		fmt.Printf("%12d%8d", s.statements, s.lines)
	}
	fmt.Println()
}

// inMore are alerts that more files name, with their number and the reason.
var inMore = map[string]int{
	"TargetDown": 8, // every target has it: the judge, the page, check and the way of alerts treat outages apart; two texts name it
	// Each of these is named by a text that users see, beside its row and the code for it.
	"ContainerOOMKill": 4, "ContainerRestarts": 4, // HELP of the metrics of their counts
	"TargetUnstable":   4,                      // HELP of the failures that it does not count, and a panel's description
	"RelaySessionDown": 4, "RelayUnwatched": 4, // the page says that the first reports what the second would
	// The table of kinds says whose values they are on.
	"DataVolumeUsage": 4, "TLSCertificateExpiry": 4,
	"XMPPAuthFailureRate": 6, "XMPPAuthSourceMissing": 5, // also a table of METRICS.md, and why the page knows no rate
}

// tooMany is an error that lists what more files name than allowed.
func tooMany(what string, all map[string]*named, most int) error {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if n := len(all[name].files); n > max(most, inMore[name]) {
			list = append(list, fmt.Sprintf("%s (%d)", name, n))
		}
	}
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("more than %d files name each of %d of the %ss: %s", most, len(list), what, strings.Join(list, ", "))
}
