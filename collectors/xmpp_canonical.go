package collectors

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/openmetrics"
)

var familyAvailableDesc = prometheus.NewDesc("chatstack_xmpp_family_available",
	"Whether the XMPP server has a source for this canonical family, so that its absence is not read as zero.",
	[]string{"family"}, nil)

// canonicalFamily is a family that dashboards and alerts count on, whatever the XMPP server calls it.
type canonicalFamily struct {
	// name is that of the samples: a counter's ends in _total.
	name string
	kind model.MetricType
	unit string
	// labels are the only ones that its series have. One that a source does not tell is missing.
	labels []string
	help   string
	// sources are tried in this order; the first with a sample is it.
	sources []canonicalSource
	// remark is what the README says of it beside its sources.
	remark string
}

// canonicalSource is where a family can come from. Series of its parts that become equal are added up.
type canonicalSource struct {
	// enable is what an operator loads for it, as the README says it.
	enable string
	parts  []canonicalPart
}

// canonicalPart is a family of the server's own page.
type canonicalPart struct {
	// family is its name in OpenMetrics' spelling. One that ends in * stands for all that begin so.
	family string
	kind   model.MetricType
	// count takes the number of observations of a histogram.
	count bool
	// only is the label, and its value, that a series must have; every one counts where empty.
	only []labelPair
	// begins says that a series which has another value there tells that those with this one are 0 so far.
	begins bool
	// set is put to each series.
	set []labelPair
}

type labelPair struct{ name, value string }

const (
	stockProsody  = "stock Prosody"
	ownModule     = "mod_measure_chatstack"
	enableOwn     = "our module, [deploy/prosody](deploy/prosody)"
	stanzaModule  = "community module `mod_measure_stanza_counts`"
	storageModule = "community module `mod_measure_storage`"
	processModule = "community module `mod_measure_process`"
	memoryModule  = "community module `mod_measure_memory`"
	loginModule   = "a module of your own that counts logins by `host` and `result`"
	// ownFamilies is how the families of our module begin on the server's page.
	ownFamilies = "prosody_mod_measure_chatstack__"
)

// own is our module as the source of a family, which has the family's labels.
func own(family string, kind model.MetricType) canonicalSource {
	return canonicalSource{enableOwn, []canonicalPart{{family: ownFamilies + family, kind: kind}}}
}

// stanzas is the community's stanza counter as a source: of client sessions, without their host.
func stanzas(direction, stanza string) canonicalSource {
	return canonicalSource{stanzaModule, []canonicalPart{{
		family: "prosody_mod_measure_stanza_counts__" + direction, kind: model.MetricTypeCounter,
		only: []labelPair{{"session_type", "c2s"}, {"stanza_kind", stanza}},
	}}}
}

// attempts is a module that counts logins by their result, as a source.
func attempts(result string) canonicalSource {
	return canonicalSource{loginModule, []canonicalPart{{
		family: "prosody_mod_measure_auth__attempts", kind: model.MetricTypeCounter, only: []labelPair{{"result", result}}, begins: true,
	}}}
}

const (
	// authFailures is the family that an alert threshold rests on.
	authFailures = "xmpp_c2s_auth_failure_total"
	// clientSessions tells which virtual hosts there are.
	clientSessions = "xmpp_c2s_sessions"
)

