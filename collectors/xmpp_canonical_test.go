package collectors

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/openmetrics"
)

// documentedFamilies are the families that the stack's documentation promises.
var documentedFamilies = []string{
	"xmpp_c2s_connections_total", "xmpp_s2s_connections_total", "xmpp_c2s_auth_success_total", "xmpp_c2s_auth_failure_total",
	"xmpp_messages_sent_total", "xmpp_messages_received_total", "xmpp_presence_sent_total", "xmpp_presence_received_total",
	"xmpp_storage_operations_total", "xmpp_storage_errors_total", "xmpp_http_requests_total", "xmpp_http_request_duration_seconds",
	"xmpp_memory_usage_bytes", "xmpp_cpu_usage_seconds_total",
}

func TestEveryDocumentedFamilyHasARow(t *testing.T) {
	var names []string
	for _, f := range canonicalFamilies {
		names = append(names, f.name)
		if counts := strings.HasSuffix(f.name, "_total"); counts != (f.kind == model.MetricTypeCounter) {
			t.Errorf("%s is a %s", f.name, f.kind)
		}
		if f.unit != "" && !strings.HasSuffix(f.fullName(), "_"+f.unit) {
			t.Errorf("%s does not end in its unit %s", f.name, f.unit)
		}
		if len(f.sources) == 0 || f.help == "" {
			t.Errorf("%s has no source or no help", f.name)
		}
		for _, s := range f.sources {
			for _, p := range s.parts {
				if summed := f.kind != model.MetricTypeCounter || p.kind == model.MetricTypeCounter || p.count; !summed {
					t.Errorf("%s is a counter, but its source %s is a %s", f.name, p.family, p.kind)
				}
				if strings.Contains(p.family, "module_status") || strings.Contains(p.family, "cpu_clock") {
					t.Errorf("%s rests on %s, which is not to be trusted", f.name, p.family)
				}
			}
		}
	}
	for _, want := range documentedFamilies {
		if !slices.Contains(names, want) {
			t.Errorf("%s has no row", want)
		}
	}
}

// readPage reads a page of OpenMetrics as the XMPP server's.
func readPage(t *testing.T, page string, change func(*XMPPMetrics)) *Batch {
	t.Helper()
	s := newXMPPMetricsSettings()
	s.Name, s.URL = "xmpp_metrics", metricsPage(t, page)+"/metrics"
	if change != nil {
		change(s)
	}
	c := newProbe(t, newXMPPMetrics, s)
	b := readUp(t, c)
	b.Target = s.Name
	return b
}

// canonicalSeries are the canonical series of a batch, as text.
func canonicalSeries(b *Batch) []string {
	var series []string
	for _, f := range b.Foreign(true) {
		if slices.ContainsFunc(canonicalFamilies, func(c canonicalFamily) bool { return c.name == f.TextName() }) {
			series = append(series, strings.Split(strings.TrimSuffix(string(f.Text), "\n"), "\n")...)
		}
	}
	return series
}

// availableFamilies are those that a batch says have a source.
func availableFamilies(t *testing.T, b *Batch) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(string(ownText(t, b))) {
		if rest, ok := strings.CutPrefix(line, `chatstack_xmpp_family_available{family="`); ok && strings.HasSuffix(line, "} 1\n") {
			names = append(names, rest[:strings.Index(rest, `"`)])
		}
	}
	return names
}

var histogramSuffix = regexp.MustCompile("_(bucket|sum|count)$")

