package service

import (
	"context"
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // the method's
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/textproto"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// mailServer is a mail server for one mail in a connection.
type mailServer struct {
	address, caFile string
	// implicit begins with TLS, offers are its extensions before TLS, and secured are those in TLS.
	implicit         bool
	offers, secured  []string
	certificate      tls.Certificate
	replies          map[string]string // by command, instead of success
	mu               sync.Mutex
	commands, logins []string
	mails            []string
}

// newMailServer starts one that does STARTTLS, and PLAIN after it, unless change changes that.
func newMailServer(t *testing.T, change func(*mailServer)) *mailServer {
	t.Helper()
	authority := exchangetest.Certificate{Name: "authority", Authority: true}.Make(t)
	leaf := exchangetest.Certificate{By: authority, Name: "mail", Names: []string{"mail.example.org"}}.Make(t)
	s := &mailServer{
		caFile:      exchangetest.Write(t, filepath.Join(t.TempDir(), "ca.pem"), authority),
		offers:      []string{"STARTTLS", "8BITMIME"},
		secured:     []string{"AUTH PLAIN LOGIN", "8BITMIME"},
		certificate: exchangetest.Chain(leaf),
		replies:     map[string]string{},
	}
	if change != nil {
		change(s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	s.address = exchangetest.ServeEach(t, l, s.serve)
	return s
}

func (s *mailServer) serve(raw net.Conn) {
	conn, offers := raw, s.offers
	if s.implicit {
		conn, offers = s.secure(raw), s.secured
	}
	c := textproto.NewConn(conn)
	c.PrintfLine("220 mail.example.org ESMTP") //nolint:errcheck,gosec // the client may be gone
	for {
		line, err := c.ReadLine()
		if err != nil {
			return
		}
		verb, argument, _ := strings.Cut(line, " ")
		s.note(line)
		reply := "250 ok"
		switch verb = strings.ToUpper(verb); {
		case s.replies[verb] == "hang":
			io.Copy(io.Discard, conn) //nolint:errcheck,gosec // until the client gives up
			return
		case s.replies[verb] == "close":
			return
		case s.replies[verb] != "":
			reply = s.replies[verb]
		case verb == "EHLO":
			reply = "250-mail.example.org\r\n250-" + strings.Join(append(offers, "SIZE 1000000"), "\r\n250-")
			reply = reply[:strings.LastIndex(reply, "250-")] + "250 SIZE 1000000"
		case verb == "STARTTLS":
			c.PrintfLine("220 go on") //nolint:errcheck,gosec // the client may be gone
			conn, offers = s.secure(raw), s.secured
			c = textproto.NewConn(conn)
			continue
		case verb == "AUTH":
			reply = s.auth(c, argument)
		case verb == "DATA":
			reply = s.data(c)
		case verb == "QUIT":
			reply = "221 bye"
		}
		if c.PrintfLine("%s", reply) != nil {
			return
		}
	}
}

func (s *mailServer) secure(raw net.Conn) net.Conn {
	return tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{s.certificate}}) //nolint:gosec // a test's server
}

// auth takes me with s3sam-open.
func (s *mailServer) auth(c *textproto.Conn, argument string) string {
	method, first, _ := strings.Cut(argument, " ")
	credentials := first
	if method == "CRAM-MD5" { // https://www.rfc-editor.org/rfc/rfc2195
		c.PrintfLine("334 %s", base64.StdEncoding.EncodeToString([]byte("<challenge>"))) //nolint:errcheck,gosec // as above
		line, _ := c.ReadLine()
		answer, _ := base64.StdEncoding.DecodeString(line)
		digest := hmac.New(md5.New, []byte("s3sam-open"))
		digest.Write([]byte("<challenge>"))
		if string(answer) == "me "+hex.EncodeToString(digest.Sum(nil)) {
			credentials = base64.StdEncoding.EncodeToString([]byte("\x00me\x00s3sam-open"))
		}
	}
	if method == "LOGIN" {
		var parts []string
		for _, question := range []string{"Username:", "Password:"} {
			c.PrintfLine("334 %s", base64.StdEncoding.EncodeToString([]byte(question))) //nolint:errcheck,gosec // as above
			line, _ := c.ReadLine()
			decoded, _ := base64.StdEncoding.DecodeString(line)
			parts = append(parts, string(decoded))
		}
		credentials = base64.StdEncoding.EncodeToString([]byte("\x00" + strings.Join(parts, "\x00")))
	}
	s.mu.Lock()
	s.logins = append(s.logins, method)
	s.mu.Unlock()
	if decoded, _ := base64.StdEncoding.DecodeString(credentials); string(decoded) != "\x00me\x00s3sam-open" {
		return "535 5.7.8 wrong, you said " + credentials + " s3sam-open"
	}
	return "235 ok"
}

func (s *mailServer) data(c *textproto.Conn) string {
	c.PrintfLine("354 go on") //nolint:errcheck,gosec // the client may be gone
	content, err := c.ReadDotBytes()
	if err != nil {
		return "451 " + err.Error()
	}
	if reply := s.replies["mail"]; reply != "" {
		return reply
	}
	s.mu.Lock()
	s.mails = append(s.mails, string(content))
	s.mu.Unlock()
	return "250 2.0.0 queued as 4711"
}

func (s *mailServer) note(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands = append(s.commands, line)
}

// got returns the mails and the commands.
func (s *mailServer) got() (mails, commands []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails), slices.Clone(s.commands)
}

