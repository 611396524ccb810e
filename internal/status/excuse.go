package status

import (
	"fmt"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
)

// excuse says until when and why a target or container is under maintenance, "" where it is not. A target is as well
// while the container that serves it is.
func excuse(entries []maintenance.Entry, kind, name, container string) string {
	text := ""
	for _, e := range entries {
		switch {
		case !e.Active:
		case e.Kind == kind && e.Name == name:
			return "Under maintenance until " + clock(e.Until) + because(e)
		case e.Kind == config.MaintenanceContainer && e.Name == container && container != "":
			text = fmt.Sprintf("Its container %s is under maintenance until %s%s", e.Name, clock(e.Until), because(e))
		}
	}
	return text
}

func because(e maintenance.Entry) string {
	if e.Reason == "" {
		return ""
	}
	return ": " + e.Reason
}
