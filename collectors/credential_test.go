package collectors

import (
	"context"
	"log/slog"
	"net"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/pacing"
)

// hasSecret reports whether settings have a key for a secret.
func hasSecret(t reflect.Type) bool {
	for field := range t.Fields() {
		switch f := field.Type; {
		case f == reflect.TypeFor[config.Secret](), f == reflect.TypeFor[map[string]config.Secret]():
			return true
		case f.Kind() == reflect.Struct && hasSecret(f):
			return true
		}
	}
	return false
}

func TestEveryKindWithASecretSparesItsServer(t *testing.T) {
	for _, k := range Kinds {
		s := k.Defaults()
		if !hasSecret(reflect.TypeOf(s).Elem()) {
			continue
		}
		c, ok := s.(Paced)
		if !ok {
			t.Errorf("kind %s sends a secret, and its settings are not Paced", k.Name)
		} else if got := c.Pacing().Credential; !got.Login && got != (pacing.Credential{}) {
			t.Errorf("kind %s without a secret has the credential %+v", k.Name, got)
		}
	}
}

func TestTargetsShareAClockByServerAccountAndSecret(t *testing.T) {
	xmpp := func(address, user, password string) pacing.Credential {
		return (&XMPPLogin{
			XMPPAccount: XMPPAccount{Address: address, User: user, Password: config.NewSecret(password)},
		}).Pacing().Credential
	}
	web := func(url, user, password string) pacing.Credential {
		return (&Web{
			HTTP:        config.HTTP{URL: url},
			Credentials: exchange.Credentials{User: user, Password: config.NewSecret(password)},
		}).Pacing().Credential
	}
	for name, c := range map[string]struct {
		a, b pacing.Credential
		same bool
	}{
		"two ports of a chat server": {xmpp("chat:5222", "a@chat", "x"), xmpp("Chat:5223", "a@chat", "x"), true},
		"the host of the account":    {xmpp("", "a@chat", "x"), xmpp("chat", "a@chat", "x"), true},
		"another account":            {xmpp("chat", "a@chat", "x"), xmpp("chat", "b@chat", "x"), false},
		"another secret":             {xmpp("chat", "a@chat", "x"), xmpp("chat", "a@chat", "y"), false},
		"another server":             {xmpp("chat", "a@chat", "x"), xmpp("other", "a@chat", "x"), false},
		"two pages":                  {web("https://panel/a", "u", "x"), web("https://panel:443/b", "u", "x"), true},
		"two ports of a web server":  {web("https://panel/", "u", "x"), web("https://panel:8443/", "u", "x"), false},
	} {
		if (c.a == c.b) != c.same {
			t.Errorf("%s: %+v and %+v", name, c.a, c.b)
		}
	}
}

func TestInspIRCdIsRecognisedByWhatItSaysOfItself(t *testing.T) {
	for line, want := range map[string]bool{
		":irc.test CAP * LS :account-notify inspircd.org/poison inspircd.org/standard-replies": true,
		":irc.test 002 n :Your host is irc.test, running version InspIRCd-3":                   true,
		":irc.test 004 n irc.test InspIRCd-3 iosw biklmnopstv :bklov":                          true,
		":inspircd.test CAP * LS :account-notify sasl":                                         false,
		":inspircd.test 002 n :Your host is inspircd.test, running version UnrealIRCd-6.1":     false,
		":a!b@c PRIVMSG #InspIRCd :inspircd.org/poison InspIRCd-3":                             false,
	} {
		var b Batch
		b.RecogniseIRCLines(line + "\r\n")
		if got := b.ConnectionsPerHour == 10 && len(b.Notes) == 1; got != want {
			t.Errorf("%s: recognised %t, notes %q", line, got, b.Notes)
		}
	}
}

// TestRelayWithAWrongPasswordSparesTheServer counts the logins of a relay's sessions in a day.
func TestRelayWithAWrongPasswordSparesTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stack, inMemory := startStackInMemory(t)
		if err := stack.Switch("bridge", "wrong_password", true); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		dials := 0
		ctx, stop := context.WithCancel(exchange.WithDialer(inMemory, func(_ context.Context, network, address string) (net.Conn, error) {
			mu.Lock()
			dials++
			mu.Unlock()
			return exchange.Dial(inMemory, config.Connection{}, network, address)
		}))
		s := newRelaySettings()
		s.IRC.IRCAccount, s.XMPP.XMPPAccount = ircAccount(stack), xmppAccount(stack)
		s.IRC.Channel, s.XMPP.Room = "#check", "check@rooms.test"
		c, err := newRelay(s, Deps{Log: slog.New(slog.DiscardHandler), State: &memory{}, Logins: pacing.NewLogins()})
		if err != nil {
			t.Fatal(err)
		}
		var following sync.WaitGroup
		following.Go(func() { c.(Follower).Follow(ctx, func() {}) })
		time.Sleep(24 * time.Hour)
		mu.Lock()
		if dials < 30 || dials > 46 {
			t.Errorf("%d logins of two sessions in a day, want about 20 each", dials)
		}
		mu.Unlock()
		stop()
		following.Wait()
	})
}
