package alerts

import (
	"fmt"
	"maps"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// The alerts on how Prometheus scrapes exporters.

var honorLabelsOff = row{
	name:      "HonorLabelsOff",
	AlertKind: flat("honor_labels_off", 15*minute, 0),
	server:    theExporter,
	timed:     true,
	evidence: evidence{
		expr: func(a *config.Alerts, _ *alert) string {
			return latest(a, "chatstack_label_check") + " unless " + latest(a, "chatstack_label_check"+matching(LabelCheck()))
		},
		trials: labelTrials,
	},
	warning: message{
		"", "Prometheus overwrites labels of exporter {{ $labels.instance }}.",
		"Alerts and dashboards name the wrong container or endpoint, or miss the series. Set honor_labels: " +
			"true in the scrape configuration.",
	},
}

// LabelCheck returns the labels of chatstack_label_check. Series of the exporter have them, and scrape configurations add them.
// Prometheus keeps their values only with honor_labels.
func LabelCheck() map[string]string {
	return map[string]string{"container": "ours", "endpoint": "ours", "host": "ours", "name": "ours", "role": "ours", "target": "ours"}
}

// labelTrials have one label after another overwritten.
func labelTrials(a *config.Alerts, t *alert) []trial {
	const name = "chatstack_label_check"
	hold, keep := t.rounds()
	fires := rise + hold
	end := fires + 2
	ours := func(exporter int, steps ...step) input { return from(exporter, name, LabelCheck(), steps...) }
	overwritten := func(exporter int, label string, steps ...step) input {
		labels := LabelCheck()
		labels["exported_"+label], labels[label] = labels[label], "theirs"
		return from(exporter, name, labels, steps...)
	}
	trials := []trial{
		try("all labels arrive", []input{ours(0, steady(1)...)}, check{fires + 2, false}),
		try("one of two exporters", []input{ours(0, steady(1)...), overwritten(1, "container", steady(1)...)}, check{fires, true}),
		try("both exporters", []input{overwritten(0, "endpoint", steady(1)...), overwritten(1, "endpoint", steady(1)...)},
			check{fires, true}).firing(2),
	}
	for _, label := range slices.Sorted(maps.Keys(LabelCheck())) {
		trials = append(trials, try(label+" is overwritten", []input{
			ours(0, step{value: 1}, step{from: rise, value: lost}, step{from: end, value: 1}),
			overwritten(0, label, step{value: lost}, step{from: rise, value: 1}, step{from: end, value: lost}),
		}, append([]check{{fires - 1, false}, {fires, true}}, t.forgotten(end, keep, a.Lookback, true)...)...))
	}
	return append(trials, try("two scrapes are lost",
		[]input{overwritten(0, "target", step{value: 1}, step{from: end, value: lost}, step{from: end + 2, value: 1})},
		check{end, true}, check{end + 1, true}, check{end + 2, true}))
}

var scrapedTooSeldom = row{
	name: "ScrapedTooSeldom",
	AlertKind: kind("scraped_too_seldom", holdKeys,
		config.AlertSettings{Level: lasting(15*minute, 0)}, func(c *config.AlertCheck) {
			c.AtLeast("for", c.For, fewestScrapes*c.Alerts.Lookback,
				fmt.Sprintf("%d times alerts.lookback, so that the alert ignores newly discovered exporters", fewestScrapes))
		}),
	server: theExporter,
	timed:  true,
	evidence: evidence{
		expr: func(a *config.Alerts, _ *alert) string {
			return fmt.Sprintf("count_over_time(%s[%s]) < %d", up(a), seconds(fewestScrapes*a.Lookback), fewestScrapes)
		},
		trials: scrapeTrials,
	},
	warning: message{
		"fewer than <scrapes> scrapes in <lookbacks>, <after>",
		"Prometheus scrapes exporter {{ $labels.instance }} too rarely: " +
			"{{ $value }} {{ if eq $value 1.0 }}time{{ else }}times{{ end }} in <lookbacks>.",
		"Scrapes are over <lookback> apart, so alerts come and go. Set scrape_interval to <interval>.",
	},
}

// scrapeTrials scrape as often as is just enough, and a little less often.
func scrapeTrials(a *config.Alerts, t *alert) []trial {
	window := fewestScrapes * a.Lookback
	hold, keep := t.rounds()
	job := map[string]string{"job": a.Job}
	const begin = 1
	// In any window of enough there are enough scrapes, and in none of tooFew.
	enough, tooFew := t.floor(a.Lookback), t.ceil(window)/(fewestScrapes-1)+1
	last := begin + t.ceil(window) + hold + 2*tooFew
	tooSeldom := scraped(tooFew, last+1, 1, 0)
	seldom := from(0, "up", job, tooSeldom...)
	// again is when there are enough scrapes again if they are in each round after the last,
	// with those at the edge of the window or without.
	again := func(edge config.Duration) int {
		for n := last + 1; ; n++ {
			count := n - last
			for at := 0; at <= last; at += tooFew {
				if config.Duration(n-at)*config.Duration(t.pace) < window+edge {
					count++
				}
			}
			if count >= fewestScrapes {
				return n
			}
		}
	}
	return []trial{
		try("scrapes as far apart as may be", []input{from(0, "up", job, scraped(enough, last+1, 1, 0)...)},
			check{last - 1, false}, check{last, false}),
		try("scrapes a little further apart", []input{seldom}, check{hold - 1, false}, check{hold, true}, check{last, true}),
		try("another job", []input{from(0, "up", map[string]string{"job": a.Job + "2"}, tooSeldom...)}, check{last, false}),
		try("an exporter is found", []input{from(0, "up", job, step{value: lost}, step{from: rise, value: 1})},
			check{rise + hold - 1, false}, check{rise + hold, false}, check{last, false}),
		try("an exporter is down", []input{from(0, "up", job, steady(0)...)}, check{last, false}),
		try("one of two exporters", []input{seldom, from(1, "up", job, steady(1)...)}, check{last, true}),
		try("both exporters", []input{seldom, from(1, "up", job, tooSeldom...)}, check{last, true}).firing(2),
		try("scrapes are close again", []input{from(0, "up", job, append(slices.Clone(tooSeldom), step{from: last + 1, value: 1})...)},
			check{last, true}, check{again(1) - 1 + keep, true}, check{again(0) + keep, false}),
	}
}

// fewestScrapes is the number of scrapes in fewestScrapes times the lookback, if each two are at most the lookback apart.
const fewestScrapes = 5

var clockSkew = row{
	name: "ClockSkew",
	AlertKind: kind("clock_skew", append(config.Keys("for", "keep_firing_for"),
		config.AlertKey{Name: "over", At: func(s *config.AlertSettings) any { return &s.Apart }}),
		config.AlertSettings{Level: lasting(15*minute, 5*minute), Apart: minute},
		func(c *config.AlertCheck) { c.AtLeast("over", c.Apart, second, "") }),
	server: theExporter,
	timed:  true,
	evidence: evidence{
		expr: func(_ *config.Alerts, t *alert) string {
			return fmt.Sprintf("abs(timestamp(%[1]s) - %[1]s)", exporterClock) + aboveSeconds(t.settings.Apart)
		},
		trials: clockTrials,
	},
	panels: []string{"exporter/Clock skew"},
	warning: message{
		"over <apart> apart, <after>",
		"The clocks of Prometheus and exporter {{ $labels.instance }} are {{ $value | humanizeDuration }} apart.",
		"The limit is <apart>. One of the two clocks is wrong, so alerts about expiring certificates come too early or too late. " +
			"First run timedatectl on both machines.",
	},
}

// clockTrials have the exporter's clock ahead of Prometheus', or behind it. Prometheus' clock starts at 0.
func clockTrials(_ *config.Alerts, t *alert) []trial {
	limit := t.settings.Apart.Std().Seconds()
	hold, keep := t.rounds()
	fires := rise + hold
	end := fires + 2
	// ahead is a clock that is ahead of Prometheus' by so many seconds.
	ahead := func(from int, by float64) step { return step{from: from, value: t.time(from) + by, by: t.time(1)} }
	clock := func(exporter int, steps ...step) input {
		return from(exporter, "chatstack_exporter_time_seconds", nil, steps...)
	}
	edges := between(fires, end+keep)
	apart := func(by float64) []input { return []input{clock(0, ahead(0, 0), ahead(rise, by), ahead(end, 0))} }
	return []trial{
		try("the same time", []input{clock(0, ahead(0, 0))}, check{fires, false}),
		try("ahead", apart(above(limit)), edges...),
		try("behind", apart(-above(limit)), edges...),
		try("ahead by no more", apart(limit), check{fires, false}),
		try("behind by no more", apart(-limit), check{fires, false}),
		try("one of two exporters", []input{clock(0, ahead(0, 0)), clock(1, ahead(0, 2*limit))}, check{fires, true}),
		try("both exporters", []input{clock(0, ahead(0, 2*limit)), clock(1, ahead(0, 2*limit))}, check{fires, true}).firing(2),
		try("on a page that the exporter reads",
			[]input{from(0, "chatstack_exporter_time_seconds", map[string]string{"target": "another"}, ahead(0, 10*limit))},
			check{fires, false}),
	}
}
