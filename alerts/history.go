package alerts

import (
	"fmt"
	"math"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

const (
	// day is the history that defines what is usual.
	day = config.Duration(24 * time.Hour)
	// leastHistory is the minimum of that history.
	leastHistory = config.Duration(3 * time.Hour)
)

// historyAlerts compare the present with past hours, which only Prometheus stores.
func historyAlerts(a *config.Alerts) []alert {
	list := []alert{fillingAlert(a), sustainedAlert(a)}
	if a.XMPPSessionsGone.Typical > 0 {
		gone := goneAlert(a, "XMPPSessionsGone", xmppSessions, &a.XMPPSessionsGone)
		gone.summary = "Nobody is logged in at the XMPP server."
		gone.description += "Clients may not reach the server, or cannot log in. First log in with a client of your own."
		list = append(list, gone)
	}
	if a.IRCUsersGone.Typical > 0 {
		gone := goneAlert(a, "IRCUsersGone", ircUsers, &a.IRCUsersGone)
		gone.summary = "Nobody is on the IRC network."
		gone.description += "Clients may not reach the server. First connect with a client of your own."
		list = append(list, gone)
	}
	if split := a.IRCServersSplit; split.Enabled {
		list = append(list, alert{
			name: "IRCServersSplit", severity: Warning, hold: split.For, keep: split.KeepFiringFor,
			expr:        fmt.Sprintf("%s < min_over_time(%[1]s[%[2]s] offset %[2]s)", ircServers, seconds(day)),
			summary:     "The IRC network has split; servers still linked: {{ $value }}.",
			description: "The day before, more were linked all the time. Users on the two sides cannot see each other. First see who is missing: /MAP. The alert ends a day after the split, even if nobody comes back.",
		})
	}
	return list
}

// fillingAlert requires the trend in both halves of the window, since one large file changes the trend of one half only.
// predict_linear predicts from the time of the evaluation, even with an offset.
func fillingAlert(a *config.Alerts) alert {
	f := &a.DataVolumeFilling
	half := f.Window / 2
	return alert{
		name: "DataVolumeFilling", severity: Warning, hold: f.For, keep: f.KeepFiringFor,
		expr: fmt.Sprintf("%s > %s and predict_linear(%[1]s[%[3]s], %[4]s) > 1 and predict_linear(%[1]s[%[3]s] offset %[3]s, %[4]s) > 1",
			volumeUsed, number(float64(f.Over)/100), seconds(half), number(f.Within.Std().Seconds())),
		summary:     "Volume {{ $labels.volume }} will be full within " + inWords(f.Within) + " at this rate.",
		description: "It is " + shareUsed + " full, and has been filling for " + inWords(f.Window) + ". When it is full, services lose data or stop. First find what grows, with du.",
	}
}

// rounds returns the number of evaluations in a window, and a range with exactly as many. The range begins between two evaluations,
// since Prometheus 2 and 3 differ about a sample at its very beginning.
func rounds(a *config.Alerts, window config.Duration) (n int, within config.Duration) {
	n = max(int(math.Round(float64(window)/float64(a.Interval))), 1)
	return n, config.Duration(n)*a.Interval - a.Interval/2
}

func sustainedAlert(a *config.Alerts) alert {
	s := &a.XMPPAuthFailuresSustained
	n, within := rounds(a, s.Window)
	return alert{
		name: "XMPPAuthFailuresSustained", severity: Warning, keep: s.KeepFiringFor,
		expr:        fmt.Sprintf("%s > %d", unexcusedLogins(a, fmt.Sprintf("sum_over_time(%s[%s]) / %d", authFailureRate, seconds(within), n)), s.Over),
		summary:     fmt.Sprintf("Over %d XMPP logins per minute have failed, averaged over %s.", s.Over, inWords(s.Window)),
		description: `The average is {{ $value | printf "%.1f" }} per minute. Somebody may be trying passwords, slowly or in bursts. First find the addresses in the server's log.`,
	}
}

// goneAlert fires while only bots are left although the median over a day is higher.
func goneAlert(a *config.Alerts, name, series string, g *config.GoneAlert) alert {
	n, _ := rounds(a, leastHistory)
	return alert{
		name: name, severity: Warning, hold: g.For, keep: g.KeepFiringFor,
		expr: fmt.Sprintf("quantile_over_time(0.5, %s[%s]) >= %d and %[1]s <= %[5]d and count_over_time(%[1]s[%[2]s]) >= %[4]d",
			series, seconds(day), g.Typical, n, g.Bots),
		description: "There has been nobody for over " + inWords(g.For) + "; the median of the last 24 hours is {{ $value }}. ",
	}
}
