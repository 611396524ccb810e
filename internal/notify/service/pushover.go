package service

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// The limits of https://pushover.net/api in characters.
const (
	maxPushover      = 1024
	maxPushoverTitle = 250
	maxPushoverLink  = 512
)

// pushoverVerdicts are refusals with status 400 that are about the account, not about the message.
var pushoverVerdicts = []verdict{
	{says(`token is invalid|token is required|user (key|identifier)|user is|account is`), failure.Unauthorized},
	{says(`device`), failure.NotFound},
}

func openPushover(a *address, _ Options) *plan {
	user, token := a.URL.Host, a.password
	a.secret(user, token)
	if user == "" {
		a.fault("the user's key after the @ is missing")
	}
	if token == "" {
		a.fault("the application's token is missing")
	}
	devices := strings.Join(a.list("devices", "device"), ",")
	// Priority 1 breaks through quiet hours; 2 would ask for a confirmation until somebody gives it.
	priorities := a.priority(-2, 1, nil, [4]int{0, 0, 1, 0})
	const host = "api.pushover.net"
	return &plan{
		host:   host,
		places: []string{""},
		deliver: func(ctx context.Context, c *client, d *delivery) (*receipt, error) {
			form := url.Values{
				"token":    {token},
				"user":     {user},
				"title":    {cut(d.Title, maxPushoverTitle, inCharacters)},
				"message":  {d.body(maxPushover, inCharacters, false)},
				"priority": {strconv.Itoa(priorities[d.Level.index()])},
			}
			if devices != "" {
				form.Set("device", devices)
			}
			if d.Link != "" && inCharacters(d.Link) <= maxPushoverLink {
				form.Set("url", d.Link)
			}
			return c.send(ctx, request{url: "https://" + host + "/1/messages.json", body: form})
		},
	}
}
