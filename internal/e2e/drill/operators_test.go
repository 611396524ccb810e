//go:build realservers

package drill

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// told is what one notification says of one alert, when it says so first.
type told struct {
	At          time.Time
	Receiver    string
	Status      string // firing or resolved
	Labels      map[string]string
	Annotations map[string]string
	StartsAt    time.Time
}

// key tells that something was said before: what is sent again of a group says nothing new of its other alerts.
func (n *told) key() string {
	labels, err := json.Marshal(n.Labels)
	if err != nil {
		panic(err) // strings
	}
	return strings.Join([]string{n.Receiver, n.Status, n.StartsAt.String(), string(labels)}, " ")
}

// operators are those who get notifications: whoever is on call, the channel, the heartbeat's other side. They also say
// whom Prometheus shall scrape.
type operators struct {
	url  string
	mail string

	mu      sync.Mutex
	said    map[string]bool
	log     []told
	changed chan struct{}
	targets map[string]string // environments by address

	beats     int
	firstBeat time.Time
	posts     int
}

// startOperators starts their servers.
func startOperators(t *testing.T) *operators {
	t.Helper()
	o := &operators{said: map[string]bool{}, changed: make(chan struct{}), targets: map[string]string{}}
	mux := http.NewServeMux()
	for _, receiver := range []string{"page", "chat", "heartbeat"} {
		mux.HandleFunc("POST /"+receiver, func(_ http.ResponseWriter, r *http.Request) { o.take(t, receiver, r.Body) })
	}
	mux.HandleFunc("POST /channel", func(w http.ResponseWriter, _ *http.Request) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.posts++
		io.WriteString(w, "ok") //nolint:errcheck // nobody to tell
	})
	mux.HandleFunc("GET /targets", o.serveTargets)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	o.url = server.URL
	o.mail = receiveMail(t)
	return o
}

// take notes what a notification says for the first time.
func (o *operators) take(t *testing.T, receiver string, body io.Reader) {
	t.Helper()
	var message struct{ Alerts []told }
	if err := json.NewDecoder(body).Decode(&message); err != nil {
		t.Errorf("read notification to %s: %v", receiver, err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if receiver == "heartbeat" {
		o.beats++
		if o.firstBeat.IsZero() {
			o.firstBeat = time.Now()
		}
	}
	for _, n := range message.Alerts {
		n.At, n.Receiver = time.Now(), receiver
		if key := n.key(); !o.said[key] {
			o.said[key] = true
			o.log = append(o.log, n)
		}
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

// since are the notifications about an environment from a place in the log on, and what is closed when there are more.
func (o *operators) since(place int, env string) (about []told, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.log[place:] {
		if n.Labels["env"] == env {
			about = append(about, n)
		}
	}
	return about, o.changed
}

// unresolved are the notifications about an environment whose end was not told.
func (o *operators) unresolved(env string) []told {
	about, _ := o.since(0, env)
	var open []told
	for _, n := range about {
		open = slices.DeleteFunc(open, func(before told) bool { return before.Receiver == n.Receiver && maps.Equal(before.Labels, n.Labels) })
		if n.Status == "firing" {
			open = append(open, n)
		}
	}
	return open
}

// place is the end of the log.
func (o *operators) place() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.log)
}

// await waits for a notification about an environment, from a place in the log on.
func (o *operators) await(place int, env string, wanted func(told) bool) (told, bool) {
	patience := time.NewTimer(patience)
	defer patience.Stop()
	for {
		about, changed := o.since(place, env)
		for _, n := range about {
			if wanted(n) {
				return n, true
			}
		}
		select {
		case <-changed:
		case <-patience.C:
			return told{}, false
		}
	}
}

// heartbeats are how many there were, and when the first one came.
func (o *operators) heartbeats() (n int, first time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.beats, o.firstBeat
}

// posted is how many messages the channel got.
func (o *operators) posted() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.posts
}

// watch has Prometheus scrape an exporter, with a label env, until the returned function is called.
func (o *operators) watch(address, env string) (leave func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.targets[address] = env
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.targets, address)
	}
}

// serveTargets speaks the HTTP service discovery of Prometheus.
func (o *operators) serveTargets(w http.ResponseWriter, _ *http.Request) {
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	groups := []group{}
	o.mu.Lock()
	for address, env := range maps.All(o.targets) {
		groups = append(groups, group{[]string{address}, map[string]string{"env": env}})
	}
	o.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(groups) //nolint:errcheck,errchkjson // it asks again
}

// fit fits the shipped configuration of Alertmanager to these operators: addresses, files, waits and the hour. One thing
// is added: beside the channel, whose messages are for people, a webhook gets the same with all labels.
func (o *operators) fit(t *testing.T, config string) string {
	t.Helper()
	for _, change := range []struct{ pattern, with string }{
		{`https://oncall\.example\.org/alertmanager`, o.url + "/page"},
		{`https://heartbeat\.example\.org/chatstack`, o.url + "/heartbeat"},
		{`(?m)^  - name: chat\n    slack_configs: \*channel$`, "  - name: chat\n    slack_configs: *channel\n    webhook_configs: [{url: " + o.url + "/chat}]"},
		{`smtp_smarthost: \S+`, "smtp_require_tls: false\n  smtp_smarthost: " + o.mail},
		{`  smtp_auth_(username|password_file): \S+\n`, ""},
		{`/etc/alertmanager/`, ""},
		{`group_wait: [1-9]\S+`, "group_wait: 1s"},
		{`group_interval: [25]m`, "group_interval: 3s"},
		{`group_interval: 1m`, "group_interval: 2s"},
		{`repeat_interval: 50s`, "repeat_interval: 1s"},
		{`start_time: \S+`, `start_time: "00:00"`},
		{`end_time: \S+`, `end_time: "24:00"`},
	} {
		before := config
		if config = regexp.MustCompile(change.pattern).ReplaceAllLiteralString(config, change.with); config == before {
			t.Fatalf("the shipped configuration of alertmanager has no %s", change.pattern)
		}
	}
	return config
}

// secrets are the files that the configuration wants.
func (o *operators) secrets() map[string][]byte {
	return map[string][]byte{
		"secrets/chat_webhook_url": []byte(o.url + "/channel"),
		"secrets/oncall_token":     []byte("secret"),
		"secrets/heartbeat_token":  []byte("secret"),
	}
}

// receiveMail starts a mail server that takes everything and keeps nothing, and returns its address.
func receiveMail(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() }) //nolint:errcheck // nothing is lost
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			go takeMail(c)
		}
	}()
	return l.Addr().String()
}

func takeMail(c net.Conn) {
	defer c.Close()                                             //nolint:errcheck // nothing is lost
	say := func(line string) { io.WriteString(c, line+"\r\n") } //nolint:errcheck // the next reading says so
	say("220 mail")
	body := false
	for lines := bufio.NewScanner(c); lines.Scan(); {
		switch line := lines.Text(); {
		case body:
			if body = line != "."; !body {
				say("250 taken")
			}
		case strings.EqualFold(line, "DATA"):
			body = true
			say("354 go on")
		case strings.EqualFold(line, "QUIT"):
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}
