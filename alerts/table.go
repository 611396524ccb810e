package alerts

import (
	"strings"
)

// rows are all alerts, in the order of the rule file: the rules' checksum depends on it.
var rows = []*row{
	&containerUnhealthy, &containerOftenUnhealthy, &containerRestarts, &containerOOMKill, &containerDown, &containerMissing, &oneShotFailed,
	&containerMemory,
	&xmppAuthFailureRate, &tlsCertificateExpiry, &dataVolumeUsage, &dataVolumeFilling, &xmppAuthFailuresSustained, &xmppSessionsGone,
	&ircUsersGone, &ircServersSplit, &targetDown, &targetUnstable, &targetSlow, &mostTargetsDown, &xmppAuthSourceMissing, &dataVolumeInodes,
	&dataVolumeReadOnly, &backupOld, &xmppModuleProblem, &xmppModuleMissing, &xmppComponentDisconnected, &bridgeNotRelaying, &bridgeSlow,
	&bridgeDuplicates, &relaySessionDown, &ircServicesUnlinked, &plantStoreOrphans, &identityCacheExhausted, &tlsChainInvalid,
	&tlsServedNotRenewed, &upstreamSeriesDropped, &monitoringGap, &placeholderCredential, &exporterDown, &exporterRestarts, &pollStalled,
	&configReloadFailed, &stateNotSaved, &relayUnwatched, &honorLabelsOff, &scrapedTooSeldom, &clockSkew, &drill, &rulesOutOfDate,
	&watchdog,
}

// What the texts of several alerts say.
const (
	// aContainer is a container, or a workload that has several.
	aContainer = "{{ if $labels.container }}Container {{ $labels.container }}{{ else }}Workload {{ $labels.workload }}" +
		wasNamed + "kind=\"workload\",name=%q,docker_host=%q," + sameEnvironment + "})` $labels.workload $labels.docker_host " + wasNamedEnd +
		"{{ end }} on {{ $labels.docker_host }}"
	aTarget = "Target {{ $labels.target }}" + wasNamed + "kind=\"target\",name=%q," + sameEnvironment + "})` $labels.target " + wasNamedEnd
	// wasNamed and wasNamedEnd, around matchers and their values, add the name that somebody knows from an earlier message.
	wasNamed    = "{{ range query (printf `group by (was) (chatstack_renamed_info{"
	wasNamedEnd = sameEnvironmentArgs + ") }} (was {{ .Labels.was }}){{ end }}"
	// sameEnvironment selects series of the alert's environment. An empty value matches series without that label.
	sameEnvironment     = "cluster=%q,env=%q,part=%q"
	sameEnvironmentArgs = "$labels.cluster $labels.env $labels.part"
	forValue            = " for {{ $value | humanizeDuration }}."
	// readLog and openPage are the first step of whoever receives the alert.
	readLog = " First {{ if $labels.container }}read its log: docker logs --tail 100 {{ $labels.container }}" +
		"{{ else }}find its instances: docker ps --all{{ end }}."
	openPage = " First open /debug/targets/{{ $labels.target }} on the status page."
	// bytesUsed and shareUsed write a value with a space before its unit.
	bytesUsed = "{{ $value | humanize | reReplaceAll `([kMGTPEZY]?)$` ` ${1}B` }}"
	shareUsed = "{{ $value | humanizePercentage | reReplaceAll `%` ` %` }}"
	// insteadOfCritical is when an alert warns that is critical otherwise.
	insteadOfCritical = "instead of critical, with `page: false`"
)

// usersMayBeWell is what failures mean for a target's users if the server only limits the exporter's address, and otherwise. Of %s, a
// series with matchers, remain the failures that count.
func usersMayBeWell(failures, otherwise string) string {
	count := func(matcher string) string {
		return "count(" + strings.ReplaceAll(failures, "%s", "{"+matcher+",target=%q,"+sameEnvironment+"}") + ")"
	}
	args := " $labels.target " + sameEnvironmentArgs
	return "{{ if query (printf `" + count(`reason="throttled"`) + " unless " + count(`reason!="throttled"`) + "`" + args + args + ") }} " +
		"The server limits this address; users may be well.{{ else }} " + otherwise + "{{ end }}"
}
