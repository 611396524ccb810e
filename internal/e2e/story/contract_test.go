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

//go:generate go test . -run ^TestContract -update
var update = flag.Bool("update", false, "write the goldens of the contract anew instead of comparing with them")

// golden compares what was seen with a file. cmd/chatstack_exporter/testdata/contract/README.md lists all of them.
func golden(t *testing.T, name string, seen []string) {
	t.Helper()
	path, text := filepath.Join("testdata", name), strings.Join(seen, "\n")+"\n"
	if *update {
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	content, err := os.ReadFile(path)
	must(t, err)
	if string(content) == text {
		return
	}
	have := lines(string(content))
	for _, line := range have {
		if !slices.Contains(seen, line) {
			t.Errorf("%s: is gone: %s", path, line)
		}
	}
	for _, line := range seen {
		if line = strings.TrimSpace(line); !slices.Contains(have, line) {
			t.Errorf("%s: is new: %s", path, line)
		}
	}
	t.Errorf("%s: people rely on this; if the change is meant, name it in CHANGELOG.md and run make generate", path)
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
