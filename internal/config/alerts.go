package config

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/version"
)

// Alerts are the thresholds of the alert rules, with their durations and windows. DefaultAlerts has those of the shipped
// rules.
type Alerts struct {
	// Job is the label job of the exporter's scrapes; its series up shows that the exporter is gone.
	Job string `yaml:"job"`
	// RunbookURL is the base of runbook links without ExternalURL, and in alerts about the exporter itself.
	RunbookURL string `yaml:"runbook_url"`
	// ExternalURL is a copy of Web.ExternalURL; the exporter serves its runbooks there.
	ExternalURL string `yaml:"-"`
	// Interval is the time between two evaluations of the rules, and should be that between two scrapes.
	Interval Duration `yaml:"interval"`
	// Lookback is how long the last scrape of a series counts, so that one or two lost scrapes change nothing.
	Lookback Duration `yaml:"lookback"`
	// SlowLookback is the same for certificates, which change slowly.
	SlowLookback Duration `yaml:"slow_lookback"`

	ContainerUnhealthy        UnhealthyAlert `yaml:"container_unhealthy"`
	XMPPAuthFailureRate       RateAlert      `yaml:"xmpp_auth_failure_rate"`
	TLSCertificateExpiry      ExpiryAlert    `yaml:"tls_certificate_expiry"`
	DataVolumeUsage           AmountAlert    `yaml:"data_volume_usage"`
	ContainerRestarts         RestartsAlert  `yaml:"container_restarts"`
	ContainerMemory           AmountAlert    `yaml:"container_memory"`
	ContainerDown             DownAlert      `yaml:"container_down"`
	TargetDown                DownAlert      `yaml:"target_down"`
	TargetUnstable            ShareAlert     `yaml:"target_unstable"`
	MostTargetsDown           MostAlert      `yaml:"most_targets_down"`
	ContainerMissing          Hold           `yaml:"container_missing"`
	ExporterDown              ExporterAlert  `yaml:"exporter_down"`
	PollStalled               AfterAlert     `yaml:"poll_stalled"`
	UpstreamSeriesDropped     Hold           `yaml:"upstream_series_dropped"`
	XMPPAuthSourceMissing     Hold           `yaml:"xmpp_auth_source_missing"`
	PlantStoreOrphans         Hold           `yaml:"plant_store_orphans"`
	TLSChainInvalid           Hold           `yaml:"tls_chain_invalid"`
	TLSServedNotRenewed       RenewalAlert   `yaml:"tls_served_not_renewed"`
	ConfigReloadFailed        Hold           `yaml:"config_reload_failed"`
	IdentityCacheExhausted    Hold           `yaml:"identity_cache_exhausted"`
	XMPPModuleProblem         ModuleAlert    `yaml:"xmpp_module_problem"`
	XMPPComponentDisconnected Hold           `yaml:"xmpp_component_disconnected"`
	IRCServicesUnlinked       Hold           `yaml:"irc_services_unlinked"`
	RulesOutOfDate            Hold           `yaml:"rules_out_of_date"`
	PlaceholderCredential     Hold           `yaml:"placeholder_credential"`
	BridgeNotRelaying         Hold           `yaml:"bridge_not_relaying"`
	BridgeSlow                Hold           `yaml:"bridge_slow"`
	RelaySessionDown          Hold           `yaml:"relay_session_down"`
	RelayUnwatched            Hold           `yaml:"relay_unwatched"`
	MonitoringGap             GapAlert       `yaml:"monitoring_gap"`
	HonorLabelsOff            Hold           `yaml:"honor_labels_off"`
	ScrapedTooSeldom          Hold           `yaml:"scraped_too_seldom"`
	ClockSkew                 SkewAlert      `yaml:"clock_skew"`

	DataVolumeInodes          AmountAlert  `yaml:"data_volume_inodes"`
	DataVolumeFilling         FillingAlert `yaml:"data_volume_filling"`
	DataVolumeReadOnly        Hold         `yaml:"data_volume_read_only"`
	BackupOld                 Hold         `yaml:"backup_old"`
	ContainerOOMKill          WindowAlert  `yaml:"container_oom_kill"`
	XMPPAuthFailuresSustained AverageAlert `yaml:"xmpp_auth_failures_sustained"`
	XMPPSessionsGone          GoneAlert    `yaml:"xmpp_sessions_gone"`
	IRCUsersGone              GoneAlert    `yaml:"irc_users_gone"`
	IRCServersSplit           OptAlert     `yaml:"irc_servers_split"`
}