// TestCanonicalFamilies also holds that the families with a series are those that count as available, and that the page
// says when no series counts authentication failures.
func TestCanonicalFamilies(t *testing.T) {
	const ours = "# TYPE prosody_mod_measure_chatstack__"
	for name, c := range map[string]struct {
		page  string
		want  []string
		notes []string // but for the one that says that authentication failures have no source
	}{
		"our module is renamed, with its creation times": {
			page: ours + "c2s_auth_failure counter\nprosody_mod_measure_chatstack__c2s_auth_failure_total{host=\"a.test\"} 3\n" +
				"prosody_mod_measure_chatstack__c2s_auth_failure_created{host=\"a.test\"} 17\nprosody_mod_measure_chatstack__c2s_auth_failure_total{host=\"b.test\"} 0\n# EOF\n",
			want: []string{`xmpp_c2s_auth_failure_total{host="a.test"} 3`, `xmpp_c2s_auth_failure_total{host="b.test"} 0`},
		},
		"our module goes before the community's": {
			page: ours + "messages_sent counter\nprosody_mod_measure_chatstack__messages_sent_total{host=\"a.test\"} 5\n" +
				"# TYPE prosody_mod_measure_stanza_counts__sent counter\nprosody_mod_measure_stanza_counts__sent_total{session_type=\"c2s\",stanza_kind=\"message\"} 7\n# EOF\n",
			want: []string{`xmpp_messages_sent_total{host="a.test"} 5`},
		},
		"stanzas of client sessions alone": {
			page: "# TYPE prosody_mod_measure_stanza_counts__sent counter\nprosody_mod_measure_stanza_counts__sent_total{session_type=\"c2s\",stanza_kind=\"message\"} 7\n" +
				"prosody_mod_measure_stanza_counts__sent_total{session_type=\"s2sout\",stanza_kind=\"message\"} 100\n" +
				"prosody_mod_measure_stanza_counts__sent_total{session_type=\"c2s\",stanza_kind=\"iq\"} 1000\n# EOF\n",
			want: []string{`xmpp_messages_sent_total 7`},
		},
		"logins by their result": {
			page: "# TYPE prosody_mod_measure_auth__attempts counter\nprosody_mod_measure_auth__attempts_total{host=\"a\\\"b\",result=\"failure\"} 7\n" +
				"prosody_mod_measure_auth__attempts_total{host=\"a.test\",result=\"success\"} 2\nprosody_mod_measure_auth__attempts_total{host=\"a.test\",result=\"failure\"} 1\n# EOF\n",
			want: []string{
				`xmpp_c2s_auth_success_total{host="a.test"} 2`, `xmpp_c2s_auth_success_total{host="a\"b"} 0`,
				`xmpp_c2s_auth_failure_total{host="a\"b"} 7`, `xmpp_c2s_auth_failure_total{host="a.test"} 1`,
			},
		},
		"hosts with logins of one result": {
			page: "# TYPE prosody_mod_measure_auth__attempts counter\nprosody_mod_measure_auth__attempts_total{host=\"a.test\",result=\"success\"} 2\n" +
				"prosody_mod_measure_auth__attempts_total{host=\"b.test\",result=\"failure\"} 3\n# EOF\n",
			want: []string{
				`xmpp_c2s_auth_success_total{host="a.test"} 2`, `xmpp_c2s_auth_success_total{host="b.test"} 0`,
				`xmpp_c2s_auth_failure_total{host="b.test"} 3`, `xmpp_c2s_auth_failure_total{host="a.test"} 0`,
			},
		},
		"half a page says of no host that nothing failed there": {
			page:  "# TYPE prosody_mod_measure_auth__attempts counter\nprosody_mod_measure_auth__attempts_total{host=\"a.test\",result=\"success\"} 2\n",
			want:  []string{`xmpp_c2s_auth_success_total{host="a.test"} 2`},
			notes: []string{"does not end in # EOF"},
		},
		"values that no counter has": {
			page: ours + "c2s_auth_failure counter\nprosody_mod_measure_chatstack__c2s_auth_failure_total{host=\"a.test\"} 3\n" +
				"prosody_mod_measure_chatstack__c2s_auth_failure_total{host=\"b.test\"} NaN\nprosody_mod_measure_chatstack__c2s_auth_failure_total{host=\"c.test\"} -1\n" +
				"# TYPE prosody_mod_measure_auth__attempts counter\nprosody_mod_measure_auth__attempts_total{host=\"a.test\",result=\"failure\"} 99\n" +
				"prosody_mod_measure_auth__attempts_total{host=\"a.test\",result=\"success\"} +Inf\nprosody_mod_measure_auth__attempts_total{host=\"b.test\",result=\"success\"} 5\n# EOF\n",
			want:  []string{`xmpp_c2s_auth_success_total{host="b.test"} 5`, `xmpp_c2s_auth_failure_total{host="a.test"} 3`},
			notes: []string{"xmpp_c2s_auth_failure_total is made without 2 series", "xmpp_c2s_auth_success_total is made without 1 series"},
		},
		"a sum goes on without what is no number": {
			page:  strings.Replace(storagePage("# EOF\n"), `append_seconds_count{host="a.test"} 3`, `append_seconds_count{host="a.test"} NaN`, 1),
			want:  []string{`xmpp_storage_operations_total{host="a.test"} 2`, `xmpp_storage_operations_total{host="b.test"} 3`},
			notes: []string{"xmpp_storage_operations_total is made without 1 series"},
		},
		"a source whose values are none stays the source": {
			page: ours + "messages_sent counter\nprosody_mod_measure_chatstack__messages_sent_total{host=\"a.test\"} NaN\n" +
				"# TYPE prosody_mod_measure_stanza_counts__sent counter\nprosody_mod_measure_stanza_counts__sent_total{session_type=\"c2s\",stanza_kind=\"message\"} 7\n# EOF\n",
			notes: []string{"xmpp_messages_sent_total is made without 1 series"},
		},
		"a virtual host without a source": {
			page: ours + "c2s_auth_failure counter\nprosody_mod_measure_chatstack__c2s_auth_failure_total{host=\"a.test\"} 3\n" +
				"# TYPE prosody_mod_c2s__connections gauge\nprosody_mod_c2s__connections{host=\"a.test\",type=\"c2s\",ip_family=\"ipv4\"} 3\n" +
				"prosody_mod_c2s__connections{host=\"b.test\",type=\"c2s_unauthed\",ip_family=\"ipv4\"} 1\nprosody_mod_c2s__connections{host=\"\",type=\"c2s_unauthed\",ip_family=\"ipv4\"} 1\n# EOF\n",
			want: []string{
				`xmpp_c2s_sessions{host="a.test",type="c2s"} 3`, `xmpp_c2s_sessions{host="b.test",type="c2s_unauthed"} 1`, `xmpp_c2s_sessions{host="",type="c2s_unauthed"} 1`,
				`xmpp_c2s_auth_failure_total{host="a.test"} 3`,
			},
			notes: []string{"authentication failures of these virtual hosts have no source, so no alert can tell of them: b.test"},
		},
		"half a page says of no host that it has no source": {
			page: "# TYPE prosody_mod_c2s__connections gauge\nprosody_mod_c2s__connections{host=\"b.test\",type=\"c2s\",ip_family=\"ipv4\"} 1\n" +
				ours + "c2s_auth_failure counter\nprosody_mod_measure_chatstack__c2s_auth_failure_total{host=\"a.test\"} 3\n",
			want:  []string{`xmpp_c2s_sessions{host="b.test",type="c2s"} 1`, `xmpp_c2s_auth_failure_total{host="a.test"} 3`},
			notes: []string{"does not end in # EOF"},
		},
		"a virtual host that nobody logged in to": {
			page: "# TYPE prosody_mod_measure_auth__attempts counter\nprosody_mod_measure_auth__attempts_total{host=\"a.test\",result=\"failure\"} 3\n" +
				"# TYPE prosody_mod_c2s__connections gauge\nprosody_mod_c2s__connections{host=\"b.test\",type=\"c2s_unauthed\",ip_family=\"ipv4\"} 1\n" +
				"prosody_mod_c2s__connections{host=\"c.test\",type=\"c2s\",ip_family=\"ipv4\"} 1\n# EOF\n",
			want: []string{
				`xmpp_c2s_sessions{host="b.test",type="c2s_unauthed"} 1`, `xmpp_c2s_sessions{host="c.test",type="c2s"} 1`,
				`xmpp_c2s_auth_success_total{host="a.test"} 0`, `xmpp_c2s_auth_failure_total{host="a.test"} 3`,
			},
			notes: []string{"so no alert can tell of them: c.test"},
		},
		"a page that is canonical already and does not tell hosts": {
			page: "# TYPE xmpp_c2s_auth_failure counter\nxmpp_c2s_auth_failure_total 4\n" +
				"# TYPE prosody_mod_c2s__connections gauge\nprosody_mod_c2s__connections{host=\"b.test\",type=\"c2s\",ip_family=\"ipv4\"} 1\n# EOF\n",
			want: []string{`xmpp_c2s_auth_failure_total 4`, `xmpp_c2s_sessions{host="b.test",type="c2s"} 1`},
		},
		"sessions over address families": {
			page: "# TYPE prosody_mod_c2s__connections gauge\nprosody_mod_c2s__connections{host=\"a.test\",type=\"c2s\",ip_family=\"ipv4\"} 3\n" +
				"prosody_mod_c2s__connections{host=\"a.test\",type=\"c2s\",ip_family=\"ipv6\"} 4\nprosody_mod_c2s__connections{host=\"\",type=\"c2s_unauthed\",ip_family=\"ipv4\"} 1\n" +
				"# TYPE prosody_mod_s2s__connections_inbound gauge\nprosody_mod_s2s__connections_inbound{host=\"a.test\",type=\"s2sin\",ip_family=\"ipv4\"} 1\n" +
				"# TYPE prosody_mod_s2s__connections_outbound gauge\nprosody_mod_s2s__connections_outbound{host=\"a.test\",type=\"s2sout\",ip_family=\"ipv6\"} 2\n# EOF\n",
			want: []string{
				`xmpp_c2s_sessions{host="a.test",type="c2s"} 7`, `xmpp_c2s_sessions{host="",type="c2s_unauthed"} 1`,
				`xmpp_s2s_sessions{host="a.test",type="s2sin"} 1`, `xmpp_s2s_sessions{host="a.test",type="s2sout"} 2`,
			},
		},
		"connections with other servers by direction": {
			page: "# TYPE prosody_mod_s2s__accepted_tcp counter\nprosody_mod_s2s__accepted_tcp_total 0\n# TYPE prosody_mod_s2s__initiated counter\nprosody_mod_s2s__initiated_total{host=\"a.test\"} 2\n" +
				"# TYPE prosody_mod_c2s__encrypted counter\nprosody_mod_c2s__encrypted_total{protocol=\"TLSv1.3\",cipher=\"x\"} 9\n# EOF\n",
			want: []string{`xmpp_s2s_connections_total{direction="in"} 0`, `xmpp_s2s_connections_total{direction="out",host="a.test"} 2`},
		},
		"the process": {
			page: "# TYPE process_cpu_seconds counter\n# UNIT process_cpu_seconds seconds\nprocess_cpu_seconds_total 1.5\n# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes 1.9193856e+07\n" +
				"# TYPE prosody_memory_rss gauge\nprosody_memory_rss 1\n# TYPE prosody_cpu_clock counter\nprosody_cpu_clock_total 99\n# EOF\n",
			want: []string{`xmpp_memory_usage_bytes 19193856`, `xmpp_cpu_usage_seconds_total 1.5`},
		},
		"stores are added up": {
			page: storagePage("# EOF\n"), want: []string{`xmpp_storage_operations_total{host="a.test"} 5`, `xmpp_storage_operations_total{host="b.test"} 3`},
		},
		"no counter is added up on half a page": {
			page:  storagePage("") + "# TYPE prosody_mod_measure_chatstack__c2s_auth_failure counter\nprosody_mod_measure_chatstack__c2s_auth_failure_total{host=\"a.test\"} 3\n",
			want:  []string{`xmpp_c2s_auth_failure_total{host="a.test"} 3`},
			notes: []string{"does not end in # EOF"},
		},
		"a page that is canonical already": {
			page: "# TYPE xmpp_c2s_auth_failure counter\nxmpp_c2s_auth_failure_total{realm=\"x\"} 4\n# TYPE prosody_mod_measure_chatstack__c2s_auth_failure counter\n" +
				"prosody_mod_measure_chatstack__c2s_auth_failure_total{host=\"a.test\"} 3\n# TYPE xmpp_http_request_duration_seconds histogram\n" +
				"xmpp_http_request_duration_seconds_bucket{le=\"+Inf\"} 1\nxmpp_http_request_duration_seconds_count 1\nxmpp_http_request_duration_seconds_sum 2\n# EOF\n",
			want: []string{
				`xmpp_c2s_auth_failure_total{realm="x"} 4`, `xmpp_http_request_duration_seconds_bucket{le="+Inf"} 1`,
				`xmpp_http_request_duration_seconds_sum 2`, `xmpp_http_request_duration_seconds_count 1`,
			},
		},
		"a name that is taken": {
			page: "# TYPE xmpp_c2s_auth_failure gauge\nxmpp_c2s_auth_failure 1\n# TYPE prosody_mod_measure_chatstack__c2s_auth_failure counter\n" +
				"prosody_mod_measure_chatstack__c2s_auth_failure_total{host=\"a.test\"} 3\n# EOF\n",
			notes: []string{"xmpp_c2s_auth_failure_total cannot be served"},
		},
		"sources of another type": {
			page: "# TYPE prosody_mod_measure_chatstack__c2s_auth_failure gauge\nprosody_mod_measure_chatstack__c2s_auth_failure 3\n# TYPE process_resident_memory_bytes counter\nprocess_resident_memory_bytes_total 3\n# EOF\n",
		},
		"families without samples": {
			page: "# TYPE prosody_mod_measure_chatstack__c2s_auth_failure counter\n# TYPE prosody_mod_s2s__initiated counter\n# TYPE xmpp_messages_sent counter\n# EOF\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var available []string
			for _, series := range c.want {
				name := series[:strings.IndexAny(series, "{ ")]
				available = append(available, histogramSuffix.ReplaceAllString(name, ""))
			}
			slices.Sort(available)
			available = slices.Compact(available)
			if !slices.Contains(available, "xmpp_c2s_auth_failure_total") {
				c.notes = append(c.notes, "authentication failures have no source")
			}
			b := readPage(t, c.page, nil)
			if diff := cmp.Diff(c.want, canonicalSeries(b)); diff != "" {
				t.Errorf("series (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(available, availableFamilies(t, b)); diff != "" {
				t.Errorf("available (-want +got):\n%s", diff)
			}
			if len(b.Notes) != len(c.notes) {
				t.Errorf("notes: got %q, want %q", b.Notes, c.notes)
			}
			for _, want := range c.notes {
				if !strings.Contains(strings.Join(b.Notes, "\n"), want) {
					t.Errorf("notes: got %q, want %q in them", b.Notes, want)
				}
			}
			wantReadable(t, b)
		})
	}
}

