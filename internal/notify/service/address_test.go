package service

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secretWords are in all the wrong URLs of these tests, and may be in no error.
var secretWords = []string{"s3same", "s3sam-open", "S3CRETTOKEN"}

func TestMistakesInURLsAreExplained(t *testing.T) {
	const slackToken = "T12345678-B12345678-abcdefghijklmnopS3CRETTOKEN" //nolint:gosec // nobody's
	for _, tt := range []struct{ url, want string }{
		{"", "empty"},
		{"\n", "empty"},
		{"ntfy.sh/s3sam-open", "no scheme"},
		{"tgram://123:S3CRETTOKEN/1", `service "tgram" is not known: use one of ntfy, telegram, generic, smtp`},
		{"logger://S3CRETTOKEN", `"logger" is not known`},
		{"ntfy://ntfy.sh/to pic", "a space"},
		{"ntfy://ntfy.sh/topic\n\n", "a line break"},
		{"ntfy://ntfy.sh/topic\nS3CRETTOKEN", "a line break"},
		{"ntfy://ntfy.sh:port/topic", "port is not a number"},
		{"ntfy://ntfy.sh:70000/topic", "port is not from 1 to 65535"},
		{"smtp://me:s3same/pass@mail.example.org:587/?from=a@example.org&to=b", "not a number (in a user or password, write /"},
		{"smtp://me:s3same#pass@mail.example.org:587/", "contains a #: write it as %23"},
		{"ntfy://ntfy.sh/topic#S3CRETTOKEN", "contains a #"},
		{"ntfy://me:s3same%zz@ntfy.sh/topic", "% without two hexadecimal digits"},
		{"ntfy://me:s3same[@ntfy.sh/topic", "a character that must be escaped"},
		{"ntfy://ntfy.sh/topic?tags=%zz", "the part after the ? is malformed"},

		{"ntfy://ntfy.sh", "the topic is missing; the form is ntfy://"},
		{"ntfy://s3sam-open", "the topic is missing"},
		{"ntfy:///topic", "the host is missing"},
		{"ntfy://ntfy.sh/a/b", "the topic is not up to 64 letters"},
		{"ntfy://me@ntfy.sh/topic", "the user has no password"},
		{"ntfy://ntfy.sh/topic?priority=6", `priority is "6", must be from 1 to 5`},
		{"ntfy://ntfy.sh/topic?cache=maybe", `cache is "maybe", must be yes or no`},
		{"ntfy://ntfy.sh/topic?scheme=ftp", `scheme is "ftp"`},
		{"ntfy://ntfy.sh/topic?pirority=5", `"pirority" does not apply: remove it; keys that apply: scheme, disabletls, tags, priority`},
		{"ntfy://ntfy.sh/topic?tk_S3CRETTOKEN", `the key "..." does not apply`},
		{"ntfy://ntfy.sh/topic?disabletlsverification=yes", "set ca_file"},

		{"telegram://123456:S3CRETTOKEN@telegram", "chats= is missing"},
		{"telegram://123456:S3CRETTOKEN@telegram?chats=", "chats= is missing"},
		{"telegram://123456:S3CRETTOKEN@telegram?chats=ops", `the chat "ops" is not @CHANNEL or a number`},
		{"telegram://S3CRETTOKEN@telegram?chats=@ops", "the token is not one of BotFather's"},
		{"telegram://123456:S3CRETTOKEN@example.org?chats=@ops", "the host is not telegram"},
		{"telegram://123456:S3CRETTOKEN@telegram?chats=@ops&parsemode=html", `the key "parsemode" does not apply`},

		{"generic:///path", "the host is missing"},
		{"generic+ftp://hook.example.org/", "not generic, generic+https or generic+http"},
		{"generic://hook.example.org/?template=mine", `template is "mine", must be json or missing`},
		{"generic://hook.example.org/?method=GET", `method is "GET", must be one of POST, PUT, PATCH`},
		{"generic://hook.example.org/?@X-A=a%0AS3CRETTOKEN", "the header of a key that begins with @ is malformed"},

		{"smtp://mail.example.org/?to=a@example.org", "from= is missing"},
		{"smtp://mail.example.org/?from=a@example.org", "to= is missing"},
		{"smtp://mail.example.org/?from=a@example.org&to=b", `to= has "b", which is not an address`},
		{"smtp://me@mail.example.org/?from=a@example.org&to=b@example.org", "the user has no password"},
		{"smtp://mail.example.org/?from=a@example.org&to=b@example.org&encryption=ssl", `encryption is "ssl", must be auto`},
		{"smtp://mail.example.org/?from=a@example.org&to=b@example.org&auth=oauth2", `auth is "oauth2", must be plain`},
		{
			"smtp://me:s3sam-open@mail.example.org/?from=a@example.org&to=b@example.org&encryption=none",
			"the login would be sent in plain text",
		},

		{"discord://S3CRETTOKEN@webhook", "the id of the webhook after the @ is not a number"},
		{"discord://123", "the token of the webhook before the @ is missing"},
		{"discord://S3CRETTOKEN@123/raw", "a path does not apply"},
		{"slack://hook:S3CRETTOKEN@webhook", "the token has not Slack's three parts"},
		{"slack://hook:" + slackToken + "@webhook?colour=red", `the key "colour" does not apply`},
		{"matrix://bot:s3sam-open@matrix.example.org", "rooms= is missing"},
		{"matrix://bot:s3sam-open@matrix.example.org/?rooms=#ops", "contains a #: write it as %23"},
		{"matrix://matrix.example.org/?rooms=!a:b", "the password or access token is missing"},
		{"gotify://gotify.example.org", "the token is missing"},
		{"gotify://gotify.example.org/S3CRETTOKEN?priority=x", `priority is "x", must be from -2 to 10`},
		{"pushover://shoutrrr@userkey", "the application's token is missing"},
		{"pushover://shoutrrr:S3CRETTOKEN@", "the user's key after the @ is missing"},
		{"pushover://shoutrrr:S3CRETTOKEN@userkey?priority=2", "must be from -2 to 1"},

		{"teams://s3sam-open@S3CRETTOKEN/a/b/c", "teams: "},
		{"mattermost://mattermost.example.org", "mattermost: "},
		{"zulip://zulip.example.org/?stream=a", "zulip: "},
		{"rocketchat://chat.example.org/S3CRETTOKEN", "rocketchat: "},
		{"opsgenie://api.opsgenie.com", "opsgenie: "},
		{"mattermost+https://S3CRETTOKEN.example.org/x", "mattermost: "},

		{"https://hooks.example.org/in/S3CRETTOKEN?x=y", "for a webhook of your own write generic+https://HOST/PATH"},
		{"http://discord.com/api/webhooks/123/S3CRETTOKEN", "begin with the service's name"},
		{"https://hooks.slack.com/workflows/T1/S3CRETTOKEN", "for Slack write slack://hook:"},
		{"https://api.telegram.org/bot123:S3CRETTOKEN/sendMessage", "for Telegram write telegram://TOKEN@telegram?chats="},
		{"https://mattermost.example.org/hooks/S3CRETTOKEN", "for Mattermost write mattermost://HOST/TOKEN"},
		{"https://chat.example.org/hooks/s3same/S3CRETTOKEN", "for Rocket.Chat write rocketchat://HOST/TOKENA/TOKENB"},
		{"https://ntfy.example.org/S3CRETTOKEN", "for ntfy write ntfy://HOST/TOPIC"},
		{"https://prod-1.westeurope.logic.azure.com:443/workflows/S3CRETTOKEN", "for a webhook of your own write generic+https://"},
		{"https://acme.webhook.office.com/webhookb2/S3CRETTOKEN", "teams: "},
	} {
		r, err := Parse(tt.url, Options{})
		if err == nil {
			t.Errorf("%s: no error, but %v", tt.url, r)
			continue
		}
		if got := err.Error(); !strings.Contains(got, tt.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q, want %q", tt.url, got, tt.want)
		}
		wantNoSecret(t, err.Error(), secretWords)
	}
}