// canonicalFamilies is the table of them. Nothing is invented in it: no source, no series.
var canonicalFamilies = []canonicalFamily{
	{
		name: "xmpp_c2s_connections_total", kind: model.MetricTypeCounter,
		help:    "Connections of clients that the XMPP server accepted.",
		sources: []canonicalSource{own("c2s_connections", model.MetricTypeCounter)},
		remark:  "stock Prosody counts none: its `prosody_mod_c2s__encrypted` counts TLS handshakes, and a client that comes without, or twice, would be missed or doubled; a connection is counted before it names a host",
	},
	{
		name: "xmpp_s2s_connections_total", kind: model.MetricTypeCounter, labels: []string{"direction", "host"},
		help: "Connections with other XMPP servers: accepted (in), and set about (out), whether they succeeded or not.",
		sources: []canonicalSource{{stockProsody, []canonicalPart{
			{family: "prosody_mod_s2s__accepted_tcp", kind: model.MetricTypeCounter, set: []labelPair{{"direction", "in"}}},
			{family: "prosody_mod_s2s__initiated", kind: model.MetricTypeCounter, set: []labelPair{{"direction", "out"}}},
		}}},
		remark: "`direction=\"in\"` starts at 0 and has no `host`, since a connection is counted before it names one; `direction=\"out\"` has no series before the first",
	},
	{
		name: clientSessions, kind: model.MetricTypeGauge, labels: []string{"host", "type"},
		help: "Sessions of clients that are open now; those of type c2s are logged in.",
		sources: []canonicalSource{{stockProsody, []canonicalPart{
			{family: "prosody_mod_c2s__connections", kind: model.MetricTypeGauge},
		}}},
		remark: "added up over `ip_family`; WebSocket sessions are among them, BOSH sessions are not; absent until the server has collected its statistics once",
	},
	{
		name: "xmpp_s2s_sessions", kind: model.MetricTypeGauge, labels: []string{"host", "type"},
		help: "Sessions with other XMPP servers that are open now, by the virtual host on this side.",
		sources: []canonicalSource{{stockProsody, []canonicalPart{
			{family: "prosody_mod_s2s__connections_inbound", kind: model.MetricTypeGauge},
			{family: "prosody_mod_s2s__connections_outbound", kind: model.MetricTypeGauge},
		}}},
		remark: "added up over `ip_family`; `type` tells the directions apart (`s2sin`, `s2sout` and their `_unauthed`); absent until the first of them",
	},
	{
		name: "xmpp_c2s_auth_success_total", kind: model.MetricTypeCounter, labels: []string{"host"},
		help:    "Logins of clients that succeeded.",
		sources: []canonicalSource{own("c2s_auth_success", model.MetricTypeCounter), attempts("success")},
		remark:  "stock Prosody counts none, nor does any community module; from the second source, 0 for a `host` with failures alone",
	},
	{
		name: authFailures, kind: model.MetricTypeCounter, labels: []string{"host"},
		help:    "Logins of clients that failed.",
		sources: []canonicalSource{own("c2s_auth_failure", model.MetricTypeCounter), attempts("failure")},
		remark:  "stock Prosody counts none, nor does any community module; at last, `auth_failure_log` counts them from the container's log, without `host` and from 0 when the exporter starts; from the second source, 0 for a `host` with successes alone; a virtual host that has sessions but no series here is named by `check` and on the status page; without any source the alert `XMPPAuthFailureRate` cannot fire, and `XMPPAuthSourceMissing` does",
	},
	{
		name: "xmpp_messages_sent_total", kind: model.MetricTypeCounter, labels: []string{"host"},
		help:    "Messages that the XMPP server sent to clients.",
		sources: []canonicalSource{own("messages_sent", model.MetricTypeCounter), stanzas("sent", "message")},
		remark:  stanzaRemark,
	},
	{
		name: "xmpp_messages_received_total", kind: model.MetricTypeCounter, labels: []string{"host"},
		help:    "Messages that the XMPP server received from clients.",
		sources: []canonicalSource{own("messages_received", model.MetricTypeCounter), stanzas("received", "message")},
		remark:  stanzaRemark,
	},
	{
		name: "xmpp_presence_sent_total", kind: model.MetricTypeCounter, labels: []string{"host"},
		help:    "Presences that the XMPP server sent to clients.",
		sources: []canonicalSource{own("presence_sent", model.MetricTypeCounter), stanzas("sent", "presence")},
		remark:  stanzaRemark,
	},
	{
		name: "xmpp_presence_received_total", kind: model.MetricTypeCounter, labels: []string{"host"},
		help:    "Presences that the XMPP server received from clients.",
		sources: []canonicalSource{own("presence_received", model.MetricTypeCounter), stanzas("received", "presence")},
		remark:  stanzaRemark,
	},
	{
		name: "xmpp_storage_operations_total", kind: model.MetricTypeCounter, labels: []string{"host"},
		help: "Operations of the XMPP server on its stores.",
		sources: []canonicalSource{
			own("storage_operations", model.MetricTypeCounter),
			{storageModule, []canonicalPart{
				{family: "prosody_mod_measure_storage__*", kind: model.MetricTypeHistogram, count: true},
			}},
		},
		remark: "of `mod_measure_storage`, the counts of all stores and operations are added up, and an access to a map counts with the key-value operations that it is made of where the driver has no maps",
	},
	{
		name: "xmpp_storage_errors_total", kind: model.MetricTypeCounter, labels: []string{"host"},
		help:    "Operations of the XMPP server on its stores that ended in an error.",
		sources: []canonicalSource{own("storage_errors", model.MetricTypeCounter)},
	},
	{
		name: "xmpp_http_requests_total", kind: model.MetricTypeCounter,
		help:    "HTTP requests that the XMPP server took up.",
		sources: []canonicalSource{own("http_requests", model.MetricTypeCounter)},
	},
	{
		name: "xmpp_http_request_duration_seconds", kind: model.MetricTypeHistogram, unit: "seconds",
		help:    "How long the XMPP server took to answer HTTP requests.",
		sources: []canonicalSource{own("http_request_duration_seconds", model.MetricTypeHistogram)},
	},
	{
		name: "xmpp_memory_usage_bytes", kind: model.MetricTypeGauge, unit: "bytes",
		help: "Resident memory of the XMPP server's process.",
		sources: []canonicalSource{
			own("memory_usage_bytes", model.MetricTypeGauge),
			{processModule, []canonicalPart{{family: "process_resident_memory_bytes", kind: model.MetricTypeGauge}}},
			{memoryModule, []canonicalPart{{family: "prosody_memory_rss", kind: model.MetricTypeGauge}}},
		},
	},
	{
		name: "xmpp_cpu_usage_seconds_total", kind: model.MetricTypeCounter, unit: "seconds",
		help: "CPU time of the XMPP server's process.",
		sources: []canonicalSource{
			own("cpu_usage_seconds", model.MetricTypeCounter),
			{processModule, []canonicalPart{{family: "process_cpu_seconds", kind: model.MetricTypeCounter}}},
		},
		remark: "`prosody_cpu_clock` of the community's `mod_measure_cpu` is no source: it adds the whole clock anew at each collection",
	},
}

