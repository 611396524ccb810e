package chat

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	xdg "github.com/xdg-go/scram"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestServerMustProveThatItKnowsThePassword has servers without the password end or prolong the login.
func TestServerMustProveThatItKnowsThePassword(t *testing.T) {
	for name, c := range map[string]struct{ answer, iterations, want string }{
		"success in place of a proof": {"success", "4096", "without a proof"},
		"endless work":                {"challenge", "2147483647", "it demands 2147483647 iterations, more than 100000"},
		"no number":                   {"challenge", "99999999999999999999", "does not follow SCRAM"},
		"a sign":                      {"challenge", "+900000000", "does not follow SCRAM"},
		"too little work":             {"challenge", "4095", "fewer than 4096"},
		"a second count":              {"challenge", "4096,i=900000000", "does not follow SCRAM"},
		"an extension to obey":        {"challenge", "4096,m=1", "does not follow SCRAM"},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer ours.Close() //nolint:errcheck // a test
			go func() {
				defer theirs.Close() //nolint:errcheck // a test
				request := make([]byte, 4096)
				n, err := theirs.Read(request)
				if err != nil {
					return
				}
				_, text, _ := strings.Cut(string(request[:n]), ">")
				text, _, _ = strings.Cut(text, "<")
				first, err := base64.StdEncoding.DecodeString(text)
				if err != nil {
					return
				}
				_, nonce, _ := strings.Cut(string(first), "r=")
				message := "r=" + nonce + "more,s=" + base64.StdEncoding.EncodeToString([]byte("salt")) + ",i=" + c.iterations
				if _, err := fmt.Fprintf(theirs, "<%[1]s xmlns='%[2]s'>%[3]s</%[1]s>",
					c.answer, nsSASL, base64.StdEncoding.EncodeToString([]byte(message))); err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, theirs)
			}()
			if err := passwordSession(ours).authenticate(offer("SCRAM-SHA-256")); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestPasswordIsNotShownToAnybody(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close() //nolint:errcheck // a test
	defer ours.Close()   //nolint:errcheck // a test
	s := passwordSession(ours)
	s.account.Trust.InsecureSkipVerify = true
	if err := s.authenticate(offer("PLAIN")); err == nil || !strings.Contains(err.Error(), "offers PLAIN; PLAIN would show") {
		t.Errorf("got %v", err)
	}
}

func passwordSession(conn net.Conn) *xmppSession {
	return inStream(newXMPPSession(&XMPP{User: "check", Password: config.NewSecret("sesame"), Iterations: 100_000},
		newLink(context.Background(), conn), deaf{}))
}

// inStream puts a session where the server has opened its stream.
func inStream(s *xmppSession) *xmppSession {
	s.in.depth, s.in.room = 1, maxStanza
	s.xml = xml.NewDecoder(s.in)
	return s
}

// offer is what a server with these mechanisms offers.
func offer(names ...string) *element {
	list := element{XMLName: xml.Name{Space: nsSASL, Local: "mechanisms"}}
	for _, name := range names {
		list.Children = append(list.Children, element{Text: name})
	}
	return &element{Children: []element{list}}
}

// withBindings adds the types of a server's channel bindings to what it offers.
func withBindings(features *element, types ...string) *element {
	list := element{XMLName: xml.Name{Space: nsBindings, Local: "sasl-channel-binding"}}
	for _, t := range types {
		list.Children = append(list.Children, element{Attr: []xml.Attr{{Name: xml.Name{Local: "type"}, Value: t}}})
	}
	features.Children = append(features.Children, list)
	return features
}

// scramServer is a server's side of SCRAM, for the user check with a password.
func scramServer(mechanism, password string, bound xdg.ChannelBinding) *xdg.ServerConversation {
	function := map[string]xdg.HashGeneratorFcn{
		"SCRAM-SHA-512": xdg.SHA512, "SCRAM-SHA-256": xdg.SHA256, "SCRAM-SHA-1": xdg.SHA1,
	}[strings.TrimSuffix(mechanism, "-PLUS")]
	client, err := function.NewClient("check", password, "")
	if err != nil {
		panic(err)
	}
	server, err := function.NewServer(func(string) (xdg.StoredCredentials, error) {
		return client.GetStoredCredentialsWithError(xdg.KeyFactors{Salt: "salt", Iters: minIterations})
	})
	if err != nil {
		panic(err)
	}
	if bound.IsSupported() {
		return server.NewConversationWithChannelBinding(bound) // refuses the flag y
	}
	return server.NewConversation()
}

// TestLoginIsBoundWhereBothCan logs in over TLS, at servers that offer -PLUS with and without a list of bindings. The server checks the
// binding with what it knows of its own connection, and refuses the flag y.
func TestLoginIsBoundWhereBothCan(t *testing.T) {
	certificate := exchangetest.Certificate{Names: []string{"chat.test"}}.Make(t)
	all := []string{
		"PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512", "SCRAM-SHA-1-PLUS", "SCRAM-SHA-256-PLUS", "SCRAM-SHA-512-PLUS",
	}
	for name, tt := range map[string]struct {
		version  uint16
		offered  []string
		bindings []string
		want     string // mechanism and header
	}{
		"1.3 exporter": {
			tls.VersionTLS13,
			all,
			[]string{"tls-unique", "tls-server-end-point", "tls-exporter"},
			"SCRAM-SHA-512-PLUS p=tls-exporter,,",
		},
		"1.3 end point": {
			tls.VersionTLS13,
			all,
			[]string{"tls-unique", "tls-server-end-point"},
			"SCRAM-SHA-512-PLUS p=tls-server-end-point,,",
		},
		"1.3 unique is not bound": {
			tls.VersionTLS13,
			all,
			[]string{"tls-unique"},
			"SCRAM-SHA-512 n,,",
		},
		"1.2 unique": {
			tls.VersionTLS12,
			all,
			[]string{"tls-unique"},
			"SCRAM-SHA-512-PLUS p=tls-unique,,",
		},
		"1.2 exporter": {
			tls.VersionTLS12,
			all,
			[]string{"tls-exporter"},
			"SCRAM-SHA-512-PLUS p=tls-exporter,,",
		},
		"no list": {
			tls.VersionTLS12,
			all,
			nil,
			"SCRAM-SHA-512 n,,",
		},
		"an unknown binding": {
			tls.VersionTLS13,
			all,
			[]string{"tls-tomorrow"},
			"SCRAM-SHA-512 n,,",
		},
		"a list, nothing to bind": {
			tls.VersionTLS13,
			all[:4],
			[]string{"tls-exporter"},
			"SCRAM-SHA-512 n,,",
		},
		"the strong one is bound": {
			tls.VersionTLS13,
			[]string{"SCRAM-SHA-1-PLUS", "SCRAM-SHA-256-PLUS", "SCRAM-SHA-1"},
			[]string{"tls-exporter"},
			"SCRAM-SHA-256-PLUS p=tls-exporter,,",
		},
		"as of old": {
			tls.VersionTLS13,
			all[:2],
			nil,
			"SCRAM-SHA-1 n,,",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			//nolint:gosec // a test's
			server := tls.Server(theirs,
				&tls.Config{Certificates: []tls.Certificate{exchangetest.Chain(certificate)}, MaxVersion: tt.version})
			//nolint:gosec // a test's
			client := tls.Client(ours, &tls.Config{InsecureSkipVerify: true})
			got := make(chan string, 1)
			go func() {
				defer theirs.Close() //nolint:errcheck // a test
				got <- answerSCRAM(server, certificate, slices.Contains(tt.offered, "SCRAM-SHA-1-PLUS"))
			}()
			err := client.HandshakeContext(t.Context())
			if err == nil {
				err = passwordSession(client).authenticate(withBindings(offer(tt.offered...), tt.bindings...))
			}
			ours.Close() //nolint:errcheck,gosec // a test
			if first := <-got; err != nil || first != tt.want {
				t.Errorf("the login began with %q, want %q: %v", first, tt.want, err)
			}
		})
	}
}

