//go:build realservers

package collectors

import (
	"slices"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestRealRelayRoom checks a bridge between a channel and a room of the XMPP server, whose owner shuts the check out.
func TestRealRelayRoom(t *testing.T) {
	t.Parallel()
	s := startServers(t, realstack.StartInspIRCd)
	room := s.xmpp.Room("bridged")
	bridge := startPuppet(t, s.xmpp, s.irc, room.Address)
	room.Affiliate(puppetUser, "admin")
	s.follow(room.Address, nil)
	s.suffer([]relayFault{
		{
			"bridge drops what IRC says",
			func() { bridge.dropIRC.Store(true) },
			func() { bridge.dropIRC.Store(false) },
			notDelivered,
			[2]string{atBridge, ""},
		},
		{
			"bridge drops what XMPP says",
			func() { bridge.dropXMPP.Store(true) },
			func() { bridge.dropXMPP.Store(false) },
			notDelivered,
			[2]string{"", atBridge},
		},
		{
			"kicked",
			func() { room.Role(xmppNick, "none") },
			nothing,
			forbidden,
			onXMPP,
		},
		{
			"banned",
			func() { room.Affiliate("check", "outcast") },
			func() { room.Affiliate("check", "none") },
			forbidden,
			onXMPP,
		},
		{
			"without voice",
			func() {
				room.Configure("moderatedroom", "1")
				room.Role(xmppNick, "visitor")
			},
			func() { room.Role(xmppNick, "participant") },
			forbidden,
			[2]string{"", sideXMPP},
		},
		{
			"members only",
			func() { room.Configure("membersonly", "1") },
			func() { room.Affiliate("check", "member") },
			forbidden,
			onXMPP,
		},
		{
			"destroyed",
			room.Destroy,
			func() {
				room.Create()
				room.Affiliate(puppetUser, "admin")
			},
			[]failure.Reason{failure.NotFound},
			onXMPP,
		},
	})
}

// TestRealRelayLeavesNoArchive looks for messages of the check in the archives of the room and of its account.
func TestRealRelayLeavesNoArchive(t *testing.T) {
	t.Parallel()
	s := startServers(t, realstack.StartInspIRCd)
	room := s.xmpp.Room("archived")
	startPuppet(t, s.xmpp, s.irc, room.Address)
	s.follow(room.Address, nil)
	// Ordinary messages before and after those of the check show that both archives work.
	account := s.xmpp.User("check", checkPassword)
	note := func(text string) {
		t.Helper()
		room.Say(text)
		if err := account.Send("<message type='chat' to='" + realstack.XMPPUser + "@" + realstack.XMPPDomain + "'><body>" + text +
			"</body></message>"); err != nil {
			t.Fatal(err)
		}
	}
	note("before")
	s.well("at first")
	for range 20 {
		if reason := s.probe(); reason != "" {
			t.Errorf("a probe failed: %s", reason)
		}
	}
	note("after")
	want := []string{room.Address + "/owner: before", room.Address + "/owner: after"}
	if got := room.Archive(); !slices.Equal(got, want) {
		t.Errorf("the room's archive has %q, want %q", got, want)
	}
	sender := "check@" + realstack.XMPPDomain + "/test: "
	want = []string{sender + "before", sender + "after"}
	if got := account.Archive(t); !slices.Equal(got, want) {
		t.Errorf("the account's archive has %q, want %q", got, want)
	}
}

// TestRealRelayTellsOfAnArchive: the room has one until its owner turns it off.
func TestRealRelayTellsOfAnArchive(t *testing.T) {
	t.Parallel()
	s := startServers(t, realstack.StartNgIRCd)
	room := s.xmpp.Room("kept")
	startPuppet(t, s.xmpp, s.irc, room.Address)
	s.follow(room.Address, nil)
	s.well("at first")
	archived := func() bool {
		s.relay.mu.Lock()
		defer s.relay.mu.Unlock()
		return s.relay.sides[1].archived
	}
	if !archived() {
		t.Error("nothing is said of the room's archive")
	}
	room.Configure("enablearchiving", "0")
	room.Role(xmppNick, "none") // the next session asks again
	s.becomes("kicked", failure.Forbidden)
	s.well("afterwards")
	if archived() {
		t.Error("the room still counts as archived")
	}
}