const stanzaRemark = "`mod_measure_stanza_counts` does not tell the `host`, and has no series before the first"

// fullName is the family's name in OpenMetrics' spelling.
func (f *canonicalFamily) fullName() string {
	if f.kind == model.MetricTypeCounter {
		return strings.TrimSuffix(f.name, "_total")
	}
	return f.name
}

// canonicalUse is one part of a source of a row.
type canonicalUse struct{ row, source, part int }

// canonicalMap finds the table's families on the pages of one server. It is immutable.
type canonicalMap struct {
	// uses are by the name that the server has for the part; prefixed are those of parts that stand for several.
	uses     map[string][]canonicalUse
	prefixed []canonicalUse
	// claims are the rows by each name that their samples and metadata have.
	claims map[string]int
}

// newCanonicalMap prepares the table.
func newCanonicalMap() *canonicalMap {
	m := &canonicalMap{uses: map[string][]canonicalUse{}, claims: map[string]int{}}
	for row := range canonicalFamilies {
		f := &canonicalFamilies[row]
		for _, name := range namesOf(f.fullName(), f.kind) {
			m.claims[name] = row
		}
		for source := range f.sources {
			for part, p := range f.sources[source].parts {
				use := canonicalUse{row, source, part}
				if strings.HasSuffix(p.family, "*") {
					m.prefixed = append(m.prefixed, use)
					continue
				}
				m.uses[p.family] = append(m.uses[p.family], use)
			}
		}
	}
	return m
}

// namesOf are the names that the samples and the metadata of a family may have.
func namesOf(family string, kind model.MetricType) []string {
	switch kind {
	case model.MetricTypeCounter:
		return []string{family, family + "_total", family + createdSuffix}
	case model.MetricTypeHistogram, model.MetricTypeSummary:
		return []string{family, family + "_bucket", family + "_sum", family + "_count", family + createdSuffix}
	case model.MetricTypeGaugeHistogram:
		return []string{family, family + "_bucket", family + "_gsum", family + "_gcount"}
	case model.MetricTypeInfo:
		return []string{family, family + "_info"}
	default:
		return []string{family}
	}
}

