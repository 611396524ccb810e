package chat

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	xdg "github.com/xdg-go/scram"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// ircServices is an IRC server with the account check.
type ircServices struct {
	capability string   // such as sasl=PLAIN
	has        []string // mechanisms, which it lists when it is asked for another one
	password   string
	keyless    string // SCRAM's words if the account has no keys for it; - are none
	forged     string // its proof, instead of the right one
	early      bool   // it accepts a login after the first message
	needs      string // the password of the server

	conn         net.Conn
	passed       bool // PASS is right
	mechanism    string
	conversation *xdg.ServerConversation
	message      string
	lines        []string // that came, without what SASL sends
}

func (s *ircServices) say(lines ...string) {
	for _, line := range lines {
		io.WriteString(s.conn, line+"\r\n") //nolint:errcheck // the client may be gone
	}
}

func (s *ircServices) serve(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // a pipe
	s.conn = conn
	lines := make(chan string, 100) // a pipe has no buffer
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(conn); in.Scan(); {
			lines <- in.Text()
		}
	}()
	for line := range lines {
		command, rest, _ := strings.Cut(line, " ")
		if command != "AUTHENTICATE" {
			s.lines = append(s.lines, line)
		}
		switch command {
		case "PASS":
			s.passed = rest == ":"+s.needs
		case "USER":
			if s.needs != "" && !s.passed {
				s.say(":s 464 * :Password incorrect")
			}
		case "CAP":
			switch {
			case rest == "END":
				s.say(":s 001 n :welcome")
			case strings.HasPrefix(rest, "LS"):
				s.say(":s CAP * LS :" + s.capability)
			case strings.HasPrefix(rest, "REQ"):
				s.say(":s CAP * ACK " + strings.TrimPrefix(rest, "REQ "))
			}
		case "AUTHENTICATE":
			s.authenticate(rest)
		case "JOIN":
			s.say(":s 366 n #c :End")
		}
	}
}

func (s *ircServices) authenticate(line string) {
	if s.mechanism == "" {
		if !slices.Contains(s.has, line) {
			s.say(":s 908 n "+strings.Join(s.has, ",")+" :are available SASL mechanisms", ":s 904 n :SASL authentication failed")
			return
		}
		s.mechanism = line
		s.conversation = nil
		s.say("AUTHENTICATE +")
		return
	}
	s.message += strings.TrimPrefix(line, "+")
	if len(line) == saslChunk {
		return
	}
	message, _ := base64.StdEncoding.DecodeString(s.message) // "" is refused below
	s.message = ""
	accept := func() {
		s.say(":s 900 n n!u@h check :You are now logged in", ":s 903 n :SASL authentication successful")
	}
	refuse := func() {
		s.mechanism = ""
		s.say(":s 904 n :SASL authentication failed")
	}
	switch {
	case s.early:
		accept()
	case s.mechanism == "PLAIN":
		if string(message) != "check\x00check\x00"+s.password {
			refuse()
			return
		}
		accept()
	case s.keyless != "":
		if s.keyless != "-" {
			s.say("AUTHENTICATE " + encode(s.keyless))
		}
		refuse()
	default:
		s.step(string(message), accept, refuse)
	}
}

func (s *ircServices) step(message string, accept, refuse func()) {
	if s.conversation != nil && s.conversation.Done() {
		accept()
		return
	}
	if s.conversation == nil {
		s.conversation = scramServer(s.mechanism, s.password, xdg.ChannelBinding{})
	}
	response, err := s.conversation.Step(message)
	if err != nil {
		refuse()
		return
	}
	if s.conversation.Done() && s.forged != "" {
		response = s.forged
	}
	if strings.HasPrefix(response, "e=") {
		defer refuse()
	}
	encoded := encode(response)
	for ; len(encoded) >= saslChunk; encoded = encoded[saslChunk:] {
		s.say("AUTHENTICATE " + encoded[:saslChunk])
	}
	s.say("AUTHENTICATE " + encoded)
}

// login logs in with a password, and as the user check.
func (s *ircServices) login(t *testing.T, password, serverPassword string) error {
	t.Helper()
	ended := make(chan struct{})
	ctx, stop := context.WithCancel(exchange.WithDialer(t.Context(), func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer close(ended)
			s.serve(server)
		}()
		return client, nil
	}))
	defer stop()
	a := &IRC{
		Server:         Server{TLSServer: exchange.TLSServer{Address: "irc.test:6667"}, Plain: true},
		Nick:           "n",
		User:           "check",
		Password:       config.NewSecret(password),
		ServerPassword: config.NewSecret(serverPassword),
		Iterations:     100_000,
		Channel:        "#c",
	}
	err := a.Run(ctx, &exchange.Record{}, leaving{stop})
	<-ended
	return err
}

