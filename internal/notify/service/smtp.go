package service

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/idna"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// mailer is a mail server with the account, and what its mails have in common.
type mailer struct {
	host, port, hello string
	user, password    string
	login             bool
	// implicit begins with TLS, required ends without STARTTLS, and none does without it.
	implicit, required, none bool
	from                     *mail.Address
	to                       []*mail.Address
}

// The limits of a mail: a subject that clients show, and a text that nobody reads to its end.
const (
	maxSubject = 200
	maxMail    = 256 << 10
)

func openMail(a *address, o Options) *plan {
	if o.ProxyURL != "" {
		a.fault("proxy_url does not apply to mail: remove it")
	}
	a.wantHost()
	host, err := idna.Lookup.ToASCII(a.Hostname())
	if err != nil {
		host = a.Hostname() // an address
	}
	m := &mailer{
		host:     host,
		port:     cmp.Or(a.Port(), "25"),
		hello:    cmp.Or(a.text("clienthost"), "localhost"),
		user:     a.user,
		password: a.password,
	}
	if m.hello == "auto" {
		m.hello, _ = os.Hostname()
		m.hello = cmp.Or(m.hello, "localhost")
	}
	m.login = m.user != ""
	if m.login && m.password == "" {
		a.fault("the user has no password")
	}
	m.readSecurity(a)
	m.from = a.mailbox("from", a.text("from", "fromaddress"))
	m.from.Name = cmp.Or(a.text("fromname"), "chatstack_exporter")
	var recipients []string
	for _, address := range a.list("to", "toaddresses") {
		to := a.mailbox("to", address)
		m.to, recipients = append(m.to, to), append(recipients, to.Address)
	}
	if len(recipients) == 0 {
		a.fault("to= is missing")
	}
	return &plan{
		host:    a.Hostname(),
		threads: true,
		places:  recipients,
		noun:    "recipients",
		deliver: m.deliver,
	}
}

