package story

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

//go:generate go test . -run ^Test(Contract|Messages) -update
var update = flag.Bool("update", false, "write the goldens of the contract anew instead of comparing with them")

// golden compares what was seen with a file. cmd/chatstack_exporter/testdata/contract/README.md lists all of them.
func golden(t *testing.T, name string, seen []string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, []byte(strings.Join(seen, "\n")+"\n"), 0o600))
	}
	content, err := os.ReadFile(path)
	must(t, err)
	have := lines(string(content))
	for n := range max(len(have), len(seen)) {
		is, was := slices.Concat(seen, []string{"nothing"})[min(n, len(seen))], slices.Concat(have, []string{"nothing"})[min(n, len(have))]
		if is != was {
			t.Fatalf("%s:%d: was %q, is %q; if this is meant, name it in CHANGELOG.md and run make generate", path, n+1, was, is)
		}
	}
}

var (
	message = regexp.MustCompile(`^(\S+) (\w+): (.+)$`)
	about   = regexp.MustCompile(`^(\w+) (none|warning|critical) ?(.*?)( is over)?$`)
)

// TestContractOfWhoIsToldWhatAndWhen has a line for each alert of each message that the scenarios promise. TestScenarios plays them.
func TestContractOfWhoIsToldWhatAndWhen(t *testing.T) {
	var seen []string
	for _, s := range slices.Concat(scenarios, gapScenarios, rootScenarios, unstableScenarios, valueScenarios, relayScenarios) {
		seen = append(seen, fmt.Sprintf("== %s, for %s", s.name, s.lasts))
		for _, line := range lines(s.notifications) {
			told := message.FindStringSubmatch(line)
			if told == nil {
				t.Fatalf("%s: %q is no message", s.name, line)
			}
			for alert := range strings.SplitSeq(told[3], "; ") {
				a := about.FindStringSubmatch(alert)
				if a == nil {
					t.Fatalf("%s: %q is no alert", s.name, alert)
				}
				state := "fires"
				if a[4] != "" {
					state = "is over"
				}
				seen = append(seen, fmt.Sprintf("%-9s %-6s %-26s %-8s %-7s %s", told[1], told[2], a[1], a[2], state, a[3]))
			}
		}
		if s.notifications == "" {
			seen = append(seen, "nobody is told anything")
		}
	}
	for i := range seen {
		seen[i] = strings.TrimSpace(seen[i])
	}
	golden(t, "told.golden", seen)
}

// TestContractOfFingerprints has the labels of alerts that fire, and what Alertmanager knows the alert by: what silences match, and what
// webhooks get as fingerprint.
func TestContractOfFingerprints(t *testing.T) {
	play(t, bridged, nil, func(w *world) {
		fired := map[string]bool{}
		w.afterRound = func() {
			for _, a := range w.prometheus.firing() {
				set := model.LabelSet{}
				a.Labels.Range(func(l labels.Label) { set[model.LabelName(l.Name)] = model.LabelValue(l.Value) })
				fired[fmt.Sprintf("%s %s", set.Fingerprint(), set)] = true
			}
		}
		for _, what := range []string{
			"db stops", "web turns unhealthy", "other fails", "other loses a process", "component is disconnected",
			"bridge relays to IRC only", "a sees 120 failed logins",
		} {
			w.happen(what)
		}
		w.pass(10 * time.Minute)
		for range 4 {
			w.happen("other crashes")
			w.pass(time.Minute)
		}
		w.happen("a cannot be scraped")
		w.pass(10 * time.Minute)
		golden(t, "fingerprints.golden", slices.Sorted(maps.Keys(fired)))
	})
}
