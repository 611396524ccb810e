package poll

import (
	"cmp"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// rememberedScrapes is how many arrivals are remembered of a scraper, maxScrapers of how many scrapers.
	rememberedScrapes = 9
	maxScrapers       = 32
	// maxOfAddress is how many of them may be of one address.
	maxOfAddress = 4
	// leastGaps is how many gaps between scrapes make a rhythm.
	leastGaps = 3
	// likeness is by which share of its period a scrape may come early or late, and a share of a target's interval in
	// which a reading may come early, to keep its place before a scrape.
	likeness = 0.025
	// drift is by which share the periods of a scraper and of readings may differ that are meant to be the same: it is more
	// than clocks do, and less than anybody would configure.
	drift = 0.01
	// silentPeriods is after how many periods a scraper that has not come is not waited for any more.
	silentPeriods = 3.5
	// maxParts is into how many parts an interval is divided at most to find what it has in common with a period.
	maxParts = 4
)

// rhythm learns when scrapers come. It outlives the pollers, so that a reload forgets nothing. All times are compared on
// the monotonic clock.
type rhythm struct {
	log *slog.Logger

	mu       sync.Mutex
	scrapers map[string]*scraper
	// leaders are whose scrapes readings are made before, by their interval.
	leaders map[time.Duration]string
}

// scraper is one that comes again and again.
type scraper struct {
	arrivals []time.Time // the newest last
	// period is the time between two scrapes, 0 where there is no rhythm; anchor is when one came, but for its jitter.
	period time.Duration
	anchor time.Time
	jitter time.Duration
}

func newRhythm(log *slog.Logger) *rhythm {
	return &rhythm{log: log, scrapers: map[string]*scraper{}, leaders: map[time.Duration]string{}}
}

// scraped notes that a scraper came. It waits for nobody: where somebody else has the lock, this scrape is not noted.
func (r *rhythm) scraped(who string, at time.Time) {
	if !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	if twin := r.scrapers[twinOf(who)]; twin != nil && twin.expects(at) {
		twin.came(at)
		return
	}
	s := r.scrapers[who]
	if s == nil {
		r.forget(who, at)
		s = &scraper{}
		r.scrapers[who] = s
	}
	s.came(at)
	if twin := s.split(); twin != nil {
		r.forget(who, at)
		r.scrapers[twinOf(who)] = twin
	}
}

// twinOf names the second of a pair that looks like one scraper.
func twinOf(who string) string { return who + " (2)" }

// expects reports whether a scrape fits the scraper's rhythm.
func (s *scraper) expects(at time.Time) bool {
	tolerance := time.Duration(likeness * float64(s.period))
	return s.period > 0 && modulo(at.Sub(s.anchor)+tolerance, s.period) <= 2*tolerance
}

// split keeps every second arrival of a scraper that has no rhythm, if it and the rest have the same one, and returns the
// rest: a pair behind one address, such as that of a proxy, looks like one scraper. It is nil where there is no pair.
func (s *scraper) split() *scraper {
	if s.period > 0 || len(s.arrivals) < rememberedScrapes {
		return nil
	}
	var pair [2]scraper
	for i, at := range s.arrivals {
		pair[i%2].arrivals = append(pair[i%2].arrivals, at)
	}
	for i := range pair {
		pair[i].learn()
	}
	if pair[0].period == 0 || pair[1].period == 0 ||
		math.Abs(float64(pair[0].period-pair[1].period)) > drift*float64(pair[0].period) {
		return nil
	}
	*s = pair[0]
	return &pair[1]
}

// forget makes room for one more scraper, of its address or of all: by the one that was silent for the longest time among
// those without a rhythm. Who comes under ever new names pushes nobody out who has one, nor anybody of another address.
// The caller holds mu.
func (r *rhythm) forget(newcomer string, now time.Time) {
	address, _, _ := strings.Cut(newcomer, " ")
	address += " "
	same := 0
	for name := range r.scrapers {
		if strings.HasPrefix(name, address) {
			same++
		}
	}
	if same < maxOfAddress {
		if len(r.scrapers) < maxScrapers {
			return
		}
		address = ""
	}
	longest, who, rhythmic := time.Duration(-1), "", true
	for name, s := range r.scrapers {
		if !strings.HasPrefix(name, address) {
			continue
		}
		silence, has := now.Sub(s.last()), s.period > 0 && float64(now.Sub(s.last())) <= silentPeriods*float64(s.period)
		if rhythmic && !has || rhythmic == has && silence > longest {
			longest, who, rhythmic = silence, name, has
		}
	}
	delete(r.scrapers, who)
}

func (s *scraper) last() time.Time { return s.arrivals[len(s.arrivals)-1] }

func (s *scraper) came(at time.Time) {
	if len(s.arrivals) > 0 && s.period > 0 && at.Sub(s.last()) > rememberedScrapes*s.period {
		s.arrivals = s.arrivals[:0] // of another time
	}
	if len(s.arrivals) == rememberedScrapes {
		s.arrivals = slices.Delete(s.arrivals, 0, 1)
	}
	s.arrivals = append(s.arrivals, at)
	s.learn()
}

