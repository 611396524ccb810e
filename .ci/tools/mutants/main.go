// Mutants changes one comparison, condition, number or constant of a package at a time, and wants its tests to fail. All changes are
// compiled into one test binary, which the variable MUTANT selects from, so that a run takes no compiler. What stands between the
// parentheses of make stays as it is: a capacity changes nothing but the speed.
//
//	go run .ci/tools/mutants/main.go ./internal/health              # all of it
//	go run .ci/tools/mutants/main.go ./internal/health 'judge.go:4' # the lines that match
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	flag.Parse()
	places, err := regexp.Compile(flag.Arg(1))
	if flag.NArg() < 1 || flag.NArg() > 2 || err != nil {
		fmt.Fprintln(os.Stderr, "usage: mutants DIRECTORY [REGULAR EXPRESSION OF FILE:LINE]")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), places); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// mutant is one change.
type mutant struct {
	place, line, change string
}

// site is what is changed: part of a file, and how it is written with its changes. whole is its text with the changes inside it.
type site struct {
	start, end int
	write      func(whole string) string
}

type mutator struct {
	fset    *token.FileSet
	info    *types.Info
	name    string
	mutants []mutant
	source  []byte
	sites   []*site
}

func run(dir string, places *regexp.Regexp) error {
	work, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is temporary
	mutants, overlay, err := mutate(dir, work)
	if err != nil {
		return err
	}
	binary := filepath.Join(work, "test")
	compile := exec.CommandContext(context.Background(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, dir)
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	if out, err := try(dir, binary, 0, time.Minute); err != nil {
		return fmt.Errorf("the tests fail without a change: %w\n%s", err, out)
	}
	equivalent, err := readEquivalent(filepath.Join(dir, "testdata", "equivalent_mutants.txt"))
	if err != nil {
		return err
	}
	noticed := make([]bool, len(mutants))
	next := make(chan int)
	var group sync.WaitGroup
	for range min(2, runtime.NumCPU()) {
		group.Go(func() {
			for i := range next {
				_, err := try(dir, binary, i+1, 30*time.Second)
				noticed[i] = err != nil
			}
		})
	}
	tried := 0
	for i, m := range mutants {
		if noticed[i] = !places.MatchString(m.place); !noticed[i] {
			tried++
			next <- i
		}
	}
	close(next)
	group.Wait()
	alive, without, excused := 0, 0, map[string]bool{}
	for i, m := range mutants {
		key := m.line + " | " + m.change
		switch {
		case noticed[i]:
		case equivalent[key]:
			without++
			excused[key] = true
		default:
			alive++
			fmt.Printf("%s: no test fails after %s\n\t%s\n", m.place, m.change, m.line)
		}
	}
	unused := 0
	for key := range equivalent {
		if !excused[key] && tried == len(mutants) {
			unused++
			fmt.Printf("a test notices this change, or it is gone; take it out of equivalent_mutants.txt: %s\n", key)
		}
	}
	fmt.Printf("%d mutants, %d noticed, %d not noticed, %d without an effect\n", tried, tried-alive-without, alive, without)
	if alive+unused > 0 {
		return fmt.Errorf("%d changes were not noticed, %d lines are out of date", alive, unused)
	}
	return nil
}

// readEquivalent reads the changes that have no effect: a line of the source, a bar, the change, and below it an indented reason.
func readEquivalent(path string) (map[string]bool, error) {
	content, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	all := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimRight(line, "\n"); line != "" && !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "#") {
			all[line] = true
		}
	}
	return all, nil
}

func try(dir, binary string, id int, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.failfast", "-test.timeout", limit.String())
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "MUTANT="+strconv.Itoa(id))
	return cmd.CombinedOutput()
}

const helper = `
import (
	"os"
	"strconv"
)

var mutantID, _ = strconv.Atoi(os.Getenv("MUTANT"))

func mutantOf[T any](before int, is ...func() T) T {
	if n := mutantID - before; n > 0 && n < len(is) {
		return is[n]()
	}
	return is[0]()
}
`

