package receivers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// Message is what a service shows: what a locked telephone shows, and the rest.
type Message struct {
	Service, Title, Text string
}

// service is the stand-in of one, by the name of its host.
type service struct {
	name, host string
	// read returns the message of a request, or why the service refuses it.
	read func(r *http.Request, body []byte) (Message, error)
	// status and reply are the answer to a message.
	status int
	reply  string
}

var services = []service{
	{
		name:   "telegram",
		host:   "api.telegram.org",
		read:   readTelegram,
		status: http.StatusOK,
		reply:  `{"ok": true, "result": {"message_id": 1, "date": 1, "chat": {"id": 1, "type": "group"}}}`,
	},
	{
		name:   "discord",
		host:   "discord.com",
		read:   readDiscord,
		status: http.StatusNoContent,
	},
	{
		name:   "slack",
		host:   "hooks.slack.com",
		read:   readSlack,
		status: http.StatusOK,
		reply:  "ok",
	},
	{
		name:   "pushover",
		host:   "api.pushover.net",
		read:   readPushover,
		status: http.StatusOK,
		reply:  `{"status": 1}`,
	},
	{
		name:   "pagerduty",
		host:   "events.pagerduty.com",
		read:   readPagerDuty,
		status: http.StatusAccepted,
		reply:  `{"status": "success", "message": "Event processed", "dedup_key": "a"}`,
	},
}

// Names are those of the services, which are also those of the receivers in the documents. Mail comes last.
func Names() (names []string) {
	for _, s := range services {
		names = append(names, s.name)
	}
	return append(names, "mail")
}

// Services are the stand-ins of all. Messages that they take come from Messages; one that a service refuses fails the test.
type Services struct {
	// Proxy is the address of a proxy that leads to them, whatever the name of their host. Their certificates do not verify.
	Proxy    string
	Messages chan Message

	tb testing.TB
}

// Start starts them until the test ends.
func Start(tb testing.TB) *Services {
	tb.Helper()
	s := &Services{Messages: make(chan Message, 100), tb: tb}
	all := httptest.NewTLSServer(http.HandlerFunc(s.serve))
	tb.Cleanup(all.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "CONNECT only", http.StatusMethodNotAllowed)
			return
		}
		tunnel(tb, w, all.Listener.Addr().String())
	}))
	tb.Cleanup(func() {
		all.CloseClientConnections()
		proxy.Close()
	})
	s.Proxy = proxy.URL
	return s
}

// tunnel connects the client of a proxy to an address.
func tunnel(tb testing.TB, w http.ResponseWriter, address string) {
	tb.Helper()
	to, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", address)
	if err != nil {
		return // the test is over
	}
	from, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		tb.Error(err)
		return
	}
	io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n") //nolint:errcheck // the other side notices
	go func() {
		defer to.Close()      //nolint:errcheck // nothing is lost
		io.Copy(to, buffered) //nolint:errcheck // the other side notices
	}()
	go func() {
		defer from.Close() //nolint:errcheck // nothing is lost
		io.Copy(from, to)  //nolint:errcheck // the other side notices
	}()
}

