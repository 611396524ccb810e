package chat

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	xdg "github.com/xdg-go/scram"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

const (
	plainText  = "PLAIN"
	plusSuffix = "-PLUS"
	// maxChallenges bounds the answers of a server to one login: SCRAM has three.
	maxChallenges = 4
)

// mechanisms are what a session can use, the best first. Those with -PLUS take a binding.
var mechanisms = []string{
	"SCRAM-SHA-512-PLUS", "SCRAM-SHA-256-PLUS", "SCRAM-SHA-1-PLUS", "SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", plainText,
}

// bestMechanism returns the best mechanism that the server offers, "" if there is none.
func bestMechanism(offered []string, bound bool) string {
	i := slices.IndexFunc(mechanisms, func(m string) bool {
		return slices.Contains(offered, m) && (bound || !strings.HasSuffix(m, plusSuffix))
	})
	if i < 0 {
		return ""
	}
	return mechanisms[i]
}

// theOffer says which mechanisms a server offers. They are sorted, since Prosody 13 lists them in another order each time.
func theOffer(offered []string) string {
	if len(offered) == 0 {
		return "the server offers no mechanism"
	}
	return "the server offers " + failure.OneLine(strings.Join(slices.Sorted(slices.Values(offered)), ", "))
}

// saslAccount is what logs in by SASL.
type saslAccount struct {
	actAs, user, password string
	iterations            int // at most
}

// saslLogin is one login by a mechanism. All messages are in base64.
type saslLogin struct {
	mechanism string
	first     string
	scram     *scram // nil for PLAIN, by which the server proves nothing
}

// begin begins a login. The error says what the mechanism cannot send.
func (a *saslAccount) begin(mechanism string, binding xdg.ChannelBinding) (*saslLogin, error) {
	l := &saslLogin{mechanism: mechanism}
	if mechanism == plainText {
		l.first = encode(a.actAs + "\x00" + a.user + "\x00" + a.password)
		return l, nil
	}
	name, plus := strings.CutSuffix(mechanism, plusSuffix)
	if !plus {
		binding = xdg.ChannelBinding{}
	}
	var err error
	if l.scram, err = newSCRAM(hashes[name], a.user, a.password, a.iterations, binding); err != nil {
		return nil, failure.Errorf(failure.Unauthorized, "log in: %w", err).BeforeLogin().
			WithHint("the account's name or password contains characters that SCRAM does not allow")
	}
	l.first = encode(l.scram.header() + l.scram.first())
	return l, nil
}

func encode(message string) string { return base64.StdEncoding.EncodeToString([]byte(message)) }

// answer answers a message of the server.
func (l *saslLogin) answer(ctx context.Context, message string) (response string, err error) {
	if l.scram == nil {
		return "", failure.Errorf(failure.Malformed, "the server sends a challenge that PLAIN does not have")
	}
	text, err := base64.StdEncoding.DecodeString(message)
	if err != nil || len(text) == 0 && l.scram.proved {
		return "", err
	}
	response, err = l.scram.answer(ctx, string(text))
	return encode(response), err
}

// accepted returns why a server must not be believed that accepts the login.
func (l *saslLogin) accepted() error {
	if l.scram != nil && !l.scram.proved {
		return errors.New("it accepts the login without a proof")
	}
	return nil
}

// unproved is the failure of a login in which the server does not show that it knows the password.
func unproved(err error) error {
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || failure.HasType[*failure.Error](err):
		return fmt.Errorf("log in: %w", err)
	case failure.HasType[*refusal](err):
		return failure.Errorf(failure.Unauthorized, "log in: %w", err).
			WithHint("the server refuses the account or its password: correct user and password of the account")
	case failure.HasType[*tooMuchWork](err):
		return failure.Errorf(failure.TooLarge, "log in: %w", err).
			WithHint("a login would cost the exporter too much work: if the server is yours, lower its SCRAM iterations, " +
				"or raise scram_iterations here")
	}
	return failure.Errorf(failure.Unauthorized, "log in: the server does not know the password: %w", err).
		WithHint("something between the exporter and the server may answer in its place, or the server's account data is damaged")
}