// Hold is how long a condition must hold before its alert fires, and how long the alert keeps firing after it, so that a
// flapping condition pages once.
type Hold struct {
	For           Duration `yaml:"for"`
	KeepFiringFor Duration `yaml:"keep_firing_for"`
}

// Amount is a threshold that is exceeded above Over, not at Over.
type Amount struct {
	Over int64 `yaml:"over"`
	Hold `yaml:",inline"`
}

// Remaining is a threshold for the time left until something expires.
type Remaining struct {
	Under Duration `yaml:"under"`
	Hold  `yaml:",inline"`
}

// UnhealthyAlert warns about an unhealthy container at once, and is critical after a while.
type UnhealthyAlert struct {
	Warning  Hold       `yaml:"warning"`
	Critical AfterAlert `yaml:"critical"`
}

// AfterAlert is about a condition that lasts longer than After.
type AfterAlert struct {
	After         Duration `yaml:"after"`
	KeepFiringFor Duration `yaml:"keep_firing_for"`
}

// AmountAlert is about percent of a volume or bytes of memory.
type AmountAlert struct {
	Warning  Amount `yaml:"warning"`
	Critical Amount `yaml:"critical"`
}

// RateAlert is about events per minute within Window.
type RateAlert struct {
	Window   Duration `yaml:"window"`
	Warning  Amount   `yaml:"warning"`
	Critical Amount   `yaml:"critical"`
}

// RestartsAlert is about restarts within Window. It fires at once and stays until they leave the window.
type RestartsAlert struct {
	Window   Duration `yaml:"window"`
	Warning  Count    `yaml:"warning"`
	Critical Count    `yaml:"critical"`
}

// Count is a number of events that is exceeded above Over, not at Over.
type Count struct {
	Over int64 `yaml:"over"`
}

// Expiry is a threshold for the time left. Its alert fires at once, because an expiry date does not flap.
type Expiry struct {
	Under         Duration `yaml:"under"`
	KeepFiringFor Duration `yaml:"keep_firing_for"`
}

// ExpiryAlert is about a certificate that expires.
type ExpiryAlert struct {
	Warning  Expiry `yaml:"warning"`
	Critical Expiry `yaml:"critical"`
}

// RenewalAlert is about a server that does not serve its new certificate. It is critical shortly before the old one
// expires.
type RenewalAlert struct {
	Warning  Hold      `yaml:"warning"`
	Critical Remaining `yaml:"critical"`
}

// DownAlert is about something that is down.
type DownAlert struct {
	Warning  Hold `yaml:"warning"`
	Critical Hold `yaml:"critical"`
}

// MostAlert is about more than Over percent of the targets.
type MostAlert struct {
	Over     int64 `yaml:"over"`
	Warning  Hold  `yaml:"warning"`
	Critical Hold  `yaml:"critical"`
}

// ExporterAlert is about the exporter itself: a warning if one of several is down, critical if the last one is.
type ExporterAlert struct {
	Warning  Hold `yaml:"warning"`
	Critical Hold `yaml:"critical"`
	// Remember is how long an environment counts after it lost its last exporter.
	Remember Duration `yaml:"remember"`
}

// GapAlert is about what is not monitored although it should be.
type GapAlert struct {
	Hold `yaml:",inline"`
	// Roles are the roles of which at least one container must have one if a container serves an XMPP target. Empty turns
	// this off.
	Roles []string `yaml:"roles"`
}

// SkewAlert is about clocks that differ by more than Over.
type SkewAlert struct {
	Over Duration `yaml:"over"`
	Hold `yaml:",inline"`
}

// Share is a percentage that is exceeded above Over, not at Over. Its alert fires at once.
type Share struct {
	Over          int64    `yaml:"over"`
	KeepFiringFor Duration `yaml:"keep_firing_for"`
}

// ShareAlert is about the share of a target's probes that fail.
type ShareAlert struct {
	Warning  Share `yaml:"warning"`
	Critical Share `yaml:"critical"`
}

// ModuleAlert is about modules of the XMPP server in state error.
type ModuleAlert struct {
	Hold `yaml:",inline"`
	// Ignore are modules whose errors are accepted.
	Ignore []string `yaml:"ignore"`
}

// FillingAlert is about a volume that is more than Over percent full and, by the trend of Window, will be full Within that
// time.
type FillingAlert struct {
	Window Duration `yaml:"window"`
	Within Duration `yaml:"within"`
	Amount `yaml:",inline"`
}

