package web

import "github.com/chatstack-exporter/chatstack_exporter/internal/status"

// levelWords are the levels' names on the page.
var levelWords = map[status.Level]string{
	status.OK: "OK", status.Maintenance: "Maintenance", status.Unknown: "Unknown", status.Pending: "Pending", status.Warning: "Warning",
	status.Critical: "Critical",
}
