package chat

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
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
			response, proved, err := step(answer.Text)
			success := answer.XMLName.Local == "success"
			if success && err == nil && !proved {
				err = errors.New("it accepts the login without a proof")
			}
			if err != nil {
				return failure.Errorf(failure.Unauthorized, "log in: the server does not know the password: %w", err).
					WithHint("something between the exporter and the XMPP server answers in its place, or the server's account data is damaged")
			}
			if success {
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
	reason, hint := failure.Unauthorized, "the XMPP server refuses the account or its password: correct user and password of the XMPP account"
	if name == "temporary-auth-failure" {
		reason, hint = failure.Mismatch, "the XMPP server cannot check passwords at the moment: read its log"
	}
	return failure.Errorf(reason, "log in: %s", failure.OneLine(name+text)).WithHint(hint)
}

// iterations matches the work that a server demands in SCRAM's first answer (RFC 5802, section 5.1).
var iterations = regexp.MustCompile(`(?:^|,)i=([0-9]+)`)

// maxIterations limits that work: a server with more would keep a processor busy for a second or longer. Prosody's default is 10,000.
const maxIterations = 1_000_000

// answerer answers a message of the server. proved says that the server knows the password.
type answerer func(message string) (response string, proved bool, err error)

// begin returns a mechanism's first message, and what answers the server's messages. All are in base64.
func (s *xmppSession) begin(mechanism string) (first string, step answerer, err error) {
	user, password := s.account.User, s.account.Password.Reveal()
	hash := scram.SHA256
	switch mechanism {
	case "PLAIN":
		return base64.StdEncoding.EncodeToString([]byte("\x00" + user + "\x00" + password)), func(string) (string, bool, error) { return "", true, nil }, nil
	case "SCRAM-SHA-1":
		hash = scram.SHA1
	}
	client, err := hash.NewClient(user, password, "")
	if err != nil {
		return "", nil, err
	}
	conversation := client.NewConversation()
	step = func(message string) (string, bool, error) {
		if conversation.Done() {
			return "", conversation.Valid(), nil
		}
		text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(message))
		if err != nil {
			return "", false, err
		}
		if m := iterations.FindSubmatch(text); m != nil {
			if n, err := strconv.Atoi(string(m[1])); err != nil || n > maxIterations {
				return "", false, fmt.Errorf("it demands %s iterations, more than %d", m[1], maxIterations)
			}
		}
		response, err := conversation.Step(string(text))
		return base64.StdEncoding.EncodeToString([]byte(response)), conversation.Valid(), err
	}
	first, _, err = step("")
	return first, step, err
}
