//go:build promtool

package alerts_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// mutant is a rule with one thing in it changed.
type mutant struct {
	rule    loadedRule
	changed string
}

// mutantsOf changes everything that decides when a rule holds, one thing at a time: each threshold, comparison,
// aggregation, window, duration, operator, matcher and function. interval is that of the evaluations.
func mutantsOf(r loadedRule, interval time.Duration) ([]mutant, error) {
	var all []mutant
	for n := 0; ; n++ {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			return nil, err
		}
		m := &mutator{wanted: n, interval: interval}
		root := m.visit(expr)
		if m.changed == "" {
			break
		}
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(root.String()); err != nil {
			continue // Prometheus would not load it
		}
		changed := r
		changed.Expr = root.String()
		all = append(all, mutant{changed, m.changed})
	}
	if r.Alert == "" {
		return all, nil
	}
	for _, d := range []struct {
		name string
		get  func(*loadedRule) *string
	}{
		{"for", func(r *loadedRule) *string { return &r.For }},
		{"keep_firing_for", func(r *loadedRule) *string { return &r.KeepFiringFor }},
	} {
		var was model.Duration
		if text := *d.get(&r); text != "" {
			var err error
			if was, err = model.ParseDuration(text); err != nil {
				return nil, err
			}
		}
		for _, by := range []time.Duration{-interval, interval} {
			if is := model.Duration(time.Duration(was) + by); is >= 0 {
				changed := r
				*d.get(&changed) = is.String()
				all = append(all, mutant{changed, fmt.Sprintf("%s: %s to %s", d.name, was, is)})
			}
		}
	}
	return all, nil
}

// mutator walks an expression, counts what can be changed, and makes the wanted change.
type mutator struct {
	wanted, seen int
	changed      string
	interval     time.Duration
	// function is the one that the selector at hand is an argument of.
	function string
}

// offer makes one change if it is the wanted one.
func (m *mutator) offer(what string, change func()) {
	if m.seen == m.wanted {
		m.changed = what
		change()
	}
	m.seen++
}

// visit returns what is to stand in the place of the expression.
func (m *mutator) visit(e parser.Expr) parser.Expr {
	switch e := e.(type) {
	case *parser.NumberLiteral:
		m.number(e)
	case *parser.BinaryExpr:
		return m.binary(e)
	case *parser.AggregateExpr:
		m.aggregation(e)
		e.Expr = m.visit(e.Expr)
	case *parser.Call:
		return m.call(e)
	case *parser.MatrixSelector:
		m.window("range of "+e.VectorSelector.String(), &e.Range)
		e.VectorSelector = m.visit(e.VectorSelector)
	case *parser.SubqueryExpr:
		m.window("range of a subquery", &e.Range)
		m.duration("step", &e.Step, 1, 2)
		m.duration("step", &e.Step, 2, 1)
		e.Expr = m.visit(e.Expr)
	case *parser.VectorSelector:
		m.selector(e)
	case *parser.ParenExpr:
		e.Expr = m.visit(e.Expr)
	case *parser.StringLiteral:
	default:
		panic(fmt.Sprintf("no mutation of %T: %s", e, e))
	}
	return e
}

// number changes a small whole number by one, any other by a hundredth.
func (m *mutator) number(e *parser.NumberLiteral) {
	by := math.Abs(e.Val) / 100
	if e.Val == math.Trunc(e.Val) && math.Abs(e.Val) <= 100 {
		by = 1
	}
	was := e.Val
	for _, is := range []float64{was - by, was + by} {
		m.offer(fmt.Sprintf("%v to %v", was, is), func() { e.Val = is })
	}
}

var otherOperators = map[parser.ItemType][]parser.ItemType{
	parser.GTR: {parser.GTE, parser.LSS}, parser.LSS: {parser.LTE, parser.GTR}, parser.GTE: {parser.GTR, parser.LSS},
	parser.EQLC: {parser.NEQ}, parser.NEQ: {parser.EQLC},
	parser.ADD: {parser.SUB}, parser.SUB: {parser.ADD}, parser.MUL: {parser.DIV}, parser.DIV: {parser.MUL},
	parser.LAND: {parser.LUNLESS}, parser.LUNLESS: {parser.LAND}, parser.LOR: {parser.LAND},
}

