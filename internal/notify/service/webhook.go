package service

import (
	"fmt"
	"net/url"
	"regexp"
)

// webhooks are the addresses that services give out for copying, with what becomes of each: an address that the library has a form
// for is turned into it; for others, hint says what to write.
var webhooks = []struct {
	form     *regexp.Regexp // of host and path
	becomes  string
	whatElse string
}{
	{
		form:    regexp.MustCompile(`^(?:\w+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/(\d+)/([\w-]+)/?$`),
		becomes: "discord://${2}@${1}",
	},
	{
		form:    regexp.MustCompile(`^hooks\.slack\.com/services/(\w+)/(\w+)/(\w+)/?$`),
		becomes: "slack://hook:${1}-${2}-${3}@webhook",
	},
	{
		form:    regexp.MustCompile(`^(.+\.webhook\.office\.com/webhookb2/.+)$`),
		becomes: "teams+https://${1}",
	},
	{
		form:    regexp.MustCompile(`^ntfy\.sh/([\w-]+)/?$`),
		becomes: "ntfy://ntfy.sh/${1}",
	},
	{
		form:     regexp.MustCompile(`^(?:.*\.)?(?:logic\.azure\.com|powerplatform\.com)(?::\d+)?/`),
		whatElse: "the library knows only Teams' older webhooks at webhook.office.com; for a workflow write generic+https://... as it is",
	},
	{
		form:     regexp.MustCompile(`^hooks\.slack\.com/`),
		whatElse: "for Slack write slack://hook:T…-B…-…@webhook, with the three parts of an incoming webhook",
	},
	{
		form:     regexp.MustCompile(`^api\.telegram\.org/`),
		whatElse: "for Telegram write telegram://TOKEN@telegram?chats=@CHANNEL",
	},
	{
		form:     regexp.MustCompile(`^api\.pushover\.net/`),
		whatElse: "for Pushover write pushover://shoutrrr:APITOKEN@USERKEY",
	},
	{
		form:     regexp.MustCompile(`^chat\.googleapis\.com/`),
		whatElse: "for Google Chat write googlechat:// instead of https://",
	},
	{
		form:     regexp.MustCompile(`^[^/]+/hooks/\w+/\w+/?$`),
		whatElse: "for Rocket.Chat write rocketchat://HOST/TOKENA/TOKENB",
	},
	{
		form:     regexp.MustCompile(`^[^/]+/hooks/\w+/?$`),
		whatElse: "for Mattermost write mattermost://HOST/TOKEN",
	},
	{
		form:     regexp.MustCompile(`^[^/]+/[\w-]{1,64}/?$`),
		whatElse: "for ntfy write ntfy://HOST/TOPIC",
	},
	{
		form:     regexp.MustCompile(``),
		whatElse: "begin with the service's name, such as ntfy://, telegram:// or discord://",
	},
}

// fromWebhook turns an address that a service gives out into the library's form.
func fromWebhook(u *url.URL) (*url.URL, error) {
	for _, w := range webhooks {
		found := w.form.FindStringSubmatchIndex(u.Host + u.EscapedPath())
		switch {
		case found == nil:
			continue
		case w.becomes == "" || u.Scheme != "https":
			what := w.whatElse
			if w.becomes != "" {
				what = "this service's address begins with https://"
			}
			return nil, fmt.Errorf("the URL begins with %s://, which does not say the service: %s; for a webhook of your own write "+
				"generic+%s://HOST/PATH", u.Scheme, what, u.Scheme)
		}
		become := string(w.form.ExpandString(nil, w.becomes, u.Host+u.EscapedPath(), found))
		if u.RawQuery != "" {
			become += "?" + u.RawQuery
		}
		turned, err := url.Parse(become)
		if err != nil {
			return nil, fmt.Errorf("the URL is malformed: %s", explainURL(err))
		}
		return turned, nil
	}
	return u, nil
}
