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
	&configReloadFailed, &stateNotSaved, &notificationsFailing, &relayUnwatched, &honorLabelsOff, &scrapedTooSeldom, &clockSkew, &drill,
	&rulesOutOfDate, &watchdog,
}

// What the texts of several alerts say.
const (
	// lastKnown is when a container was last seen so that cannot be read now.
	lastKnown = "{{ range query (printf `min(chatstack_container_last_known_timestamp_seconds{container=%q,workload=%q,docker_host=%q," +
		sameEnvironment + "})` $labels.container $labels.workload $labels.docker_host " + sameEnvironmentArgs +
		") }}, last known at {{ (toTime .Value).Format `15:04` }} UTC{{ end }}."
	// sameEnvironment selects series of the alert's environment. An empty value matches series without that label.
	sameEnvironment     = "cluster=%q,env=%q,part=%q"
	sameEnvironmentArgs = "$labels.cluster $labels.env $labels.part"
	// began is when what lasts for the value began. Unlike the start of the alert, it does not depend on when Prometheus looked.
	began     = "{{ range query (printf `time() - %f` $value) }}{{ (toTime .Value).Format `2006-01-02 15:04` }} UTC{{ end }}"
	sinceThen = " since " + began + ", for {{ $value | humanizeDuration }}."
	// readLog is the first step of whoever receives the alert.
	readLog = " First {{ if $labels.container }}read its log: docker logs --tail 100 {{ $labels.container }}" +
		"{{ else }}find its instances: docker ps --all{{ end }}."
	// bytesUsed and shareUsed write a value with a space before its unit.
	bytesUsed = "{{ $value | humanize | reReplaceAll `([kMGTPEZY]?)$` ` ${1}B` }}"
	shareUsed = "{{ $value | humanizePercentage | reReplaceAll `%` ` %` }}"
	// insteadOfCritical is when an alert warns that is critical otherwise.
	insteadOfCritical = "instead of critical, with `page: false`"
)

// ask queries what the alert's environment has. In the expression, ENV stands for the matchers of the environment; own are the other
// arguments of each selector that has it.
func ask(expression string, own ...string) string {
	words := []string{"query (printf `" + strings.ReplaceAll(expression, "ENV", sameEnvironment) + "`"}
	for _, of := range own {
		words = append(words, strings.TrimLeft(of+" "+sameEnvironmentArgs, " "))
	}
	return strings.Join(words, " ") + ")"
}

var (
	// aContainer is a container, or a workload that has several.
	aContainer = "{{ if $labels.container }}Container {{ $labels.container }}{{ else }}Workload {{ $labels.workload }}" +
		wasNamed(`kind="workload",name=%q,docker_host=%q`, "$labels.workload $labels.docker_host") + "{{ end }}" +
		"{{ if ne $labels.docker_host `local` }} on {{ $labels.docker_host }}{{ end }}"
	aTarget = named("target", "Target ") + wasNamed(`kind="target",name=%q`, "$labels.target")
	// openPage is the first step. The exporter says where its page is, if it knows.
	openPage = " First open {{ with " + statusPage + " }}{{ . | first | label \"external_url\" }}/debug/targets/{{ $labels.target }}" +
		"{{ else }}/debug/targets/{{ $labels.target }} on the status page{{ end }}."
	statusPage = ask(`chatstack_exporter_info{external_url!="",ENV}`, "") + " | sortByLabel \"external_url\""
	// checkTarget is the first step for a target that is down: the log of its container, if that is known.
	checkTarget = "{{ with " + ask(`chatstack_target_info{target=%q,container!="",ENV}`, "$labels.target") +
		" }} First read the log of its container: docker logs --tail 100 {{ . | first | label \"container\" }}.{{ else }}" + openPage + "{{ end }}"
	// serves are the targets of a container.
	serves = "chatstack_target_words{ENV} and on (target) chatstack_target_info{container=%q,docker_host=%q,ENV}"
	// lostByUsers is what the users of a target lose, lostWithIt those of a container.
	lostByUsers = "{{ with " + ask(`chatstack_target_words{target=%q,loss!="",ENV}`, "$labels.target") +
		" }}{{ . | first | label \"loss\" }}{{ else }}Whoever uses it gets errors or waits.{{ end }}"
	lostWithIt = "{{ if $labels.container }}{{ range " + askContainer("count by (loss) ("+strings.Replace(serves, "{", `{loss!="",`, 1)+")") +
		" | sortByLabel \"loss\" }}{{ .Labels.loss }} {{ end }}{{ with " +
		askContainer("count by (target, title) ("+serves+")") + " | sortByLabel \"target\" }}It serves: " +
		"{{ range $i, $t := . }}{{ if $i }}, {{ end }}{{ $t.Labels.title }} ({{ $t.Labels.target }}){{ end }}. " +
		"{{ else }}What it serves is down. {{ end }}{{ end }}"
)

// askContainer is ask for an expression with serves.
func askContainer(expression string) string {
	return ask(expression, "", "$labels.container $labels.docker_host")
}

// named is the human name of the target in a label, before its own name. An older exporter has no such words.
func named(label, otherwise string) string {
	return "{{ with " + ask("chatstack_target_words{target=%q,ENV}", "$labels."+label) + " }}{{ . | first | label \"title\" }} ({{ $labels." +
		label + " }}){{ else }}" + otherwise + "{{ $labels." + label + " }}{{ end }}"
}

// wasNamed is the name that somebody knows from an earlier message.
func wasNamed(matchers, own string) string {
	return "{{ range " + ask("group by (was) (chatstack_renamed_info{"+matchers+",ENV})", own) + " }} (was {{ .Labels.was }}){{ end }}"
}

// usersMayBeWell is what failures mean for a target's users if the server answers, but not to the exporter, and otherwise. Of %s, a
// series with matchers, remain the failures that count.
func usersMayBeWell(failures, otherwise string) string {
	only := func(reasons string) string {
		count := func(matcher string) string {
			return "count(" + strings.ReplaceAll(failures, "%s", "{"+matcher+",target=%q,ENV}") + ")"
		}
		return ask(count("reason=~\""+reasons+"\"")+" unless "+count("reason!~\""+reasons+"\""), "$labels.target", "$labels.target")
	}
	return "{{ if " + only("throttled") + " }}The server limits this address; users may be well.{{ else if " + only("unauthorized|forbidden") +
		" }}The server answers, but refuses the exporter; users may be well.{{ else }}" + otherwise + "{{ end }}"
}