// TestGivenAddressesBecomeReceivers pastes what services give out for copying.
func TestGivenAddressesBecomeReceivers(t *testing.T) {
	const group, owner = "11111111-4444-4444-8444-cccccccccccc", "33333333-0123-4444-8444-123456789012"
	for _, tt := range []struct{ url, service, host string }{
		{"https://discord.com/api/webhooks/123456/To-ken_1", "discord", "discord.com"},
		{"https://canary.discord.com/api/webhooks/123456/To-ken_1?thread_id=7", "discord", "discord.com"},
		{"https://discordapp.com/api/v10/webhooks/123456/To-ken_1", "discord", "discord.com"},
		{"https://hooks.slack.com/services/T12345678/B12345678/abcdefghijklmnopqrstuvwx", "slack", "hooks.slack.com"},
		{"https://ntfy.sh/mytopic", "ntfy", "ntfy.sh"},
		{
			"https://acme.webhook.office.com/webhookb2/" + group + "@" + group + "/IncomingWebhook/" + strings.Repeat("a", 32) +
				"/" + owner + "/V2ESyij_gAljSoUQHvZoZYzlpAoAXExyOl26dlf1xHEx05",
			"teams",
			"acme.webhook.office.com",
		},
	} {
		r, err := Parse(tt.url, Options{})
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		if r.Service() != tt.service || r.Host() != tt.host {
			t.Errorf("%s: got %s at %s, want %s at %s", tt.url, r.Service(), r.Host(), tt.service, tt.host)
		}
	}
}