// WindowAlert is about events within Window. It fires at once and stays until they leave the window.
type WindowAlert struct {
	Window Duration `yaml:"window"`
}

// AverageAlert is about events per minute, averaged over Window.
type AverageAlert struct {
	Over          int64    `yaml:"over"`
	Window        Duration `yaml:"window"`
	KeepFiringFor Duration `yaml:"keep_firing_for"`
}

// GoneAlert is about nobody being logged in although the median of the last day is at least Typical. 0 turns it off. Bots is how many
// of those that are counted always are: bridges, bots, and the exporter's own sessions.
type GoneAlert struct {
	Hold    `yaml:",inline"`
	Typical int64 `yaml:"typical"`
	Bots    int64 `yaml:"bots"`
}

// OptAlert is an alert that exists only if Enabled.
type OptAlert struct {
	Hold    `yaml:",inline"`
	Enabled bool `yaml:"enabled"`
}

// RunbookLink is the address of an alert's runbook. The exporter serves it, except for alerts that fire when the exporter
// may not answer.
func (a *Alerts) RunbookLink(alert string) string {
	if a.ExternalURL == "" || slices.Contains([]string{"ExporterDown", "PollStalled", "Watchdog"}, alert) {
		return strings.TrimSuffix(a.RunbookURL, "/") + "/" + alert + ".md"
	}
	return a.RunbooksLink() + "/" + alert
}

// RunbooksLink is the address of all runbooks.
func (a *Alerts) RunbooksLink() string {
	if a.ExternalURL == "" {
		return a.RunbookURL
	}
	return a.ExternalURL + "/runbooks"
}

// taggedVersion matches the versions that have a Git tag.
var taggedVersion = regexp.MustCompile(`^v?(\d+\.\d+\.\d+(?:-rc(?:\.?\d+)?)?)$`)

// Documents is the address of a version's documents on GitHub: at its tag, else on the main branch.
func Documents(version string) string {
	const repository = "https://github.com/chatstack-exporter/chatstack_exporter/blob/"
	if m := taggedVersion.FindStringSubmatch(version); m != nil {
		return repository + "v" + m[1]
	}
	return repository + "main"
}

