package chat

import "testing"

func TestSilencedIsNotTooFast(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want bool
	}{
		{"You cannot send messages to this channel whilst the +m (moderated) mode is set.", false}, // InspIRCd 3
		{"Cannot send to channel", false}, // ngIRCd
		{"You are sending messages too quickly, slow down.", true},
		{"Message rate limit exceeded", true},
		{"Excess Flood", true},
	} {
		if got := tooFast.MatchString(c.text); got != c.want {
			t.Errorf("%q: too fast = %v, want %v", c.text, got, c.want)
		}
	}
}
