package chat

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	xdg "github.com/xdg-go/scram"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// counted counts what a session reads.
type counted struct {
	net.Conn
	read *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}

// endless writes text until the client has gone.
func endless(conn net.Conn, text string) {
	chunk := []byte(strings.Repeat(text, 1+4096/len(text)))
	for {
		if _, err := conn.Write(chunk); err != nil {
			return
		}
	}
}

// loginIRC runs a session at a server in memory until it has joined or failed. The server answers the lines that begin with the keys of
// answers, and discards the rest; an answer that begins with "endless " is repeated.
func loginIRC(t *testing.T, password string, answers map[string]string) (read int64, err error) {
	t.Helper()
	var n atomic.Int64
	ctx, stop := context.WithCancel(exchange.WithDialer(t.Context(), func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close() //nolint:errcheck // a pipe
			for in := bufio.NewScanner(server); in.Scan(); {
				for begin, answer := range answers {
					if !strings.HasPrefix(in.Text(), begin) {
						continue
					}
					if text, found := strings.CutPrefix(answer, "endless "); found {
						go endless(server, text)
					} else {
						go io.WriteString(server, answer) //nolint:errcheck // the client may be gone
					}
				}
			}
		}()
		return counted{client, &n}, nil
	}))
	defer stop()
	a := &IRC{
		Server:   Server{TLSServer: exchange.TLSServer{Address: "irc.test:6667"}, Plain: true},
		Nick:     "n",
		User:     "u",
		Password: config.NewSecret(password),
		Channel:  "#c",
	}
	err = a.Run(ctx, &exchange.Record{}, leaving{stop})
	return n.Load(), err
}

// leaving ends a session as soon as it has joined.
type leaving struct{ leave func() }

func (l leaving) Joined(Conversation)   { l.leave() }
func (l leaving) Heard(Message)         {}
func (l leaving) Refused(string, error) {}
func (leaving) Members([]string)        {}
func (leaving) Archived()               {}
func (leaving) Moved(Move)              {}

