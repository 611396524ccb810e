package failure

import (
	"net/http"
	"testing"
	"time"
)

func TestLimitsAddressKnowsTheWordsOfServers(t *testing.T) {
	for _, text := range []string{
		"Closing Link: [198.51.100.7] (Throttled: Reconnecting too fast - Email a@example.org for more information.)", // UnrealIRCd
		"Closing Link: [198.51.100.7] (Too many unknown connections from your IP)",
		"Closing Link: c[198.51.100.7] (You are not welcome on this server: K-Lined)",
		"You are banned from this server (k-line)",
		// InspIRCd
		"Closing link: (unknown@198.51.100.7) [Z-lined: Your IP range has been attempting to connect too many times in too short a " +
			"duration.]",
		"You're banned!",
		"Closing link: (unknown@198.51.100.7) [No more connections allowed from your host via this connect class (local)]",
		"Connection refused, too many connections from your IP address", // ngIRCd
		`"flood" (K-Line)`,
		"Too many clients from your network", // Ergo
		"You have attempted to connect too many times within a short duration. Wait a while, and you will be able to connect.",
		"Closing Link: 198.51.100.7 (Too many host connections (local))", // Solanum and its relatives
		"Trying to reconnect too fast.",
		"You have been D-lined.",
		"Closing Link: 198.51.100.7 (*** Banned (cache))",
		"Your host is trying to (re)connect too fast -- throttled",
		"Closing Link: a.example.org (AKILLed: drones)", // services
		"Closing Link: a.example.org (Session limit exceeded)",
		// ejabberd
		"Too many (20) failed authentications from this IP address (198.51.100.7). The address will be unblocked at 06:14:03 27.11.2026 " +
			"UTC",
		"Too many failed login attempts",
	} {
		if !LimitsAddress(text) {
			t.Errorf("%q is not taken for a limit", text)
		}
	}
}

// What keeps users out as well must page.
func TestLimitsAddressLeavesFaultsAlone(t *testing.T) {
	for _, text := range []string{
		"", "Closing Link: x (Ping timeout)", "Closing link: (x) [Server shutdown]", "Sorry, server is full - try later",
		"Access denied: Bad password?",
		"Access denied: server is online but too many users are connected", "resource-constraint", "Too many open files",
		"Closing Link: x (Excess Flood)",
		"Registration timed out", "the link is online", "unthrottledness", "Use of STARTTLS required",
		"Your account is banned", "Nickname banned", "Sorry, too many clients already",
	} {
		if LimitsAddress(text) {
			t.Errorf("%q is taken for a limit", text)
		}
	}
}

func TestStreamErrorsLimitTheAddress(t *testing.T) {
	for _, tt := range []struct {
		condition, text string
		loggedIn, want  bool
	}{
		{
			"policy-violation",
			"Too many (20) failed authentications from this IP address (::1)",
			false,
			true,
		},
		{
			"policy-violation",
			"",
			false,
			true,
		},
		{
			"policy-violation",
			"Use of STARTTLS required",
			false,
			false,
		},
		{
			"policy-violation",
			"Encrypted connections only",
			false,
			false,
		},
		{
			"policy-violation",
			"XML stanza is too big",
			true,
			false,
		},
		{
			"policy-violation",
			"Too many connections",
			true,
			true,
		},
		{
			"resource-constraint",
			"Too many connections",
			false,
			false,
		},
		{
			"resource-constraint",
			"",
			true,
			false,
		},
		{
			"system-shutdown",
			"",
			false,
			false,
		},
	} {
		if got := LimitsStream(tt.condition, tt.text, tt.loggedIn); got != tt.want {
			t.Errorf("%s %q, logged in %v: got %v, want %v", tt.condition, tt.text, tt.loggedIn, got, tt.want)
		}
	}
}

func TestRetryAfterIsReadAndBounded(t *testing.T) {
	now := time.Date(2026, 11, 27, 5, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		status int
		value  string
		want   time.Duration
	}{
		{429, "120", 2 * time.Minute},
		{429, " 7 ", 7 * time.Second},
		{429, "Fri, 27 Nov 2026 05:10:00 GMT", 10 * time.Minute},
		{429, "Fri, 27 Nov 2026 04:00:00 GMT", 0},
		{429, "86400", time.Hour},
		{429, "99999999999999999999999", time.Hour},
		{429, "Fri, 27 Nov 2099 05:10:00 GMT", time.Hour},
		{429, "-5", 0},
		{429, "soon", 0},
		{429, "", 0},
		{503, "120", 0}, // a fault, not a limit for this address
	} {
		if got := RetryAfter(tt.status, http.Header{"Retry-After": {tt.value}}, now); got != tt.want {
			t.Errorf("%d %q: got %s, want %s", tt.status, tt.value, got, tt.want)
		}
	}
}
