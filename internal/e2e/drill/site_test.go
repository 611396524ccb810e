//go:build realservers

package drill

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

const (
	// usualPatience is that of most sites.
	usualPatience = 90 * time.Second
	// lookEvery is the pause between two looks at a page.
	lookEvery = 50 * time.Millisecond
)

// site is a chat stack of its own with an exporter, which Prometheus tells from others by the label env. What happens at
// one site happens one after the other; sites do not touch each other.
type site struct {
	*rig
	t        *testing.T
	env      string
	exporter *realstack.Exporter
	// url is where the exporter's pages come from.
	url string
	// patience bounds every wait, on a busy machine too.
	patience time.Duration
}

// open starts an exporter for a site and waits until Prometheus has its metrics. The configuration is that of the targets.
func (r *rig) open(t *testing.T, env, targets string, environ map[string]string) *site {
	t.Helper()
	s := &site{
		rig:      r,
		t:        t,
		env:      env,
		exporter: realstack.StartExporter(t, r.program, settings+targets, environ),
		patience: usualPatience,
	}
	s.url = s.exporter.URL()
	s.scrape(s.exporter.Addr)
	return s
}

// scrape has Prometheus scrape an address of the site until the end of the test.
func (s *site) scrape(address string) {
	leave := s.operators.watch(address, s.env)
	s.t.Cleanup(func() {
		leave()
		if s.prometheus != nil && s.prometheus.PID() != 0 {
			// Else it would find the exporter down.
			s.await("prometheus to forget "+address, func() bool { return s.none(fmt.Sprintf("up{instance=%q}", address)) })
		}
	})
}

// settle waits until every target of the site is up, nothing is wrong in Prometheus' eyes, and of all that was told the
// end was told, too.
func (s *site) settle() {
	s.t.Helper()
	s.await("nothing wrong", func() bool {
		p := s.page()
		return above(0, "chatstack_probe_success")(p) && !is(0, "chatstack_probe_success")(p) &&
			len(s.query(fmt.Sprintf("up{env=%q}", s.env))) > 0 && s.none(fmt.Sprintf("ALERTS{env=%q}", s.env)) &&
			len(s.operators.unresolved(s.env)) == 0
	})
}

// await waits until a condition holds.
func (s *site) await(what string, holds func() bool) {
	s.t.Helper()
	if !s.eventually(holds) {
		s.t.Fatalf("%s: waited %s for %s; alerts: %v; not resolved: %s", s.env, s.patience, what,
			s.query(fmt.Sprintf("ALERTS{env=%q}", s.env)), list(s.operators.unresolved(s.env)))
	}
}

// eventually reports whether a condition holds within the site's patience.
func (s *site) eventually(holds func() bool) bool {
	return exportertest.Eventually(s.patience, lookEvery, holds)
}

// scraped are the labels of an alert about the site's exporter itself.
func (s *site) scraped() map[string]string {
	return of("instance", strings.TrimPrefix(s.url, "http://"), "job", "chatstack_exporter")
}

// notice is an expected notification: an alert, its severity, and its labels without those that every alert has.
type notice struct {
	alert, severity string
	labels          map[string]string
}

func (n notice) String() string { return n.alert + " " + n.severity + " " + fmt.Sprint(n.labels) }

// row is the notice as a line of the table, about a notification that took so long.
func (n notice) row(fault string, notified time.Duration) row {
	return row{
		fault:    fault,
		alert:    n.alert,
		severity: n.severity,
		about:    n.about(),
		metric:   -1,
		notified: notified,
	}
}

// about is what the notice's labels name, for people.
func (n notice) about() string {
	for _, label := range []string{"container", "of", "target", "volume", "instance"} {
		if name, ok := n.labels[label]; ok {
			return name
		}
	}
	return ""
}

// of are labels, given as name, value, name, value.
func of(pairs ...string) map[string]string {
	labels := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		labels[pairs[i]] = pairs[i+1]
	}
	return labels
}

// fits reports whether a notification matches the notice.
func (n notice) fits(sent notification) bool {
	labels := maps.Clone(sent.Labels)
	maps.DeleteFunc(labels, func(name, _ string) bool {
		return slices.Contains([]string{"alertname", "alert", "severity", "stack", "env", "chat_server"}, name)
	})
	return sent.Labels["alertname"] == n.alert && sent.Labels["severity"] == n.severity && slices.Contains(n.receivers(), sent.Receiver) &&
		sent.Labels["stack"] == "chat" && maps.Equal(labels, n.labels)
}