func TestFewHostsWithoutASourceAreNamed(t *testing.T) {
	const page = "# TYPE prosody_mod_measure_chatstack__c2s_auth_failure counter\nprosody_mod_measure_chatstack__c2s_auth_failure_total{host=\"a.test\"} 3\n# TYPE xmpp_c2s_sessions gauge\n"
	for hosts, want := range map[int]string{5: "h1, h2, h3, h4, h5", 6: "h1, h2, h3, h4, h5, 1 more", 7: "h1, h2, h3, h4, h5, 2 more"} {
		var sessions strings.Builder
		for i := range hosts {
			fmt.Fprintf(&sessions, "xmpp_c2s_sessions{host=\"h%d\"} 1\n", i+1)
		}
		b := readPage(t, page+sessions.String()+"# EOF\n", nil)
		if len(b.Notes) != 1 || !strings.HasSuffix(b.Notes[0], "no alert can tell of them: "+want) {
			t.Errorf("%d hosts: notes %q, want one that names %s", hosts, b.Notes, want)
		}
		if got := strings.Join(canonicalSeries(b), "\n"); got != strings.TrimSpace(sessions.String())+"\nxmpp_c2s_auth_failure_total{host=\"a.test\"} 3" {
			t.Errorf("%d hosts: series\n%s", hosts, got)
		}
	}
}

