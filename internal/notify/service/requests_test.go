package service

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

type object = map[string]any

const (
	title = "[CRITICAL] XMPP server is down"
	text  = "Users cannot log in.\nCause: *xmpp_status* <refused> & more."
	link  = "https://status.example.org/incidents#7_a"
)

// TestRequestsFollowPublicDocuments holds the request for one whole message against the document that is named beside it.
func TestRequestsFollowPublicDocuments(t *testing.T) {
	for _, tt := range []struct {
		name, url    string
		method, host string
		path, query  string
		header       map[string]string
		body         object
		answer       string
	}{
		{
			// https://docs.ntfy.sh/publish/#publish-as-json: POST to the root, with the topic in the body. Priorities are 1 to 5.
			name:   "ntfy",
			url:    "ntfy://phil:mypass@ntfy.sh/mytopic?tags=skull,chat&icon=https://example.org/i.png&cache=no",
			method: "POST",
			host:   "ntfy.sh",
			path:   "/",
			header: map[string]string{"Authorization": "Basic cGhpbDpteXBhc3M=", "Content-Type": "application/json", "Cache": "no"},
			body: object{
				"topic":    "mytopic",
				"title":    title,
				"message":  text,
				"priority": 5.0,
				"tags":     []any{"rotating_light", "skull", "chat"},
				"click":    link,
				"icon":     "https://example.org/i.png",
			},
			answer: "status 200",
		},
		{
			// https://docs.ntfy.sh/publish/#access-tokens
			name:   "ntfy with an access token",
			url:    "ntfy://:tk_AgQdq7mVBoFD37zQVN29RhuMzNIz2@ntfy.sh/mytopic?priority=low",
			method: "POST",
			host:   "ntfy.sh",
			path:   "/",
			header: map[string]string{"Authorization": "Bearer tk_AgQdq7mVBoFD37zQVN29RhuMzNIz2"},
			body: object{
				"topic":    "mytopic",
				"title":    title,
				"message":  text,
				"priority": 2.0,
				"tags":     []any{"rotating_light"},
				"click":    link,
			},
			answer: "status 200",
		},
		{
			// https://core.telegram.org/bots/api#sendmessage and #messageentity: offsets count UTF-16 units.
			name:   "telegram",
			url:    "telegram://123456:ABC-DEF@telegram?chats=-100123:7&notification=no",
			method: "POST",
			host:   "api.telegram.org",
			path:   "/bot123456:ABC-DEF/sendMessage",
			body: object{
				"chat_id":              "-100123",
				"message_thread_id":    7.0,
				"text":                 title + "\n" + text + "\n" + link,
				"entities":             []any{object{"type": "bold", "offset": 0.0, "length": 30.0}},
				"disable_notification": true,
				"link_preview_options": object{"is_disabled": true},
			},
			answer: "status 200, message 42",
		},
		{
			// The comment of genericBody.
			name:   "generic",
			url:    "generic://user:pass@hook.example.org/in/it?key=v&@xToken=abc&$team=ops&titlekey=subject&method=put",
			method: "PUT",
			host:   "hook.example.org",
			path:   "/in/it",
			query:  "key=v",
			header: map[string]string{"X-Token": "abc", "Idempotency-Key": "id1", "Authorization": "Basic dXNlcjpwYXNz"},
			body: object{
				"subject": title,
				"message": text,
				"level":   "critical",
				"link":    link,
				"thread":  "cause7",
				"id":      "id1",
				"team":    "ops",
			},
			answer: "status 200",
		},
		{
			// https://discord.com/developers/docs/resources/webhook#execute-webhook, and #allowed-mentions-object: an empty list of what
			// to parse mentions nobody. https://discord.com/developers/docs/reference#message-formatting for the escapes.
			name:   "discord",
			url:    "discord://tok-en_1@1234567890?username=chat&thread_id=99",
			method: "POST",
			host:   "discord.com",
			path:   "/api/webhooks/1234567890/tok-en_1",
			query:  "thread_id=99&wait=true",
			header: map[string]string{"Content-Type": "application/json"},
			body: object{
				"content":          `\[CRITICAL\] XMPP server is down`,
				"username":         "chat",
				"allowed_mentions": object{"parse": []any{}},
				"embeds": []any{object{
					"description": "Users cannot log in.\nCause: \\*xmpp\\_status\\* \\<refused\\> & more.\n" + link,
					"color":       float64(0xd60510),
				}},
			},
			answer: "status 200",
		},
		{
			// https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks/, and
			// https://docs.slack.dev/messaging/formatting-message-text/#escaping for the escapes.
			name:   "slack webhook",
			url:    "slack://hook:T12345678-B12345678-abcdefghijklmnopqrstuvwx@webhook",
			method: "POST",
			host:   "hooks.slack.com",
			path:   "/services/T12345678/B12345678/abcdefghijklmnopqrstuvwx",
			header: map[string]string{"Content-Type": "application/json"},
			body: object{
				"text":   title,
				"mrkdwn": false,
				"attachments": []any{object{
					"color":    "#d60510",
					"text":     "Users cannot log in.\nCause: *xmpp_status* &lt;refused&gt; &amp; more.\n" + link,
					"fallback": title,
				}},
			},
			answer: "status 200",
		},
		{
			// https://docs.slack.dev/reference/methods/chat.postMessage/
			name:   "slack API",
			url:    "slack://xoxb:123456789012-1234567890123-abcdefghijklmnopqrstuvwx@C123?botname=chat&icon=skull",
			method: "POST",
			host:   "slack.com",
			path:   "/api/chat.postMessage",
			header: map[string]string{"Authorization": "Bearer xoxb-123456789012-1234567890123-abcdefghijklmnopqrstuvwx"},
			body: object{
				"channel":    "C123",
				"text":       title,
				"mrkdwn":     false,
				"username":   "chat",
				"icon_emoji": ":skull:",
				"attachments": []any{object{
					"color":    "#d60510",
					"text":     "Users cannot log in.\nCause: *xmpp_status* &lt;refused&gt; &amp; more.\n" + link,
					"fallback": title,
				}},
			},
			answer: "status 200, ok",
		},
		{
			// https://spec.matrix.org/latest/client-server-api/#put_matrixclientv3roomsroomidsendeventtypetxnid and #mroommessage-msgtypes
			name:   "matrix",
			url:    "matrix://:syt_token@matrix.example.org/?rooms=!room:example.org",
			method: "PUT",
			host:   "matrix.example.org",
			path:   "/_matrix/client/v3/rooms/%21room:example.org/send/m.room.message/id1-0",
			header: map[string]string{"Authorization": "Bearer syt_token"},
			body: object{
				"msgtype": "m.text",
				"body":    title + "\n" + text + "\n" + link,
				"format":  "org.matrix.custom.html",
				"formatted_body": "<strong>" + title + "</strong><br>Users cannot log in.<br>" +
					"Cause: *xmpp_status* &lt;refused&gt; &amp; more.<br>" + link,
			},
			answer: "status 200",
		},
		{
			// https://gotify.net/api-docs#/message/createMessage and https://gotify.net/docs/msgextras
			name:   "gotify",
			url:    "gotify://gotify.example.org/sub/path/AtokenOfAnApp.1",
			method: "POST",
			host:   "gotify.example.org",
			path:   "/sub/path/message",
			header: map[string]string{"X-Gotify-Key": "AtokenOfAnApp.1"},
			body: object{
				"title":    title,
				"message":  text + "\n" + link,
				"priority": 9.0,
				"extras": object{
					"client::display":      object{"contentType": "text/plain"},
					"client::notification": object{"click": object{"url": link}},
				},
			},
			answer: "status 200",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStandIn(t)
			answer, err := open(t, tt.url, s.options).Send(soon(t), message())
			if err != nil {
				t.Fatal(err)
			}
			if answer != tt.answer {
				t.Errorf("answer %q, want %q", answer, tt.answer)
			}
			requests := s.requests()
			got := requests[len(requests)-1]
			if got.Method != tt.method || got.Host != tt.host || got.Path != tt.path || got.Query != tt.query {
				t.Errorf("%s %s %s ?%s, want %s %s %s ?%s",
					got.Method, got.Host, got.Path, got.Query, tt.method, tt.host, tt.path, tt.query)
			}
			for name, want := range tt.header {
				if value := got.Header.Get(name); value != want {
					t.Errorf("header %s is %q, want %q", name, value, want)
				}
			}
			if agent := got.Header.Get("User-Agent"); agent != "chatstack_exporter" {
				t.Errorf("the user agent is %q", agent)
			}
			if diff := cmp.Diff(tt.body, got.json(t)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

// https://pushover.net/api: a form; priority 1 is high.
func TestPushoverGetsAForm(t *testing.T) {
	s := newStandIn(t)
	r := open(t, "pushover://shoutrrr:azGDORePK8gMaC0QOYAMyEEuzJnyUi@uQiRzpo4DXghDmr9QzzfQu27cmVRsG/?devices=droid2,phone", s.options)
	if _, err := r.Send(soon(t), message()); err != nil {
		t.Fatal(err)
	}
	got := s.requests()[0]
	if got.Method != "POST" || got.Host != "api.pushover.net" || got.Path != "/1/messages.json" ||
		got.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		t.Errorf("%s %s%s with %v", got.Method, got.Host, got.Path, got.Header)
	}
	form, err := url.ParseQuery(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(url.Values{
		"token":    {"azGDORePK8gMaC0QOYAMyEEuzJnyUi"},
		"user":     {"uQiRzpo4DXghDmr9QzzfQu27cmVRsG"},
		"title":    {title},
		"message":  {text},
		"url":      {link},
		"priority": {"1"},
		"device":   {"droid2,phone"},
	}, form); diff != "" {
		t.Errorf("form (-want +got):\n%s", diff)
	}
}

// TestLongTextsAreCutAtALine sends more than each service takes. The documents are those of TestRequestsFollowPublicDocuments, and:
// ntfy makes a file of more than 4096 bytes (https://docs.ntfy.sh/publish/#limitations), Pushover counts characters
// (https://pushover.net/api#limits), a text object of Slack has up to 3000.
func TestLongTextsAreCutAtALine(t *testing.T) {
	long := message()
	long.Text = strings.Repeat("Ein Räuber hört 🚨 & <schläft>.\n", 5000)
	form := func(key string) func(*testing.T, *seen) string {
		return func(t *testing.T, s *seen) string {
			t.Helper()
			values, err := url.ParseQuery(s.Body)
			if err != nil {
				t.Fatal(err)
			}
			return values.Get(key)
		}
	}
	key := func(path ...string) func(*testing.T, *seen) string {
		return func(t *testing.T, s *seen) string {
			t.Helper()
			var at any = s.json(t)
			for _, k := range path {
				if list, ok := at.([]any); ok {
					at = list[0]
				}
				at = at.(object)[k] //nolint:forcetypeassert // the test fails
			}
			return at.(string) //nolint:forcetypeassert // as above
		}
	}
	for i, tt := range []struct {
		text  func(*testing.T, *seen) string
		limit int
		size  measure
	}{
		{key("message"), 4096, inBytes},
		{key("text"), 4096, inUTF16},
		{key("message"), 64 << 10, inBytes},
		{key("embeds", "description"), 2000, inUTF16},
		{key("attachments", "text"), 3000, inCharacters},
		{key("attachments", "text"), 3000, inCharacters},
		{key("body"), 16 << 10, inBytes},
		{key("body"), 16 << 10, inBytes},
		{key("message"), 16 << 10, inBytes},
		{form("message"), 1024, inCharacters},
	} {
		t.Run(services[i].name, func(t *testing.T) {
			s := newStandIn(t)
			if _, err := open(t, services[i].url, s.options).Send(soon(t), long); err != nil {
				t.Fatal(err)
			}
			requests := s.requests()
			got := tt.text(t, &requests[len(requests)-1])
			if size := tt.size(got); size > tt.limit || size < tt.limit*9/10 {
				t.Errorf("the text has %d, the limit is %d", size, tt.limit)
			}
			lines := strings.Split(strings.TrimSuffix(got, "\n"+link), "\n")
			if end := lines[len(lines)-1]; end != more {
				t.Errorf("it ends with %q", end)
			}
			if whole := lines[len(lines)-2]; !strings.HasSuffix(whole, ".") {
				t.Errorf("the last line is %q", whole)
			}
			if !utf8.ValidString(got) {
				t.Error("it is not valid UTF-8")
			}
		})
	}
}

func TestTitleAloneIsEnough(t *testing.T) {
	for _, tt := range services {
		s := newStandIn(t)
		if _, err := open(t, tt.url, s.options).Send(soon(t), &Message{Title: "All is well"}); err != nil {
			t.Fatal(err)
		}
		requests := s.requests()
		body := requests[len(requests)-1].Body
		if !strings.Contains(body, "All is well") && !strings.Contains(body, "All+is+well") {
			t.Errorf("%s: no title in %s", tt.name, body)
		}
	}
}

func TestCutKeepsLimitsAndCharacters(t *testing.T) {
	for _, tt := range []struct {
		text  string
		limit int
		size  measure
		want  string
	}{
		{
			"a\nb",
			3,
			inBytes,
			"a\nb",
		},
		{
			"one\ntwo\nthree",
			11,
			inBytes,
			"one\ntwo\n…",
		},
		{
			"one\ntwo\nthree",
			8,
			inBytes,
			"one\n…",
		},
		{
			"üüüü",
			7,
			inBytes,
			"üü…",
		},
		{
			"🚨🚨🚨",
			5,
			inUTF16,
			"🚨🚨…",
		},
		{
			"🚨🚨🚨",
			2,
			inCharacters,
			"🚨…",
		},
		{
			"abc",
			0,
			inBytes,
			"",
		},
	} {
		got := cut(tt.text, tt.limit, tt.size)
		if got != tt.want || tt.size(got) > tt.limit {
			t.Errorf("%q to %d: got %q, want %q", tt.text, tt.limit, got, tt.want)
		}
	}
}

func TestEscapesLeaveURLsAlone(t *testing.T) {
	const text = "*a* b_c\nhttps://h/a_b?c=*d* (_e_)"
	if got, want := escapeDiscord(text), "\\*a\\* b\\_c\nhttps://h/a_b?c=*d* (\\_e\\_)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnknownLevelIsInfo(t *testing.T) {
	for level, want := range map[Level]string{-1: "info", 4: "info", LevelWarning: "warning", LevelOver: "over"} {
		if got := level.String(); got != want {
			t.Errorf("level %d is %s, want %s", int(level), got, want)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("one\ntwo 🚨\n", 5)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if !utf8.ValidString(text) || limit < 0 {
			return
		}
		for _, size := range []measure{inBytes, inCharacters, inUTF16} {
			got := cut(text, limit, size)
			if size(got) > limit || !utf8.ValidString(got) {
				t.Errorf("%q to %d: got %q", text, limit, got)
			}
			d := delivery{Message: Message{Title: text, Text: text, Link: "https://example.org"}}
			if got := d.whole(limit, size); size(got) > limit {
				t.Errorf("%q whole to %d: got %q", text, limit, got)
			}
		}
	})
}
