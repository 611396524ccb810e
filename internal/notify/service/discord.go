package service

import (
	"context"
	"net/url"
	"regexp"
)

// discordID and discordToken are the syntax of a webhook's parts.
var (
	discordID    = regexp.MustCompile(`^\d+$`)
	discordToken = regexp.MustCompile(`^[\w-]+$`)
)

// maxDiscord is how many characters a message may have, see https://discord.com/developers/docs/resources/webhook#execute-webhook. An
// embed may have more, but nobody reads more on a telephone.
const maxDiscord = 2000

// discordColours are the colours of embeds by level.
var discordColours = [4]int{0x2488ff, 0xffc441, 0xd60510, 0x2ea043}

// discordMarkup matches the characters of Discord's Markdown, and URLs, which backslashes would break.
var discordMarkup = regexp.MustCompile("https?://\\S+|[\\\\*_~`|>#\\[\\]<]")

// escapeDiscord writes a backslash before each character of Markdown.
func escapeDiscord(text string) string {
	return discordMarkup.ReplaceAllStringFunc(text, func(found string) string {
		if len(found) > 1 {
			return found
		}
		return `\` + found
	})
}

type discordMessage struct {
	Content  string          `json:"content"`
	Username string          `json:"username,omitempty"`
	Avatar   string          `json:"avatar_url,omitempty"`
	Embeds   []discordEmbed  `json:"embeds,omitempty"`
	Mentions discordMentions `json:"allowed_mentions"`
}

type discordEmbed struct {
	Description string `json:"description"`
	Colour      int    `json:"color"`
}

// discordMentions names who may be mentioned: nobody.
type discordMentions struct {
	Parse []string `json:"parse"`
}

func openDiscord(a *address, _ Options) *plan {
	id, token := a.URL.Host, a.user
	a.secret(token)
	if !discordID.MatchString(id) {
		a.fault("the id of the webhook after the @ is not a number")
	}
	if !discordToken.MatchString(token) || a.password != "" {
		a.fault("the token of the webhook before the @ is missing or has other characters than letters, digits, _ and -")
	}
	if len(a.parts()) > 0 {
		a.fault("a path does not apply")
	}
	username, avatar := a.text("username"), a.text("avatar", "avatarurl")
	query := url.Values{"wait": {"true"}} // the answer then comes after the message
	if thread := a.text("thread_id"); thread != "" {
		query.Set("thread_id", thread)
	}
	const host = "discord.com"
	return &plan{
		host:   host,
		places: []string{""},
		deliver: func(ctx context.Context, c *client, d *delivery) (*receipt, error) {
			m := discordMessage{
				Content:  cut(escapeDiscord(d.Title), maxDiscord, inUTF16),
				Username: username,
				Avatar:   avatar,
				Mentions: discordMentions{[]string{}},
			}
			if d.Text != "" || d.Link != "" {
				escaped := *d
				escaped.Title, escaped.Text = "", escapeDiscord(d.Text)
				m.Embeds = []discordEmbed{{escaped.whole(maxDiscord, inUTF16), discordColours[d.Level.index()]}}
			}
			return c.send(ctx, request{url: "https://" + host + "/api/webhooks/" + id + "/" + token + "?" + query.Encode(), body: m})
		},
	}
}
