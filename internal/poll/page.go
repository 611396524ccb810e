package poll

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// pages makes metrics pages: of each snapshot at most one, and of that only the encodings that somebody asks for. Snapshots are at
// least publishInterval apart, which bounds what frequent requests cost.
type pages struct {
	log     *slog.Logger
	own     prometheus.Gatherer
	choices exposition.Choices
	// making is held while a page is made or encoded; since is when that began, or when it first failed, nil while all is well.
	making chan struct{}
	since  atomic.Pointer[time.Time]
	// ownFamilies are the exporter's families on the last page, without lines. Those that appear later have names that no target may use.
	ownFamilies atomic.Pointer[[]exposition.Family]
	// served are the last finished pages, by exposition.Choice.
	served sync.Map
}

// Page is the metrics page as one request gets it: Start, then End.
type Page struct {
	ContentType, ContentEncoding string
	Start, End                   []byte
}

// finished is an encoded page with the time of its snapshot.
type finished struct {
	exposition.Body
	snapshot, made time.Time
}

const (
	// pageWait is how long a request waits for its page before it gets the last one, and longPageWait how long if the last one is older
	// than maxServedAge. A scraper's timeout shortens both to waitShare of it.
	pageWait     = 2 * time.Second
	longPageWait = 8 * time.Second
	waitShare    = 0.8
	// maxServedAge is the age from which on values would be stale.
	maxServedAge = judgementStalledAfter
	// keepServed is how long the last page in an encoding stays in memory while pages in others are made.
	keepServed = 10 * time.Minute
)

func newPages(own prometheus.Gatherer, log *slog.Logger) pages {
	return pages{log: log, own: own, making: make(chan struct{}, 1)}
}

// Page returns the page of the current snapshot, in the encoding that a request with these headers asks for. It makes the page unless
// an earlier request has done so. If that takes too long, it returns the last page. Instead of one with stale values, it returns a page
// without values, whose heartbeat lets the alert PollStalled fire.
func (p *Poller) Page(h http.Header) Page {
	choice := p.pages.choices.Of(h)
	s := p.Snapshot()
	if time.Since(s.Time) > maxServedAge {
		return p.pages.withoutValues(s, choice)
	}
	if page := s.page.Load(); page != nil {
		if body, made := page.Body(choice); made {
			return finished{Body: body, snapshot: s.Time}.served()
		}
	}
	wait := longPageWait
	if _, fresh := p.pages.last(choice); fresh {
		wait = pageWait
	}
	if timeout, err := strconv.ParseFloat(h.Get("X-Prometheus-Scrape-Timeout-Seconds"), 64); err == nil && timeout > 0 {
		wait = time.Duration(min(wait.Seconds(), waitShare*timeout) * float64(time.Second))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case p.pages.making <- struct{}{}:
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.pages.make(p.Snapshot(), choice)
		}()
		select {
		case <-done:
		case <-timer.C:
		}
	case <-timer.C:
	}
	if last, fresh := p.pages.last(choice); fresh {
		return last.served()
	}
	return p.pages.withoutValues(p.Snapshot(), choice)
}

// last returns the last page in an encoding, unless its values would be stale.
func (p *pages) last(choice exposition.Choice) (f finished, fresh bool) {
	if last, ok := p.served.Load(choice); ok {
		f = last.(finished)
	}
	return f, time.Since(f.snapshot) <= maxServedAge
}

// buildInfo shows Prometheus that the exporter answers, so that ExporterDown does not fire beside PollStalled.
var buildInfo = versioncollector.NewCollector("chatstack_exporter")

// withoutValues is a page with the build, the heartbeat and the clock. The heartbeat stands still while no page can be made.
func (p *pages) withoutValues(s *Snapshot, choice exposition.Choice) Page {
	heartbeat := s.heartbeat
	if begun := p.begun(); begun.Before(heartbeat) {
		heartbeat = begun
	}
	now := time.Now()
	metrics := make(chan prometheus.Metric, 1)
	buildInfo.Collect(metrics)
	families, err := new(exposition.Encoder).Encode([]prometheus.Metric{<-metrics, heartbeatMetric(now, heartbeat)})
	if err != nil {
		panic(err) // a programming error: the metrics are constant
	}
	page, _ := exposition.Compose(append(families, timeFamily))
	return finished{Body: page.Encode(choice), snapshot: now}.served()
}

