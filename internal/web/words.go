package web

import "github.com/chatstack-exporter/chatstack_exporter/internal/status"

// levelWords are the levels' names on the page.
var levelWords = map[status.Level]string{
	status.OK: "OK", status.Maintenance: "Maintenance", status.Unknown: "Unknown", status.Pending: "Pending", status.Warning: "Warning",
	status.Critical: "Critical",
}

// alertWords are the titles of the table of thresholds.
var alertWords = map[string]string{
	"ContainerUnhealthy": "Unhealthy containers", "XMPPAuthFailureRate": "Failed XMPP logins", "TLSCertificateExpiry": "Certificate expiry",
	"DataVolumeUsage": "Data volume used", "ContainerRestarts": "Container restarts", "ContainerMemory": "Container memory",
	"ContainerDown": "Container down", "TargetDown": "Target down",
}
