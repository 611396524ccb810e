package collectors

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/openmetrics"
)

var familyAvailableDesc = readDesc("chatstack_xmpp_family_available",
	"Whether this canonical family is available from the XMPP server: 0 means that its values are unknown, not that they are 0.", "family")

// canonicalFamily is a family with a fixed name for dashboards and alerts, whatever the XMPP server calls it.
type canonicalFamily struct {
	// name is that of the samples: a counter's ends in _total.
	name string
	kind model.MetricType
	unit string
	// labels are the only labels of its series. A label that the source lacks is missing.
	labels []string
	help   string
	// sources are tried in this order; the first with a sample is used.
	sources []canonicalSource
	// remark is a note for the documentation.
	remark string
	// figure is the number that the status page shows of the samples with these labels; without a name, it shows none.
	figure  Figure
	figured []exposition.Label
}

// canonicalSource is a possible source of a family. Series of its parts that become equal are added up.
type canonicalSource struct {
	// enable is what an operator must load for it, as the documentation says it.
	enable string
	parts  []canonicalPart
}

// canonicalPart is a family of the server's own page.
type canonicalPart struct {
	// family is its name in OpenMetrics' spelling. A final * matches all families that begin like this.
	family string
	kind   model.MetricType
	// count uses the number of observations of a histogram.
	count bool
	// only are the labels and values that a series must have.
	only []exposition.Label
	// begins means that a series with another value of that label implies a series with this value, 0 so far.
	begins bool
	// set is added to each series.
	set []exposition.Label
}

const (
	stockProsody  = "stock Prosody"
	ownModule     = "mod_measure_chatstack"
	enableOwn     = "our module, [deploy/prosody](deploy/prosody)"
	stanzaModule  = "community module `mod_measure_stanza_counts`"
	storageModule = "community module `mod_measure_storage`"
	processModule = "community module `mod_measure_process`"
	memoryModule  = "community module `mod_measure_memory`"
	loginModule   = "a module of your own that counts logins by `host` and `result`"
	// ownFamilies is the prefix of our module's families on the server's page.
	ownFamilies = "prosody_mod_measure_chatstack__"
)

func label(name, value string) []exposition.Label {
	return []exposition.Label{{Name: name, Value: value}}
}

// own returns our module as the source of a family. Its series have the family's labels.
func own(family string, kind model.MetricType) canonicalSource {
	return canonicalSource{enableOwn, []canonicalPart{{family: ownFamilies + family, kind: kind}}}
}

// stanzas returns the community's stanza counter as a source, for client sessions and without their host.
func stanzas(direction, stanza string) canonicalSource {
	return canonicalSource{stanzaModule, []canonicalPart{{
		family: "prosody_mod_measure_stanza_counts__" + direction, kind: model.MetricTypeCounter,
		only: append(label("session_type", "c2s"), label("stanza_kind", stanza)...),
	}}}
}

// attempts returns a module that counts logins by result as a source.
func attempts(result string) canonicalSource {
	return canonicalSource{loginModule, []canonicalPart{{
		family: "prosody_mod_measure_auth__attempts",
		kind:   model.MetricTypeCounter,
		only:   label("result", result),
		begins: true,
	}}}
}

const (
	// authFailures is the family that XMPPAuthFailureRate uses.
	authFailures = "xmpp_c2s_auth_failure_total"
	// clientSessions shows which virtual hosts exist.
	clientSessions = "xmpp_c2s_sessions"
)