// answerSCRAM answers a login with the password sesame on a connection, and returns its mechanism and header.
func answerSCRAM(conn *tls.Conn, certificate *exchangetest.Certified, offersPlus bool) (first string) {
	var conversation *xdg.ServerConversation
	for stream := xml.NewDecoder(conn); ; {
		var e element
		if stream.Decode(&e) != nil {
			return first
		}
		message, err := base64.StdEncoding.DecodeString(e.Text)
		if err != nil {
			return err.Error()
		}
		if first == "" {
			header := string(message[:strings.Index(string(message), ",,")+2])
			bound := xdg.ChannelBinding{}
			if offersPlus {
				bound = ownBinding(conn, certificate, header)
			}
			first = e.attr("mechanism") + " " + header
			conversation = scramServer(e.attr("mechanism"), "sesame", bound)
		}
		response, err := conversation.Step(string(message))
		kind := "challenge"
		if conversation.Done() {
			kind = "success"
		}
		if err != nil {
			kind = "failure"
		}
		fmt.Fprintf(conn, "<%[1]s xmlns='%[2]s'>%[3]s</%[1]s>", kind, nsSASL, encode(response)) //nolint:errcheck // the client may be gone
	}
}

// ownBinding is a server's data of the binding that a header names.
func ownBinding(conn *tls.Conn, certificate *exchangetest.Certified, header string) xdg.ChannelBinding {
	state := conn.ConnectionState()
	name, _, _ := strings.Cut(strings.TrimPrefix(header, "p="), ",")
	b := xdg.ChannelBinding{Type: xdg.ChannelBindingType(name), Data: []byte("no binding of this name")}
	switch name {
	case "tls-server-end-point":
		hash := sha256.Sum256(certificate.Cert.Raw)
		b.Data = hash[:]
	case "tls-unique":
		b.Data = state.TLSUnique
	case "tls-exporter":
		b.Data, _ = state.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, 32)
	}
	return b
}