// TestHostileIRCServerEndsALogin has servers send without end, or what leads nowhere.
func TestHostileIRCServerEndsALogin(t *testing.T) {
	const welcome, noCaps = ":s 001 n :welcome\r\n", ":s CAP * LS :\r\n"
	many := strings.Builder{}
	for i := range 500 {
		fmt.Fprintf(&many, "capability%d ", i)
	}
	names := strings.Repeat(":s 353 n = #c :"+strings.Repeat("somebody ", 40)+"\r\n", 250) // 10,000 members
	for name, tt := range map[string]struct {
		password string
		answers  map[string]string
		most     int64
		want     failure.Reason
	}{
		"capabilities": {
			"",
			map[string]string{"CAP LS": "endless :s CAP * LS * :" + many.String() + "\r\n"},
			maxLogin,
			failure.TooLarge,
		},
		"pings": {
			"",
			map[string]string{"CAP LS": "endless PING :x\r\n"},
			maxLogin,
			failure.TooLarge,
		},
		"notices": {
			"",
			map[string]string{"CAP LS": "endless NOTICE * :wait\r\n"},
			maxLogin,
			failure.TooLarge,
		},
		"empty lines": {
			"",
			map[string]string{"CAP LS": "endless \r\n"},
			maxLogin,
			failure.TooLarge,
		},
		"a line": {
			"",
			map[string]string{"CAP LS": "endless x"},
			maxLine,
			failure.TooLarge,
		},
		"acknowledgements": {
			"p",
			map[string]string{"CAP LS": "endless :s CAP * ACK :sasl\r\n"},
			maxLogin,
			failure.TooLarge,
		},
		"message of the day": {
			"",
			map[string]string{"CAP LS": noCaps, "CAP END": welcome, "JOIN": "endless :s 372 n :- motd\r\n"},
			maxLogin + maxTraffic,
			failure.TooLarge,
		},
		"members": {
			"",
			map[string]string{"CAP LS": noCaps, "CAP END": welcome, "JOIN": "endless :s 353 n = #c :a b c d e f g\r\n"},
			maxLogin + maxTraffic,
			failure.TooLarge,
		},
		"challenges": {
			"p",
			map[string]string{
				"CAP LS":             ":s CAP * LS :sasl\r\n",
				"CAP REQ":            ":s CAP * ACK :sasl\r\n",
				"AUTHENTICATE PLAIN": "endless AUTHENTICATE " + strings.Repeat("A", 400) + "\r\n",
			},
			maxLogin,
			failure.Malformed,
		},
		"the challenge again": {
			"p",
			map[string]string{"CAP LS": ":s CAP * LS :sasl\r\n", "CAP REQ": ":s CAP * ACK :sasl\r\n", "AUTHENTICATE": "AUTHENTICATE +\r\n"},
			maxLogin,
			failure.Malformed,
		},
		"a challenge without an end": {
			"p",
			map[string]string{
				"CAP LS": ":s CAP * LS :sasl=SCRAM-SHA-256\r\n", "CAP REQ": ":s CAP * ACK :sasl\r\n",
				"AUTHENTICATE SCRAM": "AUTHENTICATE +\r\n",
				"AUTHENTICATE biws":  "endless AUTHENTICATE " + strings.Repeat("A", 400) + "\r\n",
			},
			maxLogin,
			failure.TooLarge,
		},
		"mechanism after mechanism": {
			"p",
			map[string]string{
				"CAP LS": ":s CAP * LS :sasl\r\n", "CAP REQ": ":s CAP * ACK :sasl\r\n",
				"AUTHENTICATE": ":s 908 n " + strings.Join(mechanisms, ",") + " :are available\r\n:s 904 n :no\r\n",
			},
			maxLogin,
			failure.Unauthorized,
		},
		"a refusal of nothing, and a list": {
			"",
			map[string]string{"CAP LS": ":s 908 n PLAIN :are available\r\n:s 904 n :no\r\n"},
			maxLogin,
			failure.Unauthorized,
		},
		"a login for nothing": {
			"p",
			map[string]string{"CAP LS": ":s 903 n :welcome\r\n"},
			maxLogin,
			failure.Malformed,
		},
		"ban": {
			"",
			map[string]string{"CAP LS": ":s 465 n :You are not welcome\r\n", "NICK": "ERROR :Closing Link: n[192.0.2.1] (K-lined)\r\n"},
			maxLogin,
			failure.Throttled,
		},
		"ten thousand members": {
			"",
			map[string]string{"CAP LS": noCaps, "CAP END": welcome, "JOIN": names + ":s 366 n #c :End\r\n"},
			maxTraffic,
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				read, err := loginIRC(t, tt.password, tt.answers)
				if got := reason(err); got != tt.want {
					t.Errorf("reason %q, want %q: %v", got, tt.want, err)
				}
				if read > tt.most {
					t.Errorf("%d bytes were read, want at most %d", read, tt.most)
				}
			})
		})
	}
}

func reason(err error) failure.Reason {
	if err == nil {
		return ""
	}
	return failure.ReasonOf(err)
}

// TestCapabilitiesAreNotRemembered: a session remembers what it asks for.
func TestCapabilitiesAreNotRemembered(t *testing.T) {
	t.Parallel()
	s := &ircSession{account: &IRC{}, offered: map[string]bool{}}
	line := parseIRC(":s CAP * LS * :a b=c sasl=PLAIN d echo-message e")
	if err := s.negotiate(&line); err != nil || len(s.offered) != 2 {
		t.Errorf("remembered %v, want 2: %v", s.offered, err)
	}
}