// receivers are a URL of each kind at least.
var receivers = []struct {
	url, service, host string
	threads            bool
}{
	{
		"ntfy://ntfy.example.org:8443/topic\n",
		"ntfy",
		"ntfy.example.org",
		false,
	},
	{
		"ntfy://ntfy.example.org/topic\r\n",
		"ntfy",
		"ntfy.example.org",
		false,
	},
	{
		"ntfy://tk_abcdef@[2001:db8::1]/topic",
		"ntfy",
		"2001:db8::1",
		false,
	},
	{
		"telegram://123:abc@telegram?channels=@a,-1001,7:3",
		"telegram",
		"api.telegram.org",
		true,
	},
	{
		"generic://hook.example.org",
		"generic",
		"hook.example.org",
		false,
	},
	{
		"generic+https://hook.example.org/?template=JSON",
		"generic",
		"hook.example.org",
		false,
	},
	{
		"smtp://mail.example.org/?from=a@example.org&to=b@example.org,c+d@example.org",
		"smtp",
		"mail.example.org",
		true,
	},
	{
		"discord://token@123",
		"discord",
		"discord.com",
		false,
	},
	{
		"slack://T12345678/B12345678/abcdefghijklmnopqrstuvwx",
		"slack",
		"hooks.slack.com",
		false,
	},
	{
		"slack://xoxb:123456789012-1234567890123-abcdefghijklmnopqrstuvwx@C1",
		"slack",
		"slack.com",
		true,
	},
	{
		"matrix://:token@example.org:8448/?room=ops",
		"matrix",
		"example.org",
		true,
	},
	{
		"gotify://gotify.example.org:443/a/token",
		"gotify",
		"gotify.example.org",
		false,
	},
	{
		"pushover://shoutrrr:token@userkey/?devices=a",
		"pushover",
		"api.pushover.net",
		false,
	},
	{
		"mattermost://bot@mattermost.example.org:8065/token",
		"mattermost",
		"mattermost.example.org",
		false,
	},
	{
		"rocketchat://chat.example.org/tokenA/tokenB/@me",
		"rocketchat",
		"chat.example.org",
		false,
	},
	{
		"zulip://bot%40example.org:key@zulip.example.org/?stream=a&topic=b",
		"zulip",
		"zulip.example.org",
		false,
	},
	{
		"signal://signal.example.org:8080/+4912345678/+4987654321",
		"signal",
		"signal.example.org",
		false,
	},
	{
		"opsgenie://api.eu.opsgenie.com/b7d35862-c8de-4fbc-8bae-1ac3e9a0ee85",
		"opsgenie",
		"api.eu.opsgenie.com",
		false,
	},
	{
		"pushbullet://o.abcdefghijklmnopqrstuvwxyz012345",
		"pushbullet",
		"api.pushbullet.com",
		false,
	},
	{
		"googlechat://chat.googleapis.com/v1/spaces/FOO/messages?key=bar&token=baz",
		"googlechat",
		"chat.googleapis.com",
		false,
	},
	{
		"ifttt://key123/?events=event1",
		"ifttt",
		"maker.ifttt.com",
		false,
	},
	{
		"join://shoutrrr:apikey@join/?devices=a",
		"join",
		"joinjoaomgcd.appspot.com",
		false,
	},
	{
		"wecom://693axxx6-7aoc-4bc4-97a0-0ec2sifa5aaa",
		"wecom",
		"qyapi.weixin.qq.com",
		false,
	},
	{
		"bark://:devicekey@bark.example.org",
		"bark",
		"bark.example.org",
		false,
	},
	{
		"lark://open.feishu.cn/token",
		"lark",
		"open.feishu.cn",
		false,
	},
	{
		"pagerduty:///eb243592faa24ba2a5511afdf565c889",
		"pagerduty",
		"events.pagerduty.com",
		false,
	},
	{
		"teams://11111111-4444-4444-8444-cccccccccccc@22222222-4444-4444-8444-cccccccccccc/33333333012222222222333333333344/" +
			"44444444-4444-4444-8444-cccccccccccc/V2ESyij_gAljSoUQHvZoZYzlpAoAXExyOl26dlf1xHEx05?host=acme.webhook.office.com",
		"teams",
		"acme.webhook.office.com",
		false,
	},
	{
		"notifiarr://apikey?channel=123456789012345678",
		"notifiarr",
		"notifiarr.com",
		false,
	},
}