// canonicalFamilies is the table of them. A family without a source has no series.
var canonicalFamilies = []canonicalFamily{
	{
		name:    "xmpp_c2s_connections_total",
		kind:    model.MetricTypeCounter,
		help:    "Client connections that the XMPP server accepted.",
		sources: []canonicalSource{own("c2s_connections", model.MetricTypeCounter)},
		remark: "stock Prosody counts none: its `prosody_mod_c2s__encrypted` counts TLS handshakes, and a client that comes without, " +
			"or twice, would be missed or doubled; a connection is counted before it names a host",
	},
	{
		name:   "xmpp_s2s_connections_total",
		kind:   model.MetricTypeCounter,
		labels: []string{"direction", "host"},
		help:   "Connections with other XMPP servers: accepted (in) and attempted (out), successful or not.",
		sources: []canonicalSource{{stockProsody, []canonicalPart{
			{family: "prosody_mod_s2s__accepted_tcp", kind: model.MetricTypeCounter, set: label("direction", "in")},
			{family: "prosody_mod_s2s__initiated", kind: model.MetricTypeCounter, set: label("direction", "out")},
		}}},
		remark: "`direction=\"in\"` starts at 0 and has no `host`, since a connection is counted before it names one; " +
			"`direction=\"out\"` has no series before the first",
	},
	{
		name:   clientSessions,
		kind:   model.MetricTypeGauge,
		labels: []string{"host", "type"},
		help:   "Open client sessions; those of type c2s are logged in.",
		sources: []canonicalSource{{stockProsody, []canonicalPart{
			{family: "prosody_mod_c2s__connections", kind: model.MetricTypeGauge},
		}}},
		remark: "added up over `ip_family`; WebSocket sessions are among them, BOSH sessions are not; " +
			"absent until the server has collected its statistics once",
		figure:  Figure{Name: "sessions", Chart: true},
		figured: label("type", "c2s"),
	},
	{
		name:   "xmpp_s2s_sessions",
		kind:   model.MetricTypeGauge,
		labels: []string{"host", "type"},
		help:   "Open sessions with other XMPP servers, by local virtual host.",
		sources: []canonicalSource{{stockProsody, []canonicalPart{
			{family: "prosody_mod_s2s__connections_inbound", kind: model.MetricTypeGauge},
			{family: "prosody_mod_s2s__connections_outbound", kind: model.MetricTypeGauge},
		}}},
		remark: "added up over `ip_family`; `type` tells the directions apart (`s2sin`, `s2sout` and their `_unauthed`); " +
			"absent until the first of them",
		figure: Figure{Name: "links to other servers"},
	},
	{
		name:    "xmpp_c2s_auth_success_total",
		kind:    model.MetricTypeCounter,
		labels:  []string{"host"},
		help:    "Successful client logins.",
		sources: []canonicalSource{own("c2s_auth_success", model.MetricTypeCounter), attempts("success")},
		remark:  "stock Prosody counts none, nor does any community module; from the second source, 0 for a `host` with failures alone",
	},
	{
		name:    authFailures,
		kind:    model.MetricTypeCounter,
		labels:  []string{"host"},
		help:    "Failed client logins.",
		sources: []canonicalSource{own("c2s_auth_failure", model.MetricTypeCounter), attempts("failure")},
		remark: "stock Prosody counts none, nor does any community module; at last, `auth_failure_log` counts them from the container's " +
			"log, without `host` and from 0 when the exporter starts; from the second source, 0 for a `host` with successes alone; " +
			"a virtual host that has sessions but no series here is named by `check` and on the status page; " +
			"without any source the alert `XMPPAuthFailureRate` cannot fire, and `XMPPAuthSourceMissing` does",
	},
	stanzaCount("messages_sent", "Messages that the XMPP server sent to clients.", stanzas("sent", "message")),
	stanzaCount("messages_received", "Messages that the XMPP server received from clients.", stanzas("received", "message")),
	stanzaCount("presence_sent", "Presences that the XMPP server sent to clients.", stanzas("sent", "presence")),
	stanzaCount("presence_received", "Presences that the XMPP server received from clients.", stanzas("received", "presence")),
	{
		name:   "xmpp_storage_operations_total",
		kind:   model.MetricTypeCounter,
		labels: []string{"host"},
		help:   "Storage operations of the XMPP server.",
		sources: []canonicalSource{
			own("storage_operations", model.MetricTypeCounter),
			{storageModule, []canonicalPart{
				{family: "prosody_mod_measure_storage__*", kind: model.MetricTypeHistogram, count: true},
			}},
		},
		remark: "of `mod_measure_storage`, the counts of all stores and operations are added up, " +
			"and an access to a map counts with the key-value operations that it is made of where the driver has no maps",
	},
	{
		name:    "xmpp_storage_errors_total",
		kind:    model.MetricTypeCounter,
		labels:  []string{"host"},
		help:    "Storage operations of the XMPP server that failed.",
		sources: []canonicalSource{own("storage_errors", model.MetricTypeCounter)},
	},
	{
		name:    "xmpp_http_requests_total",
		kind:    model.MetricTypeCounter,
		help:    "HTTP requests that the XMPP server began to process.",
		sources: []canonicalSource{own("http_requests", model.MetricTypeCounter)},
	},
	{
		name:    "xmpp_http_request_duration_seconds",
		kind:    model.MetricTypeHistogram,
		unit:    "seconds",
		help:    "Time that the XMPP server took to answer HTTP requests, in seconds.",
		sources: []canonicalSource{own("http_request_duration_seconds", model.MetricTypeHistogram)},
	},
	{
		name: "xmpp_memory_usage_bytes",
		kind: model.MetricTypeGauge,
		unit: "bytes",
		help: "Resident memory of the XMPP server's process in bytes.",
		sources: []canonicalSource{
			own("memory_usage_bytes", model.MetricTypeGauge),
			{processModule, []canonicalPart{{family: "process_resident_memory_bytes", kind: model.MetricTypeGauge}}},
			{memoryModule, []canonicalPart{{family: "prosody_memory_rss", kind: model.MetricTypeGauge}}},
		},
		figure: Figure{Name: "memory", Unit: "bytes"},
	},
	{
		name: "xmpp_cpu_usage_seconds_total",
		kind: model.MetricTypeCounter,
		unit: "seconds",
		help: "CPU time of the XMPP server's process in seconds.",
		sources: []canonicalSource{
			own("cpu_usage_seconds", model.MetricTypeCounter),
			{processModule, []canonicalPart{{family: "process_cpu_seconds", kind: model.MetricTypeCounter}}},
		},
		remark: "`prosody_cpu_clock` of the community's `mod_measure_cpu` is not a source: " +
			"it adds the whole clock again at each collection",
	},
}