func TestOwnRulesAreBlamedForWhatTheyHide(t *testing.T) {
	const page = "# TYPE prosody_mod_measure_chatstack__c2s_auth_failure counter\nprosody_mod_measure_chatstack__c2s_auth_failure_total{host=\"a.test\"} 3\n# EOF\n"
	for name, rules := range map[string]FamilyRules{
		"deny":  {Deny: []string{"xmpp_c2s_*"}},
		"allow": {Allow: []string{"xmpp_s2s_*"}},
	} {
		b := readPage(t, page, func(s *XMPPMetrics) { s.FamilyRules = rules })
		want := []string{"authentication failures are not served, so no alert can tell of them: allow or deny of this target leaves xmpp_c2s_auth_failure out"}
		if diff := cmp.Diff(want, b.Notes); diff != "" {
			t.Errorf("%s: notes (-want +got):\n%s", name, diff)
		}
	}
}

// TestCutPageChangesNoSource reads pages of which the source of the last whole one has been cut off.
func TestCutPageChangesNoSource(t *testing.T) {
	const (
		ours    = "# TYPE prosody_mod_measure_chatstack__%s counter\nprosody_mod_measure_chatstack__%[1]s_total{host=\"a.test\"} 500\n"
		process = "# TYPE process_cpu_seconds counter\nprocess_cpu_seconds_total 1.5\n"
		already = "# TYPE xmpp_messages_sent counter\nxmpp_messages_sent_total{host=\"a.test\"} 400\n"
		stanzas = "# TYPE prosody_mod_measure_stanza_counts__sent counter\nprosody_mod_measure_stanza_counts__sent_total{session_type=\"c2s\",stanza_kind=\"message\"} 7\n"
	)
	cpu, failures := fmt.Sprintf(ours, "cpu_usage_seconds"), fmt.Sprintf(ours, "c2s_auth_failure")
	const ourCPU, ourFailures = `xmpp_cpu_usage_seconds_total 500`, `xmpp_c2s_auth_failure_total{host="a.test"} 500`
	var page atomic.Value
	s := newXMPPMetricsSettings()
	e := startLogEngine(t, false)
	s.Name, s.Log.Container, s.Log.DockerHost = "xmpp_metrics", "xmpp", e.host
	s.URL = answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", prosodyType)
		io.WriteString(w, page.Load().(string)) //nolint:errcheck,forcetypeassert // a test's server
	}) + "/metrics"
	c := newProbe(t, newXMPPMetrics, s)
	for i, step := range []struct {
		page, want, log string
	}{
		{process, "xmpp_cpu_usage_seconds_total 1.5", authFailures + " 0"}, // nothing is known before the first whole page
		{process + stanzas + "# EOF\n", "xmpp_messages_sent_total 7 xmpp_cpu_usage_seconds_total 1.5", authFailures + " 0"},
		{process + cpu + failures + already + stanzas + "# EOF\n", "xmpp_messages_sent_total{host=\"a.test\"} 400 " + ourFailures + " " + ourCPU, ""},
		{process + stanzas, "", ""},
		{process + failures, ourFailures, ""},
		{process + stanzas + "# EOF\n", "xmpp_messages_sent_total 7 xmpp_cpu_usage_seconds_total 1.5", authFailures + " 0"},
		{process + cpu, ourCPU, authFailures + " 0"}, // a better source does not wait
	} {
		page.Store(step.page)
		b := readUp(t, c)
		b.Target = s.Name
		if got := strings.Join(canonicalSeries(b), " "); got != step.want {
			t.Errorf("step %d: got %s, want %s", i, got, step.want)
		}
		if got := strings.Join(ownSeries(t, b, authFailures), " "); got != step.log {
			t.Errorf("step %d: got %q from the log, want %q; notes %q", i, got, step.log, b.Notes)
		}
	}
}

