package alerts

import (
	"fmt"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// The alerts on volumes and backups.

var dataVolumeUsage = row{
	name:      health.AlertVolumeUsage,
	AlertKind: amounts("data_volume_usage", config.Percents, over(80, 5*minute, 15*minute), over(95, minute, 15*minute)),
	percent:   true,
	judged:    excusedBy(health.ByMaintenance),
	evidence: evidence{
		expr: func(_ *config.Alerts, t *alert) string {
			return exceeds(volumeUsed, number(float64(t.Over)/100), t.For)
		},
		trials: volumeTrials,
	},
	page:   Words{"is nearly full", "Free space, or enlarge the volume."},
	gauge:  Gauge{Title: "Data volume used", Unit: "ratio", Unknown: "no volume is configured or can be read"},
	panels: []string{"overview/Fullest volume", "tls-disks/Used", "tls-disks/Forecast for 7 days", "tls-disks/Used over time"},
	texts: []message{
		{
			Warning,
			fullWhen,
			fullSummary,
			fullText,
		},
		{
			Critical,
			fullWhen,
			fullSummary,
			fullText,
		},
	},
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
	timed: true,
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
	texts: []message{
		{
			Warning,
			"over <over> %, and full within <within> at the rate of the last <window><held>",
			"Volume {{ $labels.volume }} will be full within <within> at this rate.",
			"It is " + shareUsed +
				" full, and has been filling for <window>. When it is full, services lose data or stop. First find what grows, with du.",
		},
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

var dataVolumeInodes = row{
	name:      health.AlertVolumeInodes,
	AlertKind: amounts("data_volume_inodes", config.Percents, over(90, 5*minute, 15*minute), over(97, minute, 15*minute)),
	percent:   true,
	judged:    excusedBy(health.ByMaintenance),
	evidence:  problem,
	page:      Words{"has hardly any inodes left", "Delete unneeded files: the volume holds very many small ones."},
	panels:    []string{"tls-disks/Inodes used"},
	texts: []message{
		{
			Warning,
			fullWhen,
			inodesSummary,
			inodesText,
		},
		{
			Critical,
			fullWhen,
			inodesSummary,
			inodesText,
		},
	},
}

const (
	inodesSummary = "Volume {{ $labels.target }} has used over <over> % of its inodes."
	inodesText    = "This has lasted" + forValue +
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
	panels: []string{"tls-disks/Writable"},
	texts: []message{
		{
			Warning,
			insteadOfCritical,
			"Volume {{ $labels.target }} is read-only.",
			readOnlyText,
		},
		{
			Critical,
			"",
			"Volume {{ $labels.target }} has been read-only for over <for>.",
			readOnlyText,
		},
	},
}

const readOnlyText = "Its file system has been read-only" + forValue +
	" What services write there is lost. First read the kernel's log on its machine: dmesg."

var backupOld = row{
	name:      health.AlertBackupOld,
	AlertKind: flat("backup_old", 15*minute, 0),
	judged:    excusedBy(health.ByMaintenance),
	evidence:  problem,
	page:      Words{"the newest backup is missing, too old or too small", "Its notes say which. Read the log of the backup job."},
	panels:    []string{"tls-disks/Age of the newest backup", "tls-disks/Size of the newest backup"},
	texts: []message{
		{
			Warning,
			"",
			"{{ $labels.target }} has no recent backup.",
			"This has lasted" + forValue + " No file matches, or the newest one is too old or too small. " +
				"Users notice nothing until somebody needs it. First read the log of the backup job." + openPage,
		},
	},
}
