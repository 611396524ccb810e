package status

import (
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

func TestFailureTextBeginsWithDetail(t *testing.T) {
	for _, c := range []struct {
		reason     failure.Reason
		text, want string
		not        string
	}{
		{
			reason: failure.HTTPStatus,
			text:   "delete http://plants:8080/plants/7: status 500: error 500: nothing can be deleted now",
			want:   "status 500: error 500: nothing can be deleted now; no alert",
			not:    "log",
		}, // the hint names the log
		{
			reason: failure.TLS,
			text:   `get https://xmpp:5281/status: tls: failed to verify certificate: x509: certificate signed by unknown authority`,
			want:   "certificate signed by unknown authority (the TLS handshake failed)",
			not:    "expired",
		},
		{
			reason: failure.TLS,
			text: "get https://x/: tls: failed to verify certificate: x509: certificate has expired or is not yet valid: " +
				"current time 2026-11-21T12:47:37Z is after 2026-11-20T12:47:35Z",
			want: "certificate has expired or is not yet valid (",
			not:  "current time",
		},
		{reason: failure.TLS, text: "connect to 10.0.0.1:5222: remote error: tls: handshake failure", want: "handshake failure ("},
		{
			reason: failure.Forbidden,
			text:   "get https://xmpp:5281/metrics: status 403",
			want:   "status 403 (this address or user",
			not:    "socket",
		},
		{
			reason: failure.Forbidden,
			text:   "get http://docker/info: dial unix /run/docker.sock: connect: permission denied",
			want:   "dial unix /run/docker.sock: connect: permission denied (",
		},
		{reason: failure.Unauthorized, text: "post https://irc:8600/api: status 401", want: "status 401 (the credentials"},
		{reason: failure.Refused, text: "get http://x:1/: dial tcp 10.0.0.1:1: connect: connection refused", want: "nothing listens there"},
		{reason: failure.HTTPStatus, text: "get http://x/: " + strings.Repeat("very long ", 30), want: "an unexpected HTTP status"},
		{reason: failure.HTTPStatus, want: "an unexpected HTTP status"},
	} {
		w := begin(poll.Status{
			Target: "x",
			Kind:   "http",
			Reason: c.reason,
			Error:  c.text,
		})
		got := w.poll(0).service("x").Text
		if !strings.HasPrefix(got, c.want) || c.not != "" && strings.Contains(got, c.not) {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
}

// TestFailureTextSaysHowALookupFailed: the hint begins with what is known, and the reason alone does not say it.
func TestFailureTextSaysHowALookupFailed(t *testing.T) {
	for hint, want := range map[string]string{
		"the name server does not answer: check the network": "the name server does not answer",
		"": failure.Explain(failure.DNS),
	} {
		w := begin(poll.Status{
			Target: "x",
			Kind:   "tcp",
			Reason: failure.DNS,
			Error:  "lookup x: i/o timeout",
			Hint:   hint,
		})
		if got := w.poll(0).service("x").Text; !strings.HasPrefix(got, want) || hint != "" && strings.Contains(got, "name is wrong") {
			t.Errorf("hint %q: got %q, want %q", hint, got, want)
		}
	}
}

func TestHintNamesContainerOfRole(t *testing.T) {
	generic := failure.Explain(failure.Refused)
	for _, c := range []struct {
		name, hint, kind, container, want string
	}{
		{
			name: "role",
			hint: generic,
			kind: "irc_rpc",
			want: "Read the log of its container: `docker logs --tail 50 chat-irc-1`",
		},
		{
			name:      "configured",
			hint:      generic,
			kind:      "irc_rpc",
			container: "mine",
			want:      "Read the log of its container: `docker logs --tail 50 mine`",
		},
		{
			name: "no such role",
			hint: generic,
			kind: "plant_store",
			want: "Read the service's log; the last probes are at /debug/targets/x",
		},
		{
			name: "several of the role",
			hint: generic,
			kind: "xmpp_rest",
			want: "Read the service's log; the last probes are at /debug/targets/x",
		},
		{
			name: "its own",
			hint: "set the token",
			kind: "irc_rpc",
			want: "set the token",
		},
	} {
		w := begin(engine, poll.Status{
			Target: "x",
			Kind:   c.kind,
			Server: health.Server{Container: c.container},
			Reason: failure.Refused,
			Hint:   c.hint,
		})
		w.contain(named{"chat-irc-1", testContainer{role: "irc"}}, named{"a", testContainer{role: "xmpp"}},
			named{"b", testContainer{role: "xmpp"}})
		if got := w.poll(0).service("x").Hint; got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