// storagePage has the operations of two stores, as histograms, and ends as it is told to.
func storagePage(end string) string {
	var page strings.Builder
	for _, store := range []struct {
		name   string
		counts map[string]int
	}{{"roster_keyval_get", map[string]int{"a.test": 2, "b.test": 3}}, {"archive_archive_append", map[string]int{"a.test": 3}}} {
		name := "prosody_mod_measure_storage__" + store.name + "_seconds"
		fmt.Fprintf(&page, "# TYPE %s histogram\n", name)
		for _, host := range slices.Sorted(maps.Keys(store.counts)) {
			fmt.Fprintf(&page, "%[1]s_bucket{host=%[2]q,le=\"+Inf\"} %[3]d\n%[1]s_count{host=%[2]q} %[3]d\n%[1]s_sum{host=%[2]q} 1\n", name, host, store.counts[host])
		}
	}
	return page.String() + end
}

// wantReadable holds that Prometheus' own parsers read all of a batch's families, in both formats alike.
func wantReadable(t *testing.T, b *Batch) {
	t.Helper()
	page, clashes, err := exposition.Compose(b.Foreign(true))
	if err != nil || len(clashes) > 0 {
		t.Fatalf("compose: clashes %v, error %v", clashes, err)
	}
	for format, p := range map[string]textparse.Parser{
		"openmetrics": textparse.NewOpenMetricsParser(page.Negotiate(http.Header{"Accept": {metricsAccept}}).Bytes, labels.NewSymbolTable()),
		"text":        textparse.NewPromParser(page.Negotiate(http.Header{}).Bytes, labels.NewSymbolTable(), false),
	} {
		series := 0
		for {
			entry, err := p.Next()
			if err == io.EOF { //nolint:errorlint // textparse hands it out bare
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			var set labels.Labels
			if entry == textparse.EntrySeries {
				if p.Labels(&set); !strings.HasSuffix(set.Get(model.MetricNameLabel), exposition.Created.Suffix()) {
					series++
				}
			}
		}
		if series != page.Series {
			t.Errorf("%s: %d series, want %d", format, series, page.Series)
		}
	}
}

func TestCanonicalFamiliesKeepWhatOpenMetricsHasBeside(t *testing.T) {
	b := readPage(t, "# TYPE prosody_mod_measure_chatstack__http_request_duration_seconds histogram\n# UNIT prosody_mod_measure_chatstack__http_request_duration_seconds seconds\n"+
		"prosody_mod_measure_chatstack__http_request_duration_seconds_bucket{le=\"1\"} 1 # {trace=\"x\"} 0.5\nprosody_mod_measure_chatstack__http_request_duration_seconds_bucket{le=\"+Inf\"} 2\n"+
		"prosody_mod_measure_chatstack__http_request_duration_seconds_count 2\nprosody_mod_measure_chatstack__http_request_duration_seconds_sum 3\n"+
		"prosody_mod_measure_chatstack__http_request_duration_seconds_created 4\n# EOF\n", nil)
	families := b.Foreign(true)
	got := families[len(families)-1]
	want := `xmpp_http_request_duration_seconds_bucket{le="1"} 1 # {trace="x"} 0.5
xmpp_http_request_duration_seconds_bucket{le="+Inf"} 2
xmpp_http_request_duration_seconds_sum 3
xmpp_http_request_duration_seconds_count 2
xmpp_http_request_duration_seconds_created 4
`
	if string(got.OpenMetrics) != want || got.Unit != "seconds" || got.Type != model.MetricTypeHistogram || got.Series != 4 {
		t.Errorf("got %+v\n%s\nwant\n%s", got, got.OpenMetrics, want)
	}
	wantReadable(t, b)
}

const (
	tableBegin = "<!-- canonical families: written by make generate -->\n"
	tableEnd   = "<!-- end of canonical families -->\n"
)

func TestReadmeHasTheCanonicalFamilies(t *testing.T) {
	path := filepath.Join("..", "README.md")
	readme, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := bytes.Cut(readme, []byte(tableBegin))
	table, after, ended := bytes.Cut(rest, []byte(tableEnd))
	if !begun || !ended {
		t.Fatalf("%s lacks the lines\n%s%s", path, tableBegin, tableEnd)
	}
	want := canonicalTable()
	if *update && string(table) != want {
		renewed := slices.Concat(before, []byte(tableBegin), []byte(want), []byte(tableEnd), after)
		if err := os.WriteFile(path, renewed, 0o600); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(string(table), "\n")); diff != "" {
		t.Errorf("%s is out of date; run make generate (-want +got):\n%s", path, diff)
	}
}

// canonicalTable is the table as the README has it.
func canonicalTable() string {
	var b strings.Builder
	b.WriteString("| family | type | labels | made of, the first that has a sample | beside that |\n|---|---|---|---|---|\n")
	for _, f := range canonicalFamilies {
		var sources []string
		for i, s := range f.sources {
			var parts []string
			for _, p := range s.parts {
				parts = append(parts, partText(p))
			}
			sources = append(sources, fmt.Sprintf("%d. %s (%s)", i+1, strings.Join(parts, " and "), s.enable))
		}
		labels := "none"
		if len(f.labels) > 0 {
			labels = "`" + strings.Join(f.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.name, f.kind, labels, strings.Join(sources, "; "), f.remark)
	}
	b.WriteString("| `" + moduleStatusFamily + "` | gauge | `host`, `module` | 1. `GET /status` (the target `xmpp_status`); without that target, a page that calls it so | 0 ok, 1 info, 2 warn, 3 error; `prosody_module_status` is no source: it falls back to 0 at every change |\n")
	return b.String()
}

func partText(p canonicalPart) string {
	name := p.family
	if p.count {
		name += "_count"
	} else if p.kind == model.MetricTypeCounter {
		name += "_total"
	}
	var only []string
	for _, l := range p.only {
		only = append(only, fmt.Sprintf("%s=%q", l.Name, l.Value))
	}
	if len(only) > 0 {
		name += "{" + strings.Join(only, ",") + "}"
	}
	return "`" + name + "`"
}

func TestValueThatSpoilsASumIsNotToldAsOne(t *testing.T) {
	counter, gauge := canonicalFamily{kind: model.MetricTypeCounter}, canonicalFamily{kind: model.MetricTypeGauge}
	histogram := canonicalFamily{kind: model.MetricTypeHistogram}
	for _, tt := range []struct {
		family *canonicalFamily
		value  float64
		want   bool
	}{
		{&counter, 1, true},
		{&counter, 0, true},
		{&counter, -1, false},
		{&counter, math.NaN(), false},
		{&gauge, -1, true},
		{&gauge, math.Inf(1), false},
		{&histogram, math.NaN(), true},
	} {
		if got := tt.family.admits(tt.value); got != tt.want {
			t.Errorf("%g of a %s counts: got %t, want %t", tt.value, tt.family.kind, got, tt.want)
		}
	}
}

// BenchmarkCanonicalFamilies makes the families of a page with many others.
func BenchmarkCanonicalFamilies(b *testing.B) {
	for _, n := range []int{10, 20_000} {
		families := make([]exposition.Family, n, n+1)
		for i := range families {
			families[i] = exposition.Family{Name: fmt.Sprintf("prosody_mod_simulated__load%d", i), Type: model.MetricTypeGauge, Series: 1, Text: []byte("x 1\n")}
		}
		text := []byte("prosody_mod_c2s__connections{host=\"a.test\",type=\"c2s\",ip_family=\"ipv4\"} 3\n")
		families = append(families, exposition.Family{Name: "prosody_mod_c2s__connections", Type: model.MetricTypeGauge, Series: 1, Text: text, OpenMetrics: text})
		page := &openmetrics.Page{Families: families}
		for _, f := range families {
			page.Names = append(page.Names, f.Name)
		}
		m := newCanonicalMap()
		b.Run(fmt.Sprintf("families=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r := m.read(page, true, nil); len(r.families) != 1 {
					b.Fatal(r)
				}
			}
		})
	}
}
