package exchange

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// clientCertificate says what became of a server's request for the client's certificate.
type clientCertificate int

const (
	clientUnasked clientCertificate = iota // the server has asked for none
	clientMissing                          // there is none
	clientForeign                          // the server accepts only those of other authorities, so it was not sent
	clientSent
)

// refusal is the advice for a server that refuses this client's certificate, or its lack of one.
func (c clientCertificate) refusal() string {
	switch c {
	case clientMissing:
		return "the server requires a client certificate: set cert_file and key_file"
	case clientForeign:
		return "the server requires a client certificate, but names no authority that signed the one in cert_file: " +
			"change cert_file and key_file to one that it accepts"
	case clientSent:
		return "the server refuses the certificate in cert_file: use one that has not expired and that an authority of the server has " +
			"signed"
	case clientUnasked:
	}
	return ""
}

// verdictTimeout bounds how long a server may take to refuse a client after the handshake.
const verdictTimeout = time.Second

// verdict returns the alert of a server that has asked for a client certificate and refuses what it got. In TLS 1.3 that comes after the
// client's handshake, so a conversation without words would miss it. The connection ends here, so that a server that accepts ends it too.
func (w *CertificateWatch) verdict(conn *tls.Conn) error {
	if w.requested() == clientUnasked || conn.ConnectionState().Version < tls.VersionTLS13 {
		return nil
	}
	conn.CloseWrite()                                    //nolint:errcheck,gosec // a server that has closed may have said why
	conn.SetReadDeadline(time.Now().Add(verdictTimeout)) //nolint:errcheck,gosec // a closed one does not wait
	if _, err := conn.Read(make([]byte, 1)); RefusesClient(err) {
		return fmt.Errorf("after the handshake: %w", err)
	}
	return nil
}

// withHint adds a hint to the error of a failed handshake. It returns other errors unchanged.
func (w *CertificateWatch) withHint(err error) error {
	if failure.HasHint(err) {
		return err
	}
	if hint := w.hint(err); hint != "" {
		return failure.Errorf(failure.TLS, "%w", err).WithHint(hint)
	}
	return err
}

func (w *CertificateWatch) hint(err error) string {
	if hint := w.requested().refusal(); hint != "" && RefusesClient(err) {
		return hint
	}
	if hint := w.untrusted(err); hint != "" {
		return hint
	}
	if plain := plainAnswer(err); plain != "" {
		return fmt.Sprintf("this port does not speak TLS, it answers with %q: set the port that does", failure.OneLine(plain))
	}
	for _, r := range handshakeRefusals {
		if r.says.MatchString(err.Error()) {
			return r.hint
		}
	}
	return ""
}

// requested returns what became of the server's request for a certificate.
func (w *CertificateWatch) requested() clientCertificate {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// untrusted returns the advice for a certificate that does not verify.
func (w *CertificateWatch) untrusted(err error) string {
	if errors.Is(err, failure.ErrFingerprint) {
		return "if the certificate was renewed, set fingerprint to the new one's; if not, another server may be answering"
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		if wrong.Certificate != nil && !hasNames(wrong.Certificate) {
			return "the certificate has its name only as the common name (CN), which clients ignore, so server_name does not help: " +
				"install a certificate with the name as subject alternative name, or pin this one with fingerprint"
		}
		return fmt.Sprintf("the certificate is not for %s: if the server is the right one, "+
			"%s server_name to a name that its certificate has; otherwise install the right certificate",
			failure.OneLine(wrong.Host), setOrChange(w.Trust.ServerName))
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return invalidHint(&invalid)
	}
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		switch {
		case strings.Contains(unknown.Error(), "insecure algorithm"):
			return "the certificate or one of its authorities is signed with SHA-1 or MD5, which clients refuse: " +
				"install a certificate signed with SHA-256, or pin this one with fingerprint"
		case unknown.Cert != nil && signsItself(unknown.Cert):
			return "the certificate or its authority is self-signed and not trusted" + w.besideCAFile() + ": if it is your own, " +
				setOrChange(w.Trust.CAFile) +
				" ca_file to it or pin the certificate with fingerprint; if not, another server may be answering"
		}
		return "no trusted authority signed the certificate" + w.besideCAFile() +
			": let the server send the whole chain (fullchain.pem, not cert.pem), or " +
			setOrChange(w.Trust.CAFile) + " ca_file to the authority's certificate"
	}
	if failure.HasType[x509.SystemRootsError](err) {
		return "this machine has no readable certificate authorities: install the package ca-certificates, " +
			"or set ca_file to the authority's certificate"
	}
	return ""
}

