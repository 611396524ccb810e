package alertpath

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/routing"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

func (r *Rule) String() string { return strings.TrimSpace(r.Name + " " + r.Labels["severity"]) }

// is reports whether two rules are the same one, whatever they say.
func (r *Rule) is(other Rule) bool { return r.Type == other.Type && r.String() == other.String() }

// rule finds one of our alerts by its name.
func (f *Facts) rule(name string) *Rule {
	for _, g := range f.ourGroups() {
		for i := range g.Rules {
			if r := &g.Rules[i]; r.Name == name && f.isOurs(r) {
				return r
			}
		}
	}
	return nil
}

// isOurs reports whether a rule is one of ours, of any version. Others have alerts named Watchdog and TargetDown, too.
func (f *Facts) isOurs(r *Rule) bool {
	return r.Type == "alerting" && r.Labels["stack"] == "chat" || r.Type == "recording" && strings.HasPrefix(r.Name, "chatstack:")
}

// ourGroups are the groups with our rules.
func (f *Facts) ourGroups() (ours []Group) {
	for _, g := range f.Groups {
		if slices.ContainsFunc(g.Rules, func(r Rule) bool { return f.isOurs(&r) }) {
			ours = append(ours, g)
		}
	}
	return ours
}

func (f *Facts) deployRules() string {
	flag := ""
	if f.ConfigFile != "" {
		flag = " --config.file=" + f.ConfigFile
	}
	return "deploy the output of `chatstack_exporter rules" + flag + "`, and reload Prometheus"
}

// rules judges whether the rules are loaded, are those of the exporter's configuration, and are evaluated.
func (f *Facts) rules() []Step {
	groups, files := f.ourGroups(), map[string]bool{}
	alerts := 0
	for _, g := range groups {
		for i := range g.Rules {
			if g.Rules[i].Type == "alerting" && f.isOurs(&g.Rules[i]) {
				alerts, files[g.File] = alerts+1, true
			}
		}
	}
	if alerts == 0 {
		step := wrong(StepRules, "add alerts/chatstack.rules.yml to rule_files in prometheus.yml, and reload Prometheus; if Thanos Ruler, "+
			"vmalert or another server evaluates the rules, give its address with --ruler", "Prometheus has not loaded the alert rules")
		if len(f.Setup.RuleFiles) > 0 {
			step = step.note("its rule_files: %s", strings.Join(f.Setup.RuleFiles, ", "))
		}
		return []Step{step}
	}
	list := strings.Join(slices.Sorted(maps.Keys(files)), ", ")
	loaded := works(StepRules, "Prometheus has loaded %d alert rules from %s", alerts, list)
	if f.rule(f.Drill) == nil {
		loaded = wrong(StepRules, f.deployRules(), "the alert rules in %s are older than drills: %s is missing", list, f.Drill)
	}
	return []Step{loaded, f.version(groups), f.evaluation(groups)}
}

// version compares the loaded rules with those that the command rules prints.
func (f *Facts) version(groups []Group) Step {
	if len(f.Checksums) > 0 && !slices.Contains(f.Checksums, f.Checksum) {
		return unknown(StepVersion,
			"give --config.file of the exporter, and run the same version; if its file has changed, reload the exporter",
			"the rules cannot be compared: the exporter runs with other alert settings (%s) than this command reads (%s)",
			strings.Join(f.Checksums, ", "), f.Checksum)
	}
	if differences := f.differences(groups); len(differences) > 0 {
		return wrong(StepVersion, f.deployRules(), "the rules do not match the exporter's configuration: %s", firstOf(differences, "; "))
	}
	return works(StepVersion, "all %d rules are as `chatstack_exporter rules` prints them", len(f.Rules.Rules))
}

// differences are what of the loaded rules is not as the command rules prints it. Alerts may have more labels.
func (f *Facts) differences(groups []Group) (all []string) {
	loaded := map[string]bool{}
	for _, g := range groups {
		for _, got := range g.Rules {
			i := slices.IndexFunc(f.Rules.Rules, got.is)
			if i < 0 || !f.isOurs(&got) {
				continue
			}
			want := &f.Rules.Rules[i]
			loaded[want.String()] = true
			every := fmt.Sprintf("the group %s is evaluated every %s instead of %s", g.Name, inWords(g.Interval), inWords(f.Rules.Interval))
			if g.Interval != f.Rules.Interval && !slices.Contains(all, every) {
				all = append(all, every)
			}
			all = append(all, want.differences(&got)...)
			if got.Type == "recording" {
				all = append(all, f.addedLabels(&got)...)
			}
		}
	}
	for _, want := range f.Rules.Rules {
		if !loaded[want.String()] {
			all = append(all, want.String()+" is missing")
		}
	}
	return all
}

// addedLabels are labels that somebody added to a recording rule, so that its series do not match the exporter's. Thanos Ruler and vmalert
// add labels of their own to all rules, which do no harm.
func (f *Facts) addedLabels(r *Rule) (all []string) {
	always := f.alwaysFiring()
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		value := r.Labels[name]
		byServer := f.unserved["status/config"] != nil && always != nil && always.Labels[name] == value
		if !byServer && slices.ContainsFunc(f.Builds, func(build map[string]string) bool { return build[name] != value }) {
			all = append(all, fmt.Sprintf("%s has another label: %s=%q", r, name, value))
		}
	}
	return all
}