// isCanonicalSource reports whether a family of the server, by its own name, is a part of any source.
func isCanonicalSource(family string) bool {
	return slices.ContainsFunc(canonicalFamilies, func(f canonicalFamily) bool {
		return slices.ContainsFunc(f.sources, func(s canonicalSource) bool {
			return slices.ContainsFunc(s.parts, func(p canonicalPart) bool { return p.stands(family) })
		})
	})
}

// stands reports whether the part is, or stands for, the family.
func (p *canonicalPart) stands(family string) bool {
	if prefix, ok := strings.CutSuffix(p.family, "*"); ok {
		return strings.HasPrefix(family, prefix)
	}
	return p.family == family || p.kind == model.MetricTypeCounter && p.family+"_total" == family
}

// choice is where a row's series come from.
type choice int

const (
	noSource choice = iota
	// ready is the page itself, which has the family under its canonical name.
	ready
	// firstSource is the first of the row's sources; the others follow.
	firstSource
)

// canonicalReading is what one page holds of the table.
type canonicalReading struct {
	// families are those that were made; one that stands on the page under its canonical name is not among them.
	families []exposition.Family
	// available tells of each row whether a series of it is served.
	available []bool
	// blocked are the rows whose name stands on the page.
	blocked []bool
	// chosen is where each row comes from.
	chosen []choice
	// notes say for people what cannot be served.
	notes []string
}

// foundPart is a family of the page that is a part of a source.
type foundPart struct {
	part   *canonicalPart
	family *exposition.Family
}

// read makes the canonical families of a page, in one pass over its families and over the samples of the few that are
// sources. These are known by the names that the server has for them, whatever they are served as. On a page that is not
// whole, no counter is made of several: it would be too low, and look like a restart. Nor is a row made of a source after
// the one that it had on the last whole page.
func (m *canonicalMap) read(page *openmetrics.Page, whole bool, last []choice) canonicalReading {
	var (
		blocked = make([]bool, len(canonicalFamilies))
		reading = canonicalReading{
			available: make([]bool, len(canonicalFamilies)), blocked: blocked, chosen: make([]choice, len(canonicalFamilies)),
		}
		found = make([]map[int][]foundPart, len(canonicalFamilies))
	)
	note := func(use canonicalUse, f *exposition.Family) {
		part := &canonicalFamilies[use.row].sources[use.source].parts[use.part]
		if f.Type != part.kind {
			return
		}
		if found[use.row] == nil {
			found[use.row] = map[int][]foundPart{}
		}
		found[use.row][use.source] = append(found[use.row][use.source], foundPart{part, f})
	}
	for i := range page.Families {
		f, own := &page.Families[i], page.Names[i]
		for _, use := range m.uses[own] {
			note(use, f)
		}
		for _, use := range m.prefixed {
			if canonicalFamilies[use.row].sources[use.source].parts[use.part].stands(own) {
				note(use, f)
			}
		}
		if !strings.HasPrefix(f.Name, "xmpp_") {
			continue
		}
		for _, name := range namesOf(f.Name, f.Type) {
			row, ok := m.claims[name]
			if !ok || blocked[row] {
				continue
			}
			blocked[row] = true
			if f.TextName() == canonicalFamilies[row].name {
				reading.available[row], reading.chosen[row] = true, ready
			} else {
				reading.notes = append(reading.notes, fmt.Sprintf("%s cannot be served: the server's page gives its name to %s %s",
					canonicalFamilies[row].name, f.Type, f.Name))
			}
		}
	}
	for row := range canonicalFamilies {
		if blocked[row] {
			continue
		}
		for source := range canonicalFamilies[row].sources {
			here := firstSource + choice(source)
			if !whole && last[row] != noSource && last[row] < here {
				break
			}
			made, ok := canonicalFamilies[row].make(found[row][source], whole)
			if !ok {
				continue
			}
			reading.chosen[row] = here
			if made.Series > 0 {
				reading.families = append(reading.families, made.Family)
				reading.available[row] = true
			}
			if made.spoiled > 0 {
				reading.notes = append(reading.notes, fmt.Sprintf("%s is made without %d series of the server's page, whose values are negative or no numbers",
					canonicalFamilies[row].name, made.spoiled))
			}
			break
		}
	}
	return reading
}

// maxUncounted is how many virtual hosts without a source are named.
const maxUncounted = 5