// TestIRCLoginUsesTheBestMechanism has servers that list mechanisms, in the capability or when they are asked for another one, and services
// that have no keys of the account for SCRAM.
func TestIRCLoginUsesTheBestMechanism(t *testing.T) {
	long := strings.Repeat("sesame", 100)
	for name, tt := range map[string]struct {
		server ircServices
		want   string
	}{
		"the best of all": {
			ircServices{capability: "sasl=PLAIN,EXTERNAL,SCRAM-SHA-256,SCRAM-SHA-512", has: []string{"SCRAM-SHA-512"}},
			"SCRAM-SHA-512",
		},
		"the second":           {ircServices{capability: "sasl=PLAIN,SCRAM-SHA-256", has: []string{"SCRAM-SHA-256"}}, "SCRAM-SHA-256"},
		"without TLS to bind":  {ircServices{capability: "sasl=SCRAM-SHA-256-PLUS,PLAIN", has: []string{"PLAIN"}}, "PLAIN"},
		"no list":              {ircServices{capability: "sasl", has: []string{"PLAIN"}}, "PLAIN"},
		"a list for a refusal": {ircServices{capability: "sasl", has: []string{"ECDSA", "SCRAM-SHA-256"}}, "SCRAM-SHA-256"},
		"a wrong list":         {ircServices{capability: "sasl=PLAIN,SCRAM-SHA-512", has: []string{"PLAIN"}}, "PLAIN"},
		"no keys for SCRAM": {
			ircServices{capability: "sasl=PLAIN,SCRAM-SHA-512", has: []string{"PLAIN", "SCRAM-SHA-512"}, keyless: "-"},
			"PLAIN",
		},
		"the same in words": {
			ircServices{capability: "sasl=PLAIN,SCRAM-SHA-512", has: []string{"PLAIN", "SCRAM-SHA-512"}, keyless: "e=other-error"},
			"PLAIN",
		},
		"a long password": {ircServices{capability: "sasl", has: []string{"PLAIN"}, password: long}, "PLAIN"},
		"password of exact length, so that an empty line ends it": {
			ircServices{capability: "sasl", has: []string{"PLAIN"}, password: strings.Repeat("x", 288)},
			"PLAIN",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.server.password == "" {
				tt.server.password = "sesame"
			}
			if err := tt.server.login(t, tt.server.password, ""); err != nil || tt.server.mechanism != tt.want {
				t.Errorf("logged in by %q, want %q: %v", tt.server.mechanism, tt.want, err)
			}
		})
	}
}

// TestRefusedIRCLoginSaysWhatTheServerOffers has servers that refuse, and some that cannot show that they know the password.
func TestRefusedIRCLoginSaysWhatTheServerOffers(t *testing.T) {
	scram := ircServices{capability: "sasl=PLAIN,SCRAM-SHA-256", has: []string{"PLAIN", "SCRAM-SHA-256"}, password: "another"}
	forged, early := scram, scram
	forged.password, forged.forged, early.early = "sesame", "v="+encode("no proof"), true
	refused := forged
	refused.forged = "e=invalid-proof"
	for name, tt := range map[string]struct {
		server ircServices
		want   string
		reason failure.Reason
		sent   bool // a credential
	}{
		"wrong password, which PLAIN would only repeat": {
			scram,
			"as check by SCRAM-SHA-256: SASL authentication failed; the server offers PLAIN, SCRAM-SHA-256",
			failure.Unauthorized,
			true,
		},
		"wrong password by PLAIN": {
			ircServices{capability: "sasl=PLAIN", has: []string{"PLAIN"}},
			"by PLAIN: SASL authentication failed; the server offers PLAIN",
			failure.Unauthorized,
			true,
		},
		"nothing of ours": {
			ircServices{capability: "sasl=EXTERNAL,ECDSA"},
			"the server offers ECDSA, EXTERNAL, none that the exporter can use",
			failure.Unauthorized,
			false,
		},
		"nothing of ours, told late": {
			ircServices{capability: "sasl", has: []string{"EXTERNAL"}},
			"by PLAIN: SASL authentication failed; the server offers EXTERNAL",
			failure.Unauthorized,
			false,
		},
		"a server that does not know the password": {
			forged,
			"the server does not know the password: its proof is wrong",
			failure.Unauthorized,
			true,
		},
		"a server that accepts without a proof": {
			early,
			"it accepts the login without a proof",
			failure.Unauthorized,
			true,
		},
		"a refusal in SCRAM's own words": {
			refused,
			"by SCRAM-SHA-256: SASL authentication failed; the server offers",
			failure.Unauthorized,
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.server.login(t, "sesame", "")
			if reason(err) != tt.reason || !strings.Contains(fmt.Sprint(err), tt.want) || failure.RefusesCredential(err) != tt.sent {
				t.Errorf("got %q (%v), want %q", reason(err), err, tt.want)
			}
		})
	}
}

// TestServerPasswordIsSentFirst has a server that demands a password of everybody.
func TestServerPasswordIsSentFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		password   string
		reason     failure.Reason
		want, hint string
	}{
		"right": {
			"open :sesame",
			"",
			"",
			"",
		},
		"wrong": {
			"sesame",
			failure.Unauthorized,
			"the IRC server refuses server_password: Password incorrect",
			"correct server_password",
		},
		"none": {
			"",
			failure.Forbidden,
			"the IRC server refuses the session: Password incorrect",
			"set server_password",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := ircServices{needs: "open :sesame"}
			err := server.login(t, "", tt.password)
			if reason(err) != tt.reason ||
				err != nil && (!strings.Contains(err.Error(), tt.want) || !strings.Contains(failure.HintOf(err), tt.hint)) {
				t.Errorf("got %q (%v) with the hint %q, want %q", reason(err), err, failure.HintOf(err), tt.want)
			}
			if tt.password != "" &&
				(len(server.lines) < 3 || server.lines[1] != "PASS :"+tt.password || !strings.HasPrefix(server.lines[2], "NICK")) {
				t.Errorf("the server got %q", server.lines)
			}
		})
	}
}
