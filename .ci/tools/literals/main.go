// Literals finds literals of structs with more than three fields, of which two are on one line. Tables whose rows are long, which
// .golangci.yml names for the linter lll, may have them.
//
//	go run .ci/tools/literals/main.go
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

const (
	most   = 3
	module = "github.com/chatstack-exporter/chatstack_exporter/"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "literals:", err)
		os.Exit(1)
	}
}

func run() error {
	tables, err := readTables()
	if err != nil {
		return err
	}
	fset, files, types := token.NewFileSet(), map[string]*ast.File{}, types{}
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if name == "bin" && d.IsDir() {
			return filepath.SkipDir // copies for releases
		}
		if err != nil || !strings.HasSuffix(name, ".go") {
			return err
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err == nil {
			files[name] = f
			types.add(path.Dir(name), f)
		}
		return err
	})
	found := 0
	for name, f := range files {
		if ast.IsGenerated(f) || slices.ContainsFunc(tables, func(t *regexp.Regexp) bool { return t.MatchString(name) }) {
			continue
		}
		s := newScope(types, path.Dir(name), f)
		s.visit(f, nil, func(lit *ast.CompositeLit, typ ast.Expr) {
			if len(lit.Elts) > most && s.isStruct(lit, typ) && isCrowded(fset, lit) {
				found++
				fmt.Printf("%s: a literal of %d fields has several on a line\n", fset.Position(lit.Pos()), len(lit.Elts))
			}
		})
	}
	if err == nil && found > 0 {
		err = errors.New("give each field a line")
	}
	return err
}

// readTables returns what lll leaves out by path alone.
func readTables() ([]*regexp.Regexp, error) {
	var config struct {
		Linters struct {
			Exclusions struct {
				Rules []struct {
					Path, Source, Text string
					Linters            []string
				}
			}
		}
	}
	content, err := os.ReadFile(".golangci.yml")
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(content, &config); err != nil {
		return nil, err
	}
	var tables []*regexp.Regexp
	for _, r := range config.Linters.Exclusions.Rules {
		if slices.Equal(r.Linters, []string{"lll"}) && r.Source == "" && r.Text == "" {
			table, err := regexp.Compile(r.Path)
			if err != nil {
				return nil, err
			}
			tables = append(tables, table)
		}
	}
	return tables, nil
}

// isCrowded reports whether a field begins on the line where the one before it, or the bracket, ends.
func isCrowded(fset *token.FileSet, lit *ast.CompositeLit) bool {
	line := func(p token.Pos) int { return fset.Position(p).Line }
	last := line(lit.Lbrace)
	for _, elt := range lit.Elts {
		if line(elt.Pos()) == last {
			return true
		}
		last = line(elt.End())
	}
	return line(lit.Rbrace) == last
}

// types are the declarations of all types, by directory and name.
type types map[string]map[string]ast.Expr

func (t types) add(dir string, f *ast.File) {
	if t[dir] == nil {
		t[dir] = map[string]ast.Expr{}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			t[dir][spec.Name.Name] = spec.Type
		}
		return true
	})
}

// scope is where a file finds the types that it names.
type scope struct {
	types   types
	dir     string
	imports map[string]string
}

func newScope(t types, dir string, f *ast.File) scope {
	s := scope{t, dir, map[string]string{}}
	for _, spec := range f.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(target)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		s.imports[name] = target
	}
	return s
}

// underlying follows the names of a type to its definition. It is nil for a type of another module.
func (s scope) underlying(typ ast.Expr) ast.Expr {
	switch t := typ.(type) {
	case *ast.ParenExpr:
		return s.underlying(t.X)
	case *ast.StarExpr:
		return s.underlying(t.X)
	case *ast.IndexExpr:
		return s.underlying(t.X)
	case *ast.IndexListExpr:
		return s.underlying(t.X)
	case *ast.Ident:
		return s.underlying(s.types[s.dir][t.Name])
	case *ast.SelectorExpr:
		name, _ := t.X.(*ast.Ident)
		if dir, ours := strings.CutPrefix(s.imports[name.Name], module); ours {
			return scope{types: s.types, dir: dir}.underlying(s.types[dir][t.Sel.Name])
		}
		return nil
	}
	return typ
}

// isStruct takes a literal of another module's type for one of a struct if names are its keys.
func (s scope) isStruct(lit *ast.CompositeLit, typ ast.Expr) bool {
	switch s.underlying(typ).(type) {
	case *ast.StructType:
		return true
	case nil:
		return !slices.ContainsFunc(lit.Elts, func(elt ast.Expr) bool {
			pair, ok := elt.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			_, ok = pair.Key.(*ast.Ident)
			return !ok
		})
	}
	return false
}

// visit calls do for every literal below n, with its type. elided is the type of n, if n may be a literal that leaves it out.
func (s scope) visit(n ast.Node, elided ast.Expr, do func(*ast.CompositeLit, ast.Expr)) {
	ast.Inspect(n, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		typ := elided
		if lit.Type != nil {
			typ = lit.Type
		}
		do(lit, typ)
		var key, value ast.Expr
		switch t := s.underlying(typ).(type) {
		case *ast.ArrayType:
			value = t.Elt
		case *ast.MapType:
			key, value = t.Key, t.Value
		}
		for _, elt := range lit.Elts {
			if pair, ok := elt.(*ast.KeyValueExpr); ok {
				s.visit(pair.Key, key, do)
				elt = pair.Value
			}
			s.visit(elt, value, do)
		}
		return false
	})
}