// TestMessagesWithoutAnAnswerAreFew has a server answer nothing that is said.
func TestMessagesWithoutAnAnswerAreFew(t *testing.T) {
	ours, theirs := net.Pipe()
	go io.Copy(io.Discard, theirs) //nolint:errcheck // it ends with the pipe
	defer ours.Close()             //nolint:errcheck // a test
	s := &ircSession{account: &IRC{Channel: "#c"}, conn: newLink(t.Context(), ours)}
	for range 3 * maxSaid {
		if err := s.Say(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.said) != maxSaid {
		t.Errorf("%d messages are remembered, want %d", len(s.said), maxSaid)
	}
}

const (
	streamBegin = "<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='" + nsStream + "' version='1.0'>"
	offerPlain  = streamBegin + "<stream:features><mechanisms xmlns='" + nsSASL +
		"'><mechanism>PLAIN</mechanism></mechanisms></stream:features>"
	accepted = "<success xmlns='" + nsSASL + "'/>"
	bound    = "<iq type='result' id='bind'/>"
	inRoomA  = "<presence from='a@rooms.test/n'><x xmlns='" + nsRoomFor + "'><status code='110'/></x></presence>"
)

// loginXMPP logs in at a server that answers the client's first writes with these texts, or repeats what follows "endless " or "slow ",
// and joins a@rooms.test.
func loginXMPP(t *testing.T, answers ...string) (s *xmppSession, read int64, err error) {
	t.Helper()
	var n atomic.Int64
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close() }) //nolint:errcheck // a test
	go func() {
		defer theirs.Close() //nolint:errcheck // a pipe
		request := make([]byte, 4096)
		for _, answer := range answers {
			if _, err := theirs.Read(request); err != nil {
				return
			}
			go func() {
				if begin, text, found := strings.Cut(answer, "endless "); found {
					io.WriteString(theirs, begin) //nolint:errcheck // the client may be gone
					endless(theirs, text)
				} else if text, found := strings.CutPrefix(answer, "slow "); found {
					for range 1000 {
						if _, err := io.WriteString(theirs, text); err != nil {
							return
						}
						time.Sleep(100 * time.Millisecond)
					}
				}
				io.WriteString(theirs, answer) //nolint:errcheck // the client may be gone
			}()
		}
		io.Copy(io.Discard, theirs) //nolint:errcheck // it ends with the pipe
	}()
	l := newLink(t.Context(), counted{ours, &n})
	s = newXMPPSession(&XMPP{
		Server:     Server{TLSServer: exchange.TLSServer{Domain: "chat.test"}},
		User:       "u",
		Room:       "a@rooms.test",
		Nick:       "n",
		Iterations: 100_000,
	}, l, deaf{})
	err = l.withDeadline(s.login)
	return s, n.Load(), err
}

// TestHostileXMPPServerEndsALogin has servers send without end, or what leads nowhere. None of it is the fault of the room's service.
func TestHostileXMPPServerEndsALogin(t *testing.T) {
	presence := func(i int) string {
		return fmt.Sprintf("<presence from='a@rooms.test/occupant%d' to='u@chat.test/x'><x xmlns='%s'><item affiliation='member' "+
			"role='participant' jid='occupant%d@chat.test/x'/></x></presence>", i, nsRoomFor, i)
	}
	var crowd strings.Builder
	for i := range 10_000 {
		crowd.WriteString(presence(i))
	}
	challenge := "<challenge xmlns='" + nsSASL + "'/>"
	for name, tt := range map[string]struct {
		answers []string
		most    int64
		want    failure.Reason
	}{
		"white space": {[]string{"endless  "}, maxLogin, failure.TooLarge},
		"features":    {[]string{streamBegin + "<stream:features>endless <feature/>"}, maxLogin, failure.TooLarge},
		"stanzas":     {[]string{"endless <a/>"}, maxLogin, failure.Malformed},
		"challenges": {
			[]string{offerPlain, challenge, challenge, challenge, challenge, challenge, challenge},
			maxLogin,
			failure.Malformed,
		},
		"a document type": {[]string{"<!DOCTYPE a [<!ENTITY b 'c'>]>"}, maxLogin, failure.Malformed},
		"other text":      {[]string{"HTTP/1.1 400 Bad Request\r\n\r\n"}, maxLogin, failure.Malformed},
		"banned": {
			[]string{streamBegin + "<stream:error><policy-violation xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"},
			maxLogin, failure.Throttled,
		},
		"no resources": {
			[]string{streamBegin + "<stream:error><resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"},
			maxLogin, failure.Closed,
		},
		"presences": {
			[]string{offerPlain, accepted, offerPlain, bound, "endless " + presence(1)},
			maxLogin + maxTraffic,
			failure.TooLarge,
		},
		"other stanzas": {
			[]string{offerPlain, accepted, offerPlain, bound, "endless <message from='b@chat.test'/>"},
			maxLogin + maxTraffic,
			failure.TooLarge,
		},
		"slow flood": {
			[]string{offerPlain, accepted, offerPlain, bound, "slow <message from='b@chat.test'/>"},
			maxLogin + maxTraffic,
			failure.Timeout,
		},
		"a room of members": {
			[]string{offerPlain, accepted, offerPlain, bound, "slow " + presence(1)},
			maxLogin + maxTraffic,
			failure.Timeout,
		},
		"a crowded room": {[]string{offerPlain, accepted, offerPlain, bound, crowd.String() + inRoomA}, maxTraffic, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, read, err := loginXMPP(t, tt.answers...)
				if got := reason(err); got != tt.want {
					t.Errorf("reason %q, want %q: %v", got, tt.want, err)
				}
				if errors.Is(err, ErrRoomSilent) {
					t.Errorf("the room's service is blamed: %v", err)
				}
				if read > tt.most {
					t.Errorf("%d bytes were read, want at most %d", read, tt.most)
				}
				s.conn.Close() //nolint:errcheck // a test
				time.Sleep(time.Second)
			})
		})
	}
}