// uncounted notes which virtual hosts have sessions of clients, but no count of failed logins; "" for none, and where
// that cannot be told. The hosts are those of the two families on the page or among those that were made of it. Our
// module counts from 0 on; of another source, only a host that somebody is logged in to must have a series.
func (r *canonicalReading) uncounted(page []exposition.Family) string {
	var failures, sessions []exposition.Family
	anyType := false
	for row := range canonicalFamilies {
		if canonicalFamilies[row].name == authFailures {
			anyType = r.chosen[row] == firstSource
		}
	}
	for _, families := range [][]exposition.Family{page, r.families} {
		for _, f := range families {
			switch f.TextName() {
			case authFailures:
				failures = append(failures, f)
			case clientSessions:
				sessions = append(sessions, f)
			}
		}
	}
	counted, everywhere := hostsOf(failures, nil)
	if len(failures) == 0 || everywhere {
		return ""
	}
	only := []labelPair{{"type", "c2s"}}
	if anyType {
		only = nil
	}
	served, _ := hostsOf(sessions, only)
	var names []string
	for _, host := range slices.Sorted(maps.Keys(served)) {
		if !counted[host] {
			names = append(names, failure.OneLine(host))
		}
	}
	if len(names) == 0 {
		return ""
	}
	if more := len(names) - maxUncounted; more > 0 {
		names = append(names[:maxUncounted], fmt.Sprintf("%d more", more))
	}
	return "authentication failures of these virtual hosts have no source, so no alert can tell of them: " + strings.Join(names, ", ")
}

// hostsOf are the values of the label host of those samples that have all of these labels, and whether one has no host.
func hostsOf(families []exposition.Family, only []labelPair) (hosts map[string]bool, without bool) {
	hosts = map[string]bool{}
	for i := range families {
		for line := range bytes.Lines(families[i].Text) {
			s, ok := splitSample(line)
			if !ok || !s.has(only) {
				continue
			}
			if host := s.label("host"); host != "" {
				hosts[host] = true
			} else {
				without = true
			}
		}
	}
	return hosts, without
}

// madeFamily is a canonical family, and how many samples were left out of it for their values.
type madeFamily struct {
	exposition.Family
	spoiled int
}

// make makes the family of the parts of one source; false without a sample. It has no series where it must not be told.
func (f *canonicalFamily) make(parts []foundPart, whole bool) (madeFamily, bool) {
	out := madeFamily{Family: exposition.Family{Name: f.fullName(), Type: f.kind, Help: f.help, Unit: f.unit}}
	if len(parts) == 1 && f.alike(parts[0]) {
		from := parts[0].family
		out.Series = from.Series
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
	present := len(sums.order)+len(sums.begun)+len(sums.spoiled) > 0
	if f.kind == model.MetricTypeCounter && sums.several && !whole {
		return out, present
	}
	if whole {
		sums.begin()
	}
	out.Series, out.Text = len(sums.order), sums.write(f.name)
	out.OpenMetrics = out.Text
	return out, present
}

// alike reports whether a part has the family's type, values and none but its labels, so that it only needs another name.
func (f *canonicalFamily) alike(p foundPart) bool {
	if p.part.kind != f.kind || len(p.part.only) > 0 || len(p.part.set) > 0 {
		return false
	}
	for line := range bytes.Lines(p.family.Text) {
		s, ok := splitSample(line)
		if !ok || slices.ContainsFunc(s.labels, func(l rawLabel) bool {
			return string(l.name) != model.BucketLabel && !slices.Contains(f.labels, string(l.name))
		}) {
			return false
		}
		if _, told := f.number(s); !told {
			return false
		}
	}
	return true
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
		name += "_count"
	}
	for line := range bytes.Lines(p.family.Text) {
		s, ok := splitSample(line)
		if !ok || string(s.name) != name {
			continue
		}
		labels := f.labelSet(s, p.part.set)
		if !s.has(p.part.only) {
			if p.part.begins {
				sums.begun = append(sums.begun, labels)
			}
			continue
		}
		if value, told := f.number(s); told {
			sums.add(labels, value)
		} else {
			sums.spoiled = append(sums.spoiled, labels)
		}
	}
}

