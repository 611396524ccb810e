//go:build realservers

package drill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// notification is what one message says about one alert.
type notification struct {
	At          time.Time
	Receiver    string
	Status      string // firing or resolved
	Labels      map[string]string
	Annotations map[string]string
	StartsAt    time.Time
}

// key identifies a notification, to detect those that Alertmanager sends again with their group.
func (n *notification) key() string {
	labels, err := json.Marshal(n.Labels)
	if err != nil {
		panic(err) // strings
	}
	return strings.Join([]string{n.Receiver, n.Status, n.StartsAt.String(), string(labels)}, " ")
}

// ways are those in which messages come: to the pager, by mail, into the channel. Of each message everything comes once more.
const (
	call  = "call"
	email = "mail"
	post  = "post"
	whole = "whole"
)

// message is what a receiver got at once.
type message struct {
	at                         time.Time
	way, receiver, env, status string
	// subject and text are those of a mail or a post.
	subject, text string
	// alerts are all those of a whole message, and news those of which it says something new.
	alerts, news []notification
}

// operators are those who get messages: whoever is on call, the channel, the heartbeat's other side. They also say whom
// Prometheus shall scrape.
type operators struct {
	url  string
	mail string

	mu       sync.Mutex
	said     map[string]bool
	messages []message
	changed  chan struct{}
	targets  map[string]string // environments by address
	// dishonored are the addresses whose labels Prometheus overwrites.
	dishonored map[string]bool
}

// startOperators starts their servers.
func startOperators(t *testing.T) *operators {
	t.Helper()
	o := &operators{
		said:       map[string]bool{},
		changed:    make(chan struct{}),
		targets:    map[string]string{},
		dishonored: map[string]bool{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{way}/{receiver}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // it is sent again
		}
		if err := o.record(message{way: r.PathValue("way"), receiver: r.PathValue("receiver")}, body); err != nil {
			t.Errorf("read message to %s: %v", r.URL, err)
		}
		io.WriteString(w, "ok") //nolint:errcheck // as a chat server, whose answer a newer Alertmanager reads
	})
	mux.HandleFunc("GET /targets", func(w http.ResponseWriter, _ *http.Request) { o.serveTargets(w, false) })
	mux.HandleFunc("GET /dishonored", func(w http.ResponseWriter, _ *http.Request) { o.serveTargets(w, true) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	o.url = server.URL
	o.mail = realstack.ReceiveMail(t, func(content []byte) {
		if err := o.recordMail(content); err != nil {
			t.Errorf("read mail: %v\n%s", err, content)
		}
	})
	return o
}

// record records what a receiver got over HTTP.
func (o *operators) record(m message, body []byte) error {
	var content struct {
		Status      string
		GroupLabels map[string]string
		Alerts      []notification
		Attachments []struct{ Pretext, Title, Text string }
	}
	if err := json.Unmarshal(body, &content); err != nil {
		return err
	}
	m.status, m.env, m.alerts = content.Status, content.GroupLabels["env"], content.Alerts
	if m.way == post {
		if len(content.Attachments) != 1 {
			return fmt.Errorf("a post of %d parts, want 1", len(content.Attachments))
		}
		said := content.Attachments[0]
		m.env, m.status, _ = strings.Cut(said.Pretext, " ")
		m.subject, m.text = said.Title, said.Text
	}
	o.add(m)
	return nil
}

// envOfMail is how a mail names the environment of its alerts.
var envOfMail = regexp.MustCompile(` env=(\S+)`)

// recordMail records a mail. Only pages come by mail.
func (o *operators) recordMail(content []byte) error {
	received, err := mail.ReadMessage(bytes.NewReader(content))
	if err != nil {
		return err
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(received.Header.Get("Subject"))
	if err != nil {
		return err
	}
	_, params, err := mime.ParseMediaType(received.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	m := message{
		way:      email,
		receiver: "page",
		status:   "firing",
		subject:  subject,
	}
	if strings.HasPrefix(subject, "[RESOLVED]") {
		m.status = "resolved"
	}
	for r := multipart.NewReader(received.Body, params["boundary"]); ; {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		text, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			return err
		}
		if strings.HasPrefix(part.Header.Get("Content-Type"), "text/plain") {
			m.text = strings.ReplaceAll(string(text), "\r\n", "\n")
		}
	}
	if env := envOfMail.FindStringSubmatch(m.text); env != nil {
		m.env = env[1]
	}
	o.add(m)
	return nil
}

func (o *operators) add(m message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m.at = time.Now()
	for i := range m.alerts {
		n := &m.alerts[i]
		n.At, n.Receiver = m.at, m.receiver
		if key := n.key(); m.way == whole && !o.said[key] {
			o.said[key] = true
			m.news = append(m.news, *n)
		}
	}
	o.messages = append(o.messages, m)
	close(o.changed)
	o.changed = make(chan struct{})
}

// since are the notifications about an environment from a place on, and what is closed when there are more.
func (o *operators) since(place int, env string) (about []notification, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.messages[place:] {
		for _, n := range m.news {
			if n.Labels["env"] == env {
				about = append(about, n)
			}
		}
	}
	return about, o.changed
}

// messagesSince are the messages about an environment from a place on.
func (o *operators) messagesSince(place int, env string) (about []message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.messages[place:] {
		if m.env == env {
			about = append(about, m)
		}
	}
	return about
}

// unresolved are the notifications about an environment that are not resolved.
func (o *operators) unresolved(env string) []notification {
	about, _ := o.since(0, env)
	var open []notification
	for _, n := range about {
		open = slices.DeleteFunc(open, func(before notification) bool {
			return before.Receiver == n.Receiver && maps.Equal(before.Labels, n.Labels)
		})
		if n.Status == "firing" {
			open = append(open, n)
		}
	}
	return open
}

// place is the end of the messages so far.
func (o *operators) place() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.messages)
}

// await waits for a notification about an environment, from a place on.
func (o *operators) await(patience time.Duration, place int, env string, wanted func(notification) bool) (notification, bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		about, changed := o.since(place, env)
		for _, n := range about {
			if wanted(n) {
				return n, true
			}
		}
		select {
		case <-changed:
		case <-timer.C:
			return notification{}, false
		}
	}
}

// heartbeats are when the other side of the heartbeat heard it.
func (o *operators) heartbeats() (at []time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.messages {
		if m.way == call && m.receiver == "heartbeat" {
			at = append(at, m.at)
		}
	}
	return at
}

// watch has Prometheus scrape an exporter, with a label env, until the returned function is called.
func (o *operators) watch(address, env string) (leave func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.targets[address] = env
	return func() { o.forget(address) }
}

// forget has Prometheus scrape an exporter no longer.
func (o *operators) forget(address string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.targets, address)
}

// dishonor has Prometheus overwrite labels of an exporter's page, or take them as they are.
func (o *operators) dishonor(address string, on bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dishonored[address] = on
}

// serveTargets speaks the HTTP service discovery of Prometheus, of the exporters whose labels it overwrites or of the others.
func (o *operators) serveTargets(w http.ResponseWriter, dishonored bool) {
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	groups := []group{}
	o.mu.Lock()
	for address, env := range maps.All(o.targets) {
		if o.dishonored[address] == dishonored {
			groups = append(groups, group{[]string{address}, map[string]string{"env": env}})
		}
	}
	o.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(groups) //nolint:errcheck,errchkjson // it asks again
}