func (s *mailServer) receiver(t *testing.T, url string) Receiver {
	t.Helper()
	return open(t, url, Options{CAFile: s.caFile, dial: dialTo(s.address)})
}

const mailURL = "smtp://me:s3sam-open@mail.example.org:587/?from=chat@example.org&to=ops@example.org"

// TestMailIsWhole checks the mail against RFC 5322, RFC 2047 (the subject) and RFC 3834 (Auto-Submitted).
func TestMailIsWhole(t *testing.T) {
	s := newMailServer(t, nil)
	m := message()
	m.Title = "[CRITICAL] XMPP-Server läuft nicht 🚨"
	m.Text = "Nutzer können sich nicht anmelden.\n.\nFrom here on: " + strings.Repeat("ü", 200)
	answer, err := s.receiver(t, mailURL+",Boss%2Bx@example.org&fromname=Wächter").Send(soon(t), m)
	if err != nil || answer != "2 recipients: 250 2.0.0 queued as 4711" {
		t.Fatalf("got %q and %v", answer, err)
	}
	mails, commands := s.got()
	if len(mails) != 2 || mails[0] != mails[1] && withoutDate(t, mails[0]) != withoutDate(t, mails[1]) {
		t.Fatalf("got %d mails", len(mails))
	}
	for _, want := range []string{
		"MAIL FROM:<chat@example.org> BODY=8BITMIME",
		"RCPT TO:<ops@example.org>",
		"RCPT TO:<Boss+x@example.org>",
	} {
		if !slices.Contains(commands, want) {
			t.Errorf("the client did not say %s, but %q", want, commands)
		}
	}
	got, err := mail.ReadMessage(strings.NewReader(mails[0]))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Subject":        m.Title,
		"From":           "Wächter <chat@example.org>",
		"To":             "<ops@example.org>, <Boss+x@example.org>",
		"Message-Id":     "<id1.chatstack@example.org>",
		"In-Reply-To":    "<thread-cause7.chatstack@example.org>",
		"References":     "<thread-cause7.chatstack@example.org>",
		"Auto-Submitted": "auto-generated",
		"Content-Type":   "text/plain; charset=utf-8",
		"Mime-Version":   "1.0",
		"Importance":     "high",
	} {
		value, err := (&mime.WordDecoder{}).DecodeHeader(got.Header.Get(name))
		if value = strings.ReplaceAll(value, `"`, ""); err != nil || value != want {
			t.Errorf("%s is %q (%v), want %q", name, value, err, want)
		}
	}
	if date, err := got.Header.Date(); err != nil || time.Since(date).Abs() > time.Hour {
		t.Errorf("the date is %v, %v", date, err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(got.Body))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m.Text+"\n"+link+"\n", strings.ReplaceAll(string(body), "\r\n", "\n")); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	for line := range strings.SplitSeq(mails[0], "\n") {
		if len(line) > 998 || strings.ContainsFunc(line, func(r rune) bool { return r > 126 }) {
			t.Errorf("the line %q is too long or not ASCII", line)
		}
	}
}