// number is the value of a sample; false where the family's series cannot have it, and would spoil a sum. What a
// histogram has, it may keep.
func (f *canonicalFamily) number(s rawSample) (float64, bool) {
	value, err := strconv.ParseFloat(string(s.value), 64)
	if err != nil {
		return 0, false
	}
	if f.kind == model.MetricTypeHistogram {
		return value, true
	}
	finite := !math.IsNaN(value) && !math.IsInf(value, 0)
	return value, finite && (value >= 0 || f.kind != model.MetricTypeCounter)
}

// labelSet is the labels of a sample that the family has, with those that are set, as they stand on a page.
func (f *canonicalFamily) labelSet(s rawSample, set []labelPair) string {
	var b strings.Builder
	separator := byte('{')
	for _, name := range f.labels {
		value, ok := "", false
		for _, l := range s.labels {
			if string(l.name) == name {
				value, ok = string(l.value), true
			}
		}
		for _, pair := range set {
			if pair.name == name {
				value, ok = pair.value, true
			}
		}
		if ok {
			b.WriteByte(separator)
			b.WriteString(name + `="` + value + `"`)
			separator = ','
		}
	}
	if b.Len() > 0 {
		b.WriteByte('}')
	}
	return b.String()
}

// seriesSums adds up samples that become one series.
type seriesSums struct {
	places map[string]int
	order  []string
	values []float64
	// several is set once a series is made of more than one sample.
	several bool
	// begun are the labels of series that are 0 unless they were added, and spoiled those of samples that were not.
	begun, spoiled []string
}

func (s *seriesSums) add(labels string, value float64) {
	if s.places == nil {
		s.places = map[string]int{}
	}
	place, known := s.places[labels]
	if !known {
		s.places[labels] = len(s.order)
		s.order, s.values = append(s.order, labels), append(s.values, value)
		return
	}
	s.several = true
	s.values[place] += value
}

// begin puts in the series that have begun without a sample of their own.
func (s *seriesSums) begin() {
	for _, labels := range s.begun {
		if _, known := s.places[labels]; !known && !slices.Contains(s.spoiled, labels) {
			s.add(labels, 0)
		}
	}
}

func (s *seriesSums) write(name string) []byte {
	var b []byte
	for i, labels := range s.order {
		b = append(append(append(b, name...), labels...), ' ')
		b = append(strconv.AppendFloat(b, s.values[i], 'g', -1, 64), '\n')
	}
	return b
}

// rawSample is one line of a family as the reader of metrics pages writes it; rawLabel keeps the escapes of its value.
type (
	rawSample struct {
		name, value []byte
		labels      []rawLabel
	}
	rawLabel struct{ name, value []byte }
)

// has reports whether a sample has all of these labels.
func (s *rawSample) has(pairs []labelPair) bool {
	for _, p := range pairs {
		if !slices.ContainsFunc(s.labels, func(l rawLabel) bool { return string(l.name) == p.name && string(l.value) == p.value }) {
			return false
		}
	}
	return true
}

// label is the value of a label as it stands on the page, "" without it.
func (s *rawSample) label(name string) string {
	for _, l := range s.labels {
		if string(l.name) == name {
			return string(l.value)
		}
	}
	return ""
}

// splitSample takes a finished line of text apart: name{label="value",...} number.
func splitSample(line []byte) (rawSample, bool) {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	end := bytes.IndexAny(line, "{ ")
	if end <= 0 {
		return rawSample{}, false
	}
	s := rawSample{name: line[:end]}
	rest := line[end:]
	if rest[0] == '{' {
		rest = rest[1:]
		for len(rest) > 0 && rest[0] != '}' {
			name, after, ok := bytes.Cut(bytes.TrimLeft(rest, ", "), []byte(`="`))
			quote := closingQuote(after)
			if !ok || quote < 0 {
				return rawSample{}, false
			}
			s.labels = append(s.labels, rawLabel{name, after[:quote]})
			rest = bytes.TrimLeft(after[quote+1:], ", ")
		}
		if len(rest) == 0 {
			return rawSample{}, false
		}
		rest = rest[1:]
	}
	s.value = bytes.TrimSpace(rest)
	return s, len(s.value) > 0
}

// closingQuote is where a label's value ends, escapes considered; -1 where it does not.
func closingQuote(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}