// neverWarned are the alerts that are critical from the beginning, so the channel gets them together with the page.
var neverWarned = []string{
	"BridgeNotRelaying", "ContainerMissing", "ContainerOftenUnhealthy", "ExporterDown", "IRCServicesUnlinked", "PollStalled",
	"XMPPComponentDisconnected",
}

// receivers returns who gets the notice.
func (n notice) receivers() []string {
	switch {
	case n.severity == "warning":
		return []string{"chat"}
	case slices.Contains(neverWarned, n.alert):
		return []string{"page", "chat"}
	}
	return []string{"page"}
}

// fault is something that goes wrong at a site.
type fault struct {
	name string
	// cause brings it about, and repair ends it.
	cause, repair func()
	// shown reports whether the exporter's page shows the fault.
	shown func(page) bool
	// want has all required notices. Only those in may are optional: they come if a worse alert that
	// silences it is slower than the wait for others of its group.
	want, may []notice
	// after has the notices of the repair.
	after []notice
	// pages and posts are how many messages of the fault come to each receiver, where that is not at least one for each server, and at
	// most one for each of its alerts.
	pages, posts int
}

// try causes a fault, waits for all notices, repairs the fault, and waits until all notices are resolved.
func (s *site) try(f fault) {
	s.t.Helper()
	s.settle()
	place := s.operators.place()
	begun := time.Now()
	metric := s.firstShown(f.shown)
	f.cause()
	var rows []row
	for _, n := range f.want {
		rows = append(rows, n.row(f.name, s.awaitNotice(place, f.name, "firing", n).At.Sub(begun)))
	}
	shown := <-metric
	if shown.IsZero() {
		s.t.Fatalf("%s: %s: the page never showed it", s.env, f.name)
	}
	repaired := time.Now()
	f.repair()
	for i, n := range f.want {
		rows[i].metric, rows[i].resolved = shown.Sub(begun), s.awaitNotice(place, f.name, "resolved", n).At.Sub(repaired)
	}
	for _, n := range f.after {
		last := n.row(f.name+": the repair", s.awaitNotice(place, f.name, "firing", n).At.Sub(repaired))
		last.resolved = s.awaitNotice(place, f.name, "resolved", n).At.Sub(repaired)
		rows = append(rows, last)
	}
	s.settle()
	s.nothingElse(place, begun, f)
	messages := s.readMessages(place, f)
	for i := range rows {
		rows[i].note = messages
	}
	s.report.add(rows...)
	s.t.Logf("%s: %s: %d notifications fired and resolved", s.env, f.name, len(rows))
}

// awaitNotice waits until all receivers of a notice have it, and returns the first receiver's notification.
func (s *site) awaitNotice(place int, fault, status string, n notice) (first notification) {
	s.t.Helper()
	for i, receiver := range n.receivers() {
		sent := s.awaitNoticeTo(receiver, place, fault, status, n)
		if i == 0 {
			first = sent
		}
	}
	return first
}

func (s *site) awaitNoticeTo(receiver string, place int, fault, status string, n notice) notification {
	s.t.Helper()
	sent, ok := s.operators.await(s.patience, place, s.env, func(sent notification) bool {
		return sent.Status == status && sent.Receiver == receiver && n.fits(sent)
	})
	if !ok {
		about, _ := s.operators.since(place, s.env)
		s.t.Fatalf("%s: %s: %s not notified after %s: %s %s\nnotifications: %s\nalerts: %v",
			s.env, fault, receiver, s.patience, status, n, list(about), s.query(fmt.Sprintf("ALERTS{env=%q}", s.env)))
	}
	for _, name := range []string{"summary", "description", "runbook_url"} {
		if text := sent.Annotations[name]; text == "" || strings.Contains(text, "<no value>") || strings.Contains(text, "%!") ||
			strings.Contains(text, "error expanding") {
			s.t.Errorf("%s: %s: the %s of %s is %q", s.env, fault, name, n, text)
		}
	}
	return sent
}

