package story

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// everything is an exporter that watches whatever a site can have.
var everything = []exporterSpec{{
	name:       "a",
	env:        "prod",
	targets:    true,
	containers: true,
	saves:      true,
	wide:       true,
	relay:      true,
	services:   true,
}}

// servicesTargets are the IRC server's RPC, the IRC services, and what the container docs serves.
func (s *site) servicesTargets() string {
	env := s.chat.Environ()
	return fmt.Sprintf(`
  - {kind: irc_rpc, url: %q, user: %s, password: %q, ca_file: %q}
  - {kind: irc_services, url: %q}
  - {kind: http, name: docs, url: %q, container: docs}
`, env["IRC_RPC_URL"], env["IRC_RPC_USER"], env["IRC_RPC_PASSWORD"], s.chat.CAFile(), s.chat.URL("irc_services"), s.services["docs"].url)
}

// stopServices stops the IRC services, which are then not linked to the IRC server either.
func stopServices(on bool) func(*world, *site) {
	return func(w *world, s *site) {
		must(w.T, s.chat.Switch("irc_services", "stopped", on))
		must(w.T, s.chat.Switch("irc_rpc", "services_unlinked", on))
	}
}

// servicesFaults happen to the IRC services.
var servicesFaults = []fault[*site]{{
	"services stop",
	"services start",
	stopServices(true),
	stopServices(false),
}}

// halfOfPair is a fault that lasts for pairedFor, or that comes back in each period and lasts for a part of it.
type halfOfPair struct {
	name, begins, ends string
	period, part       time.Duration
	// remembered is how much longer its alert looks back than the others.
	remembered time.Duration
	// told matches the alerts of which one has to be told.
	told *regexp.Regexp
	// explains are the other faults that nobody can see while this one lasts.
	explains []string
}

const (
	pairedFor = 44 * time.Minute
	// pairLasts includes half an hour after the repair, in which every alert has to end.
	pairLasts = 76 * time.Minute
)

var halves = []halfOfPair{
	{
		name:   "a container stops",
		begins: "web stops",
		ends:   "web starts",
		told:   regexp.MustCompile(`^(Container|Target)Down \w+ web$`),
	},
	{
		name:   "the engine hangs",
		begins: "engine hangs",
		ends:   "engine answers",
		told:   regexp.MustCompile(`^TargetDown \w+ docker$`),
	},
	{
		name:   "a target fails",
		begins: "other fails",
		ends:   "other answers",
		told:   regexp.MustCompile(`^TargetDown \w+ other$`),
	},
	{
		name:   "a certificate expires",
		begins: "certificate expires",
		ends:   "certificate is renewed",
		told:   regexp.MustCompile(`^TLSCertificateExpiry `),
	},
	{
		name:     "the network is lost",
		begins:   "a loses its network",
		ends:     "a has its network again",
		told:     regexp.MustCompile(`^MostTargetsDown `),
		explains: []string{"a certificate expires", "the bridge hangs", "a target is slow"},
	},
	{
		name:   "the bridge hangs",
		begins: "bridge hangs",
		ends:   "bridge relays",
		told:   regexp.MustCompile(`^BridgeNotRelaying `),
	},
	{
		name:   "the IRC services stop",
		begins: "services stop",
		ends:   "services start",
		told:   regexp.MustCompile(`^(TargetDown \w+ irc_services|IRCServicesUnlinked .*)$`),
	},
	{
		name:   "a target flaps",
		begins: "api fails",
		ends:   "api answers",
		period: 12 * time.Minute,
		part:   6 * time.Minute,
		told:   regexp.MustCompile(`^TargetDown \w+ api$`),
	},
	{
		name:   "a target is slow",
		begins: "docs is slow",
		ends:   "docs is quick",
		told:   regexp.MustCompile(`^TargetSlow \w+ docs$`),
	},
	{
		name:   "the exporter restarts",
		begins: "a is killed",
		period: 3 * time.Minute,
		told:   regexp.MustCompile(`^ExporterRestarts `),

		remembered: time.Hour,
	},
}

// played is a fault in a story, with when it begins.
type played struct {
	*halfOfPair
	at time.Duration
}

// spells are from when to when the fault lasts. One without an end lasts all the time.
func (p played) spells() (list [][2]time.Duration) {
	if p.part == 0 {
		return [][2]time.Duration{{p.at, p.at + pairedFor}}
	}
	for at := p.at; at < p.at+pairedFor; at += p.period {
		list = append(list, [2]time.Duration{at, at + p.part})
	}
	return list
}

func (p played) events() (list []event) {
	if p.ends == "" {
		for at := p.at; at < p.at+pairedFor; at += p.period {
			list = append(list, event{at, p.begins})
		}
		return list
	}
	for _, spell := range p.spells() {
		list = append(list, event{spell[0], p.begins}, event{spell[1], p.ends})
	}
	return list
}

// row is a line of testdata/pairs.golden: faults, and how many messages report them.
type row struct {
	faults              []played
	pages, chat, alerts int
}

func (r *row) name() string {
	var names []string
	for _, f := range r.faults {
		names = append(names, f.name)
	}
	return strings.Join(names, ", then ")
}

func (r *row) String() string {
	return fmt.Sprintf("%-52s %5d %5d %6d", r.name(), r.pages, r.chat, r.alerts)
}

