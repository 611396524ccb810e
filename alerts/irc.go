package alerts

import (
	"fmt"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// The alerts on the IRC network.

var ircUsersGone = row{
	name:      health.AlertUsersGone,
	AlertKind: gone("irc_users_gone"),
	timed:     true,
	on:        someAreTypical,
	off:       offByTypical,
	evidence:  leaving(ircUsers, "chatstack_irc_users", "chatstack_irc_excused"),
	texts: []message{
		{
			Warning,
			goneWhen,
			"Nobody is on the IRC network.",
			goneText + "Clients may not reach the server. First connect with a client of your own.",
		},
	},
}

var ircServersSplit = row{
	name: "IRCServersSplit",
	AlertKind: kind("irc_servers_split", config.Keys("for", "keep_firing_for", "enabled"),
		config.AlertSettings{Level: lasting(5*minute, 5*minute)}),
	timed: true,
	on:    func(s *config.AlertSettings) bool { return s.Enabled },
	off:   "off; with `enabled: true`: <after>",
	evidence: evidence{
		expr: func(*config.Alerts, *alert) string {
			return fmt.Sprintf("%s < min_over_time(%[1]s[%[2]s] offset %[2]s)", ircServers, seconds(day))
		},
		trials: short(splitTrials),
	},
	texts: []message{
		{
			Warning,
			"",
			"The IRC network has split; servers still linked: {{ $value }}.",
			"The day before, more were linked all the time. Users on the two sides cannot see each other. First see who is missing: " +
				"/MAP. The alert ends a day after the split, even if nobody comes back.",
		},
	},
}

var ircServicesUnlinked = row{
	name:      health.AlertServicesUnlinked,
	AlertKind: flat("irc_services_unlinked", 5*minute, 2*minute),
	judged:    &health.Rule{Pages: true, Excuses: []health.Excuser{health.ByServer, health.ByServices}},
	evidence:  problem,
	page: Words{
		"IRC services are not linked",
		"Nobody can log in to an account. Read the services' log, and check the IRC server's link block.",
	},
	panels: []string{"irc/Services linked"},
	texts: []message{
		{
			Warning,
			insteadOfCritical,
			"The IRC services are not linked to the IRC server.",
			unlinkedText,
		},
		{
			Critical,
			"",
			"The IRC services have been unlinked from the IRC server for over <for>.",
			unlinkedText,
		},
	},
}

const unlinkedText = "Unlinked" + forValue + " The services run, but nobody can log in to an account. The IRC server's log says why."

// gone are the settings of an alert on nobody being there although the median of the last day is higher.
func gone(key string) config.AlertKind {
	return kind(key, config.Keys("for", "keep_firing_for", "typical", "bots"),
		config.AlertSettings{Level: lasting(10*minute, 5*minute), Typical: 5}, func(c *config.AlertCheck) {
			c.Number("typical", c.Typical, config.MaxCount)
			c.Number("bots", c.Bots, max(c.Typical-1, 0))
		})
}

func someAreTypical(s *config.AlertSettings) bool { return s.Typical > 0 }

const (
	offByTypical = "off (`typical: 0`)"
	goneWhen     = "<nobody><held>, if the median of the last 24 hours is <typical> or more"
	goneText     = "There has been nobody for over <for>; the median of the last 24 hours is {{ $value }}. "
)

// leaving is true while only bots are left although the median over a day is higher.
func leaving(recorded, series, excuse string) evidence {
	return evidence{
		expr: func(a *config.Alerts, t *alert) string {
			n, _ := rounds(a, leastHistory)
			return fmt.Sprintf("quantile_over_time(0.5, %s[%s]) >= %d and %[1]s <= %[5]d and count_over_time(%[1]s[%[2]s]) >= %[4]d",
				recorded, seconds(day), t.settings.Typical, n, t.settings.Bots)
		},
		trials: short(func(a *config.Alerts, t *alert) []trial { return goneTrials(a, t, series, excuse) }),
	}
}
