package service

import "regexp"

// kind is what is known of one service.
type kind struct {
	// scheme begins the service's URLs, and form shows them.
	scheme, form string
	// open reads a URL. What is wrong with it becomes a fault of the address.
	open func(a *address, o Options) *plan
	// verdicts tell what the service's words mean where its status does not.
	verdicts []verdict

	// What follows is for the library's services. Host is where all messages go; "" is the URL's host. HostKey is the key that has it.
	host, hostKey string
	// limit is how many characters a message may have.
	limit int
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

	{
		scheme:  "teams",
		form:    "teams://GROUP@TENANT/ALTID/GROUPOWNER/EXTRAID?host=ORGANIZATION.webhook.office.com, or the webhook's https:// address",
		open:    openLibrary,
		hostKey: "host",
		limit:   20000,
	},
	{
		scheme: "mattermost",
		form:   "mattermost://[BOTNAME@]HOST/TOKEN[/CHANNEL]",
		open:   openLibrary,
		limit:  4000,
	},
	{
		scheme: "rocketchat",
		form:   "rocketchat://[USER@]HOST/TOKENA/TOKENB[/@RECIPIENT]",
		open:   openLibrary,
		limit:  5000,
	},
	{
		scheme: "zulip",
		form:   "zulip://BOTMAIL:BOTKEY@HOST/?stream=STREAM&topic=TOPIC",
		open:   openLibrary,
		limit:  10000,
	},
	{
		scheme: "signal",
		form:   "signal://[USER:PASSWORD@]HOST[:PORT]/SOURCEPHONE/RECIPIENT",
		open:   openLibrary,
		limit:  2000,
	},
	{
		scheme: "googlechat",
		form:   "googlechat://chat.googleapis.com/v1/spaces/SPACE/messages?key=KEY&token=TOKEN",
		open:   openLibrary,
		limit:  4000,
	},
	{
		scheme: "lark",
		form:   "lark://HOST/TOKEN[?secret=SECRET]",
		open:   openLibrary,
		limit:  5000,
	},
	{
		scheme: "wecom",
		form:   "wecom://KEY",
		open:   openLibrary,
		host:   "qyapi.weixin.qq.com",
		limit:  600, // 2048 bytes
	},
	{
		scheme: "bark",
		form:   "bark://:DEVICEKEY@HOST",
		open:   openLibrary,
		limit:  1000,
	},
	{
		scheme: "ifttt",
		form:   "ifttt://WEBHOOKID/?events=EVENT",
		open:   openLibrary,
		host:   "maker.ifttt.com",
		limit:  2000,
	},
	{
		scheme: "join",
		form:   "join://shoutrrr:APIKEY@join/?devices=DEVICE",
		open:   openLibrary,
		host:   "joinjoaomgcd.appspot.com",
		limit:  1500,
	},
	{
		scheme: "pushbullet",
		form:   "pushbullet://TOKEN[/DEVICE]",
		open:   openLibrary,
		host:   "api.pushbullet.com",
		limit:  4000,
	},
	{
		scheme: "opsgenie",
		form:   "opsgenie://HOST/APIKEY",
		open:   openLibrary,
		limit:  10000,
	},
	{
		scheme: "pagerduty",
		form:   "pagerduty://[HOST]/INTEGRATIONKEY",
		open:   openLibrary,
		host:   "events.pagerduty.com",
		limit:  1024,
	},
	{
		scheme: "notifiarr",
		form:   "notifiarr://APIKEY?channel=CHANNELID",
		open:   openLibrary,
		host:   "notifiarr.com",
		limit:  1900,
	},
}

// says makes the pattern of a verdict.
func says(words string) *regexp.Regexp { return regexp.MustCompile("(?i)" + words) }
