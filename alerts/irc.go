package alerts

import (
	"fmt"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// The alerts on the IRC network.

var ircUsersGone = row{
	name:      health.AlertUsersGone,
	AlertKind: gone("irc_users_gone"),
	server:    server{name: "irc"},
	timed:     true,
	on:        someAreTypical,
	off:       offByTypical,
	judged:    &health.Rule{ExcusedIn: "chatstack_irc_excused"},
	fewest:    fewest{"chatstack:irc_users", "chatstack_irc_users", "chatstack_irc_excused"},
	evidence:  leaving,
	warning: message{
		goneWhen, "Nobody is on the IRC network.",
		goneText + "Clients may not reach the server. First connect with a client of your own.",
	},
}

var ircServersSplit = row{
	name: "IRCServersSplit",
	AlertKind: kind("irc_servers_split", config.Keys("for", "keep_firing_for", "enabled"),
		config.AlertSettings{Level: lasting(5*minute, 5*minute)}),
	server: ofKind("irc_rpc"),
	timed:  true,
	on:     func(s *config.AlertSettings) bool { return s.Enabled },
	off:    "off; with `enabled: true`: <after>",
	fewest: fewest{"chatstack:irc_servers", "chatstack_irc_servers", "chatstack_irc_excused"},
	evidence: evidence{
		expr: func(_ *config.Alerts, t *alert) string {
			return fmt.Sprintf("%s < min_over_time(%[1]s[%[2]s] offset %[2]s)", t.fewest.record, seconds(day))
		},
		trials: short(splitTrials),
	},
	warning: message{
		"", "The IRC network has split; servers still linked: {{ $value }}.",
		"The day before, more were linked all the time. Users on the two sides cannot see each other. First see who is missing: " +
			"/MAP. The alert ends a day after the split, even if nobody comes back.",
	},
}

// splitTrials have a server leave the network, on days with and without an earlier split.
func splitTrials(a *config.Alerts, t *alert) []trial {
	hold, keep := t.rounds()
	servers := func(exporter int, steps ...step) input { return from(exporter, t.fewest.series, nil, steps...) }
	split := t.ceil(day) + 5
	fires := split + hold
	back := fires + 2
	gone := []step{{value: 3}, {from: split, value: 2}}
	then := func(later ...step) []step { return append(slices.Clone(gone), later...) }
	excused := func(steps ...step) []input {
		return []input{servers(0, gone...), from(0, t.fewest.excused, nil, steps...)}
	}
	return append([]trial{
		try("a server splits and comes back", []input{servers(0, then(step{from: back, value: 3})...)},
			append([]check{{split - 1, false}}, between(fires, back+keep)...)...),
		try("one of two exporters sees it", []input{servers(0, gone...), servers(1, steady(3)...)}, check{fires, true}),
		try("both exporters see it", []input{servers(0, gone...), servers(1, gone...)}, check{fires, true}),
		try("one is added", []input{servers(0, step{value: 3}, step{from: split, value: 4})}, check{fires, false}),
		try("all scrapes are lost", []input{servers(0, then(step{from: back, value: lost})...)},
			t.forgotten(back, keep, a.Lookback, true)...),
		try("maintenance begins", excused(step{value: lost}, step{from: back, value: 1}),
			check{back - 1, true}, check{back + keep - 1, true}, check{back + keep, false}),
		try("maintenance ends", excused(step{value: lost}, step{from: split - 1, value: 1}, step{from: back, value: lost}),
			t.forgotten(back, hold, a.Lookback, false)...),
	}, when(hold > 5, try("two scrapes are lost",
		[]input{servers(0, then(step{from: split + 2, value: lost}, step{from: split + 4, value: 2})...)},
		check{fires - 1, false}, check{fires, true}))...)
}

var ircServicesUnlinked = row{
	name:      health.AlertServicesUnlinked,
	AlertKind: flat("irc_services_unlinked", 5*minute, 2*minute),
	judged:    &health.Rule{Pages: true, BeginsAnew: true, Excuses: []health.Excuser{health.ByServer, health.ByServices}},
	together:  withCause,
	evidence:  problem,
	page: Words{
		"IRC services are not linked",
		"Nobody can log in to an account. Read the services' log, and check the IRC server's link block.",
	},
	panels:   []string{"irc/Services linked"},
	warning:  message{insteadOfCritical, "The IRC services are not linked to the IRC server.", unlinkedText},
	critical: message{"", "The IRC services have been unlinked from the IRC server for over <for>.", unlinkedText},
}

const unlinkedText = "Unlinked" + sinceThen + " The services run, but nobody can log in to an account. The IRC server's log says why."

// gone are the settings of an alert on nobody being there although the median of the last day is higher.
func gone(key string) config.AlertKind {
	return kind(key, config.Keys("for", "keep_firing_for", "typical", "bots"),
		config.AlertSettings{Level: lasting(10*minute, 5*minute), Typical: 5}, func(c *config.AlertCheck) {
			c.Number("typical", c.Typical, config.MaxCount)
			c.Number("bots", c.Bots, max(c.Typical-1, 0))
		})
}

// leastHistory is the minimum of the history that defines what is usual.
const leastHistory = 3 * hour

func someAreTypical(s *config.AlertSettings) bool { return s.Typical > 0 }

const (
	offByTypical = "off (`typical: 0`)"
	goneWhen     = "<nobody><held>, if the median of the last 24 hours is <typical> or more"
	goneText     = "There has been nobody for over <for>; the median of the last 24 hours is {{ $value }}. "
)

// leaving is true while only bots are left although the median over a day is higher.
var leaving = evidence{
	expr: func(a *config.Alerts, t *alert) string {
		n, _ := rounds(a, leastHistory)
		return fmt.Sprintf("quantile_over_time(0.5, %s[%s]) >= %d and %[1]s <= %[5]d and count_over_time(%[1]s[%[2]s]) >= %[4]d",
			t.fewest.record, seconds(day), t.settings.Typical, n, t.settings.Bots)
	},
	trials: short(goneTrials),
}

// goneTrials have users for hours, and then none.
func goneTrials(a *config.Alerts, t *alert) []trial {
	usual, nobody := float64(t.settings.Typical), float64(t.settings.Bots)
	least, _ := rounds(a, leastHistory)
	hold, keep := t.rounds()
	people := func(exporter int, steps ...step) input { return from(exporter, t.fewest.series, nil, steps...) }
	leaves := least + 10
	fires := leaves + hold
	back := fires + 2
	silent := []check{{fires + 1, false}}
	gone := []step{{value: usual}, {from: leaves, value: nobody}}
	excused := func(steps ...step) []input {
		return []input{people(0, gone...), from(0, t.fewest.excused, nil, steps...)}
	}
	early := least - 3 - hold
	trials := []trial{
		try("all leave, and one comes back", []input{people(0, append(slices.Clone(gone), step{from: back, value: nobody + 1})...)},
			between(fires, back+keep)...),
		try("there were fewer", []input{people(0, step{value: usual - 1}, step{from: leaves, value: nobody})}, silent...),
		try("one stays", []input{people(0, step{value: usual}, step{from: leaves, value: nobody + 1})}, silent...),
		try("one of two exporters sees nobody", []input{people(0, gone...), people(1, steady(usual)...)}, check{fires, true}),
		try("both exporters see nobody", []input{people(0, gone...), people(1, gone...)}, check{fires, true}),
		try("two exporters see half as many", []input{
			people(0, step{value: usual / 2.5}, step{from: leaves, value: nobody}),
			people(1, step{value: usual / 2.5}, step{from: leaves, value: nobody}),
		}, silent...),
		try("all scrapes are lost", []input{people(0, append(slices.Clone(gone), step{from: back, value: lost})...)},
			t.forgotten(back, keep, a.Lookback, true)...),
		try("maintenance begins", excused(step{value: lost}, step{from: back, value: 1}),
			check{back - 1, true}, check{back + keep - 1, true}, check{back + keep, false}),
		try("maintenance ends", excused(step{value: lost}, step{from: leaves - 1, value: 1}, step{from: back, value: lost}),
			t.forgotten(back, hold, a.Lookback, false)...),
	}
	ends := 2*leaves - 1 + keep
	return slices.Concat(trials,
		when(hold > 5, try("two scrapes are lost",
			[]input{people(0, append(slices.Clone(gone), step{from: leaves + 2, value: lost}, step{from: leaves + 4, value: nobody})...)},
			check{fires - 1, false}, check{fires, true})),
		when(early > least/2+hold, try("after a few hours", []input{people(0, step{value: usual}, step{from: early, value: nobody})},
			check{least - 2 + hold, false}, check{least - 1 + hold, true})),
		when(hold < least/2, try("nobody comes back", []input{people(0, gone...)}, check{ends - 1, true}, check{ends, false})))
}
