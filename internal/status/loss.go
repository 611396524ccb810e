package status

import (
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// lastRank is the rank of what has none: only operators notice.
const lastRank = 1000

// lossRank orders services and containers by what users lose, which counts only for what is not well; that keeps the order of names.
func lossRank(rank int, level Level) int {
	switch {
	case level <= Unknown:
		return 0
	case rank == 0:
		return lastRank
	}
	return rank
}

// loss says what users lose first.
func loss(members []member) string {
	first, text := lastRank, ""
	for i := range members {
		m := &members[i]
		if m.service == nil || !m.down {
			continue
		}
		row := &m.service.Row
		if row.Relay && (m.problem == nil || m.problem.Alert != health.AlertBridgeNotRelaying) {
			continue
		}
		if row.Loss != "" && row.Rank < first {
			first, text = row.Rank, row.Loss
		}
	}
	return text
}