// DefaultAlerts returns the default thresholds. They do not depend on the build, so the shipped rules do not either.
func DefaultAlerts() Alerts {
	const day = 24 * time.Hour
	hold := func(hold, keep time.Duration) Hold { return Hold{Duration(hold), Duration(keep)} }
	return Alerts{
		Job:          "chatstack_exporter",
		RunbookURL:   Documents("") + "/alerts/runbooks",
		Interval:     Duration(30 * time.Second),
		Lookback:     Duration(2 * time.Minute),
		SlowLookback: Duration(time.Hour),
		ContainerUnhealthy: UnhealthyAlert{
			Warning:  hold(0, 5*time.Minute),
			Critical: AfterAlert{After: Duration(5 * time.Minute), KeepFiringFor: Duration(5 * time.Minute)},
		},
		XMPPAuthFailureRate: RateAlert{
			Window:   Duration(2 * time.Minute),
			Warning:  Amount{10, hold(5*time.Minute, 5*time.Minute)},
			Critical: Amount{50, hold(5*time.Minute, 5*time.Minute)},
		},
		TLSCertificateExpiry: ExpiryAlert{
			Warning:  Expiry{Duration(14 * day), Duration(15 * time.Minute)},
			Critical: Expiry{Duration(3 * day), Duration(15 * time.Minute)},
		},
		DataVolumeUsage: AmountAlert{
			Warning:  Amount{80, hold(5*time.Minute, 15*time.Minute)},
			Critical: Amount{95, hold(time.Minute, 15*time.Minute)},
		},
		ContainerRestarts: RestartsAlert{
			Window:   Duration(10 * time.Minute),
			Warning:  Count{0},
			Critical: Count{3},
		},
		ContainerMemory: AmountAlert{
			Warning:  Amount{500_000_000, hold(5*time.Minute, 5*time.Minute)},
			Critical: Amount{1_000_000_000, hold(2*time.Minute, 5*time.Minute)},
		},
		ContainerDown:             DownAlert{hold(time.Minute, 2*time.Minute), hold(5*time.Minute, 2*time.Minute)},
		TargetDown:                DownAlert{hold(2*time.Minute, 2*time.Minute), hold(5*time.Minute, 2*time.Minute)},
		TargetUnstable:            ShareAlert{Share{10, Duration(15 * time.Minute)}, Share{50, Duration(15 * time.Minute)}},
		MostTargetsDown:           MostAlert{50, hold(time.Minute, 5*time.Minute), hold(5*time.Minute, 2*time.Minute)},
		ContainerMissing:          hold(5*time.Minute, 0),
		ExporterDown:              ExporterAlert{hold(5*time.Minute, 0), hold(2*time.Minute, 0), Duration(day)},
		PollStalled:               AfterAlert{Duration(3 * time.Minute), 0},
		UpstreamSeriesDropped:     hold(15*time.Minute, 0),
		XMPPAuthSourceMissing:     hold(15*time.Minute, 0),
		PlantStoreOrphans:         hold(15*time.Minute, 0),
		TLSChainInvalid:           hold(2*time.Minute, 5*time.Minute),
		TLSServedNotRenewed:       RenewalAlert{hold(time.Hour, 0), Remaining{Duration(3 * day), hold(15*time.Minute, 0)}},
		ConfigReloadFailed:        hold(5*time.Minute, 0),
		IdentityCacheExhausted:    hold(0, 2*time.Minute),
		XMPPModuleProblem:         ModuleAlert{Hold: hold(5*time.Minute, 0)},
		XMPPComponentDisconnected: hold(5*time.Minute, 2*time.Minute),
		IRCServicesUnlinked:       hold(5*time.Minute, 2*time.Minute),
		RulesOutOfDate:            hold(15*time.Minute, 0),
		PlaceholderCredential:     hold(5*time.Minute, 0),
		BridgeNotRelaying:         hold(0, 2*time.Minute),
		BridgeSlow:                hold(5*time.Minute, 15*time.Minute),
		RelaySessionDown:          hold(5*time.Minute, 2*time.Minute),
		RelayUnwatched:            hold(15*time.Minute, 0),
		MonitoringGap:             GapAlert{hold(15*time.Minute, 0), []string{"xmpp"}},
		HonorLabelsOff:            hold(15*time.Minute, 0),
		ScrapedTooSeldom:          hold(15*time.Minute, 0),
		ClockSkew:                 SkewAlert{Duration(time.Minute), hold(15*time.Minute, 5*time.Minute)},
		DataVolumeInodes: AmountAlert{
			Warning:  Amount{90, hold(5*time.Minute, 15*time.Minute)},
			Critical: Amount{97, hold(time.Minute, 15*time.Minute)},
		},
		DataVolumeFilling:         FillingAlert{Duration(6 * time.Hour), Duration(day), Amount{60, hold(30*time.Minute, time.Hour)}},
		DataVolumeReadOnly:        hold(time.Minute, 15*time.Minute),
		BackupOld:                 hold(15*time.Minute, 0),
		ContainerOOMKill:          WindowAlert{Duration(10 * time.Minute)},
		XMPPAuthFailuresSustained: AverageAlert{10, Duration(time.Hour), Duration(15 * time.Minute)},
		XMPPSessionsGone:          GoneAlert{hold(10*time.Minute, 5*time.Minute), 5, 0},
		IRCUsersGone:              GoneAlert{hold(10*time.Minute, 5*time.Minute), 5, 0},
		IRCServersSplit:           OptAlert{hold(5*time.Minute, 5*time.Minute), false},
	}
}

// FewestScrapes is how many scrapes an exporter needs within that many lookbacks.
const FewestScrapes = 5

const (
	// minWindowScrapes is how many scrapes must fit into a window, so that two may be lost.
	minWindowScrapes = 4
	// oldestHeartbeat is the maximum age of the heartbeat in the metrics of a running poll loop: it beats every 10 s, and
	// every second beat refreshes the metrics.
	oldestHeartbeat = 20 * time.Second
)

// These values become part of expressions without quoting.
var (
	jobName    = regexp.MustCompile(`^[A-Za-z0-9_./:-]{1,128}$`)
	moduleName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
	roleName   = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
)

