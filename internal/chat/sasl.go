package chat

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"regexp"
	"slices"
	"strings"

	xdg "github.com/xdg-go/scram"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// xmppOffer is how a server lets clients log in.
type xmppOffer struct {
	mechanisms []string
	// bindings are the types of its channel bindings (XEP-0440). A server that does not list them may still have some.
	bindings []string
}

func offerOf(features *element) (o xmppOffer) {
	if list := features.child(nsSASL, "mechanisms"); list != nil {
		for i := range list.Children {
			o.mechanisms = append(o.mechanisms, list.Children[i].Text)
		}
	}
	if list := features.child(nsBindings, "sasl-channel-binding"); list != nil {
		for i := range list.Children {
			o.bindings = append(o.bindings, list.Children[i].attr("type"))
		}
	}
	return o
}

// binding returns the best channel binding that both the connection and its server have; the zero value if there is none.
func (l *link) binding(supported []string) xdg.ChannelBinding {
	secure, ok := l.Conn.(*tls.Conn)
	if !ok {
		return xdg.ChannelBinding{}
	}
	state := secure.ConnectionState()
	exporter, _ := xdg.NewTLSExporterBinding(&state)       // none before TLS 1.3 without the extended master secret
	endPoint, _ := xdg.NewTLSServerEndpointBinding(&state) // none for a certificate whose signature has no hash function
	unique := xdg.NewTLSUniqueBinding(state.TLSUnique)     // none from TLS 1.3 on
	for _, b := range []xdg.ChannelBinding{exporter, endPoint, unique} {
		if b.IsSupported() && slices.Contains(supported, string(b.Type)) {
			return b
		}
	}
	return xdg.ChannelBinding{}
}

// authenticate logs in with the best mechanism that the server offers (RFC 6120, section 6). The connection is encrypted.
func (s *xmppSession) authenticate(features *element) error {
	offer := offerOf(features)
	bound := s.conn.binding(offer.bindings)
	mechanism := bestMechanism(offer.mechanisms, bound.IsSupported())
	switch {
	case mechanism == "":
		return failure.Errorf(failure.Unauthorized, "log in: %s, none that the exporter can use here",
			theOffer(offer.mechanisms)).BeforeLogin().
			WithHint("enable SCRAM in the XMPP server, for passwords and encrypted connections. The exporter can use SCRAM and PLAIN; " +
				"with -PLUS only where the server lists a channel binding of this connection (XEP-0440)")
	case mechanism == plainText && s.account.Trust.InsecureSkipVerify:
		return failure.Errorf(failure.TLS, "log in: %s; PLAIN would show the password to whoever answers in its place",
			theOffer(offer.mechanisms)).
			WithHint("enable SCRAM in the XMPP server, or have its certificate verified: remove insecure_skip_verify")
	}
	account := saslAccount{user: s.account.User, password: s.account.Password.Reveal(), iterations: s.account.Iterations}
	login, err := account.begin(mechanism, bound)
	if err != nil {
		return err
	}
	request := fmt.Sprintf("<auth xmlns='%s' mechanism='%s'>%s</auth>", nsSASL, mechanism, login.first)
	for range maxChallenges {
		if err := s.write(request); err != nil {
			return err
		}
		answer, err := s.next()
		if err != nil {
			return err
		}
		message := strings.TrimPrefix(strings.TrimSpace(answer.Text), "=") // alone, it is an empty message
		switch answer.XMLName.Local {
		case "failure":
			return refusedLogin(answer, &offer, login)
		case "success":
			if message != "" && login.scram != nil {
				_, err = login.answer(s.conn.session, message)
			}
			if err = cmp.Or(err, login.accepted()); err != nil {
				return unproved(err)
			}
			return nil
		case "challenge":
			response, err := login.answer(s.conn.session, message)
			if err != nil {
				return unproved(err)
			}
			request = fmt.Sprintf("<response xmlns='%s'>%s</response>", nsSASL, response)
		default:
			return failure.Errorf(failure.Malformed, "log in: the server answers with %q", failure.OneLine(answer.XMLName.Local))
		}
	}
	return failure.Errorf(failure.Malformed, "log in: more than %d challenges", maxChallenges)
}

// loginHints are what to do about a refused login, by its condition (RFC 6120, section 6.5).
var loginHints = map[string]string{
	"account-disabled":    "the XMPP server has disabled the account: enable it, or use another one",
	"credentials-expired": "the XMPP server says that the account's password has expired: set a new one",
}

// aboutBinding matches what servers say about a channel binding that is not theirs.
var aboutBinding = regexp.MustCompile(`(?i)channel.?binding`)

// refusedLogin is the failure of a login that the server refuses.
func refusedLogin(answer *element, offer *xmppOffer, login *saslLogin) error {
	name, text := answer.condition()
	reason, hint := failure.Unauthorized, cmp.Or(loginHints[name],
		"the XMPP server refuses the login for the reason that it names, not for the account or its password: read its log")
	if name == "not-authorized" || name == "" {
		hint = "the XMPP server refuses the account or its password: correct user and password of the XMPP account"
	}
	bound := ""
	if login.scram != nil {
		bound = string(login.scram.binding.Type)
	}
	switch {
	case failure.LimitsAddress(text):
		reason, hint = failure.Throttled, exchange.LimitHint("")
	case name == "temporary-auth-failure":
		reason, hint = failure.Mismatch, "the XMPP server cannot check passwords at the moment: read its log"
	case bound != "" && aboutBinding.MatchString(text):
		hint = "the XMPP server has another channel binding (" + bound + ") than this TLS connection: if something in between ends TLS, " +
			"let it end at the XMPP server, or let the server offer no channel binding"
	case bound != "" && loginHints[name] == "":
		hint += "; if user and password are right, something that ends TLS before the XMPP server may break the binding to the " +
			"connection (" + bound + ")"
	}
	return failure.Errorf(reason, "log in by %s: %s; %s",
		login.mechanism, failure.OneLine(name+text), theOffer(offer.mechanisms)).WithHint(hint)
}