// differences are what of a loaded rule is not as in r, from the first word that differs.
func (r *Rule) differences(got *Rule) (all []string) {
	has, wants := got.says(), r.says()
	for _, key := range slices.Sorted(maps.Keys(wants)) {
		a, b := has[key], wants[key]
		if slices.Equal(a, b) || key == "keep_firing_for:" && a == nil { // not all servers show it
			continue
		}
		same := 0
		for same < min(len(a), len(b))-1 && a[same] == b[same] {
			same++
		}
		all = append(all, fmt.Sprintf("%s has %s `%s` instead of `%s`", r, key, strings.Join(a[same:min(same+3, len(a))], " "),
			strings.Join(b[same:min(same+3, len(b))], " ")))
	}
	return all
}

func inWords(n float64) string { return wording.AsPrometheus(seconds(n)) }

var token = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\d[\d.]*[eE][+-]?\d+|[\w:.]+|\S`)

// says is what decides when a rule holds and where its alerts go, in words and by key. Of an expression, it leaves out what versions print
// differently: spaces, and 2e+09 for 2000000000.
func (r *Rule) says() map[string][]string {
	words := token.FindAllString(r.Query, -1)
	for i, word := range words {
		if n, err := strconv.ParseFloat(word, 64); err == nil {
			words[i] = strconv.FormatFloat(n, 'f', -1, 64)
		}
	}
	all := map[string][]string{"expr:": words, "for:": {inWords(r.Duration)}}
	if keep := cmp.Or(r.Keep, r.KeepOfVMAlert); keep != nil {
		all["keep_firing_for:"] = []string{inWords(*keep)}
	}
	for name, value := range r.Labels {
		all["the label "+name+":"] = strings.Fields(value)
	}
	return all
}

// delay is how far in the past vmalert evaluates rules by default, so that all samples have arrived.
func (f *Facts) delay() time.Duration {
	if r := f.rule(f.Drill); r != nil && r.KeepOfVMAlert != nil {
		return 30 * time.Second
	}
	return 0
}

// firstOf lists the first three of some texts, and how many there are more.
func firstOf(texts []string, between string) string {
	const most = 3
	if len(texts) > most {
		texts = append(slices.Clone(texts[:most]), fmt.Sprintf("and %d more", len(texts)-most))
	}
	return strings.Join(texts, between)
}

func (f *Facts) evaluation(groups []Group) Step {
	oldest, interval := time.Time{}, time.Duration(0)
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Health == "err" {
				return wrong(StepEvaluation,
					"load the rules as `chatstack_exporter rules` prints them; if the series clash, remove one of the two scrapes",
					"the rule %s fails: %s", r.Name, r.LastError)
			}
		}
		if g.LastEvaluation.IsZero() || g.LastEvaluation.Year() < 2000 {
			return unknown(StepEvaluation, "wait for the first evaluation, and try again",
				"the group %s has not been evaluated yet", g.Name)
		}
		if oldest.IsZero() || g.LastEvaluation.Before(oldest) {
			oldest = g.LastEvaluation
		}
		interval = max(interval, seconds(g.Interval))
	}
	if ago := f.Now.Add(f.Prometheus.Ahead).Sub(oldest); ago > 3*interval+5*time.Second {
		return wrong(StepEvaluation, "read Prometheus' log; it may be out of memory or of disk space",
			"the rules were last evaluated %s ago; they should be every %s", wording.AsPrometheus(ago), wording.AsPrometheus(interval))
	}
	return works(StepEvaluation, "Prometheus evaluates them every %s without an error", wording.AsPrometheus(interval))
}

// series judges whether Prometheus has what the exporter has, and what the rules record.
func (f *Facts) series() (steps []Step) {
	for _, of := range []struct{ name, text, hint string }{
		{
			StepMetric,
			"the series that the rules read and the exporter has",
			"look for metric_relabel_configs that drop them, and for limits of series",
		},
		{
			StepRecording, "the series that the rules should have recorded",
			"load the recording rules where the alert rules are: `chatstack_exporter rules` prints both in one file",
		},
	} {
		missing := slices.DeleteFunc(slices.Clone(f.missing), func(name string) bool {
			return strings.Contains(name, ":") != (of.name == StepRecording)
		})
		step := works(of.name, "Prometheus has all %s", strings.TrimPrefix(of.text, "the "))
		if f.missingErr != nil {
			step = unknown(of.name, "", "nothing shows whether Prometheus has %s: %v", of.text, f.missingErr)
		} else if len(missing) > 0 {
			step = wrong(of.name, of.hint, "Prometheus lacks %s: %s", of.text, firstOf(missing, ", "))
		}
		steps = append(steps, step)
	}
	if dropped := f.dropped(); steps[0].State != Wrong && len(dropped) > 0 {
		steps[0] = wrong(StepMetric, "change metric_relabel_configs of that job", "the job %s drops metrics that the rules read: %s", f.Job,
			firstOf(dropped, ", ")).by(Computed)
	}
	return steps
}

// dropped are the metrics that the job drops or renames by their names. Some are on a page only while something is down.
func (f *Facts) dropped() (names []string) {
	for _, scrape := range f.Setup.Scrapes {
		byName := slices.DeleteFunc(slices.Clone(scrape.Relabel), func(r routing.Relabeling) bool {
			return !slices.Equal(r.Sources, []string{"__name__"})
		})
		for _, r := range f.Rules.Rules {
			for _, name := range token.FindAllString(r.Query, -1) {
				if scrape.Job == f.Job && strings.HasPrefix(name, "chatstack_") && !slices.Contains(names, name) &&
					routing.Relabel(map[string]string{"__name__": name}, byName)["__name__"] != name {
					names = append(names, name)
				}
			}
		}
	}
	return names
}