func TestReceiversAreWhatTheirURLsSay(t *testing.T) {
	for _, tt := range receivers {
		r, err := Parse(tt.url, Options{})
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		if r.Service() != tt.service || r.Host() != tt.host || r.Threads() != tt.threads {
			t.Errorf("%s: got %s at %s, threads %t", tt.url, r.Service(), r.Host(), r.Threads())
		}
	}
}

func TestEveryKindIsTried(t *testing.T) {
	tried := map[string]bool{}
	for _, r := range receivers {
		tried[r.service] = true
	}
	for _, k := range kinds {
		if !tried[k.scheme] {
			t.Errorf("no URL of %s is tried", k.scheme)
		}
		if !strings.HasPrefix(k.form, k.scheme+"://") {
			t.Errorf("the form of %s is %s", k.scheme, k.form)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		url     string
		options Options
		want    string
	}{
		{"ntfy://ntfy.sh/topic", Options{CAFile: empty + "no"}, "read ca_file"},
		{"ntfy://ntfy.sh/topic", Options{CAFile: empty}, "contains no PEM certificate"},
		{"ntfy://ntfy.sh/topic", Options{ProxyURL: "socks5://me:s3sam-open@proxy:1"}, "proxy_url is not a URL of an HTTP proxy"},
		{"smtp://mail.example.org/?from=a@b.org&to=c@d.org", Options{ProxyURL: "http://proxy:1"}, "proxy_url does not apply to mail"},
		{"mattermost://mattermost.example.org/token", Options{ProxyURL: "http://proxy:1"}, "ca_file and proxy_url do not apply"},
	} {
		_, err := Parse(tt.url, tt.options)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s with %+v: got %v, want %s", tt.url, tt.options, err, tt.want)
			continue
		}
		wantNoSecret(t, err.Error(), secretWords)
	}
}

func TestReceiversDoNotPrintTheirURL(t *testing.T) {
	for _, tt := range services {
		r := open(t, tt.url, Options{})
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			wantNoSecret(t, fmt.Sprintf(format, r), tt.secrets)
			wantNoSecret(t, fmt.Sprintf(format, struct{ r Receiver }{r}), tt.secrets)
		}
	}
}
