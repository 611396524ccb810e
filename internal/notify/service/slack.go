package service

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/slack"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// maxSlack is how many characters a text may have: https://docs.slack.dev/reference/block-kit/composition-objects/text-object/. A
// message may have more, but Slack folds it.
const maxSlack = 3000

// slackVerdicts are the words of https://docs.slack.dev/reference/methods/chat.postMessage/ and of incoming webhooks.
var slackVerdicts = []verdict{
	{says(`^(invalid_auth|not_authed|account_inactive|token_(revoked|expired)|invalid_token|no_service|no_team)`), failure.Unauthorized},
	{says(`^(channel_not_found|user_not_found|channel_is_archived|is_archived|messages_tab_disabled)`), failure.NotFound},
	{says(`^(not_in_channel|missing_scope|restricted_action|access_denied|no_permission|action_prohibited)`), failure.Forbidden},
	{says(`^(ratelimited|rate_limited|message_limit_exceeded)`), failure.Throttled},
	{says(`^(internal_error|fatal_error|service_unavailable|request_timeout|rollup_error)`), failure.HTTPStatus},
}

// slackFinal are words about the message itself.
var slackFinal = says(`^(msg_too_long|no_text|too_many_attachments|invalid_(arguments|attachments|blocks\w*|array_arg|form_data|json))`)

// slackEmoji matches an icon that is an emoji.
var slackEmoji = regexp.MustCompile(`^:?([\w+-]+):?$`)

// slackEscapes are the characters that Slack reads in any text.
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

type slackMessage struct {
	Channel     string            `json:"channel,omitempty"`
	Text        string            `json:"text"`
	Markup      bool              `json:"mrkdwn"`
	Thread      string            `json:"thread_ts,omitempty"`
	Username    string            `json:"username,omitempty"`
	IconEmoji   string            `json:"icon_emoji,omitempty"`
	IconURL     string            `json:"icon_url,omitempty"`
	Attachments []slackAttachment `json:"attachments,omitempty"`
}

// slackAttachment is a text with a colour. Without mrkdwn_in it has no markup.
type slackAttachment struct {
	Colour   string `json:"color"`
	Text     string `json:"text"`
	Fallback string `json:"fallback"`
}

func openSlack(a *address, _ Options) *plan {
	settings := &slack.Config{}
	bare := *a.URL
	bare.RawQuery = ""
	if err := settings.SetURL(&bare); err != nil {
		a.fault("the token has not Slack's three parts")
		return nil
	}
	token := &settings.Token
	a.secret(token.WebhookURL(), token.Authorization(), token.String())
	a.secret(strings.FieldsFunc(token.String(), func(r rune) bool { return strings.ContainsRune("-:", r) })...)
	a.part(a.parts()...)
	form := slackMessage{Username: cmp.Or(a.text("botname", "username"), settings.BotName), Thread: a.text("thread_ts")}
	if icon := a.text("icon", "icon_emoji", "icon_url"); slackEmoji.MatchString(icon) {
		form.IconEmoji = slackEmoji.ReplaceAllString(icon, ":$1:")
	} else {
		form.IconURL = icon
	}
	colour := a.text("color")
	api := request{url: token.WebhookURL()}
	host := "hooks.slack.com"
	if token.IsAPIToken() {
		host, form.Channel = "slack.com", settings.Channel
		api = request{url: "https://slack.com/api/chat.postMessage", header: map[string]string{"Authorization": token.Authorization()}}
	}
	return &plan{
		host:    host,
		threads: token.IsAPIToken(),
		places:  []string{""},
		deliver: func(ctx context.Context, c *client, d *delivery) (*receipt, error) {
			m := form
			m.fill(d, colour)
			q := api
			q.body = m
			r, err := c.call(ctx, q)
			if err != nil {
				return nil, err
			}
			if !token.IsAPIToken() {
				return &receipt{answer: r.String()}, nil
			}
			return slackReceipt(c, r)
		},
	}
}

// fill writes a message. The title is what a telephone shows.
func (m *slackMessage) fill(d *delivery, colour string) {
	title := slackEscapes.Replace(d.Title)
	m.Text = cut(title, maxSlack, inCharacters)
	m.Thread = cmp.Or(m.Thread, d.root)
	if d.Text == "" && d.Link == "" {
		return
	}
	escaped := *d
	escaped.Title, escaped.Text, escaped.Link = "", slackEscapes.Replace(d.Text), slackEscapes.Replace(d.Link)
	m.Attachments = []slackAttachment{{
		Colour:   cmp.Or(colour, fmt.Sprintf("#%06x", discordColours[d.Level.index()])),
		Text:     escaped.whole(maxSlack, inCharacters),
		Fallback: m.Text,
	}}
}

// slackReceipt reads the answer of the API, which is a refusal if it does not say ok.
func slackReceipt(c *client, r *reply) (*receipt, error) {
	var said struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
		Time  string `json:"ts"`
	}
	if err := r.decode(&said); err != nil {
		return nil, fmt.Errorf("slack.com: %w", err)
	}
	if !said.OK {
		status := r.status
		if slackFinal.MatchString(said.Error) {
			status = http.StatusBadRequest
		}
		return nil, c.judge(status, "slack.com: "+said.Error, said.Error)
	}
	return &receipt{r.String() + ", ok", said.Time}, nil
}
