package service

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
)

// given are addresses, without https://, that services give out for copying. They can be turned into the library's form.
var given = []struct {
	form    *regexp.Regexp
	becomes string
}{
	{says(`^(?:\w+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/(\d+)/([\w-]+)/?$`), "discord://${2}@${1}"},
	{says(`^hooks\.slack\.com/services/(\w+)/(\w+)/(\w+)/?$`), "slack://hook:${1}-${2}-${3}@webhook"},
	{says(`^(.+\.webhook\.office\.com/webhookb2/.+)$`), "teams+https://${1}"},
	{says(`^ntfy\.sh/([\w-]+)/?$`), "ntfy://ntfy.sh/${1}"},
}

// alike are addresses that look like an address of a service, with what to write instead.
var alike = []struct {
	form *regexp.Regexp
	mend string
}{
	{says(`^(?:.*\.)?(?:logic\.azure|powerplatform)\.com(?::\d+)?/`), "the library knows only Teams' older webhooks at webhook.office.com"},
	{says(`^hooks\.slack\.com/`), "for Slack write slack://hook:T…-B…-…@webhook, with the three parts of an incoming webhook"},
	{says(`^api\.telegram\.org/`), "for Telegram write telegram://TOKEN@telegram?chats=@CHANNEL"},
	{says(`^api\.pushover\.net/`), "for Pushover write pushover://shoutrrr:APITOKEN@USERKEY"},
	{says(`^chat\.googleapis\.com/`), "for Google Chat write googlechat:// instead of https://"},
	{says(`^[^/]+/hooks/\w+/\w+/?$`), "for Rocket.Chat write rocketchat://HOST/TOKENA/TOKENB"},
	{says(`^[^/]+/hooks/\w+/?$`), "for Mattermost write mattermost://HOST/TOKEN"},
	{says(`^[^/]+/[\w-]{1,64}/?$`), "for ntfy write ntfy://HOST/TOPIC"},
}

// fromWebhook turns an address that a service gives out into the library's form, or says what that is.
func fromWebhook(u *url.URL) (*url.URL, error) {
	place := u.Host + u.EscapedPath()
	for _, g := range given {
		found := g.form.FindStringSubmatchIndex(place)
		if found == nil || u.Scheme != "https" {
			continue
		}
		become := string(g.form.ExpandString(nil, g.becomes, place, found))
		if u.RawQuery != "" {
			become += "?" + u.RawQuery
		}
		turned, err := url.Parse(become)
		if err != nil {
			return nil, errors.New(explainURL(err))
		}
		return turned, nil
	}
	mend := "begin with the service's name, such as ntfy://, telegram:// or discord://"
	for _, a := range slices.Backward(alike) {
		if a.form.MatchString(place) {
			mend = a.mend
		}
	}
	return nil, fmt.Errorf("the URL begins with %s://, which does not say the service: %s; for a webhook of your own write "+
		"generic+%[1]s://HOST/PATH", u.Scheme, mend)
}