// TestSilentRoomIsStillBlamed: a server that works and a room that does not answer.
func TestSilentRoomIsStillBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, err := loginXMPP(t, offerPlain, accepted, offerPlain, bound, "<message from='chat.test'/>")
		if !errors.Is(err, ErrRoomSilent) {
			t.Errorf("got %v, want that the room is silent", err)
		}
		s.conn.Close() //nolint:errcheck // a test
	})
}

// heardAll notes what it is told.
type heardAll struct {
	deaf
	heard, refused []string
}

func (h *heardAll) Heard(m Message)              { h.heard = append(h.heard, m.Text) }
func (h *heardAll) Refused(text string, _ error) { h.refused = append(h.refused, text) }
func (*heardAll) Members([]string)               {}
func (*heardAll) Archived()                      {}
func (*heardAll) Moved(Move)                     {}

// listenTo has a session in a room read a text until its end.
func listenTo(t *testing.T, text string, said ...string) (*heardAll, error) {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close() //nolint:errcheck // a test
	go func() {
		defer theirs.Close()         //nolint:errcheck // a pipe
		io.WriteString(theirs, text) //nolint:errcheck // the client may be gone
	}()
	h := &heardAll{}
	s := newXMPPSession(&XMPP{Room: "a@rooms.test", Nick: "n"}, newLink(t.Context(), ours), h)
	s.conn.reached(stageJoined)
	s.said = said
	if _, err := s.openedBy(streamBegin); err != nil {
		t.Fatal(err)
	}
	return h, s.listen()
}

// openedBy has the session read a stream's beginning.
func (s *xmppSession) openedBy(text string) (*xmppSession, error) {
	rest := s.in.in
	s.in.in = bufio.NewReader(strings.NewReader(text))
	inStream(s).in.restart()
	for s.in.depth == 0 {
		if _, err := s.xml.Token(); err != nil {
			return s, err
		}
	}
	for s.in.next < len(s.in.unit) {
		if _, err := s.xml.Token(); err != nil {
			return s, err
		}
	}
	s.in.in = rest
	return s, nil
}

// TestStanzasThatAreTooMuchAreSkipped: the message after each is heard.
func TestStanzasThatAreTooMuchAreSkipped(t *testing.T) {
	say := func(body string) string {
		return "<message type='groupchat' from='a@rooms.test/x'><body>" + body + "</body></message>"
	}
	for name, text := range map[string]string{
		"deep":              say(strings.Repeat("<a>", 12_000) + strings.Repeat("</a>", 12_000)),
		"deeper":            say(strings.Repeat("<a xmlns='b'>", 100_000) + strings.Repeat("</a>", 100_000)),
		"a long text":       say(strings.Repeat("ü&amp;", 100_000)),
		"many children":     say(strings.Repeat("<a/>", 200_000)),
		"a long attribute":  say("<a b='" + strings.Repeat(">", 300_000) + "'><c/></a>"),
		"a long stanza tag": "<message a='" + strings.Repeat("x", 300_000) + "'><body>x</body></message>",
		"CDATA":             say("<![CDATA[" + strings.Repeat("<a>]]", 60_000) + "]]>"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, err := listenTo(t, text+" "+say("after"))
			if got := reason(err); got != failure.Closed || len(h.heard) == 0 || h.heard[len(h.heard)-1] != "after" {
				t.Errorf("reason %q, heard %d messages, want the one after it: %v", got, len(h.heard), err)
			}
		})
	}
}