func (l *loader) checkAlerts() {
	a := &l.cfg.Alerts
	r := &Report{
		faults:  &l.faults,
		origins: l.origins,
		path:    "alerts",
		where:   "default",
	}
	if !jobName.MatchString(a.Job) {
		r.Faultf("job", "is %q, must be a job name: 1 to 128 letters, digits, '_', '.', '/', ':' or '-'", a.Job)
	}
	if a.RunbookURL == "" {
		a.RunbookURL = Documents(version.Version) + "/alerts/runbooks"
	}
	CheckURL(r, "runbook_url", a.RunbookURL, "http", "https")
	if strings.Contains(a.RunbookURL, "{{") {
		r.Faultf("runbook_url", "is %q, must be a plain address, not a template", a.RunbookURL)
	}
	interval := a.Interval.Std()
	if interval < time.Second {
		r.Faultf("interval", "is %s, must be at least 1s", interval)
		return
	}
	for _, window := range []struct {
		key    string
		length Duration
	}{
		{"lookback", a.Lookback},
		{"slow_lookback", a.SlowLookback},
		{"xmpp_auth_failure_rate.window", a.XMPPAuthFailureRate.Window},
		{"container_restarts.window", a.ContainerRestarts.Window},
		{"container_oom_kill.window", a.ContainerOOMKill.Window},
		{"exporter_down.remember", a.ExporterDown.Remember},
	} {
		if window.length.Std() < minWindowScrapes*interval {
			r.Faultf(window.key, "is %s, must be at least %s: %d times alerts.interval, so that two lost scrapes change nothing",
				window.length.Std(), minWindowScrapes*interval, minWindowScrapes)
		}
	}
	if least := a.ExporterDown.Critical.For + a.Lookback; a.ExporterDown.Remember < least {
		r.Faultf("exporter_down.remember",
			"is %s, must be at least %s: exporter_down.critical.for and alerts.lookback, or the alert could never fire",
			a.ExporterDown.Remember.Std(), least.Std())
	}
	if hold := a.ConfigReloadFailed.For; hold != 0 && hold < a.Lookback {
		r.Faultf("config_reload_failed.for", "is %s, must be 0s or at least %s: alerts.lookback, so that two lost scrapes change nothing",
			hold.Std(), a.Lookback.Std())
	}
	if least := FewestScrapes * a.Lookback; a.ScrapedTooSeldom.For < least {
		r.Faultf("scraped_too_seldom.for",
			"is %s, must be at least %s: %d times alerts.lookback, so that the alert ignores newly discovered exporters",
			a.ScrapedTooSeldom.For.Std(), least.Std(), FewestScrapes)
	}
	if a.ClockSkew.Over.Std() < time.Second {
		r.Faultf("clock_skew.over", "is %s, must be at least 1s", a.ClockSkew.Over.Std())
	}
	if after := a.ContainerUnhealthy.Critical.After.Std(); after < interval {
		r.Faultf("container_unhealthy.critical.after", "is %s, must be at least %s: one alerts.interval", after, interval)
	}
	for _, level := range []struct {
		key   string
		under Duration
	}{
		{"tls_certificate_expiry.critical.under", a.TLSCertificateExpiry.Critical.Under},
		{"tls_certificate_expiry.warning.under", a.TLSCertificateExpiry.Warning.Under},
		{"tls_served_not_renewed.critical.under", a.TLSServedNotRenewed.Critical.Under},
	} {
		if level.under.Std() < time.Second {
			r.Faultf(level.key, "is %s, must be at least 1s", level.under.Std())
		}
	}
	if least := a.Lookback.Std() + oldestHeartbeat; a.PollStalled.After.Std() < least {
		r.Faultf("poll_stalled.after", "is %s, must be at least %s: alerts.lookback + %s, the maximum age of a heartbeat",
			a.PollStalled.After.Std(), least, oldestHeartbeat)
	}
	l.checkLevels(r)
	if i := slices.IndexFunc(a.MonitoringGap.Roles, func(role string) bool { return !roleName.MatchString(role) }); i >= 0 {
		r.Faultf("monitoring_gap.roles", "holds %q, must be container roles, such as xmpp", a.MonitoringGap.Roles[i])
	}
	l.checkHistory(r)
	if i := slices.IndexFunc(a.XMPPModuleProblem.Ignore, func(m string) bool { return !moduleName.MatchString(m) }); i >= 0 {
		r.Faultf("xmpp_module_problem.ignore", "holds %q, must be module names from /status", a.XMPPModuleProblem.Ignore[i])
	}
}