// learn finds the period as the median gap, where gaps of two or three periods are scrapes that were missed. One gap of
// four may be of no such length, as after a restart of the scraper; what came before it says nothing of when the next
// scrape comes.
func (s *scraper) learn() {
	s.period = 0
	gaps := make([]time.Duration, 0, rememberedScrapes-1)
	for i := 1; i < len(s.arrivals); i++ {
		gaps = append(gaps, s.arrivals[i].Sub(s.arrivals[i-1]))
	}
	if len(gaps) < leastGaps {
		return
	}
	// Most gaps may be longer because of scrapes that were missed; hardly one is shorter.
	lengths := slices.Sorted(slices.Values(gaps))
	short := lengths[len(lengths)/4]
	if short <= 0 {
		return
	}
	for i, gap := range lengths {
		lengths[i] = time.Duration(float64(gap) / max(1, math.Round(float64(gap)/float64(short))))
	}
	slices.Sort(lengths)
	median := lengths[len(lengths)/2]
	// The run of gaps that fit up to now: their sum, in time and in periods, and where in it each arrival lies.
	var run time.Duration
	var periods float64
	var places []float64
	misfits := 0
	for _, gap := range gaps {
		n := math.Round(float64(gap) / float64(median))
		if n < 1 || n > 3 || math.Abs(float64(gap)-n*float64(median)) > likeness*float64(median) {
			misfits++
			run, periods, places = 0, 0, nil
			continue
		}
		run += gap
		periods += n
		places = append(places, periods)
	}
	if misfits*leastGaps > len(gaps)-misfits {
		return
	}
	s.period, s.anchor, s.jitter = median, s.last(), 0
	if periods == 0 {
		return
	}
	s.period = time.Duration(float64(run) / periods)
	// How early or late each arrival of the run was, by the last one; the first one lies at 0 periods.
	off := make([]time.Duration, 0, len(places)+1)
	first := len(s.arrivals) - 1 - len(places)
	for i, at := range s.arrivals[first:] {
		place := 0.0
		if i > 0 {
			place = places[i-1]
		}
		off = append(off, at.Sub(s.last())+time.Duration((periods-place)*float64(s.period)))
	}
	slices.Sort(off)
	s.anchor = s.last().Add(off[len(off)/2])
	s.jitter = max(off[len(off)-1]-off[len(off)/2], off[len(off)/2]-off[0])
}

// beat is when scrapes are expected: at from, and every so often before and after it.
type beat struct {
	from  time.Time
	every time.Duration
}

// share finds the longest time of which the interval of readings and the period of a scraper are multiples, the interval
// a small one: readings that keep their place in it keep their distance to scrapes. It is 0 where there is none.
func share(interval, period time.Duration) time.Duration {
	for parts := 1; parts <= maxParts; parts++ {
		part := float64(interval) / float64(parts)
		n := math.Round(float64(period) / part)
		if n >= 1 && math.Abs(float64(period)-n*part) <= drift*float64(period) {
			return time.Duration(float64(period) / n)
		}
	}
	return 0
}

// next returns when scrapes are expected that readings of that interval can be made before, or false where there is no
// such rhythm. Of several scrapers it is the one whose scrapes, awaited, make the data of all the youngest in sum; it
// stays the same one while none is better by a tenth.
func (r *rhythm) next(interval time.Duration) (beat, bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	type candidate struct {
		who string
		beat
		age time.Duration
	}
	var candidates []candidate
	for who, s := range r.scrapers {
		if s.period == 0 || float64(now.Sub(s.last())) > silentPeriods*float64(s.period) {
			continue
		}
		if every := share(interval, s.period); every > 0 {
			candidates = append(candidates, candidate{who: who, beat: beat{s.anchor.Add(-s.jitter), every}})
		}
	}
	leader := r.leaders[interval]
	if len(candidates) == 0 {
		if leader != "" {
			r.log.Info("no scraper comes in a rhythm any more that readings could follow: they are spread", "interval", interval)
			delete(r.leaders, interval)
		}
		return beat{}, false
	}
	for i := range candidates {
		c := &candidates[i]
		for _, other := range candidates {
			if math.Abs(float64(other.every-c.every)) <= drift*float64(c.every) {
				c.age += modulo(other.from.Sub(c.from)+spare, c.every)
			} else {
				c.age += other.every / 2 // anywhere between two of its scrapes
			}
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.age, b.age), cmp.Compare(a.who, b.who)) })
	best := candidates[0]
	if i := slices.IndexFunc(candidates, func(c candidate) bool { return c.who == leader }); i >= 0 && candidates[i].age-best.age < best.every/10 {
		best = candidates[i]
	}
	if best.who != leader {
		r.log.Info("readings are made just before the scrapes of", "scraper", best.who, "period", r.scrapers[best.who].period.Round(time.Millisecond), "interval", interval)
		r.leaders[interval] = best.who
	}
	return best.beat, true
}

// modulo is the remainder of d in [0, m).
func modulo(d, m time.Duration) time.Duration { return (d%m + m) % m }
