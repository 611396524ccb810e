package service

import (
	"context"
	"regexp"
	"strings"
)

// topicName is the syntax of ntfy's topics.
var topicName = regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`)

// The priorities and tags of ntfy by level: https://docs.ntfy.sh/publish/.
var (
	ntfyPriorities = map[string]int{"min": 1, "low": 2, "default": 3, "high": 4, "max": 5, "urgent": 5}
	ntfyTags       = [4]string{"information_source", "warning", "rotating_light", "white_check_mark"}
)

// maxNtfy is how many bytes a message may have before ntfy makes a file of it, maxNtfyTitle how many characters of a title are useful.
const (
	maxNtfy      = 4096
	maxNtfyTitle = 250
)

// ntfyMessage is ntfy's message in JSON, which keeps UTF-8 whole, unlike headers.
type ntfyMessage struct {
	Topic    string   `json:"topic"`
	Title    string   `json:"title,omitempty"`
	Message  string   `json:"message"`
	Priority int      `json:"priority"`
	Tags     []string `json:"tags"`
	Click    string   `json:"click,omitempty"`
	Icon     string   `json:"icon,omitempty"`
	Email    string   `json:"email,omitempty"`
}

func openNtfy(a *address, _ Options) *plan {
	topic := strings.Trim(a.Path, "/")
	switch {
	case topic == "":
		a.fault("the topic is missing")
	case !topicName.MatchString(topic):
		a.fault("the topic is not up to 64 letters, digits, _ and -")
	}
	a.part(topic) // who knows the topic can read it
	if scheme := a.text("scheme"); scheme == "http" {
		a.query["disabletls"] = "yes"
	} else if scheme != "" && scheme != "https" {
		a.fault("scheme is %q, must be https or http", scheme)
	}
	server, tags := a.server(), a.list("tags")
	priorities := a.priority(1, 5, ntfyPriorities, [4]int{3, 4, 5, 3})
	icon, email := a.text("icon"), a.text("email")
	header := map[string]string{}
	if credentials := a.ntfyCredentials(); credentials != "" {
		header["Authorization"] = credentials
	}
	for _, key := range []string{"cache", "firebase"} {
		if !a.yes(key, true) {
			header[key] = "no"
		}
	}
	return &plan{
		host:   a.Hostname(),
		places: []string{""},
		deliver: func(ctx context.Context, c *client, d *delivery) (*receipt, error) {
			m := ntfyMessage{
				Topic:    topic,
				Title:    cut(d.Title, maxNtfyTitle, inCharacters),
				Message:  d.body(maxNtfy, inBytes, false),
				Priority: priorities[d.Level.index()],
				Tags:     append([]string{ntfyTags[d.Level.index()]}, tags...),
				Click:    d.Link,
				Icon:     icon,
				Email:    email,
			}
			if d.Text == "" {
				m.Title = "" // it is the message
			}
			return c.send(ctx, request{url: server + "/", header: header, body: m})
		},
	}
}

// ntfyCredentials returns the header of a user with a password, or of an access token.
func (a *address) ntfyCredentials() string {
	switch {
	case a.user == "" && a.password != "":
		return "Bearer " + a.password
	case a.password == "" && strings.HasPrefix(a.user, "tk_"):
		return "Bearer " + a.user
	case a.user != "" && a.password == "":
		a.fault("the user has no password")
	case a.user != "":
		return a.basic()
	}
	return ""
}
