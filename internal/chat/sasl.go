package chat

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// mechanisms are what the session can use, the best first.
var mechanisms = []string{"SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"}

// authenticate logs in with the best mechanism that the server offers (RFC 6120, section 6). The connection is encrypted.
func (s *xmppSession) authenticate(features *element) error {
	var offered []string
	if list := features.child(nsSASL, "mechanisms"); list != nil {
		for i := range list.Children {
			offered = append(offered, list.Children[i].Text)
		}
	}
	i := slices.IndexFunc(mechanisms, func(m string) bool { return slices.Contains(offered, m) })
	if i < 0 {
		return failure.Errorf(failure.Unauthorized, "log in: the server offers none of %s", strings.Join(mechanisms, ", ")).BeforeLogin().
			WithHint("enable SCRAM in the XMPP server, for passwords and encrypted connections")
	}
	mechanism := mechanisms[i]
	if mechanism == "PLAIN" && s.account.Trust.InsecureSkipVerify {
		return failure.Errorf(failure.TLS, "log in: the server offers only PLAIN, which would show the password to whoever answers in its place").
			WithHint("enable SCRAM in the XMPP server, or have its certificate verified: remove insecure_skip_verify")
	}
	first, step, err := s.begin(mechanism)
	if err != nil {
		return failure.Errorf(failure.Unauthorized, "log in: %w", err).BeforeLogin().WithHint("the account's name or password contains characters that SCRAM does not allow")
	}
	request := fmt.Sprintf("<auth xmlns='%s' mechanism='%s'>%s</auth>", nsSASL, mechanism, first)
	for range maxChallenges {
		if err := s.write(request); err != nil {
			return err
		}
		answer, err := s.next()
		if err != nil {
			return err
		}
		success := answer.XMLName.Local == "success"
		switch {
		case answer.XMLName.Local == "failure":
			return refusedLogin(answer)
		case !success && answer.XMLName.Local != "challenge":
			return failure.Errorf(failure.Malformed, "log in: the server answers with %q", failure.OneLine(answer.XMLName.Local))
		}
		response, proved, err := step(answer.Text)
		if success && err == nil && !proved {
			err = errors.New("it accepts the login without a proof")
		}
		if err != nil {
			return unproved(err)
		}
		if success {
			return nil
		}
		request = fmt.Sprintf("<response xmlns='%s'>%s</response>", nsSASL, response)
	}
	return failure.Errorf(failure.Malformed, "log in: more than %d challenges", maxChallenges)
}

// maxChallenges bounds the answers of a server to one login: SCRAM has three.
const maxChallenges = 4

// unproved is the failure of a login in which the server does not show that it knows the password.
func unproved(err error) error {
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("log in: %w", err)
	case failure.HasType[*tooMuchWork](err):
		return failure.Errorf(failure.TooLarge, "log in: %w", err).
			WithHint("a login would cost the exporter too much work: if the server is yours, lower its SCRAM iterations, or raise scram_iterations here")
	}
	return failure.Errorf(failure.Unauthorized, "log in: the server does not know the password: %w", err).
		WithHint("something between the exporter and the XMPP server answers in its place, or the server's account data is damaged")
}

// refusedLogin is the failure of a login that the server refuses (RFC 6120, section 6.5).
func refusedLogin(answer *element) error {
	name, text := answer.condition()
	reason, hint := failure.Unauthorized, "the XMPP server refuses the account or its password: correct user and password of the XMPP account"
	switch {
	case failure.LimitsAddress(text):
		reason, hint = failure.Throttled, exchange.LimitHint("")
	case name == "temporary-auth-failure":
		reason, hint = failure.Mismatch, "the XMPP server cannot check passwords at the moment: read its log"
	}
	return failure.Errorf(reason, "log in: %s", failure.OneLine(name+text)).WithHint(hint)
}

// answerer answers a message of the server. proved says that the server knows the password.
type answerer func(message string) (response string, proved bool, err error)

// begin returns a mechanism's first message, and what answers the server's messages. All are in base64.
func (s *xmppSession) begin(mechanism string) (first string, step answerer, err error) {
	user, password := s.account.User, s.account.Password.Reveal()
	if mechanism == "PLAIN" {
		return base64.StdEncoding.EncodeToString([]byte("\x00" + user + "\x00" + password)), func(string) (string, bool, error) { return "", true, nil }, nil
	}
	login, err := newSCRAM(hashes[mechanism], user, password, s.account.Iterations)
	if err != nil {
		return "", nil, err
	}
	step = func(message string) (string, bool, error) {
		text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(message))
		if err != nil || len(text) == 0 && login.proved {
			return "", login.proved, err
		}
		response, err := login.answer(s.conn.session, string(text))
		return base64.StdEncoding.EncodeToString([]byte(response)), login.proved, err
	}
	return base64.StdEncoding.EncodeToString([]byte(scramHeader + login.first())), step, nil
}
