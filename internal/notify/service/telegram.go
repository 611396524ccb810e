package service

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// telegramToken and telegramChat are the syntax of a bot's token, and of a chat with an optional topic.
var (
	telegramToken = regexp.MustCompile(`^\d+:[\w-]+$`)
	telegramChat  = regexp.MustCompile(`^(@\w+|-?\d+)(:\d+)?$`)
)

// maxTelegram is how long a text may be: https://core.telegram.org/bots/api#sendmessage.
const maxTelegram = 4096

// telegramVerdicts are refusals with status 400 that are about the chat, not about the message.
var telegramVerdicts = []verdict{
	{says(`(chat|user|thread) not found|chat_id is empty|upgraded to a supergroup|(CHAT|PEER)_ID_INVALID`), failure.NotFound},
	{says(`not enough rights|have no rights|need administrator rights|CHAT_WRITE_FORBIDDEN|TOPIC_CLOSED`), failure.Forbidden},
}

// telegramMessage is the body of sendMessage. It has no parse mode, so that nothing in the text is markup.
type telegramMessage struct {
	ChatID   string           `json:"chat_id"`
	ThreadID int              `json:"message_thread_id,omitempty"`
	Text     string           `json:"text"`
	Entities []telegramEntity `json:"entities,omitempty"`
	Silent   bool             `json:"disable_notification,omitempty"`
	Preview  map[string]bool  `json:"link_preview_options"`
	Reply    *telegramReply   `json:"reply_parameters,omitempty"`
}

// telegramEntity is a part of the text in another style. Its length counts UTF-16 units.
type telegramEntity struct {
	Type   string `json:"type"`
	Offset int    `json:"offset"`
	Length int    `json:"length"`
}

type telegramReply struct {
	MessageID int  `json:"message_id"`
	Anyway    bool `json:"allow_sending_without_reply"`
}

func openTelegram(a *address, _ Options) *plan {
	token := a.user + ":" + a.password
	a.secret(token, a.user)
	if !telegramToken.MatchString(token) {
		a.fault("the token is not one of BotFather's, such as 123456:ABC-DEF")
	}
	if a.URL.Host != "telegram" {
		a.fault("the host is not telegram")
	}
	chats := a.list("chats", "channels")
	if len(chats) == 0 {
		a.fault("chats= is missing")
	}
	for _, chat := range chats {
		if !telegramChat.MatchString(chat) {
			a.fault("the chat %q is not @CHANNEL or a number, with :TOPIC after it if there is one", chat)
		}
	}
	silent, preview := !a.yes("notification", true), a.yes("preview", false)
	const host = "api.telegram.org"
	return &plan{
		host:    host,
		threads: true,
		places:  chats,
		noun:    "chats",
		deliver: func(ctx context.Context, c *client, d *delivery) (*receipt, error) {
			chat, topic, _ := strings.Cut(d.place, ":")
			m := telegramMessage{
				ChatID:  chat,
				Text:    d.whole(maxTelegram, inUTF16),
				Silent:  silent,
				Preview: map[string]bool{"is_disabled": !preview},
			}
			m.ThreadID, _ = strconv.Atoi(topic) // 0 is none
			title, _, _ := strings.Cut(m.Text, "\n")
			m.Entities = []telegramEntity{{"bold", 0, inUTF16(title)}}
			if root, err := strconv.Atoi(d.root); err == nil {
				m.Reply = &telegramReply{root, true}
			}
			r, err := c.call(ctx, request{url: "https://" + host + "/bot" + token + "/sendMessage", body: m})
			if err != nil {
				return nil, err
			}
			var sent struct {
				Result struct {
					ID int `json:"message_id"`
				} `json:"result"`
			}
			if r.read(&sent); sent.Result.ID == 0 {
				return &receipt{answer: r.String()}, nil
			}
			id := strconv.Itoa(sent.Result.ID)
			return &receipt{r.String() + ", message " + id, id}, nil
		},
	}
}