// nothingElse checks that there are no other notifications of a fault, and no duplicates. The end of what began before may come with
// them: an inhibited alert ends unsaid, and Prometheus says for 15 minutes that it has ended.
func (s *site) nothingElse(place int, begun time.Time, f fault) {
	s.t.Helper()
	about, _ := s.operators.since(place, s.env)
	for _, status := range []string{"firing", "resolved"} {
		for _, n := range slices.Concat(f.want, f.after) {
			times := 0
			for _, sent := range about {
				if sent.Status == status && n.fits(sent) {
					times++
				}
			}
			if times != len(n.receivers()) {
				s.t.Errorf("%s: %s: %d notifications, want %d: %s %s", s.env, f.name, times, len(n.receivers()), status, n)
			}
		}
	}
	about = slices.DeleteFunc(about, func(sent notification) bool {
		return sent.Status == "resolved" && sent.StartsAt.Before(begun) ||
			slices.ContainsFunc(slices.Concat(f.want, f.may, f.after), func(n notice) bool { return n.fits(sent) })
	})
	if len(about) > 0 {
		s.t.Errorf("%s: %s: unexpected notifications: %s", s.env, f.name, list(about))
	}
}

// readMessages holds how many messages each receiver got of a fault, and that they say what is wrong and what to do. It returns
// how many there were.
func (s *site) readMessages(place int, f fault) string {
	s.t.Helper()
	about, _ := s.operators.since(place, s.env)
	groups, alerts := map[string]map[string]bool{"page": {}, "chat": {}}, map[string]map[string]bool{"page": {}, "chat": {}}
	for _, n := range about {
		if n.Status == "firing" {
			group := n.Labels["severity"] + " " + n.Labels["chat_server"]
			groups[n.Receiver][group], alerts[n.Receiver][group+" "+n.Labels["alertname"]] = true, true
		}
	}
	least := map[string]int{"page": len(groups["page"]), "chat": len(groups["chat"])}
	most := map[string]int{"page": len(alerts["page"]), "chat": len(alerts["chat"])}
	for receiver, n := range map[string]int{"page": f.pages, "chat": f.posts} {
		if n > 0 {
			least[receiver], most[receiver] = n, n
		}
	}
	got := map[string]int{}
	var sent []message
	complete := func() bool {
		clear(got)
		sent = s.operators.messagesSince(place, s.env)
		for _, m := range sent {
			got[strings.Join([]string{m.way, m.receiver, m.status}, " ")]++
			switch {
			case m.way != whole:
			case len(m.news) == 0:
				// A page does not report ends, so nobody gets the message that only says some of them once more.
				if m.receiver != "page" {
					got["nothing new to "+m.receiver]++
				}
			case slices.ContainsFunc(m.news, func(n notification) bool { return n.Status == "firing" }):
				got[m.receiver]++
			}
		}
		return got["call page firing"] == got["page"] && got["mail page firing"] == got["page"] && // pages report no ends
			got["call page resolved"]+got["mail page resolved"] == 0 &&
			got["post chat firing"] == got["whole chat firing"] && got["post chat resolved"] == got["whole chat resolved"]
	}
	if !s.eventually(complete) {
		s.t.Errorf("%s: %s: messages did not come everywhere: %v", s.env, f.name, got)
	}
	for receiver := range least {
		if n := got[receiver]; n < least[receiver] || n > most[receiver] || got["nothing new to "+receiver] > 0 {
			s.t.Errorf("%s: %s: messages %v, want %d to %d of faults to %s, and each with something new:%s",
				s.env, f.name, got, least[receiver], most[receiver], receiver, listMessages(sent))
		}
	}
	s.readTexts(sent, f)
	return fmt.Sprintf("(%d pages, %d posts; of the end %d, %d)",
		got["page"], got["chat"], got["call page resolved"], got["post chat resolved"])
}