// TestRefusedLoginSaysWhatTheServerOffers has servers refuse a login for several reasons.
func TestRefusedLoginSaysWhatTheServerOffers(t *testing.T) {
	refusal := func(condition string) string { return "<failure xmlns='" + nsSASL + "'><" + condition + "/></failure>" }
	for name, tt := range map[string]struct {
		offered    *element
		answer     string
		want, hint string
		sent       bool // a credential
	}{
		"nothing": {
			offer(),
			"",
			"the server offers no mechanism",
			"enable SCRAM",
			false,
		},
		"nothing of ours": {
			offer("EXTERNAL", "X-OAUTH2"),
			"",
			"the server offers EXTERNAL, X-OAUTH2, none that",
			"enable SCRAM",
			false,
		},
		"only with -PLUS": {
			offer("SCRAM-SHA-256-PLUS"),
			"",
			"the server offers SCRAM-SHA-256-PLUS, none that",
			"(XEP-0440)",
			false,
		},
		"wrong password": {
			offer("PLAIN", "SCRAM-SHA-512"),
			refusal("not-authorized"),
			"by SCRAM-SHA-512: not-authorized; the server offers PLAIN, SCRAM-SHA-512",
			"correct user and password",
			true,
		},
		"no account": {
			offer("PLAIN"),
			refusal("account-disabled"),
			"by PLAIN: account-disabled; the server offers PLAIN",
			"has disabled the account",
			true,
		},
		"SCRAM's own words": {
			offer("SCRAM-SHA-1"),
			"<challenge xmlns='" + nsSASL + "'>" + encode("e=unknown-user") + "</challenge>",
			"the server refuses it: unknown-user",
			"correct user and password",
			true,
		},
		"expired password": {
			offer("PLAIN"),
			refusal("credentials-expired"),
			"by PLAIN: credentials-expired",
			"has expired",
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer ours.Close() //nolint:errcheck // a test
			go func() {
				defer theirs.Close()              //nolint:errcheck // a test
				theirs.Read(make([]byte, 4096))   //nolint:errcheck,gosec // the client may be gone
				io.WriteString(theirs, tt.answer) //nolint:errcheck // the client may be gone
			}()
			err := passwordSession(ours).authenticate(tt.offered)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(failure.HintOf(err), tt.hint) ||
				failure.RefusesCredential(err) != tt.sent {
				t.Errorf("got %v, with the hint %q; want %q and %q", err, failure.HintOf(err), tt.want, tt.hint)
			}
		})
	}
}

// TestBrokenBindingIsNotAWrongPassword has a proxy end TLS before a server that names the binding, and before one that says only no.
func TestBrokenBindingIsNotAWrongPassword(t *testing.T) {
	login := &saslLogin{mechanism: "SCRAM-SHA-1-PLUS", scram: &scram{binding: xdg.NewTLSUniqueBinding([]byte("x"))}}
	for _, tt := range []struct{ condition, text, want string }{
		{"malformed-request", "Invalid channel binding value.", "has another channel binding (tls-unique) than this TLS connection"},
		{
			"malformed-request",
			"",
			"not for the account or its password: read its log; if user and password are right, " +
				"something that ends TLS before the XMPP server may break",
		},
		{
			"not-authorized",
			"",
			"correct user and password of the XMPP account; if user and password are right, " +
				"something that ends TLS before the XMPP server may break",
		},
	} {
		if got := failure.HintOf(refusedLogin(refusalOf(tt.condition, tt.text), &xmppOffer{}, login)); !strings.Contains(got, tt.want) {
			t.Errorf("%s %q: the hint is %q, want %q", tt.condition, tt.text, got, tt.want)
		}
	}
}

func refusalOf(condition, text string) *element {
	return &element{Children: []element{{XMLName: xml.Name{Local: condition}}, {XMLName: xml.Name{Local: "text"}, Text: text}}}
}

// TestOnlyARefusedPasswordIsToBeCorrected has conditions of RFC 6120, section 6.5, that are not about it.
func TestOnlyARefusedPasswordIsToBeCorrected(t *testing.T) {
	for condition, want := range map[string]bool{
		"not-authorized": true, "": true, "encryption-required": false, "mechanism-too-weak": false,
		"invalid-mechanism": false, "aborted": false,
		"account-disabled": false, "credentials-expired": false, "temporary-auth-failure": false,
	} {
		got := failure.HintOf(refusedLogin(refusalOf(condition, ""), &xmppOffer{}, &saslLogin{mechanism: plainText}))
		if strings.Contains(got, "correct user and password") != want {
			t.Errorf("%s: the hint is %q", condition, got)
		}
	}
}
