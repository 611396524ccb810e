package story

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

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
