package simstack

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// speaking asks the services that speak no HTTP, as a plain client does, up to their good answer.
func (k *Stack) speaking(t *testing.T, service string, timeout time.Duration) (err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(timeout, 30*time.Second))
	defer cancel()
	defer func() { err = cmp.Or(ctx.Err(), err) }()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", k.service(service).address())
	if err != nil {
		return err
	}
	defer conn.Close()                                      //nolint:errcheck // all is said
	stop := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // wakes the reader
	defer stop()
	trust := k.trust(t)
	if trust.ServerName = XMPPDomain; service == "irc_tls" {
		trust.ServerName = ircName
		secure := tls.Client(conn, trust)
		if err := secure.HandshakeContext(ctx); err != nil {
			return err
		}
		return ask(secure, bufio.NewReader(secure), "CAP LS 302\r\n", " CAP * LS :", "\n")
	}
	in := bufio.NewReader(conn)
	if err := ask(conn, in, streamTo(XMPPDomain), "<starttls ", "</stream:features>"); err != nil {
		return err
	}
	if err := ask(conn, in, "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>", "<proceed ", "/>"); err != nil {
		return err
	}
	return tls.Client(conn, trust).HandshakeContext(ctx)
}

func streamTo(host string) string {
	return "<?xml version='1.0'?><stream:stream to='" + host +
		"' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"
}

// bad are endings after which no valid answer follows.
var bad = []string{"</stream:error>", "<failure ", "</stream:features>", "ERROR :", "HTTP/1.1", "451 CAP"}

// ask sends something and reads up to each of the texts in turn. An error names what was read.
func ask(w io.Writer, in *bufio.Reader, question string, answers ...string) error {
	if _, err := io.WriteString(w, question); err != nil {
		return err
	}
	var got strings.Builder
	for _, want := range answers {
		for !strings.HasSuffix(got.String(), want) {
			b, err := in.ReadByte()
			if err != nil {
				return fmt.Errorf("%.900q: %w", got.String(), err)
			}
			got.WriteByte(b)
			for _, end := range bad {
				if end != want && strings.HasSuffix(got.String(), end) {
					return fmt.Errorf("%.900q", got.String())
				}
			}
			if got.Len() > 32<<10 {
				return errors.New("endless")
			}
		}
	}
	return nil
}

// speakEffects are the effects of faults of services that do not speak HTTP.
var speakEffects = map[string]effect{
	"irc_tls/throttled":      throttledBeforeTLS,
	"irc_tls/connect_flood":  fourthThrottled,
	"irc_tls/hang_after_tls": silent,
	"irc_tls/no_cap":         failure(text("451 CAP")),
	"irc_tls/truncated":      failure(isAny(io.EOF)),
	"irc_tls/malformed":      failure(text("HTTP/1.1")),
	"irc_tls/huge":           failure(text("endless")),
}

// throttledBeforeTLS expects a refusal in plain text instead of TLS.
func throttledBeforeTLS(t *testing.T, k *Stack, service string) {
	t.Helper()
	if err := k.speaking(t, service, 0); err == nil || !is[tls.RecordHeaderError](err) {
		t.Errorf("got %v, want no handshake", err)
	}
	conn := dial(t, "tcp", k.service(service).address())
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "(Throttled: Reconnecting too fast") {
		t.Errorf("got %q, error %v", line, err)
	}
}

// fourthThrottled wants three connections let in, whatever they are used for, and the next ones refused.
func fourthThrottled(t *testing.T, k *Stack, service string) {
	t.Helper()
	for range 3 {
		if err := k.speaking(t, service, 0); err != nil {
			t.Errorf("one of the first three: %v", err)
		}
	}
	throttledBeforeTLS(t, k, service)
}

// streamEffects are the effects of faults of an XMPP port with STARTTLS.
var streamEffects = map[string]effect{
	"not_http":           failure(text("SSH-2.0")),
	"no_starttls":        failure(text("</stream:features>")),
	"starttls_failure":   failure(text("<failure")),
	"unknown_host":       failure(text("<host-unknown")),
	"stream_error":       failure(text("resource-constraint")),
	"truncated":          failure(text("<starttls xml")),
	"hang_after_proceed": silent,
	"malformed":          silent,
	"huge":               failure(text("endless")),
}

func TestStreamsKnowTheirVirtualHost(t *testing.T) {
	k := started(t, Options{})
	for _, address := range []string{k.XMPPClientAddress(), k.XMPPServerAddress()} {
		conn := dial(t, "tcp", address)
		err := ask(conn, bufio.NewReader(conn), streamTo("unknown.test"), "</stream:features>")
		if err == nil || !strings.Contains(err.Error(), "This server does not serve unknown.test") {
			t.Errorf("%s: got %v, want an unknown host", address, err)
		}
	}
}