// figures matches what a text counts, which may have gone on by the next evaluation.
var figures = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// readTexts holds that of each message the mail or the post says the same but for figures: every alert, and what to do while it fires.
func (s *site) readTexts(sent []message, f fault) {
	s.t.Helper()
	for _, m := range sent {
		if m.way != whole || m.receiver == "page" && m.status == "resolved" { // a page has no end
			continue
		}
		way := map[string]string{"page": email, "chat": post}[m.receiver]
		var subjects, texts []string
		same := func(text string) string { return figures.ReplaceAllLiteralString(text, "0") }
		for _, a := range m.alerts {
			summary := a.Annotations["summary"]
			switch {
			case m.status == "resolved":
				subjects = append(subjects, fmt.Sprintf("[RESOLVED] It was: %.150s", summary))
				texts = append(texts, summary)
			case a.Status == "firing":
				subjects = append(subjects, fmt.Sprintf("[%s] %.150s", strings.ToUpper(a.Labels["severity"]), summary))
				texts = append(texts, summary, a.Annotations["description"], a.Annotations["runbook_url"])
			}
		}
		fits := func(other message) bool {
			return other.way == way && other.receiver == m.receiver && other.status == m.status &&
				slices.ContainsFunc(subjects, func(subject string) bool { return strings.HasPrefix(same(other.subject), same(subject)) }) &&
				!slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(same(other.text), same(text)) })
		}
		if !slices.ContainsFunc(sent, fits) {
			s.t.Errorf("%s: %s: no %s %q says %q:%s", s.env, f.name, way, subjects, texts, listMessages(sent))
		}
	}
}

func listMessages(sent []message) string {
	var b strings.Builder
	for _, m := range sent {
		fmt.Fprintf(&b, "\n  %s %s to %s by %s: %s%s", m.at.Format("15:04:05.0"), m.status, m.receiver, m.way, m.subject, m.text)
		for _, a := range m.alerts {
			fmt.Fprintf(&b, "\n    %s %v", a.Status, a.Labels)
		}
	}
	return b.String()
}

func list(about []notification) string {
	var b strings.Builder
	for _, sent := range about {
		fmt.Fprintf(&b, "\n  %s %s to %s: %v", sent.At.Format("15:04:05.0"), sent.Status, sent.Receiver, sent.Labels)
	}
	return b.String()
}

// firstShown looks at the exporter's page until it shows something, and sends when that was; the zero time says never.
func (s *site) firstShown(shown func(page) bool) <-chan time.Time {
	at := make(chan time.Time, 1)
	go func() {
		var seen time.Time
		s.eventually(func() bool {
			// No page is what some faults show.
			if !shown(s.page()) {
				return s.t.Context().Err() != nil
			}
			seen = time.Now()
			return true
		})
		at <- seen
	}()
	return at
}

// page is an exporter's page; nil is none at all.
type page = exportertest.Page

// page asks the exporter for its page.
func (s *site) page() page {
	body, err := fetch(context.Background(), s.url+"/metrics")
	if err != nil {
		return nil
	}
	p, err := exportertest.ParsePage(body)
	if err != nil {
		s.t.Errorf("%s: %v", s.env, err)
	}
	return p
}

// matches reports whether a sample with these labels, given as name, value, name, value, has a value that fits.
func matches(p page, fits func(float64) bool, family string, labels ...string) bool {
	return slices.ContainsFunc(p.Samples(family, labels...), func(m *dto.Metric) bool { return fits(exportertest.ValueOf(m)) })
}

// is makes a condition: a sample has a value.
func is(want float64, family string, labels ...string) func(page) bool {
	return func(p page) bool { return matches(p, func(v float64) bool { return v == want }, family, labels...) }
}

// above makes a condition: a sample is above a value.
func above(limit float64, family string, labels ...string) func(page) bool {
	return func(p page) bool { return matches(p, func(v float64) bool { return v > limit }, family, labels...) }
}

// below makes a condition: a sample is below a value.
func below(limit float64, family string, labels ...string) func(page) bool {
	return func(p page) bool { return matches(p, func(v float64) bool { return v < limit }, family, labels...) }
}

// down makes a condition: the target's last reading failed.
func down(target string) func(page) bool { return is(0, "chatstack_probe_success", "target", target) }

// none reports whether an expression has no result in Prometheus now.
func (r *rig) none(expression string) bool {
	result := r.query(expression)
	return result != nil && len(result) == 0
}

// query evaluates an expression in Prometheus now: values by labels, nil where it could not be asked.
func (r *rig) query(expression string) map[string]float64 {
	result, err := r.prometheus.Query(context.Background(), expression)
	if err != nil {
		return nil
	}
	return result
}

// fetch gets a page of status 200.
func fetch(ctx context.Context, url string) ([]byte, error) {
	return exportertest.Fetch(ctx, 5*time.Second, url)
}