// stanzaCount returns the family of a count of stanzas. other is its source without our module.
func stanzaCount(name, help string, other canonicalSource) canonicalFamily {
	return canonicalFamily{
		name:    "xmpp_" + name + exposition.Total.Suffix(),
		kind:    model.MetricTypeCounter,
		labels:  []string{"host"},
		help:    help,
		sources: []canonicalSource{own(name, model.MetricTypeCounter), other},
		remark:  "`mod_measure_stanza_counts` does not tell the `host`, and has no series before the first",
	}
}

// fullName is the family's name in OpenMetrics' spelling.
func (f *canonicalFamily) fullName() string {
	if f.kind == model.MetricTypeCounter {
		return strings.TrimSuffix(f.name, exposition.Total.Suffix())
	}
	return f.name
}

// total returns the sum of the samples that have these labels, or false without one. Values that are not finite do not count.
func (r *canonicalRow) total(only []exposition.Label) (sum float64, known bool) {
	for _, s := range r.samples {
		if hasAll(s, only) && !math.IsNaN(s.Value) && !math.IsInf(s.Value, 0) {
			sum, known = sum+s.Value, true
		}
	}
	return sum, known
}

// rowOf returns the index of a canonical family.
func rowOf(name string) int {
	return slices.IndexFunc(canonicalFamilies, func(f canonicalFamily) bool { return f.name == name })
}

// isCanonicalSource reports whether a family of the server is a part of any source.
func isCanonicalSource(family string) bool {
	return slices.ContainsFunc(canonicalFamilies, func(f canonicalFamily) bool {
		return slices.ContainsFunc(f.sources, func(s canonicalSource) bool {
			return slices.ContainsFunc(s.parts, func(p canonicalPart) bool { return p.matches(family) })
		})
	})
}

