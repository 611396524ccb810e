package story

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// phone gets what an exporter itself tells, oldest first.
type phone struct {
	refuses atomic.Bool

	mu  sync.Mutex
	got []notified
}

// notified is a message that an exporter sent by itself.
type notified struct {
	at                               time.Time
	receiver                         string
	ID, Title, Message, Thread, Link string
}

// receiversAt is the configuration of who gets everything by day, and who gets only what is critical.
func receiversAt(address string) string {
	return fmt.Sprintf("notify:\n"+
		"  - {name: phone, url: \"generic://%[1]s/phone?disabletls=yes\"}\n"+
		"  - {name: pager, url: \"generic://%[1]s/pager?disabletls=yes\", severity: critical}\n", address)
}

// listenForMessages starts the service behind the receivers.
func (w *world) listenForMessages() (address string) {
	l, err := w.network.Listen("tcp", "127.0.0.1:0")
	must(w.T, err)
	server := &http.Server{Handler: http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		if w.phone.refuses.Load() {
			answer.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		n := notified{at: time.Now(), receiver: strings.TrimPrefix(r.URL.Path, "/")}
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			w.Errorf("a message: %v", err)
		}
		w.phone.mu.Lock()
		defer w.phone.mu.Unlock()
		w.phone.got = append(w.phone.got, n)
	})}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	w.Cleanup(func() {
		must(w.T, server.Close())
		running.Wait()
	})
	return l.Addr().String()
}

// told are the messages to a receiver, such as "5m30s [WARNING] Other is down".
func (w *world) told(receiver string) (list []string) {
	w.phone.mu.Lock()
	defer w.phone.mu.Unlock()
	for _, n := range w.phone.got {
		if n.receiver == receiver {
			list = append(list, fmt.Sprintf("%s %s", n.at.Sub(w.began).Round(time.Second), n.Title))
		}
	}
	return list
}

// checkNotified compares the messages of an exporter with those of the chain, unless the scenario says why they differ. There are as many
// calls as pages. The other messages are at least one for each server that the channel reports, and no more than those of the chain with
// news. Both know the same but for what only Prometheus decides, and for series that a test adds to a page.
func (w *world) checkNotified(differs string) {
	w.Helper()
	if len(w.exporters) != 1 || w.exporters[0].sees != nil || differs != "" {
		return
	}
	own := w.begun("phone")
	if most, least := w.news(); own < least || own > most {
		w.Errorf("the exporter itself told of %d causes, the chain of %d servers in %d messages:\n%s\n%s", own, least, most,
			strings.Join(w.notifications(), "\n"), strings.Join(w.told("phone"), "\n"))
	}
	pages, calls := w.pages(), w.calls()
	if len(pages) != len(calls) {
		w.Errorf("%d pages and %d calls by the exporter itself:\n%s\n%s", len(pages), len(calls),
			strings.Join(w.notifications(), "\n"), strings.Join(w.told("phone"), "\n"))
		return
	}
	for i := range pages {
		if calls[i].After(pages[i]) {
			w.Errorf("the call of %s came after the page of %s", calls[i].Sub(w.began), pages[i].Sub(w.began))
		}
	}
}

// pages are when the chain paged for something that the exporter can judge.
func (w *world) pages() (at []time.Time) {
	for _, n := range w.router.notifications() {
		if n.receiver == "page" && slices.ContainsFunc(n.alerts, func(text string) bool {
			name, _, _ := strings.Cut(text, " ")
			return !strings.HasSuffix(text, " is over") && !alerts.NeedsPrometheus(name)
		}) {
			at = append(at, n.at)
		}
	}
	return at
}

// news counts the messages of the chain that tell of something new that the exporter can judge, and the servers that they are about.
func (w *world) news() (messages, servers int) {
	firing, about := map[string]bool{}, map[model.LabelValue]bool{}
	for _, m := range w.router.notifications() {
		isNew := false
		for _, text := range m.alerts {
			name, of, _ := strings.Cut(text, " ")
			_, of, _ = strings.Cut(of, " ") // whatever the severity is
			if which, isOver := strings.CutSuffix(name+" "+of, " is over"); isOver {
				delete(firing, which)
			} else if !alerts.NeedsPrometheus(name) {
				isNew = isNew || !firing[which]
				firing[which] = true
			}
		}
		if !isNew {
			continue
		}
		messages++
		for server := range m.servers {
			about[server] = about[server] || m.receiver == "chat"
		}
	}
	maps.DeleteFunc(about, func(_ model.LabelValue, inChannel bool) bool { return !inChannel })
	return messages, len(about)
}

// begun counts the messages of an exporter to a receiver that tell of something new.
func (w *world) begun(receiver string) (n int) {
	w.phone.mu.Lock()
	defer w.phone.mu.Unlock()
	open := map[string]bool{}
	for _, m := range w.phone.got {
		switch {
		case m.receiver != receiver:
		case strings.HasPrefix(m.Title, "[RESOLVED]") || strings.HasPrefix(m.Title, "[NO LONGER WATCHED]"):
			delete(open, m.Thread)
		case m.Thread == "" || !open[m.Thread]:
			open[m.Thread] = true
			n++
		}
	}
	return n
}

