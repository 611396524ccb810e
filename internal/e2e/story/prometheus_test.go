package story

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
)

// interval is the time between two scrapes, and between two rounds of the rules.
const interval = 30 * time.Second

// lookbackDelta is how long an instant query takes the last sample of a series that is not marked as stale.
const lookbackDelta = 5 * time.Minute

// server is a Prometheus: its storage, its query engine and its rules, without its own scrapes, timers and pages.
type server struct {
	dir    string
	notify rules.NotifyFunc
	// ahead is how far its clock is before that of the exporters.
	ahead time.Duration

	db     *tsdb.DB // nil while it is stopped
	engine *promql.Engine
	group  *rules.Group
	// started is when it was started last.
	started time.Time
	// restore says that the group has yet to look up since when alerts with for: have been pending.
	restore bool
	// seen are the series that the last scrape of an instance had, which are stale if the next one lacks them.
	seen map[string]map[string]labels.Labels
	// lost are the instances that are not found any more.
	lost map[string]bool
}

// newServer starts one with the rules that are shipped. What fires or resolves goes to notify.
func newServer(tb testing.TB, notify rules.NotifyFunc) *server {
	tb.Helper()
	p := &server{dir: tb.TempDir(), notify: notify, lost: map[string]bool{}}
	var shipped bytes.Buffer
	must(tb, alerts.Write(&shipped, alerts.Defaults()))
	must(tb, os.WriteFile(p.ruleFile(), shipped.Bytes(), 0o600))
	p.start(tb)
	tb.Cleanup(func() { p.stop(tb) })
	return p
}

func (p *server) ruleFile() string { return filepath.Join(p.dir, "rules.yml") }

func (p *server) start(tb testing.TB) {
	tb.Helper()
	quiet := slog.New(slog.DiscardHandler)
	options := tsdb.DefaultOptions()
	options.RetentionDuration = int64(100 * 24 * time.Hour / time.Millisecond)
	db, err := tsdb.Open(filepath.Join(p.dir, "data"), quiet, nil, options, nil)
	must(tb, err)
	p.started = time.Now()
	p.db, p.seen, p.restore = db, map[string]map[string]labels.Labels{}, true
	p.engine = promql.NewEngine(promql.EngineOpts{
		Logger:               quiet,
		MaxSamples:           50_000_000,
		Timeout:              time.Hour,
		LookbackDelta:        lookbackDelta,
		EnableAtModifier:     true,
		EnableNegativeOffset: true,
		Parser:               parser.NewParser(parser.Options{}),
	})
	manager := rules.NewManager(&rules.ManagerOptions{
		ExternalURL:          &url.URL{},
		QueryFunc:            rules.EngineQueryFunc(p.engine, db),
		NotifyFunc:           p.notify,
		Context:              tb.Context(),
		Appendable:           db,
		Queryable:            db,
		Logger:               quiet,
		OutageTolerance:      time.Hour,
		ForGracePeriod:       10 * time.Minute,
		ResendDelay:          time.Minute,
		NameValidationScheme: model.UTF8Validation,
		Parser:               parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, p.ruleFile())
	must(tb, errors.Join(errs...))
	p.group = slices.Collect(maps.Values(groups))[0]
}

func (p *server) stop(tb testing.TB) {
	tb.Helper()
	if p.db != nil {
		must(tb, p.engine.Close())
		must(tb, p.db.Close())
		p.db = nil
	}
}

// loseData has a stopped one forget everything.
func (p *server) loseData(tb testing.TB) {
	tb.Helper()
	must(tb, os.RemoveAll(filepath.Join(p.dir, "data")))
}

// scrape stores a page as Prometheus does: with up, and what is gone marked stale. A nil page is a scrape that failed.
func (p *server) scrape(tb testing.TB, instance string, page []byte, given map[string]string) {
	tb.Helper()
	app, ts := p.db.Appender(tb.Context()), p.now().UnixMilli()
	add := func(l labels.Labels, v float64) {
		_, err := app.Append(0, l, ts, v)
		must(tb, err)
	}
	with := func(l labels.Labels) labels.Labels {
		b := labels.NewBuilder(l)
		b.Set("instance", instance)
		b.Set("job", "chatstack_exporter")
		for name, v := range given {
			if theirs := l.Get(name); theirs != "" {
				b.Set("exported_"+name, theirs)
			}
			b.Set(name, v)
		}
		return b.Labels()
	}
	seen, up := map[string]labels.Labels{}, 0.0
	if page != nil {
		up = 1
		reader := textparse.NewOpenMetricsParser(page, labels.NewSymbolTable())
		for {
			entry, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			must(tb, err)
			if entry != textparse.EntrySeries {
				continue
			}
			series, _, v := reader.Series()
			l, known := p.seen[instance][string(series)]
			if !known {
				reader.Labels(&l)
				l = with(l)
			}
			seen[string(series)] = l
			add(l, v)
		}
	}
	for key, l := range p.seen[instance] {
		if _, still := seen[key]; !still {
			add(l, math.Float64frombits(value.StaleNaN))
		}
	}
	p.seen[instance] = seen
	if p.lost[instance] {
		up = math.Float64frombits(value.StaleNaN)
	}
	add(with(labels.FromStrings(model.MetricNameLabel, "up")), up)
	must(tb, app.Commit())
}

// remember stores what series of the environment prod were until now, in each round since so long ago: on a line from its first
// value to its last. It must have no data.
func (p *server) remember(tb testing.TB, began, ended time.Duration, lines map[string][2]float64) {
	tb.Helper()
	app := p.db.Appender(tb.Context())
	for ago := began; ago > ended; ago -= interval {
		for series, line := range lines {
			l, err := parser.NewParser(parser.Options{}).ParseMetric(series)
			must(tb, err)
			v := line[0] + (line[1]-line[0])*float64(began-ago)/float64(began-ended)
			_, err = app.Append(0, labels.NewBuilder(l).Set("env", "prod").Labels(), p.now().Add(-ago).UnixMilli(), v)
			must(tb, err)
		}
	}
	must(tb, app.Commit())
}

// now is the time by its own clock.
func (p *server) now() time.Time { return time.Now().Add(p.ahead) }

// evaluate runs all rules once.
func (p *server) evaluate(tb testing.TB) {
	tb.Helper()
	p.group.Eval(tb.Context(), p.now())
	if p.restore {
		p.group.RestoreForState(p.now())
		p.restore = false
	}
}

// firing are the alerts that fire now.
func (p *server) firing() []*rules.Alert {
	var list []*rules.Alert
	for _, r := range p.group.AlertingRules() {
		for _, a := range r.ActiveAlerts() {
			if a.State == rules.StateFiring {
				list = append(list, a)
			}
		}
	}
	return list
}