// checkHistory checks the alerts that depend on past values.
func (l *loader) checkHistory(r *Report) {
	a := &l.cfg.Alerts
	for _, number := range []struct {
		key      string
		is, most int64
	}{
		{"data_volume_filling.over", a.DataVolumeFilling.Over, 99},
		{"xmpp_auth_failures_sustained.over", a.XMPPAuthFailuresSustained.Over, 1 << 53},
		{"xmpp_sessions_gone.typical", a.XMPPSessionsGone.Typical, 1 << 53},
		{"irc_users_gone.typical", a.IRCUsersGone.Typical, 1 << 53},
		{"xmpp_sessions_gone.bots", a.XMPPSessionsGone.Bots, max(a.XMPPSessionsGone.Typical-1, 0)},
		{"irc_users_gone.bots", a.IRCUsersGone.Bots, max(a.IRCUsersGone.Typical-1, 0)},
	} {
		if number.is < 0 {
			r.Faultf(number.key, "is %d, must be at least 0", number.is)
		}
		if number.is > number.most {
			r.Faultf(number.key, "is %d, must be at most %d", number.is, number.most)
		}
	}
	if f, least := &a.DataVolumeFilling, 2*minWindowScrapes*a.Interval; f.Window < least {
		r.Faultf("data_volume_filling.window", "is %s, must be at least %s: %d times alerts.interval, because each half counts on its own",
			f.Window.Std(), least.Std(), 2*minWindowScrapes)
	}
	if f := &a.DataVolumeFilling; f.Within < f.Window {
		r.Faultf("data_volume_filling.within", "is %s, must be at least the window's %s", f.Within.Std(), f.Window.Std())
	}
	if s, least := a.XMPPAuthFailuresSustained.Window, 2*a.XMPPAuthFailureRate.Window; s < least {
		r.Faultf("xmpp_auth_failures_sustained.window", "is %s, must be at least %s: twice xmpp_auth_failure_rate.window",
			s.Std(), least.Std())
	}
}

// checkLevels checks that critical thresholds are not below the warning's.
func (l *loader) checkLevels(r *Report) {
	a := &l.cfg.Alerts
	for _, level := range []struct {
		key               string
		warning, critical int64
		most              int64
	}{
		{
			"xmpp_auth_failure_rate",
			a.XMPPAuthFailureRate.Warning.Over,
			a.XMPPAuthFailureRate.Critical.Over,
			1 << 53,
		},
		{
			"data_volume_usage",
			a.DataVolumeUsage.Warning.Over,
			a.DataVolumeUsage.Critical.Over,
			99,
		},
		{
			"data_volume_inodes",
			a.DataVolumeInodes.Warning.Over,
			a.DataVolumeInodes.Critical.Over,
			99,
		},
		{
			"container_restarts",
			a.ContainerRestarts.Warning.Over,
			a.ContainerRestarts.Critical.Over,
			1 << 53,
		},
		{
			"target_unstable",
			a.TargetUnstable.Warning.Over,
			a.TargetUnstable.Critical.Over,
			99,
		},
		{
			"container_memory",
			a.ContainerMemory.Warning.Over,
			a.ContainerMemory.Critical.Over,
			1 << 53,
		},
	} {
		warning, critical := level.key+".warning.over", level.key+".critical.over"
		switch {
		case level.warning < 0:
			r.Faultf(warning, "is %d, must be at least 0", level.warning)
		case level.warning > level.most:
			r.Faultf(warning, "is %d, must be at most %d", level.warning, level.most)
		case level.critical > level.most:
			r.Faultf(critical, "is %d, must be at most %d", level.critical, level.most)
		case level.critical < level.warning && l.origins["alerts."+critical] == "":
			r.Faultf(warning, "is %d, must be at most %s, which is %d by default", level.warning, critical, level.critical)
		case level.critical < level.warning:
			r.Faultf(critical, "is %d, must be at least the warning's %d", level.critical, level.warning)
		}
	}
	if a.TargetUnstable.Warning.Over == 0 {
		r.Faultf("target_unstable.warning.over", "is 0, must be at least 1")
	}
	if over := a.MostTargetsDown.Over; over < 1 || over > 99 {
		r.Faultf("most_targets_down.over", "is %d, must be 1 to 99", over)
	}
	if e := a.TLSCertificateExpiry; e.Critical.Under > e.Warning.Under {
		r.Faultf("tls_certificate_expiry.critical.under", "is %s, must be at most the warning's %s",
			e.Critical.Under.Std(), e.Warning.Under.Std())
	}
	for _, level := range []struct {
		key               string
		warning, critical Hold
	}{
		{"container_down", a.ContainerDown.Warning, a.ContainerDown.Critical},
		{"target_down", a.TargetDown.Warning, a.TargetDown.Critical},
		{"most_targets_down", a.MostTargetsDown.Warning, a.MostTargetsDown.Critical},
	} {
		if level.critical.For < level.warning.For {
			r.Faultf(level.key+".critical.for", "is %s, must be at least the warning's %s",
				level.critical.For.Std(), level.warning.For.Std())
		}
	}
}