// calls are when the exporter itself told the pager of something critical.
func (w *world) calls() (at []time.Time) {
	w.phone.mu.Lock()
	defer w.phone.mu.Unlock()
	for _, n := range w.phone.got {
		if n.receiver == "pager" && strings.HasPrefix(n.Title, "[CRITICAL]") {
			at = append(at, n.at)
		}
	}
	return at
}

// teller compares what an exporter that keeps its state tells by itself with its judgement, through restarts and kills.
type teller struct {
	*world
	// since is when the present process began. critical is since when which alerts are, calm since when none fires.
	since, calm time.Time
	critical    map[string]time.Time
	// away is when the exporter last had no network, so that it reached nobody.
	away time.Time
	// forgets says that the state is lost once, so that nobody knows any more what was told.
	forgets bool
}

const (
	// toldWithin is within what time a critical alert is told: it settles for 30 s, a report may be 30 s old, and a round is as long.
	toldWithin = 2 * time.Minute
	// backWithin is within what time a message is tried again that could not be sent: 15 minutes, and a round.
	backWithin = 16 * time.Minute
	// overWithin is how long the longest alert goes on after its problem, and until that is told.
	overWithin = 20 * time.Minute
)

func (c *teller) compare() {
	c.Helper()
	e := c.exporters[0]
	if len(c.exporters) != 1 || !e.saves || c.forgets {
		return
	}
	if e.app == nil || !e.started.Equal(c.since) {
		c.since, c.calm, c.critical = e.started, time.Time{}, map[string]time.Time{}
		return
	}
	open, held := c.openThreads("pager")
	now, fires, j := time.Now(), false, e.app.Snapshot().Judgement
	if e.offline.Load() {
		c.away = now
	}
	held = held || now.Sub(c.away) < backWithin
	before := c.critical
	c.critical = map[string]time.Time{}
	for _, p := range j.Problems {
		name := strings.Join([]string{p.Kind, p.Name, p.Alert, p.Of}, " ")
		if p.Severity == health.Pending || p.Excuse.Holds() ||
			slices.ContainsFunc(j.HeldBack, func(h health.HeldBack) bool { return h.Alert == p.Alert && h.Subject == p.Subject }) {
			continue
		}
		if fires = true; p.Severity == health.Critical {
			c.critical[name] = cmp.Or(before[name], now)
		}
		if since := c.critical[name]; !since.IsZero() && now.Sub(since) > toldWithin && open == 0 && !held {
			c.Errorf("after %s, %s has been critical for %s, and nobody was called:\n%s", now.Sub(c.began), name, now.Sub(since),
				strings.Join(c.told("pager"), "\n"))
		}
	}
	if fires {
		c.calm = time.Time{}
	} else if c.calm.IsZero() {
		c.calm = now
	}
	if !c.calm.IsZero() && now.Sub(c.calm) > overWithin && open > 0 && !held {
		c.Errorf("after %s, nothing fires for %s, and %d threads are open:\n%s", now.Sub(c.began), now.Sub(c.calm), open,
			strings.Join(c.told("pager"), "\n"))
	}
}

// settled waits until every fault of a script and its memory are over: then everything that was told must have been told to be over.
func (c *teller) settled() {
	c.Helper()
	if len(c.exporters) != 1 || !c.exporters[0].saves || c.exporters[0].app == nil || c.forgets {
		return
	}
	c.until(time.Now().Add(45 * time.Minute))
	if open, held := c.openThreads("pager"); open > 0 && !c.calm.IsZero() && !held {
		c.Errorf("in the end, %d threads are open:\n%s", open, strings.Join(c.told("pager"), "\n"))
	}
}

// openThreads counts the threads whose beginning a receiver got, and not their end. held says that messages were held back in the last
// hours, so that nobody knows. No message may come more than twice: a kill may double it.
func (w *world) openThreads(receiver string) (open int, held bool) {
	w.Helper()
	w.phone.mu.Lock()
	defer w.phone.mu.Unlock()
	threads, times := map[string]bool{}, map[string]int{}
	for _, n := range w.phone.got {
		switch {
		case n.receiver != receiver:
		case n.Thread == "":
			held = held || time.Since(n.at) < 3*time.Hour
		case strings.HasPrefix(n.Title, "[RESOLVED]") || strings.HasPrefix(n.Title, "[NO LONGER WATCHED]"):
			delete(threads, n.Thread)
		default:
			threads[n.Thread] = true
		}
		if times[n.receiver+n.ID]++; times[n.receiver+n.ID] > 2 {
			w.Errorf("the message %s came %d times", n.ID, times[n.receiver+n.ID])
		}
	}
	return len(threads), held
}
