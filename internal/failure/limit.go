package failure

import (
	"errors"
	"regexp"
	"time"
)

// limiting matches the words of servers that limit how often an address connects or fails to log in, or that ban it.
var limiting = regexp.MustCompile(`(?i)throttled|reconnect(ing)? too fast`)

// LimitsAddress reports whether a server's words say that it limits or bans this address. It is the one recogniser for all protocols.
func LimitsAddress(text string) bool { return limiting.MatchString(text) }

// RetryAfterOf returns how long the server asks to wait before the next attempt (HTTP's Retry-After), 0 if it does not say.
func RetryAfterOf(err error) time.Duration {
	if known, ok := errors.AsType[*Error](err); ok {
		return known.RetryAfter
	}
	return 0
}