// make makes and encodes the page of a snapshot. The caller has put a token into making.
func (p *pages) make(s *Snapshot, choice exposition.Choice) {
	defer func() { <-p.making }()
	now := time.Now()
	first := p.since.CompareAndSwap(nil, &now)
	page, err := p.of(s)
	if err != nil {
		if first {
			p.log.Error("no metrics page can be made", "err", err)
		}
		return
	}
	p.served.Store(choice, finished{page.Encode(choice), s.Time, now})
	p.served.Range(func(choice, f any) bool {
		if now.Sub(f.(finished).made) >= keepServed {
			p.served.Delete(choice)
		}
		return true
	})
	p.since.Store(nil)
}

// begun is since when a page is being made, or cannot be made; now if all is well.
func (p *pages) begun() time.Time {
	if since := p.since.Load(); since != nil {
		return *since
	}
	return time.Now()
}

// of returns the page of a snapshot, and makes it unless it is made already.
func (p *pages) of(s *Snapshot) (*exposition.Page, error) {
	if page := s.page.Load(); page != nil {
		return page, nil
	}
	own, err := p.families(s)
	if err != nil {
		return nil, err
	}
	names := slices.Clone(own)
	for i := range names {
		names[i].Text, names[i].OpenMetrics = nil, nil
	}
	p.ownFamilies.Store(&names)
	// publish has reported the clashes of this snapshot.
	page, _ := exposition.Compose(slices.Insert(slices.Clone(s.Families), 0, own)...)
	s.page.Store(page)
	return page, nil
}

// clashes returns what a page of the snapshot leaves out. Source 0 is the exporter itself, and the targets follow.
func (p *pages) clashes(s *Snapshot) []exposition.Clash {
	var own []exposition.Family
	if names := p.ownFamilies.Load(); names != nil {
		own = *names
	}
	return exposition.Clashes(slices.Insert(slices.Clone(s.Families), 0, own)...)
}

// timeFamily is the exporter's clock. Its sample is made when the page is served.
var timeFamily = exposition.Family{
	Name: "chatstack_exporter_time_seconds",
	Type: model.MetricTypeGauge,
	Unit: "seconds",
	Help: "Unix time when the exporter served this page, by its own clock.",
}

// served is the page as it is served now. The clock is the snapshot's time plus its age by the monotonic clock, so a step of the wall
// clock does not change its difference to the heartbeat on the same page.
func (f finished) served() Page {
	line := append(make([]byte, 0, 64), timeFamily.Name+" "...)
	line = strconv.AppendFloat(line, unixSeconds(f.snapshot.Add(time.Since(f.snapshot))), 'f', -1, 64)
	page := Page{ContentType: f.ContentType, ContentEncoding: f.ContentEncoding}
	page.Start, page.End = f.With(append(line, '\n'))
	return page
}

var heartbeatDesc = prometheus.NewDesc("chatstack_poll_last_completed_timestamp_seconds",
	"Unix time of the poll loop's last heartbeat; it stops while probes are overdue.", nil, nil)

// heartbeatMetric is the heartbeat by the clock at now, so that a step of the clock in between does not change its age.
func heartbeatMetric(now, heartbeat time.Time) prometheus.Metric {
	return exposition.NewSample(heartbeatDesc, prometheus.GaugeValue, unixSeconds(now.Add(heartbeat.Sub(now))))
}

// families returns the exporter's own families for the page of a snapshot.
func (p *pages) families(s *Snapshot) ([]exposition.Family, error) {
	gathered, err := p.own.Gather()
	if err != nil {
		// A page without a few of the exporter's own metrics is better than an old page.
		p.log.Error("own metrics are incomplete", "err", err)
	}
	own, err := exposition.FromGathered(gathered)
	if err != nil {
		return nil, fmt.Errorf("encode own metrics: %w", err)
	}
	own = append(own, timeFamily)
	encode := func(metrics []prometheus.Metric) {
		families, encodeErr := new(exposition.Encoder).Encode(metrics)
		own, err = append(own, families...), errors.Join(err, encodeErr)
	}
	encode([]prometheus.Metric{heartbeatMetric(s.Time, s.heartbeat)})
	if s.Judgement != nil {
		encode(judgementMetrics(s.Judgement))
	}
	for _, family := range statusFamilies {
		encode(family.samples(s.Statuses))
	}
	encode(droppedSeries(s.Statuses))
	if err != nil {
		return nil, fmt.Errorf("encode what is known of the targets: %w", err)
	}
	return own, nil
}
