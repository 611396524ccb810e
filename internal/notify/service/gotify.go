package service

import (
	"context"
	"strings"
)

// maxGotify is how many bytes a message has at most. Gotify sets no limit, its clients do.
const maxGotify = 16 << 10

// gotifyMessage is the body of https://gotify.net/api-docs#/message/createMessage.
type gotifyMessage struct {
	Title    string         `json:"title"`
	Message  string         `json:"message"`
	Priority int            `json:"priority"`
	Extras   map[string]any `json:"extras"`
}

func openGotify(a *address, _ Options) *plan {
	server, parts := a.server(), a.parts()
	if len(parts) == 0 {
		a.fault("the token is missing")
		return nil
	}
	token, path := parts[len(parts)-1], ""
	if len(parts) > 1 {
		path = "/" + strings.Join(parts[:len(parts)-1], "/")
	}
	a.secret(token)
	a.yes("useheader", true) // the token is always in a header, where no log of a proxy shows it
	// Clients of Android make a sound from 4 on, and stay on the screen from 8 on.
	priorities := a.priority(-2, 10, nil, [4]int{4, 6, 9, 5})
	return &plan{
		host:   a.Hostname(),
		places: []string{""},
		deliver: func(ctx context.Context, c *client, d *delivery) (*receipt, error) {
			m := gotifyMessage{
				Title:    d.Title,
				Message:  d.body(maxGotify, inBytes, true),
				Priority: priorities[d.Level.index()],
				Extras:   map[string]any{"client::display": map[string]string{"contentType": "text/plain"}},
			}
			if d.Link != "" {
				m.Extras["client::notification"] = map[string]any{"click": map[string]string{"url": d.Link}}
			}
			return c.send(ctx, request{url: server + path + "/message", header: map[string]string{"X-Gotify-Key": token}, body: m})
		},
	}
}