// TestMembersCannotSpeakForTheRoom has a member send errors, as everybody in a room can, and the room after that.
func TestMembersCannotSpeakForTheRoom(t *testing.T) {
	refuse := func(from, id string) string {
		return fmt.Sprintf("<message type='error' from='%s' id='%s'><error type='cancel'><not-acceptable xmlns='%s'/></error></message>",
			from, id, nsStanzas)
	}
	heard := "<message type='groupchat' from='a@rooms.test/n' id='ours'><body>ours</body></message>"
	for name, tt := range map[string]struct{ text, refused, want string }{
		"of a member":                     {refuse("a@rooms.test/x", "one"), "", "end"},
		"of a member, about our own":      {refuse("a@rooms.test/x", "ours"), "ours", "end"},
		"of a member, about what is said": {heard + refuse("a@rooms.test/x", "ours"), "", "end"},
		"of the room":                     {refuse("a@rooms.test", "ours"), "ours", "not-acceptable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, err := listenTo(t, tt.text, "ours")
			if got := strings.Join(h.refused, " "); got != tt.refused {
				t.Errorf("refused %q, want %q", got, tt.refused)
			}
			if ended := strings.Contains(fmt.Sprint(err), "not-acceptable"); ended != (tt.want == "not-acceptable") {
				t.Errorf("the session ends with %v", err)
			}
		})
	}
}

// TestSayObeysItsDeadline has a server stop reading. The message fails in time, and so does everything in its session.
func TestSayObeysItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close() //nolint:errcheck // a test
		l := newLink(t.Context(), ours)
		l.reached(stageJoined)
		for name, s := range map[string]Conversation{
			"irc":  &ircSession{account: &IRC{Channel: "#c"}, conn: l, pongs: map[string]chan struct{}{}},
			"xmpp": newXMPPSession(&XMPP{Room: "a@rooms.test"}, l, deaf{}),
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			began := time.Now()
			if err := s.Say(ctx, "x"); reason(err) != failure.Timeout {
				t.Errorf("%s: got %v, want a timeout", name, err)
			}
			if err := s.Ping(ctx); reason(err) != failure.Timeout {
				t.Errorf("%s: got %v, want a timeout", name, err)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%s: the message failed after %s, want 3 s", name, took)
			}
			cancel()
		}
		if _, err := l.Read(make([]byte, 1)); reason(err) != failure.Timeout {
			t.Errorf("the session reads on: %v", err)
		}
	})
}

// TestFloodAfterTheJoinEndsTheSession: a session that lasts reads at most 4 MiB a minute.
func TestFloodAfterTheJoinEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close() //nolint:errcheck // a test
		go endless(theirs, "x")
		l := newLink(t.Context(), ours)
		l.reached(stageJoined)
		for range 3 {
			if _, err := io.CopyN(io.Discard, l, maxTraffic); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		if n, err := io.Copy(io.Discard, l); n != maxTraffic || reason(err) != failure.TooLarge {
			t.Errorf("%d bytes within a minute, want %d: %v", n, maxTraffic, err)
		}
	})
}

// TestSCRAMFollowsItsRFC repeats the example of RFC 7677.
func TestSCRAMFollowsItsRFC(t *testing.T) {
	t.Parallel()
	s, err := newSCRAM(hashes["SCRAM-SHA-256"], "user", "pencil", 4096, xdg.ChannelBinding{})
	if err != nil {
		t.Fatal(err)
	}
	s.nonce = "rOprNGfwEbeRWgbNEkqO"
	const nonce = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	got, err := s.answer(t.Context(), nonce+",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
	if want := "c=biws," + nonce + ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="; got != want || err != nil {
		t.Errorf("got %q, want %q: %v", got, want, err)
	}
	if _, err := s.answer(t.Context(), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="); err != nil || !s.proved {
		t.Errorf("the server's proof is refused: %v", err)
	}
}

// TestComputationEndsWithTheProbe demands hours of work.
func TestComputationEndsWithTheProbe(t *testing.T) {
	t.Parallel()
	s, err := newSCRAM(hashes["SCRAM-SHA-1"], "user", "pencil", 2_000_000_000, xdg.ChannelBinding{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.answer(ctx, "r="+s.nonce+"x,s="+base64.StdEncoding.EncodeToString([]byte("salt"))+",i=2000000000,h=extension")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the computation was cancelled", err)
	}
}
