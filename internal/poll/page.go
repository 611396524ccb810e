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
	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// pages makes metrics pages: of each snapshot at most one, and of that only the encodings that somebody asks for. Snapshots are at
// least publishInterval apart, which bounds what frequent requests cost.
type pages struct {
	log     *slog.Logger
	own     prometheus.Gatherer
	choices exposition.Choices
	// making is held while a page is made or encoded; since is when that began, nil while nobody does.
	making chan struct{}
	since  atomic.Pointer[time.Time]
	// ownFamilies are the exporter's families on the last page, without lines.
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
	// pageWait is how long a request waits for its page. After that it gets the last one, whose heartbeat shows its age.
	pageWait = 2 * time.Second
	// keepServed is how long the last page stays in memory in an encoding without requests.
	keepServed = 10 * time.Minute
)

// ErrNoPage says that the first page takes too long to make.
var ErrNoPage = errors.New("the metrics page is not ready yet, retry in a few seconds")

func newPages(own prometheus.Gatherer, log *slog.Logger) pages {
	return pages{log: log, own: own, making: make(chan struct{}, 1)}
}

// Page returns the page of the current snapshot, in the encoding that a request with these headers asks for. It makes the page unless
// an earlier request has done so. If that takes longer than pageWait, it returns the last page, or ErrNoPage if there is none.
func (p *Poller) Page(h http.Header) (Page, error) {
	choice := p.pages.choices.Of(h)
	s := p.Snapshot()
	if page := s.page.Load(); page != nil {
		if body, made := page.Body(choice); made {
			return finished{Body: body, snapshot: s.Time}.served(), nil
		}
	}
	timer := time.NewTimer(pageWait)
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
	last, ok := p.pages.served.Load(choice)
	if !ok {
		return Page{}, ErrNoPage
	}
	return last.(finished).served(), nil
}

// make makes and encodes the page of a snapshot. The caller has put a token into making.
func (p *pages) make(s *Snapshot, choice exposition.Choice) {
	now := time.Now()
	p.since.Store(&now)
	defer func() {
		p.since.Store(nil)
		<-p.making
	}()
	page, err := p.of(s)
	if err != nil {
		p.log.Error("the metrics page was not made", "err", err)
		return
	}
	p.served.Store(choice, finished{page.Encode(choice), s.Time, now})
	p.served.Range(func(choice, f any) bool {
		if now.Sub(f.(finished).made) >= keepServed {
			p.served.Delete(choice)
		}
		return true
	})
}

// begun is when the page that is being made was begun; now if none is.
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
	Name: "chatstack_exporter_time_seconds", Type: model.MetricTypeGauge, Unit: "seconds", Help: "Unix time when the exporter served this page, by its own clock.",
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
	encode([]prometheus.Metric{
		prometheus.MustNewConstMetric(heartbeatDesc, prometheus.GaugeValue, unixSeconds(s.Time.Add(s.heartbeat.Sub(s.Time)))),
	})
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
