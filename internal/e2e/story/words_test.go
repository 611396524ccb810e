package story

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/template"
)

// overLast is how a subject ends if something else is over.
var overLast = regexp.MustCompile(` Over: \d+\.$`)

// wrongWords says what is wrong with the subject of a message; "" if it begins with what fires, names where, and ends with what is over.
func wrongWords(subject string, data *template.Data) string {
	var begins []string
	most, firing := "", len(data.Alerts.Firing()) > 0
	for _, a := range data.Alerts {
		begin := fmt.Sprintf("[%s] %.150s", strings.ToUpper(a.Labels["severity"]), a.Annotations["summary"])
		switch {
		case !firing:
			begin = fmt.Sprintf("[RESOLVED] It was: %.150s", a.Annotations["summary"])
		case a.Status != "firing":
			continue
		case a.Labels["alertname"] == "MostTargetsDown":
			most = begin
		}
		begins = append(begins, begin)
	}
	if most != "" {
		begins = []string{most}
	}
	switch env := data.CommonLabels["env"]; {
	case !slices.ContainsFunc(begins, func(begin string) bool { return strings.HasPrefix(subject, begin) }):
		return fmt.Sprintf("want one of %q first", begins)
	case overLast.MatchString(subject) != (firing && len(data.Alerts.Resolved()) > 0):
		return fmt.Sprintf("%d alerts are over", len(data.Alerts.Resolved()))
	case env != "" && !strings.Contains(subject, "env "+env):
		return "want the environment " + env
	}
	return ""
}

// TestMessagesAnswerWhatSinceWhenAndWhatToDo has five faults. People who know nothing else read testdata/messages.golden: from each message
// alone they must be able to say what is down, since when, and what they do.
func TestMessagesAnswerWhatSinceWhenAndWhatToDo(t *testing.T) {
	wide := slices.Clone(pair)
	wide[0].wide, wide[1].wide = true, true
	var seen []string
	for i, one := range []struct {
		exporters []exporterSpec
		fault     func(w *world)
		// message is to whom it goes, and an alert that it tells of.
		message string
	}{
		{bridged, func(w *world) { w.happen("prosody stops") }, "page: TargetDown critical xmpp_c2s"},
		{bridged, func(w *world) { w.happen("bridge hangs") }, "page: BridgeNotRelaying critical crossing"},
		{alone, func(w *world) { w.happen("api stops") }, "page: ContainerDown critical api"},
		{wide, func(w *world) { w.happen("b reaches nothing") }, "chat: MostTargetsDown warning"},
		{alone, func(w *world) { w.exporters[0].sees = expired(time.Now().Add(-time.Hour)) }, "page: TLSCertificateExpiry critical web"},
	} {
		play(t, one.exporters, nil, func(w *world) {
			one.fault(w)
			w.pass(8 * time.Minute)
			to, alert, _ := strings.Cut(one.message, ": ")
			sent := w.router.notifications()
			at := slices.IndexFunc(sent, func(n notification) bool {
				return n.receiver == to && slices.ContainsFunc(n.alerts, func(a string) bool { return strings.HasPrefix(a, alert) })
			})
			if at < 0 {
				t.Fatalf("nobody is told of %s: %v", one.message, w.notifications())
			}
			seen = append(seen, fmt.Sprintf("== message %d, at %s", i+1, sent[at].at.UTC().Format("2006-01-02 15:04:05 MST")))
			seen = append(seen, lines(sent[at].text)...)
		})
	}
	golden(t, "messages.golden", seen)
}

// expired is the certificate of the target web, on a page.
func expired(at time.Time) func() string {
	return func() string {
		return fmt.Sprintf("chatstack_tls_certificate_not_after_timestamp_seconds{endpoint=\"web\",source=\"leaf\"} %d\n", at.Unix())
	}
}
