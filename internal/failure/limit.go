package failure

import (
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// limiting matches the words of servers that limit how often an address connects or fails to log in, or that ban it. "Server is
// full" and the like are missing on purpose: they keep users out too.
var limiting = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`\bthrottled\b`,
	`connect(ing)? too fast`,
	`connect too many times`,
	`too many( [\w()-]+){0,2} (connections|sessions|logins|authentications|attempts)\b`,
	`too many( [\w()-]+){0,2} clients (from|for|per) `,
	`no more connections (allowed )?from your`,
	`session limit exceeded`,
	`\b[zkgd][-: ]?lined?\b`,
	`\bakill(ed)?\b`,
	`\b(you are|you're|address is|host is|ip is) (\w+ )?banned\b`,
	`[(*] ?banned\b`,
	`\bbanned (from|on) (this|the) (server|network)\b`,
}, "|"))

// LimitsAddress reports whether a server's words say that it limits or bans this address: the text of an IRC server's ERROR or 465, of
// an XMPP error, or of a refused login. It is the one recogniser for all protocols.
func LimitsAddress(text string) bool { return limiting.MatchString(text) }

// encryption matches the words of servers that require TLS first, which is a policy too.
var encryption = regexp.MustCompile(`(?i)starttls|\btls\b|encrypt`)

// LimitsStream reports whether an XMPP stream error says so. Before the login is complete, every policy-violation does unless it is
// about encryption; later it may be about a stanza. A resource-constraint is a fault of the server, never a limit for this address.
func LimitsStream(condition, text string, loggedIn bool) bool {
	return condition == "policy-violation" && (LimitsAddress(text) || !loggedIn && !encryption.MatchString(text))
}

// maxRetryAfter bounds how long a server may ask to wait: one that asks for a year must not end the watch.
const maxRetryAfter = time.Hour

// RetryAfter reads how long an HTTP answer with status 429 asks to wait: seconds or a date (RFC 9110, section 10.2.3). It is 0 for other
// statuses, without a valid header and for a date in the past; at most an hour.
func RetryAfter(status int, header http.Header, now time.Time) time.Duration {
	if status != http.StatusTooManyRequests {
		return 0
	}
	value := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(until.Sub(now), 0), maxRetryAfter)
}

// RetryAfterOf returns how long the server asks to wait before the next attempt (HTTP's Retry-After), 0 if it does not say.
func RetryAfterOf(err error) time.Duration {
	if known, ok := errors.AsType[*Error](err); ok {
		return known.RetryAfter
	}
	return 0
}