func (s *Services) serve(w http.ResponseWriter, r *http.Request) {
	at := slices.IndexFunc(services, func(one service) bool { return one.host == r.Host })
	body, err := io.ReadAll(r.Body)
	if at < 0 || err != nil {
		s.tb.Errorf("%s %s%s, which no service has; %v", r.Method, r.Host, r.URL, err)
		http.NotFound(w, r)
		return
	}
	one := &services[at]
	m, err := one.read(r, body)
	if err != nil {
		s.tb.Errorf("%s refuses a message: %v\n%s %s\n%.5000s", one.name, err, r.Method, r.URL.Path, body)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.Service = one.name
	s.Messages <- m
	if strings.HasPrefix(one.reply, "{") {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(one.status)
	io.WriteString(w, one.reply) //nolint:errcheck // nobody to tell
}

// Mail takes a mail as it was sent. It may be called from any goroutine.
func (s *Services) Mail(raw []byte) {
	m, err := readMail(raw)
	if err != nil {
		s.tb.Errorf("a mail is not valid: %v\n%.5000s", err, raw)
		return
	}
	s.Messages <- m
}

// limits holds texts by their name against a number of characters. None may be empty or no text.
func limits(texts map[string]string, most map[string]int) error {
	for name, text := range texts {
		if n := utf8.RuneCountInString(text); n == 0 || n > most[name] || !utf8.ValidString(text) {
			return fmt.Errorf("%s has %d characters, want 1 to %d of UTF-8", name, n, most[name])
		}
	}
	return nil
}

// strictly decodes JSON without fields that nobody knows.
func strictly(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func readTelegram(r *http.Request, body []byte) (Message, error) {
	var sent struct {
		ChatID                any    `json:"chat_id"`
		Text                  string `json:"text"`
		ParseMode             string `json:"parse_mode"`
		DisableNotification   any    `json:"disable_notification"`
		DisableWebPagePreview any    `json:"disable_web_page_preview"`
		LinkPreviewOptions    any    `json:"link_preview_options"`
	}
	if err := strictly(body, &sent); err != nil {
		return Message{}, err
	}
	switch {
	case !strings.HasSuffix(r.URL.Path, "/sendMessage") || sent.ChatID == nil:
		return Message{}, fmt.Errorf("path %s, chat %v", r.URL.Path, sent.ChatID)
	case sent.ParseMode != "":
		// A name with half a mark-up makes Telegram refuse the message: can't parse entities.
		return Message{}, fmt.Errorf("parse_mode is %q, want plain text", sent.ParseMode)
	}
	title, text, _ := strings.Cut(sent.Text, "\n")
	return Message{Title: title, Text: text}, limits(map[string]string{"text": sent.Text}, map[string]int{"text": 4096})
}

func readDiscord(_ *http.Request, body []byte) (Message, error) {
	var sent struct {
		Content   string `json:"content"`
		Username  string `json:"username"`
		AvatarURL string `json:"avatar_url"`
		Embeds    []struct {
			Title       string `json:"title"`
			Description string `json:"description"`
			Color       int    `json:"color"`
		} `json:"embeds"`
	}
	if err := strictly(body, &sent); err != nil {
		return Message{}, err
	}
	if len(sent.Embeds) != 1 || len([]rune(sent.Content)) > 2000 {
		return Message{}, fmt.Errorf("%d embeds, content %q", len(sent.Embeds), sent.Content)
	}
	e := sent.Embeds[0]
	if all := utf8.RuneCountInString(e.Title + e.Description); all > 6000 {
		return Message{}, fmt.Errorf("embeds have %d characters, want at most 6000", all)
	}
	return Message{Title: e.Title, Text: e.Description},
		limits(map[string]string{"title": e.Title, "description": e.Description}, map[string]int{"title": 256, "description": 4096})
}

// slackMarkup is what Slack reads between < and >, and after &.
var slackMarkup = regexp.MustCompile(`<https?://[^\s|<>]+(\|[^<>|]+)?>|&(amp|lt|gt);`)

func readSlack(_ *http.Request, body []byte) (Message, error) {
	var sent struct {
		Channel     string
		Attachments []struct{ Title, Text, Fallback, Color string }
	}
	if err := json.Unmarshal(body, &sent); err != nil || len(sent.Attachments) != 1 {
		return Message{}, fmt.Errorf("%d attachments, %w", len(sent.Attachments), err)
	}
	a := sent.Attachments[0]
	for name, text := range map[string]string{"title": a.Title, "text": a.Text} {
		left := slackMarkup.ReplaceAllString(text, "")
		if strings.ContainsAny(left, "<>") || name == "text" && strings.Contains(left, "&") {
			return Message{}, fmt.Errorf("the %s has <, > or & that is not escaped: %s", name, left)
		}
	}
	if strings.Contains(a.Text, "```") {
		return Message{}, errors.New("the text has a block of code, which may swallow a link")
	}
	return Message{Title: a.Title, Text: a.Text}, limits(map[string]string{"title": a.Title, "fallback": a.Fallback, "text": a.Text},
		map[string]int{"title": 1024, "fallback": 1024, "text": 40_000})
}

var pushoverParameters = strings.Fields("token user title message url url_title priority retry expire sound html monospace device ttl")

func readPushover(r *http.Request, body []byte) (Message, error) {
	sent := r.URL.Query() // of an old Alertmanager
	if len(body) > 0 {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return Message{}, err
		}
		sent = form
	}
	for key := range sent {
		if !slices.Contains(pushoverParameters, key) {
			return Message{}, fmt.Errorf("unknown parameter %s", key)
		}
	}
	if _, err := url.ParseRequestURI(sent.Get("url")); err != nil {
		return Message{}, err
	}
	if priority := sent.Get("priority"); priority == "2" {
		retry, _ := strconv.Atoi(sent.Get("retry"))
		expire, _ := strconv.Atoi(sent.Get("expire"))
		if retry < 30 || expire < retry || expire > 10800 {
			return Message{}, fmt.Errorf("retry %d and expire %d of an emergency", retry, expire)
		}
	} else if !slices.Contains([]string{"-2", "-1", "0", "1"}, priority) {
		return Message{}, fmt.Errorf("priority %q", priority)
	}
	return Message{Title: sent.Get("title"), Text: sent.Get("message") + "\n" + sent.Get("url")},
		limits(map[string]string{
			"title":     sent.Get("title"),
			"message":   sent.Get("message"),
			"url":       sent.Get("url"),
			"url_title": sent.Get("url_title"),
		}, map[string]int{"title": 250, "message": 1024, "url": 512, "url_title": 100})
}

func readPagerDuty(_ *http.Request, body []byte) (Message, error) {
	var sent struct {
		RoutingKey  string `json:"routing_key"`
		EventAction string `json:"event_action"`
		DedupKey    string `json:"dedup_key"`
		ClientURL   string `json:"client_url"`
		Payload     struct {
			Summary, Source, Severity string
			Details                   map[string]any `json:"custom_details"`
		}
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return Message{}, err
	}
	p := sent.Payload
	switch {
	case len(body) > 512_000:
		return Message{}, fmt.Errorf("the event has %d bytes", len(body))
	case !slices.Contains([]string{"trigger", "resolve"}, sent.EventAction) || len(sent.DedupKey) > 255 || len(sent.RoutingKey) != 32:
		return Message{}, fmt.Errorf("action %q, keys %q and %q", sent.EventAction, sent.DedupKey, sent.RoutingKey)
	case !slices.Contains([]string{"critical", "error", "warning", "info"}, p.Severity) || p.Source == "":
		return Message{}, fmt.Errorf("severity %q, source %q", p.Severity, p.Source)
	}
	if strings.Contains(fmt.Sprint(p.Details), "removed because") {
		return Message{}, fmt.Errorf("alertmanager has removed the details: %v", p.Details)
	}
	if _, err := url.ParseRequestURI(sent.ClientURL); err != nil {
		return Message{}, err
	}
	return Message{Title: p.Summary, Text: fmt.Sprintln(sent.ClientURL, p.Details)},
		limits(map[string]string{"summary": p.Summary}, map[string]int{"summary": 1024})
}

// mailHeaders are those that Alertmanager sends.
var mailHeaders = strings.Fields("Subject To From Message-Id Date Content-Type Mime-Version References In-Reply-To")

func readMail(raw []byte) (Message, error) {
	for line := range bytes.Lines(raw) {
		if len(bytes.TrimRight(line, "\r\n")) > 998 {
			return Message{}, fmt.Errorf("a line has %d bytes, want at most 998: %.100s", len(line), line)
		}
	}
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return Message{}, err
	}
	for header := range m.Header {
		if !slices.Contains(mailHeaders, header) {
			return Message{}, fmt.Errorf("there is a header %s", header)
		}
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		return Message{}, err
	}
	if strings.ContainsAny(subject, "\r\n") {
		return Message{}, fmt.Errorf("the subject has several lines: %q", subject)
	}
	text, err := plainPart(m)
	return Message{"mail", subject, text}, err
}
