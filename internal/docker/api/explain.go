package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Hints for the most frequent failures.
const (
	// HintEvents is for a stream of events that was cut.
	HintEvents   = "the engine, or a proxy in front of it, keeps closing GET /events: check the proxy's idle timeout and the engine's log"
	hintNoSocket = "no Docker Engine listens on this socket: start it, or mount the socket into the exporter's container"
	hintSocket   = "the exporter's user may not open the socket: add it to the socket's group, usually docker (group_add in compose), " +
		"or run a read-only socket proxy and write its tcp:// address"
	hintProxy = "a proxy in front of the engine refuses this call: allow GET on /_ping, /events, /containers/json, " +
		"/containers/{id}/json and /containers/{id}/stats; in most socket proxies these are PING=1, EVENTS=1 and CONTAINERS=1"
	hintTLS = "the engine requires TLS on this port: write https://, or set ca_file or DOCKER_TLS_VERIFY=1"

	hintClientCertificate = "the engine requires a client certificate: set cert_file and key_file, " +
		"or DOCKER_CERT_PATH with DOCKER_TLS_VERIFY=1"
	hintClientAuthority = "the engine refuses the certificate in cert_file: use a client certificate that the engine's authority (its " +
		"tlscacert) has signed and that has not expired, with its key in key_file"
)

// withHint adds a hint to an error of a socket or of the client certificate.
func (s *Session) withHint(err error) error {
	unix, reason, hint := s.Endpoint.Network == "unix", failure.ReasonOf(err), ""
	switch {
	case reason == failure.TLS && s.Endpoint.TLS && exchange.RefusesClient(err):
		hint = hintClientCertificate
		if s.Trust.CertFile != "" {
			hint = hintClientAuthority
		}
	case failure.HasType[*failure.Error](err):
	case unix && reason == failure.Refused:
		hint = hintNoSocket
	case unix && reason == failure.Forbidden:
		hint = hintSocket
	}
	if hint == "" {
		return err
	}
	return failure.Errorf(reason, "%w", err).WithHint(hint)
}

// explain gives an error of a call a reason and a hint. It is one of reading if the answer has begun.
func (s *Session) explain(ctx context.Context, doing string, reading bool, err error) error {
	what := doing + " " + s.Host
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, s.wire.Explain(ctx.Err()))
	}
	refused, isStatus := errors.AsType[*statusError](err)
	switch {
	case isStatus:
		return s.explainStatus(what, refused)
	case reading && errors.Is(err, io.ErrUnexpectedEOF):
		return failure.Errorf(failure.Closed, "%s: read answer: %w", what, err)
	// A decoder's errors have no reason, and an empty answer is complete.
	case reading && (errors.Is(err, io.EOF) || failure.ReasonOf(s.wire.Explain(err)) == failure.Internal):
		return failure.Errorf(failure.Malformed, "%s: read answer: %w", what, err)
	case s.wire.MetTLS():
		return failure.Errorf(failure.TLS, "%s: %w", what, s.wire.Explain(err)).WithHint(hintTLS)
	}
	return s.withHint(fmt.Errorf("%s: %w", what, s.wire.Explain(err)))
}

func (s *Session) explainStatus(what string, refused *statusError) error {
	failed := failure.OfStatus(refused.status, refused.header, "%s: status %d: %w", what, refused.status, refused)
	if refused.status < http.StatusMultipleChoices { // no answer of an engine
		failed.Reason = failure.Malformed
	}
	if strings.Contains(refused.text, "<") {
		// A web page comes from a proxy or another server. The error does not repeat it.
		failed.Err = fmt.Errorf("%s: status %d, from a server that is not a Docker Engine", what, refused.status)
	}
	switch {
	case failed.Reason == failure.Forbidden:
		return failed.WithHint(hintProxy)
	case exchange.WantsTLS(refused.status, []byte(refused.text)):
		failed.Reason = failure.TLS
		return failed.WithHint(hintTLS)
	}
	return failed
}

// isNoContainer reports whether the engine says that a container does not exist. Any other 404 comes from a proxy.
func isNoContainer(err error) bool {
	refused, ok := errors.AsType[*statusError](err)
	return ok && refused.status == http.StatusNotFound && strings.Contains(strings.ToLower(refused.text), "no such container")
}

// ExplainEnd explains the error that ended the stream of events; nil means that the engine closed it.
func (s *Session) ExplainEnd(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		err = failure.Errorf(failure.Closed, "the stream has ended")
	}
	err = s.wire.Explain(err)
	reason, hint := failure.ReasonOf(err), ""
	if known, ok := errors.AsType[*failure.Error](err); ok {
		hint = known.Hint
	}
	switch reason {
	case failure.Closed: // perhaps by a proxy
		hint = HintEvents
	case failure.Internal: // a decoder's errors have no reason
		reason = failure.Malformed
	default:
	}
	return failure.Errorf(reason, "follow events of %s: %w", s.Host, err).WithHint(hint)
}
