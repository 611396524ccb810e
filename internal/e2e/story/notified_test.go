package story

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
)

// phone gets what an exporter itself tells, oldest first.
type phone struct {
	mu  sync.Mutex
	got []notified
}

// notified is a message that an exporter sent by itself.
type notified struct {
	at                           time.Time
	receiver                     string
	Title, Message, Thread, Link string
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
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
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

// checkNotified compares whom an exporter called by itself with the pages of the chain, unless it says why they differ. Both know the same but
// for what only Prometheus decides, and for series that a test adds to a page.
func (w *world) checkNotified(differs string) {
	w.Helper()
	if len(w.exporters) != 1 || w.exporters[0].sees != nil || differs != "" {
		return
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
