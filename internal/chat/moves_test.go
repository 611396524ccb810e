package chat

import (
	"bufio"
	"slices"
	"strings"
	"testing"
)

// TestDeparturesSayWhy has what servers write when somebody leaves IRC.
func TestDeparturesSayWhy(t *testing.T) {
	for why, want := range map[string]How{
		"irc.test leaf.irc.test":           Split,
		"*.net *.split":                    Split,
		"Quit: irc.test leaf.irc.test":     Left,
		"see example.org":                  Left,
		"Ping timeout: 121 seconds":        Left,
		"":                                 Left,
		"G-Lined":                          Banned,
		"User has been banned from Test":   Banned,
		"G:Lined (spam)":                   Left, // a word of InspIRCd 3
		"K-lined: spam":                    Banned,
		"Killed (boss (go away))":          Killed,
		"KILLed by boss: go away":          Killed,
		"[irc.test] Local kill by boss ()": Left,
	} {
		if got := departure(why); got != want {
			t.Errorf("%q: %d, want %d", why, got, want)
		}
	}
}

func TestMasksMatchAddresses(t *testing.T) {
	for mask, want := range map[string]bool{
		"bridge!*@*": true, "*!*@HOST.test": true, "*!*@*": true, "other!*@*": false, "br?dge!*@*": true, "[b]ridge!*@*": false,
		"*!*@gw/host": false, `\`: false, "m:*!*@*": false,
	} {
		if got := MatchesMask(mask, "Bridge!~user@host.test"); got != want {
			t.Errorf("%s: %t", mask, got)
		}
	}
	if !MatchesMask("[b]!*@gw/*", "[b]!u@gw/a/b") {
		t.Error("brackets and slashes are no patterns")
	}
}

// watcher records what a session tells of others.
type watcher struct {
	heardAll
	moves []Move
	lists []string
}

func (w *watcher) Joined(Conversation)    {}
func (w *watcher) Moved(m Move)           { w.moves = append(w.moves, m) }
func (w *watcher) Members(nicks []string) { w.lists = append(w.lists, strings.Join(nicks, " ")) }

// TestIRCSessionSeesOthers has lines about others, about another channel, and about the session itself.
func TestIRCSessionSeesOthers(t *testing.T) {
	w := &watcher{}
	s := &ircSession{
		account:  &IRC{Channel: "#check"},
		nick:     "irccheck",
		listener: w,
		lines:    bufio.NewReader(strings.NewReader("")),
	}
	for line := range strings.Lines(`:irc.test 353 irccheck = #check :@boss +bridge!u@h irccheck
:irc.test 366 irccheck #check :End
:bridge!u@h QUIT :irc.test leaf.irc.test
:bridge!u@h JOIN :#Check
:bridge!u@h JOIN #other
:irccheck!u@h JOIN #check
:boss!u@h KICK #check bridge :spam
:boss!u@h KICK #other bridge :spam
:bridge!u@h PART #check :bye
:bridge!u@h NICK :bridge_
:boss!u@h MODE #check +mb-vl+k bridge!*@* bridge key
:boss!u@h MODE #other +m
:boss!u@h MODE irccheck +i
:boss!u@h MODE #check +b
`) {
		parsed := parseIRC(strings.TrimSpace(line))
		if err := s.handle(&parsed); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if want := []string{"boss bridge"}; !slices.Equal(w.lists, want) {
		t.Errorf("members %q, want %q", w.lists, want)
	}
	byBoss := func(m Move, why string) Move {
		m.By, m.Why = "boss", why
		return m
	}
	want := []Move{
		{Nick: "bridge", How: Split, Why: "irc.test leaf.irc.test"},
		{Nick: "bridge", How: Came},
		byBoss(Move{Nick: "bridge", How: Kicked}, "spam"),
		{Nick: "bridge", How: Left, Why: "bye"},
		{Nick: "bridge", How: Renamed, Why: "bridge_"},
		byBoss(Move{How: Silenced}, "+m"),
		byBoss(Move{Mask: "bridge!*@*", How: Banned}, "+b"),
		byBoss(Move{Nick: "bridge", How: Silenced}, "-v"),
		byBoss(Move{How: Banned}, "+b"),
	}
	if !slices.Equal(w.moves, want) {
		t.Errorf("got  %+v\nwant %+v", w.moves, want)
	}
}