// matches reports whether the family belongs to the part.
func (p *canonicalPart) matches(family string) bool {
	if prefix, ok := strings.CutSuffix(p.family, "*"); ok {
		return strings.HasPrefix(family, prefix)
	}
	return p.family == family || p.kind == model.MetricTypeCounter && p.family+exposition.Total.Suffix() == family
}

// choice is where a row's series come from.
type choice int

const (
	noSource choice = iota
	// ready means that the page itself has the family under its canonical name.
	ready
	// firstSource is the first of the row's sources; the others follow.
	firstSource
)

// canonicalRow is what a page has for a canonical family.
type canonicalRow struct {
	// available means that there is at least one series, blocked that the page uses the family's name.
	available, blocked bool
	chosen             choice
	samples            []exposition.Line
}

// canonicalReading is the result of reading one page.
type canonicalReading struct {
	rows []canonicalRow
	// families are the canonical families made from sources, without those that the page has under their canonical names.
	families []exposition.Family
	// notes tell people what cannot be served.
	notes []string
}

// foundPart is a family of the page that is a part of a source.
type foundPart struct {
	part   *canonicalPart
	family *exposition.Family
}

// readCanonical makes the canonical families of a page. It finds sources by the server's own names, even if they are
// renamed. On an incomplete page, it adds up no counters, because a sum that is too low looks like a restart. Nor does it
// fall back to a later source than on the last complete page.
func readCanonical(page *openmetrics.Page, whole bool, last []choice) *canonicalReading {
	r := &canonicalReading{rows: make([]canonicalRow, len(canonicalFamilies))}
	users := usersOfNames(page)
	for row := range canonicalFamilies {
		f, out := &canonicalFamilies[row], &r.rows[row]
		r.findReady(f, users[row], out)
		for source := 0; source < len(f.sources) && !out.blocked && out.chosen == noSource; source++ {
			here := firstSource + choice(source)
			if !whole && last[row] != noSource && last[row] < here {
				break
			}
			if made, ok := f.make(f.sources[source].partsOn(page), whole); ok {
				out.chosen = here
				r.addMade(made, out)
			}
		}
	}
	return r
}

// usersOfNames returns, for each row, the first family of a page that uses a name of the canonical one; nil for none.
func usersOfNames(page *openmetrics.Page) []*exposition.Family {
	rows := map[string]int{}
	for row := range canonicalFamilies {
		for _, name := range exposition.NamesOf(canonicalFamilies[row].fullName(), canonicalFamilies[row].kind) {
			rows[name] = row
		}
	}
	users := make([]*exposition.Family, len(canonicalFamilies))
	for i := range page.Families {
		own := &page.Families[i]
		if !strings.HasPrefix(own.Name, "xmpp_") {
			continue
		}
		for _, name := range exposition.NamesOf(own.Name, own.Type) {
			if row, used := rows[name]; used && users[row] == nil {
				users[row] = own
			}
		}
	}
	return users
}

// findReady serves the page's own family that has the name of a canonical one, or notes that it is another; nil for none.
func (r *canonicalReading) findReady(f *canonicalFamily, own *exposition.Family, out *canonicalRow) {
	if own == nil {
		return
	}
	out.blocked = true
	if own.TextName() == f.name {
		out.available, out.chosen = true, ready
		out.samples = slices.Collect(exposition.Lines(own.Text))
	} else {
		r.notes = append(r.notes, fmt.Sprintf("%s cannot be served: the server uses its name for %s %s", f.name, own.Type, own.Name))
	}
}

// addMade adds a family that was made from a source.
func (r *canonicalReading) addMade(made madeFamily, out *canonicalRow) {
	if made.Series > 0 {
		r.families = append(r.families, made.Family)
		out.available, out.samples = true, made.samples
	}
	if made.spoiled > 0 {
		r.notes = append(r.notes, fmt.Sprintf("%s leaves out %d series of the server's page: their values are negative or not numbers",
			made.TextName(), made.spoiled))
	}
}