// readSecurity reads the keys about TLS and login. A login never happens in plain text, except on this machine.
func (m *mailer) readSecurity(a *address) {
	switch encryption := strings.ToLower(a.text("encryption")); encryption {
	case "", "auto":
		m.implicit = m.port == "465"
		m.required = m.login && !isLocal(m.host)
	case "explicittls":
		m.required = true
	case "implicittls":
		m.implicit = true
	case "none":
		m.none = true
	default:
		a.fault("encryption is %q, must be auto, explicittls, implicittls or none", encryption)
	}
	m.none = m.none || !a.yes("usestarttls", true)
	m.required = a.yes("requirestarttls", m.required)
	switch auth := strings.ToLower(a.text("auth")); auth {
	case "", "unknown", "plain", "crammd5", "login":
	case "none":
		m.login = false
	default:
		a.fault("auth is %q, must be plain, login, crammd5 or none", auth)
	}
	if m.login && m.none && !m.implicit && !isLocal(m.host) {
		a.fault("the login would be sent in plain text: remove encryption=none or usestarttls=no, or the user")
	}
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// mailbox parses an address. A + of a query has become a space.
func (a *address) mailbox(key, text string) *mail.Address {
	text = strings.ReplaceAll(text, " ", "+")
	parsed, err := mail.ParseAddress(text)
	switch {
	case text == "":
		a.fault("%s= is missing", key)
	case err != nil || !strings.Contains(text, "@"):
		a.fault("%s= has %q, which is not an address", key, text)
	default:
		return &mail.Address{Address: parsed.Address}
	}
	return &mail.Address{}
}

// deliver sends the mail to one recipient.
func (m *mailer) deliver(ctx context.Context, c *client, d *delivery) (*receipt, error) {
	answer, err := m.talk(ctx, c, d)
	switch {
	case err == nil:
		return &receipt{answer: answer}, nil
	case ctx.Err() != nil:
		return nil, failure.Errorf(failure.Timeout, "%s: no complete answer in time: %w", m.host, ctx.Err())
	}
	return nil, c.unanswered(ctx, m.host, err)
}

func (m *mailer) talk(ctx context.Context, c *client, d *delivery) (string, error) {
	trust, err := c.tls(m.host)
	if err != nil {
		return "", err
	}
	conn, err := c.connect(ctx, "tcp", net.JoinHostPort(m.host, m.port))
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // the server has answered, or the error is another
	if m.implicit {
		conn = tls.Client(conn, trust)
	}
	server, err := smtp.NewClient(conn, m.host)
	if err != nil {
		return "", refused("greeting", err)
	}
	if err := server.Hello(m.hello); err != nil {
		return "", refused("EHLO", err)
	}
	if err := m.secure(server, trust); err != nil {
		return "", err
	}
	if err := m.logIn(server); err != nil {
		return "", err
	}
	if err := server.Mail(m.from.Address); err != nil {
		return "", refused("sender "+m.from.Address, err)
	}
	if err := server.Rcpt(d.place); err != nil {
		return "", refused("recipient "+d.place, err)
	}
	answer, err := m.write(server, d)
	if err == nil {
		server.Quit() //nolint:errcheck,gosec // the server has the mail
	}
	return answer, err
}

// secure begins TLS where it has to be.
func (m *mailer) secure(server *smtp.Client, trust *tls.Config) error {
	if m.implicit || m.none {
		return nil
	}
	if offered, _ := server.Extension("STARTTLS"); !offered {
		if m.required {
			return failure.Errorf(failure.TLS, "the server offers no STARTTLS").
				WithHint("set the port for TLS in the receiver's URL, such as 465 or 587; a login is not sent in plain text")
		}
		return nil
	}
	if err := server.StartTLS(trust); err != nil {
		return refused("STARTTLS", err)
	}
	return nil
}

// logIn uses the first method that the server offers.
func (m *mailer) logIn(server *smtp.Client) error {
	if !m.login {
		return nil
	}
	_, offers := server.Extension("AUTH")
	var auth smtp.Auth
	switch methods := strings.Fields(strings.ToUpper(offers)); {
	case slices.Contains(methods, "PLAIN"):
		auth = smtp.PlainAuth("", m.user, m.password, m.host)
	case slices.Contains(methods, "LOGIN"):
		auth = &loginAuth{user: m.user, password: m.password}
	case slices.Contains(methods, "CRAM-MD5"):
		auth = smtp.CRAMMD5Auth(m.user, m.password)
	default:
		return failure.Errorf(failure.Unauthorized, "the server offers no login that is known here: %q", failure.OneLine(offers)).
			WithHint("set the port for submission in the receiver's URL, mostly 587 or 465, or remove the user if the server wants none")
	}
	if err := server.Auth(auth); err != nil {
		return refused("login", err)
	}
	return nil
}

// loginAuth is the method LOGIN, which net/smtp lacks and some providers offer alone.
type loginAuth struct{ user, password string }

func (l *loginAuth) Start(server *smtp.ServerInfo) (string, []byte, error) {
	if !server.TLS && !isLocal(server.Name) {
		return "", nil, errors.New("the connection is not encrypted")
	}
	return "LOGIN", nil, nil
}

// Next answers the server's two questions.
func (l *loginAuth) Next(question []byte, more bool) ([]byte, error) {
	switch {
	case !more:
		return nil, nil
	case bytes.HasPrefix(bytes.ToLower(question), []byte("user")):
		return []byte(l.user), nil
	}
	return []byte(l.password), nil
}

// write sends the mail and returns the server's words about it.
func (m *mailer) write(server *smtp.Client, d *delivery) (string, error) {
	id, err := server.Text.Cmd("DATA")
	if err != nil {
		return "", err
	}
	server.Text.StartResponse(id)
	defer server.Text.EndResponse(id)
	if _, _, err := server.Text.ReadResponse(354); err != nil {
		return "", refused("DATA", err)
	}
	content := server.Text.DotWriter()
	if _, err := content.Write(m.compose(d, time.Now())); err != nil {
		return "", err
	}
	if err := content.Close(); err != nil {
		return "", err
	}
	code, words, err := server.Text.ReadResponse(250)
	if err != nil {
		said, ok := errors.AsType[*textproto.Error](err)
		err = refused("mail", err)
		if ok && said.Code >= 500 {
			err = permanentError{err}
		}
		return "", err
	}
	return fmt.Sprintf("%d %s", code, words), nil
}

// mailReasons are what the codes of https://www.rfc-editor.org/rfc/rfc5321 and rfc4954 mean.
var mailReasons = map[int]failure.Reason{
	450: failure.Throttled,
	530: failure.Unauthorized, 534: failure.Unauthorized, 535: failure.Unauthorized, 538: failure.Unauthorized,
	550: failure.Forbidden, 551: failure.NotFound, 553: failure.Forbidden, 554: failure.Forbidden,
}

// refused explains why the server refuses a step of the conversation. It keeps other errors, such as a broken connection.
func refused(step string, err error) error {
	said, ok := errors.AsType[*textproto.Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", step, err)
	}
	reason := cmp.Or(mailReasons[said.Code], failure.RPCError)
	if failure.LimitsAddress(said.Msg) {
		reason = failure.Throttled
	}
	hint := "the mail server refuses: read its words, and the log of the mail server"
	if reason == failure.Unauthorized {
		hint = hints[reason]
	}
	return failure.Errorf(reason, "%s: %d %s", step, said.Code, said.Msg).WithHint(hint)
}

// compose returns the mail: a header and plain text.
func (m *mailer) compose(d *delivery, now time.Time) []byte {
	var b bytes.Buffer
	domain := "localhost"
	if _, after, ok := strings.Cut(m.from.Address, "@"); ok {
		domain = after
	}
	to := make([]string, len(m.to))
	for i, address := range m.to {
		to[i] = address.String()
	}
	header := [][2]string{
		{"From", m.from.String()},
		{"To", strings.Join(to, ",\r\n ")},
		{"Subject", mime.QEncoding.Encode("utf-8", cut(d.Title, maxSubject, inCharacters))},
		{"Date", now.Format(time.RFC1123Z)},
		{"Message-ID", "<" + d.ID + ".chatstack@" + domain + ">"},
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
		{"Auto-Submitted", "auto-generated"},
		{"X-Auto-Response-Suppress", "All"},
	}
	if d.Thread != "" {
		// No mail has this id: clients still show together what refers to it.
		root := "<thread-" + d.Thread + ".chatstack@" + domain + ">"
		header = append(header, [2]string{"In-Reply-To", root}, [2]string{"References", root})
	}
	if d.Level == LevelCritical {
		header = append(header, [2]string{"Importance", "high"}, [2]string{"X-Priority", "1"})
	}
	for _, field := range header {
		fmt.Fprintf(&b, "%s: %s\r\n", field[0], field[1])
	}
	b.WriteString("\r\n")
	text := quotedprintable.NewWriter(&b)
	fmt.Fprintf(text, "%s\n", d.body(maxMail, inBytes, true)) //nolint:errcheck // a buffer takes everything
	text.Close()                                              //nolint:errcheck,gosec // as above
	return b.Bytes()
}