// withoutDate returns a mail without the line of its date.
func withoutDate(t *testing.T, mail string) string {
	t.Helper()
	before, rest, ok := strings.Cut(mail, "Date: ")
	if !ok {
		t.Fatal("the mail has no date")
	}
	_, after, _ := strings.Cut(rest, "\n")
	return before + after
}

func TestMailUsesTheTLSAndLoginThatItShould(t *testing.T) {
	const noLogin = "smtp://mail.example.org/?from=chat@example.org&to=ops@example.org"
	plain := func(s *mailServer) { s.offers = s.secured }
	for _, tt := range []struct {
		name, url string
		change    func(*mailServer)
		starts    bool   // whether the client says STARTTLS
		login     string // the method
	}{
		{
			name:   "STARTTLS and PLAIN",
			url:    mailURL,
			starts: true,
			login:  "PLAIN",
		},
		{
			name:   "LOGIN",
			url:    mailURL,
			change: func(s *mailServer) { s.secured = []string{"AUTH LOGIN XOAUTH2"} },
			starts: true,
			login:  "LOGIN",
		},
		{
			name:   "TLS at once on 465",
			url:    strings.Replace(mailURL, "587", "465", 1),
			change: func(s *mailServer) { s.implicit = true },
			login:  "PLAIN",
		},
		{
			name:   "TLS at once on another port",
			url:    mailURL + "&encryption=ImplicitTLS",
			change: func(s *mailServer) { s.implicit = true },
			login:  "PLAIN",
		},
		{
			name:   "CRAM-MD5",
			url:    mailURL,
			change: func(s *mailServer) { s.secured = []string{"AUTH CRAM-MD5"} },
			starts: true,
			login:  "CRAM-MD5",
		},
		{name: "STARTTLS without a login", url: noLogin, starts: true},
		{name: "no TLS and no login", url: noLogin, change: plain},
		{name: "no TLS on purpose", url: noLogin + "&encryption=none"},
		{name: "no login on purpose", url: mailURL + "&auth=none", starts: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newMailServer(t, tt.change)
			if _, err := s.receiver(t, tt.url).Send(soon(t), message()); err != nil {
				t.Fatal(err)
			}
			mails, commands := s.got()
			if len(mails) != 1 || slices.Contains(commands, "STARTTLS") != tt.starts {
				t.Errorf("%d mails after %q", len(mails), commands)
			}
			if got := strings.Join(s.logins, " "); got != tt.login {
				t.Errorf("logged in by %q, want %q", got, tt.login)
			}
		})
	}
}

func TestRefusedMailsHaveReasonsAndNoSecrets(t *testing.T) {
	secrets := []string{"s3sam-open", base64.StdEncoding.EncodeToString([]byte("\x00me\x00s3sam-open"))}
	reply := func(verb, words string) func(*mailServer) {
		return func(s *mailServer) { s.replies[verb] = words }
	}
	for _, tt := range []struct {
		name, url string
		change    func(*mailServer)
		want      failure.Reason
		permanent bool
		text      string
	}{
		{
			"a wrong password",
			mailURL,
			reply("AUTH", "535 5.7.8 no s3sam-open"),
			failure.Unauthorized,
			false,
			"login: 535 5.7.8 no <secret>",
		},
		{
			"a login without TLS",
			mailURL,
			func(s *mailServer) { s.offers = s.secured },
			failure.TLS,
			false,
			"the server offers no STARTTLS",
		},
		{
			"no login",
			mailURL,
			func(s *mailServer) { s.secured = nil },
			failure.Unauthorized,
			false,
			"the server offers no login",
		},
		{
			"a refused STARTTLS",
			mailURL,
			reply("STARTTLS", "454 not now"),
			failure.RPCError,
			false,
			"454 not now",
		},
		{
			"a refused sender",
			mailURL,
			reply("MAIL", "550 no"),
			failure.Forbidden,
			false,
			"sender chat@example.org: 550 no",
		},
		{
			"a refused recipient",
			mailURL,
			reply("RCPT", "550 5.1.1 no such user"),
			failure.Forbidden,
			false,
			"recipient ops@example.org: 550",
		},
		{
			"greylisting",
			mailURL,
			reply("RCPT", "450 4.2.0 greylisted"),
			failure.Throttled,
			false,
			"greylisted",
		},
		{
			"a ban",
			mailURL,
			reply("MAIL", "550 you are banned"),
			failure.Throttled,
			false,
			"banned",
		},
		{
			"no DATA",
			mailURL,
			reply("DATA", "451 try later"),
			failure.RPCError,
			false,
			"DATA: 451",
		},
		{
			"a mail too large",
			mailURL,
			reply("mail", "552 too large"),
			failure.RPCError,
			true,
			"mail: 552 too large",
		},
		{
			"spam",
			mailURL,
			reply("mail", "554 this is spam"),
			failure.Forbidden,
			true,
			"mail: 554 this is spam",
		},
		{
			"a full disk",
			mailURL,
			reply("mail", "452 disk full"),
			failure.RPCError,
			false,
			"452 disk full",
		},
		{
			"a close",
			mailURL,
			reply("RCPT", "close"),
			failure.Closed,
			false,
			"",
		},
		{
			"plain text on 465",
			strings.Replace(mailURL, "587", "465", 1),
			nil,
			failure.TLS,
			false,
			"",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newMailServer(t, tt.change)
			_, err := s.receiver(t, tt.url).Send(soon(t), message())
			wantFailure(t, err, tt.want, secrets)
			if Permanent(err) != tt.permanent || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, permanent %t", err, Permanent(err))
			}
			if mails, _ := s.got(); len(mails) > 0 {
				t.Error("the server has the mail")
			}
		})
	}
}