// mutate writes the package with all changes into a directory, and an overlay that puts it in the place of the package.
func mutate(dir, work string) ([]mutant, string, error) {
	fset := token.NewFileSet()
	listed, err := build.ImportDir(dir, 0)
	if err != nil {
		return nil, "", err
	}
	var files []*ast.File
	for _, name := range listed.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, "", err
		}
		files = append(files, f)
	}
	m := &mutator{fset: fset, name: listed.Name, info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}}
	checker := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	if _, err := checker.Check(listed.Name, fset, files, m.info); err != nil {
		return nil, "", err
	}
	replace := map[string]string{}
	for i, name := range listed.GoFiles {
		path := filepath.Join(dir, name)
		text, err := m.file(path, files[i])
		if err != nil {
			return nil, "", err
		}
		if err := put(replace, work, path, text); err != nil {
			return nil, "", err
		}
	}
	if err := put(replace, work, filepath.Join(dir, "mutant_helper.go"), "package "+listed.Name+"\n"+helper); err != nil {
		return nil, "", err
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, "", err
	}
	overlay := filepath.Join(work, "overlay.json")
	return m.mutants, overlay, os.WriteFile(overlay, content, 0o600)
}

func put(replace map[string]string, work, path, text string) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	replace[absolute] = filepath.Join(work, filepath.Base(path))
	return os.WriteFile(replace[absolute], []byte(text), 0o600)
}

func (m *mutator) offset(p token.Pos) int { return m.fset.Position(p).Offset }

// text is the source of a node with the changes inside it.
func (m *mutator) text(n ast.Node) string { return m.expand(m.offset(n.Pos()), m.offset(n.End()), nil) }

func (m *mutator) plain(n ast.Node) string {
	return string(m.source[m.offset(n.Pos()):m.offset(n.End())])
}

// expand writes all sites between two places but one.
func (m *mutator) expand(start, end int, but *site) string {
	var b strings.Builder
	for _, s := range m.sites {
		if s != but && s.start >= start && s.end <= end {
			b.Write(m.source[start:s.start])
			b.WriteString(s.write(m.expand(s.start, s.end, s)))
			start = s.end
		}
	}
	b.Write(m.source[start:end])
	return b.String()
}

// typeOf is how a type is written in the package.
func (m *mutator) typeOf(e ast.Expr) string {
	return strings.TrimPrefix(types.TypeString(m.info.Types[e].Type, func(p *types.Package) string {
		if p.Name() == m.name {
			return ""
		}
		return p.Name()
	}), "untyped ")
}

// change adds a site that does one of several things instead of what stands there. Each has a name and a text.
func (m *mutator) change(n ast.Expr, result string, changes []string, with func(whole string) []string) {
	p := m.fset.Position(n.Pos())
	line := string(bytes.TrimSpace(bytes.Split(m.source, []byte("\n"))[p.Line-1]))
	before := len(m.mutants)
	for _, c := range changes {
		m.mutants = append(m.mutants, mutant{fmt.Sprintf("%s:%d", p.Filename, p.Line), line, c})
	}
	m.sites = append(m.sites, &site{m.offset(n.Pos()), m.offset(n.End()), func(whole string) string {
		var all strings.Builder
		fmt.Fprintf(&all, "mutantOf(%d, func() %s { return %s }", before, result, whole)
		for _, text := range with(whole) {
			fmt.Fprintf(&all, ", func() %s { return %s }", result, text)
		}
		return all.String() + ")"
	}})
}

var otherOperators = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GTR}, token.LEQ: {token.LSS, token.GTR}, token.GTR: {token.GEQ, token.LSS},
	token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL}, token.LAND: {token.LOR}, token.LOR: {token.LAND}, token.ADD: {token.SUB},
	token.SUB: {token.ADD},
}

// otherNames are constants, and what is written instead.
var otherNames = map[string]string{
	"true": "false", "false": "true", "Pending": "Warning", "Warning": "Critical", "Critical": "Warning",
	"ReasonMaintenance": "ReasonDependency", "ReasonDependency": "ReasonMaintenance", "ReasonContainer": "ReasonDependency",
	"ReasonStarting": "ReasonDependency",
}

// negate has a condition that is no comparison be the other way round.
func (m *mutator) negate(e ast.Expr) {
	switch e.(type) {
	case *ast.CallExpr, *ast.SelectorExpr, *ast.Ident, *ast.IndexExpr:
		m.change(e, "bool", []string{"not " + m.plain(e)}, func(whole string) []string { return []string{"!(" + whole + ")"} })
	}
}

// nudge makes a threshold a little more, and a little less.
func (m *mutator) nudge(e ast.Expr, by string) {
	text := m.plain(e)
	m.change(e, m.typeOf(e), []string{text + " + " + by, text + " - " + by}, func(whole string) []string {
		return []string{whole + " + " + by, whole + " - " + by}
	})
}