// partsOn returns the families of a page that are parts of the source.
func (s *canonicalSource) partsOn(page *openmetrics.Page) (parts []foundPart) {
	for i := range page.Families {
		f := &page.Families[i]
		for j := range s.parts {
			if p := &s.parts[j]; p.kind == f.Type && p.matches(page.Names[i]) {
				parts = append(parts, foundPart{p, f})
			}
		}
	}
	return parts
}

// maxUncounted is how many virtual hosts a note names.
const maxUncounted = 5

// uncounted returns a note naming the virtual hosts that have client sessions but no count of failed logins; "" if there are
// none, or if that is unknown. Our module counts every host from 0. With another source, only a host with logged-in clients
// must have a series.
func (r *canonicalReading) uncounted() string {
	failures := &r.rows[rowOf(authFailures)]
	counted := hostsOf(failures.samples, nil)
	if !failures.available || counted[""] {
		return ""
	}
	only := label("type", "c2s")
	if failures.chosen == firstSource {
		only = nil
	}
	served := hostsOf(r.rows[rowOf(clientSessions)].samples, only)
	var names []string
	for _, host := range slices.Sorted(maps.Keys(served)) {
		if host != "" && !counted[host] {
			names = append(names, failure.OneLine(host))
		}
	}
	if len(names) == 0 {
		return ""
	}
	if more := len(names) - maxUncounted; more > 0 {
		names = append(names[:maxUncounted], fmt.Sprintf("%d more", more))
	}
	return "nothing counts failed logins on these virtual hosts, so no alert covers them: " + strings.Join(names, ", ")
}

// hostsOf returns the hosts of the samples that have all labels in only; "" is among them if one of these samples has no host.
func hostsOf(samples []exposition.Line, only []exposition.Label) map[string]bool {
	hosts := map[string]bool{}
	for _, s := range samples {
		if hasAll(s, only) {
			hosts[s.Label("host")] = true
		}
	}
	return hosts
}

// madeFamily is a canonical family with its samples, and the number of samples left out because of their values.
type madeFamily struct {
	exposition.Family
	samples []exposition.Line
	spoiled int
}

// madeOf names the families of the server's page, for the help.
func madeOf(parts []foundPart) string {
	var names []string
	for _, p := range parts {
		if !slices.Contains(names, p.part.family) {
			names = append(names, p.part.family)
		}
	}
	return " Made of " + strings.Join(names, " and ") + "."
}

// make makes the family from the parts of one source; false without a sample. The family has no series if it would be wrong.
func (f *canonicalFamily) make(parts []foundPart, whole bool) (madeFamily, bool) {
	out := madeFamily{Family: exposition.Family{
		Name: f.fullName(),
		Type: f.kind,
		Help: f.help + madeOf(parts) + readAge,
		Unit: f.unit,
	}}
	if samples, alike := f.alike(parts); alike {
		from := parts[0].family
		out.Series, out.samples = from.Series, samples
		out.Text = renameSamples(from.Text, from.Name, out.Name)
		out.OpenMetrics = renameSamples(from.OpenMetrics, from.Name, out.Name)
		return out, true
	}
	if f.kind == model.MetricTypeHistogram {
		return out, false
	}
	var sums seriesSums
	for _, p := range parts {
		f.add(&sums, p)
	}
	out.spoiled = len(sums.spoiled)
	present := len(sums.samples)+len(sums.begun)+out.spoiled > 0
	if f.kind == model.MetricTypeCounter && sums.several && !whole {
		return out, present
	}
	if whole {
		sums.begin()
	}
	out.Series, out.samples, out.Text = len(sums.samples), sums.samples, sums.write(f.name)
	out.OpenMetrics = out.Text
	return out, present
}

// alike returns the samples of the only part if it just needs to be renamed: it has the family's type, valid values and no other labels.
func (f *canonicalFamily) alike(parts []foundPart) (samples []exposition.Line, alike bool) {
	if len(parts) != 1 {
		return nil, false
	}
	p := parts[0]
	if p.part.kind != f.kind || len(p.part.only) > 0 || len(p.part.set) > 0 {
		return nil, false
	}
	samples = slices.Collect(exposition.Lines(p.family.Text))
	return samples, !slices.ContainsFunc(samples, func(s exposition.Line) bool {
		return !f.admits(s.Value) || slices.ContainsFunc(s.Labels, func(l exposition.Label) bool {
			return l.Name != model.BucketLabel && !slices.Contains(f.labels, l.Name)
		})
	})
}

