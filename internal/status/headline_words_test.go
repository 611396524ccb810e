package status

import (
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

func TestHeadlineNamesItsSubject(t *testing.T) {
	target, container := health.TargetSubject, health.ContainerSubject
	for want, p := range map[string]struct {
		health.Problem
		kind string
	}{
		"IRC server is down": {
			health.Problem{Subject: target("irc_rpc"), Alert: health.AlertTargetDown},
			"irc_rpc",
		},
		"IRC services are down": {
			health.Problem{Subject: target("irc_services"), Alert: health.AlertTargetDown},
			"irc_services",
		},
		"Backup is down": {
			health.Problem{Subject: target("backup"), Alert: health.AlertTargetDown},
			"irc_rpc",
		},
		"Container a b is not running": {
			health.Problem{Subject: container("local", "a\nb"), Alert: health.AlertContainerDown},
			"",
		},
		"Workload chat/web is not running": {
			health.Problem{Subject: health.WorkloadSubject("local", "chat/web"), Alert: health.AlertContainerDown},
			"",
		},
		"Workload chat/web: one of two is running": {
			health.Problem{
				Subject:   health.WorkloadSubject("local", "chat/web"),
				Alert:     health.AlertContainerDown,
				Instances: 1,
				Wanted:    2,
			},
			"",
		},
		"Workload chat/web: 11 of 12 are running": {
			health.Problem{
				Subject:   health.WorkloadSubject("local", "chat/web"),
				Alert:     health.AlertContainerDown,
				Instances: 11,
				Wanted:    12,
			},
			"",
		},
		"Most targets are down, and no container explains it": {
			health.Problem{Subject: health.ExporterSubject, Alert: health.AlertMostTargetsDown},
			"",
		},
		"xmpp_s2s is down": {health.Problem{Subject: target("xmpp_s2s"), Alert: health.AlertTargetDown}, "tls"},
		"IRC server TLS port: a certificate expires soon or has expired": {
			health.Problem{Subject: target("irc_tls"), Alert: health.AlertCertificateExpiry},
			"irc_tls",
		},
		"XMPP server: the component x is not connected": {
			health.Problem{Subject: target("xmpp_status"), Alert: health.AlertComponentDisconnected, Of: "x"},
			"xmpp_status",
		},
		"XMPP server: SomethingNew": {health.Problem{Subject: target("xmpp_status"), Alert: "SomethingNew"}, "xmpp_status"},
	} {
		if got := Headline(&p.Problem, p.kind); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
