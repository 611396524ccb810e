package openmetrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// textparsed returns the values of a page's series as Prometheus reads them. It returns false for a page that Prometheus
// refuses, or that has a series or a label twice. Creation times are left out, since they are no series of their own.
func textparsed(page []byte, contentType string) (values map[string]string, legal bool) {
	// The text parser appends a line feed.
	p, err := textparse.New(slices.Clip(page), contentType, labels.NewSymbolTable(), textparse.ParserOptions{})
	if p == nil || err != nil {
		return nil, false
	}
	values = map[string]string{}
	stateSet := ""
	for {
		entry, err := p.Next()
		if err != nil {
			return values, errors.Is(err, io.EOF)
		}
		switch entry {
		case textparse.EntryType:
			stateSet = ""
			if name, kind := p.Type(); kind == model.MetricTypeStateset {
				stateSet = string(name)
			}
		case textparse.EntrySeries:
			var l labels.Labels
			p.Labels(&l)
			if _, twice := l.HasDuplicateLabelNames(); twice {
				return nil, false
			}
			// Prometheus takes the blanks before a name for a part of it.
			name := strings.TrimLeft(l.Get(model.MetricNameLabel), " \t")
			if strings.HasSuffix(name, "_created") && name != stateSet {
				continue
			}
			b := labels.NewBuilder(l).Set(model.MetricNameLabel, name)
			// It spells bounds anew, but only where the family has a type.
			for _, label := range []string{model.BucketLabel, model.QuantileLabel} {
				if bound, err := strconv.ParseFloat(l.Get(label), 64); err == nil {
					b.Set(label, fmt.Sprint(bound))
				}
			}
			key := b.Labels().String()
			if _, twice := values[key]; twice {
				return nil, false
			}
			_, _, value := p.Series()
			values[key] = fmt.Sprint(value)
		default:
		}
	}
}

var (
	quoted     = regexp.MustCompile(`"(\\.|[^"\\])*"`)
	quotedName = regexp.MustCompile(`[{,"][ \t]*""`)
)

// checkLines proves that every line that Prometheus reads as a series is one for Read. The exceptions are names in quotes,
// even if they are classic, and a NUL in a label's value.
func checkLines(t *testing.T, page []byte, contentType string) {
	t.Helper()
	for line := range bytes.Lines(page) {
		line = append(bytes.Clone(bytes.TrimSuffix(line, []byte("\n"))), '\n')
		alone := line
		if contentType == openMetricsType {
			alone = append(bytes.Clone(line), "# EOF\n"...)
		}
		want, legal := textparsed(alone, contentType)
		if !legal || len(want) == 0 || bytes.IndexByte(line, 0) >= 0 || quotedName.Match(quoted.ReplaceAll(line, []byte(`""`))) {
			continue
		}
		p := Read(line, contentType, Options{})
		om, _ := pages(p)
		got, _ := textparsed(om, openMetricsType)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s line %q is read otherwise than by Prometheus, drops %v (-Prometheus +ours):\n%s", contentType, line, p.Drops, diff)
		}
	}
}

// checkPage proves that every series that Prometheus reads from a page is kept with its value, or counted as dropped: a
// sample may not fit the rest of its family. Creation times are the exception, since text format 0.0.4 has no place for them.
func checkPage(t *testing.T, page []byte, contentType string, p *Page) {
	t.Helper()
	if before, _, found := bytes.Cut(page, []byte{0}); found { // Prometheus reads nothing behind a NUL, unless it is in a label's value
		page, p = before, Read(before, contentType, Options{})
	}
	want, legal := textparsed(page, contentType)
	if !legal {
		return
	}
	om, text := pages(p)
	for ours, body := range map[string][]byte{openMetricsType: om, textType: text} {
		got, _ := textparsed(body, ours)
		missing := maps.Clone(want)
		maps.DeleteFunc(missing, func(series, value string) bool { return got[series] == value })
		if dropped := p.Dropped[Malformed] + p.Dropped[Clash]; len(missing) > dropped {
			t.Errorf("%s page lacks more than the %d series that are counted as dropped: %v\n%s", ours, dropped, missing, page)
		}
	}
}