func (m *mutator) binary(e *parser.BinaryExpr) parser.Expr {
	var instead parser.Expr
	where := " of " + short(e)
	for _, op := range otherOperators[e.Op] {
		m.offer(fmt.Sprintf("%s to %s%s", e.Op, op, where), func() {
			e.Op = op
		})
	}
	if e.Op.IsSetOperator() {
		m.offer("no right side, "+short(e.RHS), func() { instead = e.LHS })
	}
	if e.Op == parser.LOR {
		m.offer("no left side, "+short(e.LHS), func() { instead = e.RHS })
	}
	if e.VectorMatching != nil {
		if e.VectorMatching.On {
			m.offer("no on ()"+where, func() { e.VectorMatching.On = false })
		}
		for _, l := range e.VectorMatching.MatchingLabels {
			m.offer("match "+l+where, func() {
				e.VectorMatching.MatchingLabels = without(e.VectorMatching.MatchingLabels, l)
			})
		}
	}
	e.LHS = m.visit(e.LHS)
	e.RHS = m.visit(e.RHS)
	if instead != nil {
		return instead
	}
	return e
}

func (m *mutator) aggregation(e *parser.AggregateExpr) {
	was := short(e)
	for _, op := range map[parser.ItemType][]parser.ItemType{
		parser.MAX: {parser.MIN, parser.SUM}, parser.MIN: {parser.MAX, parser.SUM}, parser.SUM: {parser.MAX},
	}[e.Op] {
		m.offer(fmt.Sprintf("%s to %s", was, op), func() { e.Op = op })
	}
	m.offer("by for without in "+was, func() { e.Without = !e.Without })
	for _, l := range e.Grouping {
		m.offer(fmt.Sprintf("keep %s in %s", l, was), func() { e.Grouping = without(e.Grouping, l) })
	}
}

func (m *mutator) call(e *parser.Call) parser.Expr {
	var instead parser.Expr
	was := short(e)
	for _, name := range map[string][]string{
		"last_over_time": {"max_over_time", "min_over_time"}, "max_over_time": {"min_over_time"}, "min_over_time": {"max_over_time"},
		"sum_over_time": {"max_over_time"}, "rate": {"increase"}, "absent_over_time": {"present_over_time"},
	}[e.Func.Name] {
		m.offer(fmt.Sprintf("%s to %s", was, name), func() { e.Func = parser.Functions[name] })
	}
	if name := e.Func.Name; name == "label_replace" || name == "round" {
		m.offer("no "+was, func() { instead = e.Args[0] })
	}
	outer := m.function
	m.function = e.Func.Name
	for i := range e.Args {
		e.Args[i] = m.visit(e.Args[i])
	}
	m.function = outer
	if instead != nil {
		return instead
	}
	return e
}

func (m *mutator) selector(e *parser.VectorSelector) {
	was := strings.TrimSpace(m.function + " " + e.String())
	if e.OriginalOffset != 0 {
		m.duration("offset of "+was, &e.OriginalOffset, 1, 2)
		m.duration("offset of "+was, &e.OriginalOffset, 2, 1)
	}
	for i, matcher := range slices.Clone(e.LabelMatchers) {
		if matcher.Name == model.MetricNameLabel {
			continue
		}
		m.offer("no "+matcher.String()+" in "+was, func() { e.LabelMatchers = slices.Delete(e.LabelMatchers, i, i+1) })
		m.offer("not "+matcher.String()+" in "+was, func() {
			inverse, err := matcher.Inverse()
			if err != nil {
				panic(err) // the expression was read by the same parser
			}
			e.LabelMatchers[i] = inverse
		})
	}
}

// window changes a range by at least two rounds: whether a sample counts that is as old as the range depends on the version, so the
// tests leave one round open.
func (m *mutator) window(what string, d *time.Duration) {
	for _, is := range []time.Duration{min(*d*3/4, *d-2*m.interval), max(*d*3/2, *d+2*m.interval)} {
		if is = max(is, m.interval/2); is != *d {
			m.offer(fmt.Sprintf("%s: %s to %s", what, *d, is), func() { *d = is })
		}
	}
}

func (m *mutator) duration(what string, d *time.Duration, times, by int64) {
	is := time.Duration(int64(*d) * times / by)
	m.offer(fmt.Sprintf("%s: %s to %s", what, *d, is), func() { *d = is })
}

func without(list []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == one })
}

// short is the beginning of an expression, for people.
func short(e parser.Expr) string {
	text := strings.Join(strings.Fields(e.String()), " ")
	if len(text) > 150 {
		text = text[:150] + "…"
	}
	return text
}
