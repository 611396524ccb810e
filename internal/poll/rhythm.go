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
	// rememberedScrapes is how many scrapes to remember per scraper.
	rememberedScrapes = 9
	maxScrapers       = 32
	maxOfAddress      = 4
	// leastGaps is the least number of gaps between scrapes that makes a rhythm.
	leastGaps = 3
	// likeness is the share of its period by which a scrape may be early or late, and of its interval by which a reading may be early.
	likeness = 0.025
	// drift is how much two periods that count as equal may differ: more than clocks drift, less than anybody would configure.
	drift = 0.01
	// silentPeriods is the number of periods without a scrape after which a scraper counts as gone.
	silentPeriods = 3.5
	// maxParts is the most parts of an interval to try when looking for a common divisor with a period.
	maxParts = 4
)

// rhythm learns when scrapers come. It survives reloads. All times are compared on the monotonic clock.
type rhythm struct {
	log *slog.Logger

	mu       sync.Mutex
	scrapers map[string]*scraper
	// leaders are the scrapers whose scrapes the readings precede, by interval of the readings.
	leaders map[time.Duration]string
}

// scraper is a client that scrapes regularly, or may turn out to.
type scraper struct {
	arrivals []time.Time // the newest last
	// period is the time between two scrapes, 0 if they are irregular; anchor is the time of one scrape, without its jitter.
	period time.Duration
	anchor time.Time
	jitter time.Duration
}

func newRhythm(log *slog.Logger) *rhythm {
	return &rhythm{log: log, scrapers: map[string]*scraper{}, leaders: map[time.Duration]string{}}
}

// scraped records a scrape. It never blocks: if the lock is taken, it skips this scrape.
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

// split detects two scrapers behind one address, such as a proxy's: every second arrival has the same period. It keeps one of them
// and returns the other, or nil if there is only one.
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

// forget makes room for one more scraper, within its address or overall. It drops the irregular scraper that was silent for longest, so
// a client that keeps changing its name displaces no regular scraper and no other address. The caller holds mu.
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
		silence, regular := now.Sub(s.last()), s.period > 0 && float64(now.Sub(s.last())) <= silentPeriods*float64(s.period)
		if rhythmic && !regular || rhythmic == regular && silence > longest {
			longest, who, rhythmic = silence, name, regular
		}
	}
	delete(r.scrapers, who)
}

func (s *scraper) last() time.Time { return s.arrivals[len(s.arrivals)-1] }

func (s *scraper) came(at time.Time) {
	if len(s.arrivals) > 0 && s.period > 0 && at.Sub(s.last()) > rememberedScrapes*s.period {
		s.arrivals = s.arrivals[:0] // too old to continue the rhythm
	}
	if len(s.arrivals) == rememberedScrapes {
		s.arrivals = slices.Delete(s.arrivals, 0, 1)
	}
	s.arrivals = append(s.arrivals, at)
	s.learn()
}

// learn computes the period from the median gap. Gaps of two or three periods mean missed scrapes. One gap in four may have any
// length, as after a restart of the scraper; only the scrapes after it predict the next one.
func (s *scraper) learn() {
	s.period = 0
	gaps := make([]time.Duration, 0, rememberedScrapes-1)
	for i := 1; i < len(s.arrivals); i++ {
		gaps = append(gaps, s.arrivals[i].Sub(s.arrivals[i-1]))
	}
	if len(gaps) < leastGaps {
		return
	}
	// Missed scrapes may lengthen most gaps, but hardly a gap is too short: so start from the lower quartile.
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
	// The latest run of gaps that fit: its length in time and in periods, and the place of each arrival in it.
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
	// How early or late each arrival of the run was, relative to the last one; the first is at 0 periods.
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

// beat is when scrapes are expected: at from plus any multiple of every, negative ones included.
type beat struct {
	from  time.Time
	every time.Duration
}

// commonDivisor returns the longest time that divides both the interval of readings, into maxParts at most, and the period of a scraper;
// 0 if there is none. Readings with a constant offset in it have a constant offset to scrapes.
func commonDivisor(interval, period time.Duration) time.Duration {
	for parts := 1; parts <= maxParts; parts++ {
		part := float64(interval) / float64(parts)
		n := math.Round(float64(period) / part)
		if n >= 1 && math.Abs(float64(period)-n*part) <= drift*float64(period) {
			return time.Duration(float64(period) / n)
		}
	}
	return 0
}

// next returns the rhythm of scrapes that readings of the interval should precede, or false if there is none. Of several scrapers it
// picks the one whose timing gives all of them the freshest data. It changes its choice only for one that is better by a tenth.
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
		if every := commonDivisor(interval, s.period); every > 0 {
			candidates = append(candidates, candidate{who: who, beat: beat{s.anchor.Add(-s.jitter), every}})
		}
	}
	leader := r.leaders[interval]
	if len(candidates) == 0 {
		if leader != "" {
			r.log.Info("no regular scraper left, probes are spread evenly", "interval", interval)
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
	if i := slices.IndexFunc(candidates, func(c candidate) bool { return c.who == leader }); i >= 0 &&
		candidates[i].age-best.age < best.every/10 {
		best = candidates[i]
	}
	if best.who != leader {
		r.log.Info("probes now run just before the scrapes of one scraper",
			"scraper", best.who, "period", r.scrapers[best.who].period.Round(time.Millisecond), "interval", interval)
		r.leaders[interval] = best.who
	}
	return best.beat, true
}

// modulo is the remainder of d in [0, m).
func modulo(d, m time.Duration) time.Duration { return (d%m + m) % m }