// rows are each fault alone, and each pair: the second fault begins within a minute after the first. No time is a multiple of that between
// two readings, since it would depend on the machine what comes first.
func rows() (list []*row) {
	const first = 67 * time.Second
	for i := range halves {
		list = append(list, &row{faults: []played{{&halves[i], first}}})
	}
	for i := range halves {
		for k := range i {
			n := len(list)
			one, other := &halves[i], &halves[k]
			if n%2 == 0 {
				one, other = other, one
			}
			second := first + time.Duration(5+17*n%53)*time.Second
			list = append(list, &row{faults: []played{{one, first}, {other, second}}})
		}
	}
	return list
}

// sample is the row that is played where there is no time for all.
const sample = "the exporter restarts, then a certificate expires"

// TestPairsOfFaults plays ten faults alone, and each pair of them. Whatever does not explain the other is told, in no more pages than of
// each alone, and nothing is said to be over before it is.
func TestPairsOfFaults(t *testing.T) {
	list := rows()
	if !*update {
		recall(t, list)
	}
	t.Run("plays", func(t *testing.T) {
		for _, r := range list {
			if pairLasts > *longest && r.name() != sample && !*update {
				continue
			}
			t.Run(r.name(), func(t *testing.T) {
				t.Parallel()
				r.play(t)
			})
		}
	})
	alone, seen := map[string]int{}, []string{fmt.Sprintf("%-52s %5s %5s %6s", "fault", "pages", "chat", "alerts")}
	for _, r := range list {
		seen = append(seen, r.String())
		if len(r.faults) == 1 {
			alone[r.name()] = r.pages
			continue
		}
		if most := alone[r.faults[0].name] + alone[r.faults[1].name]; r.pages > most {
			t.Errorf("%s: %d pages, want at most %d as of each alone", r.name(), r.pages, most)
		}
	}
	if *update { // make generate does not: it takes minutes
		golden(t, "pairs.golden", seen)
	}
}

func (r *row) play(t *testing.T) {
	t.Helper()
	var events []event
	for _, f := range r.faults {
		events = append(events, f.events()...)
	}
	script, lasts := scriptOf(events), pairLasts
	for _, f := range r.faults {
		lasts = max(lasts, pairLasts+f.remembered)
	}
	play(t, everything, nil, func(w *world) {
		(&scenario{script: script}).perform(w)
		w.until(w.began.Add(lasts))
		w.router.checkGroups(w.T)
		w.router.checkNews(w.T)
		before := r.String()
		r.count(w)
		if is := r.String(); is != before && !*update {
			w.Errorf("testdata/pairs.golden: was %q, is %q; if this is meant, run go test . -run ^TestPairs -update", before, is)
		}
		r.checkTold(w)
		r.checkEnds(w)
		if w.Failed() {
			w.Logf("the script:\n%sthe messages:\n%s", script, strings.Join(w.notifications(), "\n"))
		}
	})
}

func (r *row) count(w *world) {
	r.pages, r.chat = 0, 0
	told := map[string]bool{}
	for _, n := range w.router.notifications() {
		if n.receiver == "page" {
			r.pages++
		} else {
			r.chat++
		}
		for _, a := range n.alerts {
			told[strings.TrimSuffix(a, isOver)] = true
		}
	}
	r.alerts = len(told)
}

const isOver = " is over"

// checkTold holds that each fault is reported, unless the other one explains it.
func (r *row) checkTold(w *world) {
	for i, f := range r.faults {
		if slices.Contains(r.faults[len(r.faults)-1-i].explains, f.name) {
			continue
		}
		tells := func(n notification) bool { return slices.ContainsFunc(n.alerts, f.told.MatchString) }
		if !slices.ContainsFunc(w.router.notifications(), tells) {
			w.Errorf("nobody is told that %s", f.name)
		}
	}
}

// checkEnds holds that no alert is told as over while its fault lasts, and that each is in the end.
func (r *row) checkEnds(w *world) {
	// noticed is how long a fault lasts at most before its alert fires again.
	const noticed = 4 * time.Minute
	fires := map[string]bool{}
	for _, n := range w.router.notifications() {
		for _, a := range n.alerts {
			alert, over := strings.CutSuffix(a, isOver)
			if n.receiver == "chat" {
				fires[alert] = !over
			}
			for _, f := range r.faults {
				lasts := slices.ContainsFunc(f.spells(), func(spell [2]time.Duration) bool {
					return n.at.After(w.began.Add(spell[0]+noticed)) && n.at.Before(w.began.Add(spell[1]))
				})
				if over && lasts && f.told.MatchString(alert) {
					w.Errorf("%s is told as over after %s, while %s", alert, n.at.Sub(w.began), f.name)
				}
			}
		}
	}
	for alert, still := range fires {
		if still {
			w.Errorf("%s is not told as over", alert)
		}
	}
	if left := w.problems(w.exporters[0]); len(left) > 0 {
		w.Errorf("after all repairs, the page shows %q", left)
	}
}

// recall sets the numbers of rows to those of the golden.
func recall(t *testing.T, list []*row) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "pairs.golden"))
	must(t, err)
	have := map[string]string{}
	for _, line := range lines(string(content)) {
		name, numbers, _ := strings.Cut(line, "  ")
		have[name] = numbers
	}
	for _, r := range list {
		if _, err := fmt.Sscan(have[r.name()], &r.pages, &r.chat, &r.alerts); err != nil {
			t.Fatalf("the golden lacks %q; run go test . -run ^TestPairs -update", r.name())
		}
	}
}
