package chat

import (
	"bufio"
	"context"
	"encoding/xml"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// forwarded is an account whose channel forwards to another.
type forwarded struct{ attempts int }

func (f *forwarded) Run(context.Context, *exchange.Record, Listener) error {
	f.attempts++
	s := &ircSession{account: &IRC{Channel: "#check"}}
	line := parseIRC(":irc.test 470 irccheck #check #overflow :You may not join this channel, so you are transferred")
	_, err := s.register(&line)
	return err
}

// TestChannelThatForwardsIsNotJoinedAgainAndAgain, since each attempt joins the other channel.
func TestChannelThatForwardsIsNotJoinedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &forwarded{}
		k := NewKeeper(f, deaf{})
		ctx, stop := context.WithTimeout(t.Context(), time.Hour+time.Minute)
		defer stop()
		go k.Run(ctx)
		_, _, err := k.Await(ctx)
		if hint := failure.HintOf(err); failure.ReasonOf(err) != failure.Forbidden || !strings.Contains(hint, "+L") {
			t.Errorf("%v: %s", err, hint)
		}
		<-ctx.Done()
		synctest.Wait()
		if f.attempts != 5 {
			t.Errorf("%d attempts in an hour, want one each 15 minutes", f.attempts)
		}
	})
}

// TestEndOfASessionSaysWhoEndedIt has what servers write at the end.
func TestEndOfASessionSaysWhoEndedIt(t *testing.T) {
	for words, killed := range map[string]bool{
		"KILLed by boss: go away":                                                         true, // ngIRCd
		"Closing link: (irccheck@127.0.0.1) [Killed (boss (go away))]":                    true, // InspIRCd
		"Closing Link: irccheck[127.0.0.1] (Killed (NickServ (GHOST command used by x)))": true,
		"Closing Link: irccheck[127.0.0.1] (Ping timeout: 121 seconds)":                   false,
		"Closing Link: irccheck[127.0.0.1] (Quit: killjoy)":                               false,
	} {
		s := &ircSession{account: &IRC{Channel: "#check"}, lines: bufio.NewReader(strings.NewReader(""))}
		line := parseIRC("ERROR :" + words)
		err := s.handle(&line)
		if got := strings.Contains(failure.HintOf(err), "(KILL)"); got != killed {
			t.Errorf("%s: says that somebody ended the session: %t", words, got)
		}
	}
}

// TestNickThatServicesTakeIsTold has them give the session another one.
func TestNickThatServicesTakeIsTold(t *testing.T) {
	w := &watcher{}
	s := &ircSession{account: &IRC{Channel: "#check"}, nick: "irccheck", listener: w}
	line := parseIRC(":irccheck!u@h NICK Guest123")
	if err := s.handle(&line); err != nil {
		t.Fatal(err)
	}
	if len(w.moves) != 1 || !w.moves[0].Own || w.moves[0].Nick != "irccheck" || w.moves[0].Why != "Guest123" || s.nick != "Guest123" {
		t.Errorf("got %+v, with the nick %s", w.moves, s.nick)
	}
}

func TestArchiveIsSeenInTheFeaturesOfARoom(t *testing.T) {
	const answer = "<iq xmlns='jabber:client' type='result'><query xmlns='http://jabber.org/protocol/disco#info'>" +
		"<identity category='conference' type='text'/><feature var='http://jabber.org/protocol/muc'/><feature var='%'/></query></iq>"
	for feature, want := range map[string]bool{"urn:xmpp:mam:2": true, "urn:xmpp:mam:1": true, "urn:xmpp:sid:0": false} {
		var e element
		if err := xml.Unmarshal([]byte(strings.Replace(answer, "%", feature, 1)), &e); err != nil {
			t.Fatal(err)
		}
		if got := archives(&e); got != want {
			t.Errorf("%s: %t", feature, got)
		}
	}
}
