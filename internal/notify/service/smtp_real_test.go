//go:build realservers

package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// exim is Debian's Exim on loopback, which passes mails on to the test.
type exim struct {
	submission, tls string // addresses: STARTTLS or plain text, and TLS at once
	caFile          string
	mails           chan string
}

// eximConfig lets a user with a password send anywhere, and everybody to local.example.org. It offers no login without TLS. Its verbs
// are the directory, the two ports, and the port of the test's server.
const eximConfig = `spool_directory = %[1]s/spool
log_file_path = %[1]s/spool/%%slog
pid_file_path = %[1]s/spool/pid
primary_hostname = mail.example.org
local_interfaces = <; 127.0.0.1.%[2]s ; 127.0.0.1.%[3]s
tls_on_connect_ports = %[3]s
tls_advertise_hosts = *
tls_certificate = %[1]s/cert.pem
tls_privatekey = %[1]s/key.pem
auth_advertise_hosts = ${if eq{$tls_in_cipher}{}{}{*}}
acl_smtp_rcpt = rcpt
acl_smtp_data = accept
host_lookup =
rfc1413_hosts =
keep_environment =
begin acl
rcpt:
  accept authenticated = *
  accept domains = local.example.org
  deny message = relay not permitted
begin routers
out:
  driver = manualroute
  route_list = * 127.0.0.1 byname
  self = send
  transport = out
begin transports
out:
  driver = smtp
  port = %[4]s
  allow_localhost
  hosts_avoid_tls = *
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${if and{{eq{$auth2}{me}}{eq{$auth3}{s3sam-open}}}}
  server_set_id = $auth2
`

// startExim starts the one of the package exim4-daemon-light, which the test has to do as root.
func startExim(t *testing.T) *exim {
	t.Helper()
	s := &exim{mails: make(chan string, 10), submission: freeAddress(t), tls: freeAddress(t)}
	upstream := realstack.ReceiveMail(t, func(mail []byte) { s.mails <- string(mail) })
	account, err := user.Lookup("Debian-exim")
	if err != nil {
		t.Fatalf("%v; install the package exim4-daemon-light", err)
	}
	uid, _ := strconv.Atoi(account.Uid) // numbers on Linux
	gid, _ := strconv.Atoi(account.Gid)
	dir := t.TempDir()
	authority := exchangetest.Certificate{Name: "authority", Authority: true}.Make(t)
	leaf := exchangetest.Certificate{By: authority, Name: "mail", Names: []string{"127.0.0.1"}}.Make(t)
	s.caFile = exchangetest.Write(t, filepath.Join(dir, "ca.pem"), authority)
	certificate, key := leaf.PEM(t)
	config := fmt.Appendf(nil, eximConfig, dir, portOf(s.submission), portOf(s.tls), portOf(upstream))
	for name, content := range map[string][]byte{"cert.pem": certificate, "key.pem": key, "exim.conf": config} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 0, gid); err != nil {
			t.Fatalf("%v; run this test as root", err)
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	spool := filepath.Join(dir, "spool")
	// The server's user has to reach it.
	err = errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755), os.Mkdir(spool, 0o750), os.Chown(spool, uid, gid))
	if err != nil {
		t.Fatal(err)
	}
	s.start(t, filepath.Join(dir, "exim.conf"), spool)
	return s
}

// start runs the server until the test ends.
func (s *exim) start(t *testing.T, config, spool string) {
	t.Helper()
	var output bytes.Buffer
	server := exec.CommandContext(context.WithoutCancel(t.Context()), "/usr/sbin/exim4", "-C", config, "-bdf")
	server.Stdout, server.Stderr = &output, &output
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGTERM) //nolint:errcheck,gosec // it may have ended
		server.Wait()                          //nolint:errcheck,gosec // as above
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(spool, "mainlog"))
			t.Logf("exim:\n%s%s", output.String(), log)
		}
	})
	for ctx := soon(t); ; time.Sleep(50 * time.Millisecond) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.submission)
		if err == nil {
			conn.Close() //nolint:errcheck,gosec // nothing is lost
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("exim does not start: %v", err)
		}
	}
}

func portOf(address string) string {
	_, port, _ := strings.Cut(address, ":")
	return port
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing is lost
	return l.Addr().String()
}

// TestRealMailServerTakesMails sends through Exim, with STARTTLS and with TLS at once, with and without the right password.
func TestRealMailServerTakesMails(t *testing.T) {
	s := startExim(t)
	o := Options{CAFile: s.caFile}
	const query = "/?from=chat@example.org&to=ops@example.org,boss@example.org"
	for i, url := range []string{
		"smtp://me:s3sam-open@" + s.submission + query + "&requirestarttls=yes",
		"smtp://me:s3sam-open@" + s.tls + query + "&encryption=implicittls",
		"smtp://" + s.submission + "/?from=chat@example.org&to=ops@local.example.org,boss@local.example.org",
		"smtp://" + s.submission + "/?from=chat@example.org&to=ops@local.example.org,boss@local.example.org&encryption=none",
	} {
		m := message()
		m.ID, m.Text = fmt.Sprint("real", i), "Nutzer können sich nicht anmelden.\n.\nende"
		answer, err := open(t, url, o).Send(soon(t), m)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(answer, "2 recipients: 250 OK id=") {
			t.Errorf("the server answered %q", answer)
		}
		for range 2 {
			s.wantMail(t, m.ID)
		}
	}
	for _, tt := range []struct {
		url     string
		options Options
		want    failure.Reason
	}{
		{"smtp://me:wr0ng-word@" + s.submission + query, o, failure.Unauthorized},
		{"smtp://me:wr0ng-word@" + s.tls + query + "&encryption=implicittls", o, failure.Unauthorized},
		{"smtp://me:wr0ng-word@" + s.submission + query, Options{}, failure.TLS},
		{"smtp://me:wr0ng-word@" + s.tls + query + "&encryption=implicittls", Options{}, failure.TLS},
		{"smtp://me:wr0ng-word@" + s.submission + query + "&encryption=none", o, failure.Unauthorized}, // no login in plain text
		{"smtp://" + s.submission + query, o, failure.Forbidden},                                       // no relay
	} {
		_, err := open(t, tt.url, tt.options).Send(soon(t), message())
		wantFailure(t, err, tt.want, []string{"wr0ng-word"})
		if Permanent(err) {
			t.Errorf("permanent: %v", err)
		}
	}
}

// wantMail waits for a mail, and checks what a server must not have changed.
func (s *exim) wantMail(t *testing.T, id string) {
	t.Helper()
	select {
	case mail := <-s.mails:
		for _, want := range []string{
			"Subject: [CRITICAL] XMPP server is down\n",
			"Message-ID: <" + id + ".chatstack@example.org>\n",
			"Auto-Submitted: auto-generated\n",
			"Nutzer k=C3=B6nnen sich nicht anmelden.\n.\nende\n",
			"References: <thread-cause7.chatstack@example.org>\n",
		} {
			if !strings.Contains(mail, want) {
				t.Errorf("the mail has no %q:\n%s", want, mail)
			}
		}
	case <-soon(t).Done():
		t.Fatal("a mail is missing")
	}
}
