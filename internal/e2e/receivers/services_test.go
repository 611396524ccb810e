package receivers

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestStandInsRefuseWhatServicesRefuse has for each service a message that it takes, and changes of it that it does not.
func TestStandInsRefuseWhatServicesRefuse(t *testing.T) {
	type object = map[string]any
	embed := func(title, description string) []object {
		return []object{{"title": title, "description": description}}
	}
	attach := func(title, text string) []object { return []object{{"title": title, "fallback": title, "text": text}} }
	payload := func(summary, severity string) object {
		return object{"summary": summary, "source": "a", "severity": severity}
	}
	many := strings.Repeat("é", 5000)
	for _, c := range []struct {
		read    func(*http.Request, []byte) (Message, error)
		path    string
		good    object
		changes []object
	}{
		{
			read: readTelegram,
			path: "/bot1:X/sendMessage",
			good: object{"chat_id": "1", "text": "a\nb"},
			changes: []object{
				{"text": ""}, {"text": many}, {"text": "<b>", "parse_mode": "HTML"}, {"chat_id": nil}, {"unheard_of": 1},
			},
		},
		{
			read: readDiscord,
			good: object{"embeds": embed("a", "b")},
			changes: []object{
				{"embeds": embed(many[:600], "b")},
				{"embeds": embed("a", many)},
				{"embeds": embed("", "b")},
				{"embeds": nil},
				{"content": many},
			},
		},
		{
			read: readSlack,
			good: object{"attachments": attach("a", "<https://a.example.org/?b=1|c> &amp; &lt;")},
			changes: []object{
				{"attachments": attach("<!channel>", "b")},
				{"attachments": attach("a", "<!channel>")},
				{"attachments": attach("a", "b & c")},
				{"attachments": attach("a", "```")},
				{"attachments": attach(many, "b")},
				{"attachments": nil},
			},
		},
		{
			read: readPagerDuty,
			good: object{
				"routing_key": strings.Repeat("k", 32), "event_action": "trigger", "client_url": "https://a.example.org/",
				"payload": payload("a", "critical"),
			},
			changes: []object{
				{"payload": payload(many, "critical")},
				{"payload": payload("a", "page")},
				{"client_url": "a"},
				{"routing_key": ""},
				{"event_action": ""},
				{"rest": strings.Repeat("a", 512_000)},
			},
		},
	} {
		send := func(change object) error {
			message := object{}
			for _, part := range []object{c.good, change} {
				maps.Copy(message, part)
			}
			body, err := json.Marshal(message)
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.read(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://service"+c.path, nil), body)
			return err
		}
		if err := send(nil); err != nil {
			t.Errorf("%v is refused: %v", c.good, err)
		}
		for _, change := range c.changes {
			if send(change) == nil {
				t.Errorf("%.300v is taken", change)
			}
		}
	}
}

// TestPushoverRefusesWhatItsLimitsForbid does the same for a service without JSON.
func TestPushoverRefusesWhatItsLimitsForbid(t *testing.T) {
	send := func(change ...string) error {
		form := url.Values{
			"title": {"a"}, "message": {"b"}, "url": {"https://a.example.org/"}, "url_title": {"c"}, "priority": {"2"}, "retry": {"120"},
			"expire": {"7200"},
		}
		if len(change) == 2 {
			form.Set(change[0], change[1])
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://service/1/messages.json", nil)
		_, err := readPushover(r, []byte(form.Encode()))
		return err
	}
	if err := send(); err != nil {
		t.Error(err)
	}
	for _, change := range [][]string{
		{"title", strings.Repeat("a", 251)},
		{"title", ""},
		{"message", strings.Repeat("a", 1025)},
		{"url", "https://" + strings.Repeat("a", 512)},
		{"url", "a"},
		{"priority", "3"},
		{"retry", "29"},
		{"expire", "10801"},
		{"unheard_of", "1"},
	} {
		if send(change...) == nil {
			t.Errorf("%.300q is taken", change)
		}
	}
}

// TestMailRefusesWhatIsNoMail has headers that nobody meant to send, and lines that are too long.
func TestMailRefusesWhatIsNoMail(t *testing.T) {
	const good = "Subject: =?utf-8?q?=5BCRITICAL=5D_a?=\r\nContent-Type: multipart/alternative; boundary=x\r\n\r\n" +
		"--x\r\nContent-Type: text/plain\r\n\r\na\r\n--x\r\nContent-Type: text/html\r\n\r\n<html></html>\r\n--x--\r\n"
	m, err := readMail([]byte(good))
	if err != nil || m.Title != "[CRITICAL] a" || m.Text != "a" {
		t.Errorf("%+v, %v", m, err)
	}
	for name, bad := range map[string]string{
		"another header": "Bcc: victim@example.org\r\n" + good,
		"long lines":     strings.Replace(good, "a?=", strings.Repeat("a", 1000)+"?=", 1),
		"no text":        strings.Replace(good, "text/plain", "text/other", 1),
		"no HTML":        strings.Replace(good, "text/html", "text/other", 1),
		"two lines":      strings.Replace(good, "_a?=", "=0AA?=", 1),
	} {
		if _, err := readMail([]byte(bad)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
