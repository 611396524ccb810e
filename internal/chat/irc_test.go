package chat

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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

// TestSessionKnowsWhetherItIsInTheChannel has services change the nick while it joins; then the session is a member, is kicked, or has
// vanished from the channel without a word.
func TestSessionKnowsWhetherItIsInTheChannel(t *testing.T) {
	const renamed = ":n!n@h NICK :Guest1\r\n:s 366 Guest1 #c :End\r\n"
	for name, tt := range map[string]struct{ afterJoin, members, want string }{
		"member":   {renamed, ":s 353 Guest1 = #c :op @Guest1\r\n", ""},
		"vanished": {renamed, ":s 353 Guest1 = #c :op n\r\n", "not in #c any more"},
		"kicked":   {renamed + ":op KICK #c Guest1 :go away\r\n", "", "kicked from #c"},
		"437":      {":s 437 n #c :Channel is temporarily unavailable\r\n", "", "join #c: Channel is temporarily unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, _ := keepIRC(t, true, func(c net.Conn) {
					ircServer(c, tt.afterJoin, func(line string) string {
						switch command, params, _ := strings.Cut(line, " "); command {
						case "NAMES":
							return tt.members + ":s 366 Guest1 #c :End\r\n"
						case "PING":
							return ":s PONG s " + params + "\r\n"
						}
						return ""
					})
				})
				synctest.Wait()
				c, err := k.state(t)
				if err == nil {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					_, err = k.Verify(ctx, c)
				}
				if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
			})
		})
	}
}

// refusals notes the messages that a server refuses.
type refusals struct {
	deaf
	texts []string
}

func (r *refusals) Refused(text string, _ error) { r.texts = append(r.texts, text) }

// TestRefusalIsOfTheOldestMessage has the server answer the first of two messages, and refuse the second.
func TestRefusalIsOfTheOldestMessage(t *testing.T) {
	t.Parallel()
	r := &refusals{}
	s := &ircSession{account: &IRC{Channel: "#c"}, listener: r, said: []saidMessage{{"say1", "one"}, {"say2", "two"}}}
	for _, text := range []string{":s PONG s :say1", ":s 404 n #c :Cannot send to channel", ":s 404 n #c :Cannot send to channel"} {
		line := parseIRC(text)
		if err := s.handle(&line); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(r.texts, " "); got != "two" {
		t.Errorf("refused %q, want the second message", got)
	}
}
