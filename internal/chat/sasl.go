package chat

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/xdg-go/scram"

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
	if i >= 0 && mechanisms[i] == "PLAIN" && s.account.Trust.InsecureSkipVerify {
		return failure.Errorf(failure.Unauthorized, "log in: the server offers only PLAIN, and its certificate is not verified").
			WithHint("PLAIN would give the password to whoever answers: set ca_file or fingerprint instead of insecure_skip_verify, or enable SCRAM in the XMPP server")
	}
	if i < 0 {
		return failure.Errorf(failure.Unauthorized, "log in: the server offers none of %s", strings.Join(mechanisms, ", ")).
			WithHint("enable SCRAM in the XMPP server, for passwords and encrypted connections")
	}
	mechanism := mechanisms[i]
	first, step, proved, err := s.begin(mechanism)
	if err != nil {
		return failure.Errorf(failure.Unauthorized, "log in: %w", err).WithHint("the account's name or password contains characters that SCRAM does not allow")
	}
	request := fmt.Sprintf("<auth xmlns='%s' mechanism='%s'>%s</auth>", nsSASL, mechanism, first)
	for {
		if err := write(s.conn, request); err != nil {
			return err
		}
		answer, err := s.next()
		if err != nil {
			return err
		}
		switch answer.XMLName.Local {
		case "challenge", "success":
			response, err := step(answer.Text)
			if err == nil && answer.XMLName.Local == "success" && !proved() {
				err = errors.New("it accepts the login without proof")
			}
			if err != nil {
				return failure.Errorf(failure.Unauthorized, "log in: the server does not prove that it knows the password: %w", err).
					WithHint("something between the exporter and the XMPP server answers in its place, or the server's account data is damaged")
			}
			if answer.XMLName.Local == "success" {
				return nil
			}
			request = fmt.Sprintf("<response xmlns='%s'>%s</response>", nsSASL, response)
		case "failure":
			return refusedLogin(answer)
		default:
			return failure.Errorf(failure.Malformed, "log in: the server answers with %q", failure.OneLine(answer.XMLName.Local))
		}
	}
}

// refusedLogin is the failure of a login that the server refuses (RFC 6120, section 6.5).
func refusedLogin(answer *element) error {
	name, text := answer.condition()
	reason, hint := failure.Unauthorized, "the XMPP server refuses the account or its password: correct xmpp.user and xmpp.password"
	if name == "temporary-auth-failure" {
		reason, hint = failure.Mismatch, "the XMPP server cannot check passwords at the moment: read its log"
	}
	return failure.Errorf(reason, "log in: %s", failure.OneLine(name+text)).WithHint(hint)
}

// maxIterations bounds the time that a login computes; servers ask for some 10,000.
const maxIterations = 1_000_000

// tooManyIterations reports whether a server's message asks for more than maxIterations (RFC 5802, section 7).
func tooManyIterations(message string) bool {
	for field := range strings.SplitSeq(message, ",") {
		if count, found := strings.CutPrefix(field, "i="); found {
			n, err := strconv.Atoi(count)
			return err != nil || n > maxIterations
		}
	}
	return false
}

// begin returns a mechanism's first message, a function that answers the server's messages, all in base64, and one that reports whether
// the server has proved that it knows the password, if the mechanism can tell.
func (s *xmppSession) begin(mechanism string) (first string, step func(string) (string, error), proved func() bool, err error) {
	user, password := s.account.User, s.account.Password.Reveal()
	hash := scram.SHA256
	switch mechanism {
	case "PLAIN":
		return base64.StdEncoding.EncodeToString([]byte("\x00" + user + "\x00" + password)), func(string) (string, error) { return "", nil }, func() bool { return true }, nil
	case "SCRAM-SHA-1":
		hash = scram.SHA1
	}
	client, err := hash.NewClient(user, password, "")
	if err != nil {
		return "", nil, nil, err
	}
	conversation := client.NewConversation()
	step = func(message string) (string, error) {
		if conversation.Done() {
			return "", nil
		}
		text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(message))
		if err != nil {
			return "", err
		}
		if tooManyIterations(string(text)) {
			return "", fmt.Errorf("it asks for more than %d iterations", maxIterations)
		}
		response, err := conversation.Step(string(text))
		return base64.StdEncoding.EncodeToString([]byte(response)), err
	}
	first, err = step("")
	return first, step, conversation.Valid, err
}