// besideCAFile says where trusted authorities are if ca_file is set: then no others are trusted.
func (w *CertificateWatch) besideCAFile() string {
	if w.Trust.CAFile == "" {
		return ""
	}
	return " (only those in ca_file are)"
}

// setOrChange returns what to do with a key: it may be set already.
func setOrChange(value string) string {
	if value == "" {
		return "set"
	}
	return "change"
}

// invalidHint returns the advice for a certificate that says itself that it is not valid here.
func invalidHint(invalid *x509.CertificateInvalidError) string {
	switch {
	case invalid.Reason == x509.Expired && invalid.Cert != nil && time.Now().Before(invalid.Cert.NotBefore):
		return fmt.Sprintf("the certificate is valid only from %s: check the clocks of both machines", stamp(invalid.Cert.NotBefore))
	case invalid.Reason == x509.Expired && invalid.Cert != nil:
		return fmt.Sprintf("the certificate expired at %s: renew it, and reload the server", stamp(invalid.Cert.NotAfter))
	case invalid.Reason == x509.IncompatibleUsage:
		return "the certificate is not for servers (extended key usage): install one with the usage serverAuth, " +
			"or pin this one with fingerprint"
	}
	return ""
}

// hasNames reports whether a certificate names anything but in its common name.
func hasNames(c *x509.Certificate) bool {
	return len(c.DNSNames)+len(c.IPAddresses)+len(c.EmailAddresses)+len(c.URIs) > 0
}

// handshakeRefusals are the texts of crypto/tls about a handshake that one side refuses, for which it has no types. The first match
// counts. A "remote error" is what the server says, anything else is what this client refuses, as others do.
var handshakeRefusals = []struct {
	says *regexp.Regexp
	hint string
}{
	{
		regexp.MustCompile(`crypto/rsa: \d+-bit keys are insecure`),
		"the RSA key of the certificate is too short, and clients refuse it: install a certificate with an RSA key of 2048 bits or more, " +
			"or an ECDSA key",
	},
	{
		regexp.MustCompile(`RSA key larger than \d+ bits`),
		"the RSA key of the certificate is longer than clients accept: install a certificate with an RSA key of 2048 to 4096 bits, " +
			"or an ECDSA key",
	},
	{
		regexp.MustCompile(`negative serial number`),
		"the serial number of the certificate is negative, and clients refuse it: install a new certificate; " +
			"neither ca_file nor fingerprint helps",
	},
	{
		regexp.MustCompile(`failed to parse certificate from server`),
		"the certificate is malformed, and clients refuse it: install a new certificate; neither ca_file nor fingerprint helps",
	},
	{
		regexp.MustCompile(`unsupported type of public key`),
		"the certificate has a key of a kind that clients do not support: install a certificate with an ECDSA key, " +
			"or an RSA key of 2048 bits or more",
	},
	{
		regexp.MustCompile(`invalid signature by the server certificate`),
		"the server signs with another key than that of its certificate: install a certificate and key that belong together, " +
			"and reload the server",
	},
	{
		regexp.MustCompile(`protocol version not supported|unsupported protocol version`),
		"the server supports neither TLS 1.2 nor TLS 1.3, and clients refuse older versions: enable them in the server",
	},
	{
		regexp.MustCompile(`unconfigured cipher suite|remote error: tls: insufficient security level`),
		"the server and the exporter have no cipher in common, since clients refuse old ciphers: enable the ciphers of TLS 1.3, " +
			"or ECDHE with AES-GCM for TLS 1.2, in the server",
	},
	{
		regexp.MustCompile(`remote error: tls: handshake failure`),
		"the server finds no cipher or signature that both sides support, or has no certificate for the requested name: read its log. " +
			"Clients refuse old ciphers: enable those of TLS 1.3, or ECDHE with AES-GCM for TLS 1.2",
	},
	{
		regexp.MustCompile(`remote error: tls: no application protocol`),
		"the server serves none of the application protocols that the exporter offers: change alpn to one that it serves, " +
			"or to [] to offer none",
	},
	{
		regexp.MustCompile(`remote error: tls: unrecognized name`),
		"the server has no certificate for the requested name: correct server_name, or the host or domain that it replaces, " +
			"to one that the server has",
	},
	{
		regexp.MustCompile(`remote error: tls: internal error`),
		"the server fails by itself in the handshake: read its log; its certificate or key may not be readable",
	},
}
