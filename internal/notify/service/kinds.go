package service

import "regexp"

// kind is what is known of one service.
type kind struct {
	// scheme begins the service's URLs, and form shows them.
	scheme, form string
	// open reads a URL. What is wrong with it becomes a fault of the address.
	open func(a *address, o Options) *plan
	// verdicts say what the service's words mean if its status is not clear.
	verdicts []verdict
}

// kinds are all services, those with a transport of ours first.
var kinds = []kind{
	{
		scheme: "ntfy",
		form:   "ntfy://[USER:PASSWORD@]HOST[:PORT]/TOPIC, with an access token instead of a user: ntfy://:TOKEN@HOST/TOPIC",
		open:   openNtfy,
	},
	{
		scheme:   "telegram",
		form:     "telegram://TOKEN@telegram?chats=@CHANNEL,-100123456",
		open:     openTelegram,
		verdicts: telegramVerdicts,
	},
	{
		scheme: "generic",
		form:   "generic://[USER:PASSWORD@]HOST[:PORT]/PATH[?disabletls=yes&@HEADER=VALUE&$KEY=VALUE] or generic+https://HOST/PATH",
		open:   openGeneric,
	},
	{
		scheme: "smtp",
		form:   "smtp://[USER:PASSWORD@]HOST[:PORT]/?from=ADDRESS&to=ADDRESS,ADDRESS",
		open:   openMail,
	},
	{
		scheme: "discord",
		form:   "discord://TOKEN@WEBHOOKID, or the webhook's https:// address",
		open:   openDiscord,
	},
	{
		scheme:   "slack",
		form:     "slack://hook:T…-B…-…@webhook, slack://xoxb:…@CHANNELID, or the webhook's https:// address",
		open:     openSlack,
		verdicts: slackVerdicts,
	},
	{
		scheme:   "matrix",
		form:     "matrix://USER:PASSWORD@HOST[:PORT]/?rooms=!ID:SERVER,ALIAS, with an access token: matrix://:TOKEN@HOST/?rooms=...",
		open:     openMatrix,
		verdicts: matrixVerdicts,
	},
	{
		scheme: "gotify",
		form:   "gotify://HOST[:PORT][/PATH]/TOKEN",
		open:   openGotify,
	},
	{
		scheme:   "pushover",
		form:     "pushover://shoutrrr:APITOKEN@USERKEY[/?devices=DEVICE]",
		open:     openPushover,
		verdicts: pushoverVerdicts,
	},

	library("teams", "?host", 20000, "teams://GROUP@TENANT/ALTID/OWNER/EXTRAID?host=NAME.webhook.office.com, or the https:// address"),
	library("mattermost", "", 4000, "mattermost://[BOTNAME@]HOST/TOKEN[/CHANNEL]"),
	library("rocketchat", "", 5000, "rocketchat://[USER@]HOST/TOKENA/TOKENB[/@RECIPIENT]"),
	library("zulip", "", 10000, "zulip://BOTMAIL:BOTKEY@HOST/?stream=STREAM&topic=TOPIC"),
	library("signal", "", 2000, "signal://[USER:PASSWORD@]HOST[:PORT]/SOURCEPHONE/RECIPIENT"),
	library("googlechat", "", 4000, "googlechat://chat.googleapis.com/v1/spaces/SPACE/messages?key=KEY&token=TOKEN"),
	library("lark", "", 5000, "lark://HOST/TOKEN[?secret=SECRET]"),
	library("wecom", "qyapi.weixin.qq.com", 600, "wecom://KEY"), // up to 2048 bytes
	library("bark", "", 1000, "bark://:DEVICEKEY@HOST"),
	library("ifttt", "maker.ifttt.com", 2000, "ifttt://WEBHOOKID/?events=EVENT"),
	library("join", "joinjoaomgcd.appspot.com", 1500, "join://shoutrrr:APIKEY@join/?devices=DEVICE"),
	library("pushbullet", "api.pushbullet.com", 4000, "pushbullet://TOKEN[/DEVICE]"),
	library("opsgenie", "", 10000, "opsgenie://HOST/APIKEY"),
	library("pagerduty", "events.pagerduty.com", 1024, "pagerduty://[HOST]/INTEGRATIONKEY"),
	library("notifiarr", "notifiarr.com", 1900, "notifiarr://APIKEY?channel=CHANNELID"),
}

// library is a service of the library. Host is where its messages go: "" is the host of the URL, and ?KEY is in that key of the URL. A
// message may have limit characters.
func library(scheme, host string, limit int, form string) kind {
	return kind{scheme: scheme, form: form, open: func(a *address, o Options) *plan { return openLibrary(a, o, host, limit) }}
}

// says makes the pattern of a verdict.
func says(words string) *regexp.Regexp { return regexp.MustCompile("(?i)" + words) }
