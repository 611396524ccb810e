package alerts

import (
	"fmt"
	"math"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// The alerts on volumes and backups.

var dataVolumeUsage = row{
	name:      health.AlertVolumeUsage,
	AlertKind: amounts("data_volume_usage", config.Percents, over(80, 5*minute, 15*minute), over(95, minute, 15*minute)),
	server:    ofVolume,
	percent:   true,
	judged: &health.Rule{
		Measured:  true,
		OwnSeries: true,
		ExcusedIn: "chatstack_volume_excused",
		Excuses:   []health.Excuser{health.ByMaintenance},
	},
	evidence: evidence{
		expr: func(_ *config.Alerts, t *alert) string {
			return exceeds(volumeUsed, number(float64(t.Over)/100), t.For)
		},
		trials: volumeTrials,
	},
	ahead: true,
	page:  Words{"is nearly full", "Free space, or enlarge the volume."},
	gauge: Gauge{
		Place:   4,
		Title:   "Data volume used",
		Unit:    "ratio",
		Unknown: "no volume is configured or can be read",
		Figure:  "used",
		Chart:   "used",
		Problem: "<value> of it is used",
	},
	panels:   []string{"overview/Fullest volume", "tls-disks/Used", "tls-disks/Forecast for 7 days", "tls-disks/Used over time"},
	warning:  message{fullWhen, fullSummary, fullText},
	critical: message{fullWhen, fullSummary, fullText},
}

func volumeTrials(a *config.Alerts, t *alert) []trial {
	s := newSubject(a, t, "volume_used_ratio", map[string]string{"volume": "data"}, float64(t.Over)/100)
	s.bad = max(s.good*1.005, 0.001)
	s.hold, s.born = t.For, true
	s.heldBackBy(a, "volume_excused", lost).wait = s.hold
	return s.trials()
}

const (
	fullWhen    = "over <over> %<held>"
	fullSummary = "Volume {{ $labels.volume }} is over <over> % full."
	fullText    = "At least " + shareUsed +
		" has been used<held>, as df counts it. When it is full, services lose data or stop. First find what fills it, with du."
)

var dataVolumeFilling = row{
	name: "DataVolumeFilling",
	AlertKind: kind("data_volume_filling", config.Keys("window", "within", "over", "for", "keep_firing_for"),
		config.AlertSettings{Level: over(60, 30*minute, hour), Window: 6 * hour, Within: day}, checkFilling),
	server: server{name: "volumes"},
	timed:  true,
	evidence: evidence{
		// The trend must hold in both halves of the window, since one large file changes the trend of one half only.
		// predict_linear predicts from the time of the evaluation, even with an offset.
		expr: func(_ *config.Alerts, t *alert) string {
			return fmt.Sprintf(
				"%s > %s and predict_linear(%[1]s[%[3]s], %[4]s) > 1 and predict_linear(%[1]s[%[3]s] offset %[3]s, %[4]s) > 1",
				volumeUsed, number(float64(t.Over)/100), seconds(t.settings.Window/2), number(t.settings.Within.Std().Seconds()))
		},
		trials: short(fillingTrials),
	},
	warning: message{
		"over <over> %, and full within <within> at the rate of the last <window><held>",
		"Volume {{ $labels.volume }} will be full within <within> at this rate.",
		"It is " + shareUsed +
			" full, and has been filling for <window>. When it is full, services lose data or stop. First find what grows, with du.",
	},
}

func checkFilling(c *config.AlertCheck) {
	c.Number("over", c.Over, 99)
	c.AtLeast("window", c.Window, 2*config.MinWindowScrapes*c.Alerts.Interval,
		fmt.Sprintf("%d times alerts.interval, because each half counts on its own", 2*config.MinWindowScrapes))
	if c.Within < c.Window {
		c.Faultf("within", "is %s, must be at least the window's %s", c.Within.Std(), c.Window.Std())
	}
}

// fillingTrials have lines that cross each limit, and steps, which are not a trend.
func fillingTrials(a *config.Alerts, t *alert) []trial {
	limit, left := float64(t.Over)/100, 1-float64(t.Over)/100
	half, within := float64(t.settings.Window)/2/float64(a.Interval), float64(t.settings.Within)/float64(a.Interval)
	hold, keep := t.rounds()
	used := func(steps ...step) []input {
		return []input{from(0, "chatstack_volume_used_ratio", map[string]string{"volume": "data"}, steps...)}
	}
	at := func(share float64) int { return int(math.Ceil(share * half)) }
	// line has a value between two rounds.
	line := func(round int, value, by float64) step { return step{value: value - by*(float64(round)-0.5), by: by} }
	begin := at(2) + 5
	end := begin + hold + 4
	fast, slow := 1.5*left/within, 0.4*left/within
	falls := append(used(line(begin, limit, fast), step{from: end, value: limit - 0.1}),
		from(1, "chatstack_volume_used_ratio", map[string]string{"volume": "data"}, steady(0)...))
	edges := []check{{begin + hold - 1, false}, {begin + hold, true}, {end - 1, true}}
	// A line with a bend: one half crosses the limit at the beginning, and the other has done so before. It fills faster by so little
	// that the newer half alone is not full in time before.
	slowly, more := line(begin, 1-0.4*left, slow), 1+0.4/(within/half+1)
	later, sooner := begin+hold-at(1)+1, begin-at(1)-2
	fills := []trial{
		try("it fills faster later", used(slowly, step{from: later, value: slowly.value + slow*float64(later), by: more * slow}),
			edges...),
		try("it fills slower later", used(
			step{value: slowly.value + (1-more)*slow*float64(sooner), by: more * slow},
			step{from: sooner, value: slowly.value + slow*float64(sooner), by: slow},
		), edges...),
		try("it fills, and exceeds the limit", falls,
			append(slices.Clone(edges), check{end + keep - 1, true}, check{end + keep, false})...),
		try("it exceeds the limit, and fills faster", used(line(begin, 1-0.4*left, slow)), edges...),
		try("it is full, and stays so", used(steady(1)...), check{begin + hold, false}),
	}
	// files are large files. The newest one fills the volume.
	size := 0.4 * left
	const first = 3
	files := func(rounds ...int) []input {
		full := 1 - 0.01*left
		steps := steady(full - size*float64(len(rounds)))
		for i, n := range rounds {
			steps = append(steps, step{from: n, value: full - size*float64(len(rounds)-1-i)})
		}
		return used(steps...)
	}
	var never []check
	for n := range 7 {
		never = append(never, check{at(1+float64(n)/4) + first, false})
	}
	// A file must be some way inside a half to make a trend of it.
	share := 1.1 * (size + 0.01*left) / (6 * size * (within/half + 0.5))
	inside := (1-math.Sqrt(1-4*share))/2 + 3/half
	apart := 0.24
	return slices.Concat(fills, []trial{
		try("one large file", files(at(1)+first), never...),
		try("one large file, and nothing is known of the time before", files(first), check{first + at(1.45), false}),
		try("a large file after a long time", files(at(0.5), at(0.5)+at(2.05)), check{at(0.5) + at(2.45), false}),
	}, when(int((apart-inside)*half) > hold+2,
		try("two large files, the newer one long ago", files(at(0.3), at(0.3+apart)), check{at(1.3+apart) - 2, true}),
		try("two large files, the older one long ago", files(at(0.3), at(2.3-apart)), check{at(2.3 - inside), true})))
}

var dataVolumeInodes = row{
	name:      health.AlertVolumeInodes,
	AlertKind: amounts("data_volume_inodes", config.Percents, over(90, 5*minute, 15*minute), over(97, minute, 15*minute)),
	percent:   true,
	judged:    &health.Rule{Measured: true, Excuses: []health.Excuser{health.ByMaintenance}},
	evidence:  problem,
	ahead:     true,
	page:      Words{"has hardly any inodes left", "Delete unneeded files: the volume holds very many small ones."},
	gauge:     Gauge{Unit: "ratio", Figure: "inodes used", Problem: "<value> of its inodes are used"},
	panels:    []string{"tls-disks/Inodes used"},
	warning:   message{fullWhen, inodesSummary, inodesText},
	critical:  message{fullWhen, inodesSummary, inodesText},
}

const (
	inodesSummary = "Volume {{ $labels.target }} has used over <over> % of its inodes."
	inodesText    = "This has lasted" + sinceThen +
		" Without free inodes, no file can be created, however much space is left. First find the directories with most files: du --inodes."
)

var dataVolumeReadOnly = row{
	name:      health.AlertVolumeReadOnly,
	AlertKind: flat("data_volume_read_only", minute, 15*minute),
	judged:    &health.Rule{Pages: true, Excuses: []health.Excuser{health.ByMaintenance}},
	evidence:  problem,
	page: Words{
		"its file system is read-only, so nothing can be written",
		"Read the kernel's log for errors of the disk. If it is meant to be read-only, set read_only.",
	},
	panels:   []string{"tls-disks/Writable"},
	warning:  message{insteadOfCritical, "Volume {{ $labels.target }} is read-only.", readOnlyText},
	critical: message{"", "Volume {{ $labels.target }} has been read-only for over <for>.", readOnlyText},
}

const readOnlyText = "Its file system has been read-only" + sinceThen +
	" What services write there is lost. First read the kernel's log on its machine: dmesg."

var backupOld = row{
	name:      health.AlertBackupOld,
	AlertKind: flat("backup_old", 15*minute, 0),
	judged:    excusedBy(health.ByMaintenance),
	evidence:  problem,
	ahead:     true,
	page:      Words{"the newest backup is missing, too old or too small", "Its notes say which. Read the log of the backup job."},
	panels:    []string{"tls-disks/Age of the newest backup", "tls-disks/Size of the newest backup"},
	warning: message{
		"", aTarget + " has no recent backup.",
		"This has lasted" + sinceThen + " No file matches, or the newest one is too old or too small. " +
			"Users notice nothing until somebody needs it. First read the log of the backup job." + openPage,
	},
}