func (m *mutator) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		if n.Tok == token.CONST {
			return m.constant(n)
		}
		return n.Tok == token.VAR
	case *ast.ArrayType, *ast.FuncType, *ast.CaseClause:
		if c, ok := n.(*ast.CaseClause); ok {
			for _, e := range c.List {
				ast.Inspect(e, m.visit)
			}
			for _, s := range c.Body {
				ast.Inspect(s, m.visit)
			}
		}
		return false
	case *ast.BinaryExpr:
		operators := otherOperators[n.Op]
		if len(operators) == 0 || m.info.Types[n].Value != nil || m.typeOf(n) == "string" {
			break
		}
		var names []string
		for _, op := range operators {
			names = append(names, fmt.Sprintf("%s to %s in %s", n.Op, op, m.plain(n)))
		}
		if n.Op == token.LAND || n.Op == token.LOR {
			names = append(names, "only "+m.plain(n.X), "only "+m.plain(n.Y))
		}
		m.change(n, m.typeOf(n), names, func(string) []string {
			var all []string
			for _, op := range operators {
				all = append(all, m.text(n.X)+" "+op.String()+" "+m.text(n.Y))
			}
			if n.Op == token.LAND || n.Op == token.LOR {
				all = append(all, m.text(n.X), m.text(n.Y))
			}
			return all
		})
	case *ast.UnaryExpr:
		if n.Op == token.SUB && m.info.Types[n].Value != nil { // only the whole has a type
			m.change(n, m.typeOf(n), []string{m.plain(n) + " to one more"}, func(whole string) []string { return []string{whole + " + 1"} })
			return false
		}
		if n.Op == token.NOT || n.Op == token.SUB && m.info.Types[n].Value == nil {
			m.change(n, m.typeOf(n), []string{"no " + n.Op.String() + " in " + m.plain(n)},
				func(string) []string { return []string{m.text(n.X)} })
		}
	case *ast.IfStmt:
		m.negate(n.Cond)
	case *ast.SwitchStmt:
		for _, s := range n.Body.List {
			for _, e := range s.(*ast.CaseClause).List { //nolint:forcetypeassert // a switch has nothing else
				if n.Tag == nil {
					m.negate(e)
				} else if m.typeOf(e) == "string" {
					m.change(e, "string", []string{"without the case " + m.plain(e)}, func(string) []string { return []string{`""`} })
				}
			}
		}
	case *ast.SelectorExpr:
		if n.Sel.Name == "Over" {
			m.nudge(n, "1")
		}
	case *ast.Ident:
		if other := otherNames[n.Name]; other != "" && m.info.Types[n].Value != nil {
			m.change(n, m.typeOf(n), []string{n.Name + " to " + other}, func(string) []string { return []string{other} })
		}
	case *ast.BasicLit:
		if n.Kind == token.INT {
			m.change(n, m.typeOf(n), []string{n.Value + " to one more"}, func(string) []string { return []string{n.Value + " + 1"} })
		}
	case *ast.CallExpr:
		if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Std" {
			m.nudge(n, "time.Second")
		}
		name, ok := n.Fun.(*ast.Ident)
		if ok && name.Name == "make" {
			return false
		}
		if !ok || len(n.Args) != 2 || name.Name != "min" && name.Name != "max" {
			break
		}
		other := map[string]string{"min": "max", "max": "min"}[name.Name]
		m.change(n, m.typeOf(n), []string{name.Name + " to " + other}, func(string) []string {
			return []string{fmt.Sprintf("%s(%s, %s)", other, m.text(n.Args[0]), m.text(n.Args[1]))}
		})
	}
	return true
}

// constant makes a duration a variable, so that it can change.
func (m *mutator) constant(d *ast.GenDecl) bool {
	if len(d.Specs) != 1 {
		return false
	}
	s, ok := d.Specs[0].(*ast.ValueSpec)
	if !ok || len(s.Values) != 1 || m.typeOf(s.Values[0]) != "time.Duration" || strings.Contains(m.plain(s), "<<") {
		return false
	}
	copy(m.source[m.offset(d.Pos()):], "var  ")
	return true
}

func (m *mutator) file(path string, f *ast.File) (string, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	m.source, m.sites = source, nil
	ast.Inspect(f, m.visit)
	slices.SortStableFunc(m.sites, func(a, b *site) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return b.end - a.end
	})
	return m.expand(0, len(source), nil), nil
}