func TestMailServerOfUnknownAuthorityGetsNoPassword(t *testing.T) {
	s := newMailServer(t, nil)
	for _, url := range []string{mailURL, strings.Replace(mailURL, "mail.example.org", "other.example.org", 1)} {
		o := Options{dial: dialTo(s.address)}
		if strings.Contains(url, "other") {
			o.CAFile = s.caFile
		}
		_, err := open(t, url, o).Send(soon(t), message())
		wantFailure(t, err, failure.TLS, []string{"s3sam-open"})
	}
	if _, commands := s.got(); slices.ContainsFunc(commands, func(c string) bool { return strings.HasPrefix(c, "AUTH") }) {
		t.Errorf("the client said %q", commands)
	}
}

func TestHangingMailServerEndsWithTheContext(t *testing.T) {
	for _, verb := range []string{"EHLO", "AUTH", "RCPT", "DATA"} {
		s := newMailServer(t, func(s *mailServer) { s.replies[verb] = "hang" })
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for {
				if _, commands := s.got(); slices.ContainsFunc(commands, func(c string) bool { return strings.HasPrefix(c, verb) }) {
					cancel()
					return
				}
			}
		}()
		_, err := s.receiver(t, mailURL).Send(ctx, message())
		wantFailure(t, err, failure.Timeout, []string{"s3sam-open"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	silent := exchangetest.RawServer(t, "tcp", exchangetest.Hold)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		defer cancel()
		return (&net.Dialer{}).DialContext(ctx, network, silent)
	}
	_, err := open(t, mailURL, Options{dial: dial}).Send(ctx, message())
	wantFailure(t, err, failure.Timeout, []string{"s3sam-open"})
}

// TestAnotherMailGoesOnlyToRecipientsThatHaveNone has one of two recipients refused at first.
func TestAnotherMailGoesOnlyToRecipientsThatHaveNone(t *testing.T) {
	s := newMailServer(t, nil)
	r := s.receiver(t, mailURL+",boss@example.org").(*receiver) //nolint:forcetypeassert // Parse makes it
	deliver, refuse := r.deliver, true
	r.deliver = func(ctx context.Context, c *client, d *delivery) (*receipt, error) {
		if refuse && d.place == "ops@example.org" {
			return nil, failure.Errorf(failure.Throttled, "greylisted")
		}
		return deliver(ctx, c, d)
	}
	_, err := r.Send(soon(t), message())
	wantFailure(t, err, failure.Throttled, nil)
	refuse = false
	if _, err := r.Send(soon(t), message()); err != nil {
		t.Fatal(err)
	}
	var got []string
	_, commands := s.got()
	for _, c := range commands {
		if to, ok := strings.CutPrefix(c, "RCPT TO:"); ok {
			got = append(got, to)
		}
	}
	if diff := cmp.Diff([]string{"<boss@example.org>", "<ops@example.org>"}, got); diff != "" {
		t.Errorf("recipients (-want +got):\n%s", diff)
	}
}
