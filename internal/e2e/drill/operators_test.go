//go:build realservers

package drill

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
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
	o.mail = realstack.ReceiveMail(t, func([]byte) {})
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
	return realstack.FitAlertmanager(t, config, o.url, o.mail, [][2]string{
		{`(?m)^  - name: chat\n    slack_configs: \*channel$`, "  - name: chat\n    slack_configs: *channel\n    webhook_configs: [{url: " + o.url + "/chat}]"},
		{`group_wait: [1-9]\S+`, "group_wait: 1s"},
		{`group_interval: [25]m`, "group_interval: 3s"},
		{`group_interval: 1m`, "group_interval: 2s"},
		{`repeat_interval: 50s`, "repeat_interval: 1s"},
	}...)
}

// secrets are the files that the configuration wants.
func (o *operators) secrets() map[string][]byte {
	return map[string][]byte{
		"secrets/chat_webhook_url": []byte(o.url + "/channel"),
		"secrets/oncall_token":     []byte("secret"),
		"secrets/heartbeat_token":  []byte("secret"),
	}
}
