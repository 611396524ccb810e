package status

import (
	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// rowOf returns a row of the table of kinds.
func rowOf(kind string) config.Row {
	k, _ := collectors.KindOf(kind)
	return k.Row
}