// renameSamples gives the samples of a family another name.
func renameSamples(lines []byte, from, to string) []byte {
	out := make([]byte, 0, len(lines)+bytes.Count(lines, []byte{'\n'})*max(0, len(to)-len(from)))
	for line := range bytes.Lines(lines) {
		out = append(append(out, to...), line[len(from):]...)
	}
	return out
}

// add adds the samples of a part to the series that they become.
func (f *canonicalFamily) add(sums *seriesSums, p foundPart) {
	name := p.family.TextName()
	if p.part.count {
		name += exposition.Count.Suffix()
	}
	for s := range exposition.Lines(p.family.Text) {
		if s.Name != name {
			continue
		}
		labels := f.labelSet(s, p.part.set)
		if !hasAll(s, p.part.only) {
			if p.part.begins {
				sums.begun = append(sums.begun, labels)
			}
			continue
		}
		if f.admits(s.Value) {
			sums.add(labels, s.Value)
		} else {
			sums.spoiled = append(sums.spoiled, written(labels))
		}
	}
}

// admits reports whether the value is valid for a series of the family. A histogram keeps all values.
func (f *canonicalFamily) admits(value float64) bool {
	if f.kind == model.MetricTypeHistogram {
		return true
	}
	return !math.IsNaN(value) && !math.IsInf(value, 0) && (value >= 0 || f.kind != model.MetricTypeCounter)
}

// labelSet returns the family's labels of a sample, including the set ones.
func (f *canonicalFamily) labelSet(s exposition.Line, set []exposition.Label) (labels []exposition.Label) {
	all := slices.Concat(set, s.Labels)
	for _, name := range f.labels {
		if i := slices.IndexFunc(all, func(l exposition.Label) bool { return l.Name == name }); i >= 0 {
			labels = append(labels, all[i])
		}
	}
	return labels
}

// written returns labels as they stand on a page.
func written(labels []exposition.Label) string {
	if len(labels) == 0 {
		return ""
	}
	var b []byte
	separator := byte('{')
	for _, l := range labels {
		b = exposition.AppendLabel(append(b, separator), l.Name, l.Value)
		separator = ','
	}
	return string(append(b, '}'))
}

// seriesSums adds up samples that become one series.
type seriesSums struct {
	// places are the indexes in samples, by the labels as they are written.
	places  map[string]int
	samples []exposition.Line
	// several is set once a series is made of more than one sample.
	several bool
	// begun are the labels of series that are 0 if no sample was added, spoiled those of samples with invalid values, as written.
	begun   [][]exposition.Label
	spoiled []string
}

func (s *seriesSums) add(labels []exposition.Label, value float64) {
	if s.places == nil {
		s.places = map[string]int{}
	}
	key := written(labels)
	if place, known := s.places[key]; known {
		s.several = true
		s.samples[place].Value += value
		return
	}
	s.places[key] = len(s.samples)
	s.samples = append(s.samples, exposition.Line{Labels: labels, Value: value})
}

// begin adds the series in begun that have no sample.
func (s *seriesSums) begin() {
	for _, labels := range s.begun {
		if _, known := s.places[written(labels)]; !known && !slices.Contains(s.spoiled, written(labels)) {
			s.add(labels, 0)
		}
	}
}

func (s *seriesSums) write(name string) (text []byte) {
	for _, sample := range s.samples {
		text = append(append(append(text, name...), written(sample.Labels)...), ' ')
		text = append(exposition.AppendValue(text, sample.Value), '\n')
	}
	return text
}

// hasAll reports whether a sample has all of these labels.
func hasAll(s exposition.Line, labels []exposition.Label) bool {
	return !slices.ContainsFunc(labels, func(l exposition.Label) bool { return !slices.Contains(s.Labels, l) })
}
