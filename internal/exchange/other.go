package exchange

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// otherState is what is known of a server's other certificate.
type otherState int

const (
	otherUnknown otherState = iota // nothing
	otherHidden                    // the server speaks only TLS 1.3, in which Go cannot ask for it
	otherNone                      // the server has none
	otherServed
)

// otherCertificate is what a server serves to clients that cannot use the certificate of usual handshakes: an RSA one beside one of
// another algorithm, or the reverse.
type otherCertificate struct {
	state otherState
	peer  *peer // if state is otherServed
	// asked is when the server was asked, and beside what usual handshakes got then. answered is when it last answered that, and probed
	// when the last probe ended.
	asked, answered, probed time.Time
	beside                  *x509.Certificate
}

// otherEvery is the time between two questions: an hour, less a little, since TLSServedNotRenewed warns after an hour.
const otherEvery = 59 * time.Minute

// maxOtherAge is how old an answer may be: one question may fail.
const maxOtherAge = 2 * otherEvery

// seldom is how far apart the probes of a server must be that counts connections, to ask it: UnrealIRCd allows 3 of them in 60 s.
const seldom = 55 * time.Second

// seeOther tells the watch of the server's other certificate. After a successful probe it asks for it, if that is due, by a handshake
// through again. counts says that the server may count connections.
func (t *secondTries) seeOther(
	ctx context.Context, w *CertificateWatch, failed, counts bool, again func(context.Context, *tls.Config) error,
) {
	peer := w.last()
	if peer == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o := &t.server(ctx).other
	served := peer.certificates[0]
	affordable := !counts || !o.probed.IsZero() && time.Since(o.probed) >= seldom
	if !failed && affordable && o.due(served) {
		o.ask(ctx, w, served, again)
	}
	if time.Since(o.answered) > maxOtherAge {
		o.state, o.peer = otherUnknown, nil
	}
	o.probed = time.Now()
	w.other = *o
}

// due reports whether to ask: at first, for a renewed certificate, and hourly. Servers behind one name may take turns, so that another
// certificate need not be a renewed one.
func (o *otherCertificate) due(served *x509.Certificate) bool {
	return o.asked.IsZero() || time.Since(o.asked) >= otherEvery || o.beside != nil && served.NotBefore.After(o.beside.NotBefore)
}

func (o *otherCertificate) ask(
	ctx context.Context, w *CertificateWatch, served *x509.Certificate, again func(context.Context, *tls.Config) error,
) {
	o.asked, o.beside = time.Now(), served
	var seen *peer
	tlsConfig, err := clientFor(w.Trust, w.Host, w.ALPN, func(p peer) { seen = &p })
	if err != nil {
		return
	}
	tlsConfig.MaxVersion, tlsConfig.CipherSuites = tls.VersionTLS12, suitesOfOther(served)
	err = again(ctx, tlsConfig)
	switch {
	case seen != nil:
		o.state, o.peer = otherServed, seen
	case err != nil && strings.Contains(err.Error(), "remote error: tls: protocol version"):
		o.state, o.peer = otherHidden, nil
	case err != nil && strings.Contains(err.Error(), "remote error: tls: "):
		o.state, o.peer = otherNone, nil
	default: // the server could not be asked: its last answer holds for a while
		return
	}
	o.answered = time.Now()
}

// suitesOfOther returns the cipher suites of TLS 1.2 that a server cannot use with a certificate of the same kind.
func suitesOfOther(served *x509.Certificate) []uint16 {
	with := "_RSA_"
	if isRSA(served) {
		with = "_ECDSA_"
	}
	var suites []uint16
	for _, s := range tls.CipherSuites() {
		if strings.Contains(s.Name, with) {
			suites = append(suites, s.ID)
		}
	}
	return suites
}

// isRSA tells the two kinds of certificates apart: those for the cipher suites with RSA in TLS 1.2, and those for the ones with ECDSA,
// which include Ed25519.
func isRSA(c *x509.Certificate) bool {
	_, is := c.PublicKey.(*rsa.PublicKey)
	return is
}

// algorithmOf names the algorithm of a certificate's key.
func algorithmOf(c *x509.Certificate) string { return c.PublicKeyAlgorithm.String() }

// record writes the other certificate to r, and returns it; nil if there is none. mainVerifies says that the usual one verifies.
func (o *otherCertificate) record(r *Record, mainVerifies bool) *x509.Certificate {
	if o.state == otherHidden {
		r.NoteOnce("the server speaks only TLS 1.3, in which only one certificate of a server can be seen")
	}
	if o.state != otherServed {
		return nil
	}
	other := o.peer.certificates[0]
	r.Certificate.Other = validityOf(other)
	r.NoteOnce("the server also has an " + algorithmOf(other) + " certificate, valid until " + stamp(other.NotAfter))
	if mainVerifies && o.peer.err != nil {
		r.NoteOnce("the " + algorithmOf(other) + " certificate does not verify: " + failure.OneLine(o.peer.err.Error()))
	}
	return other
}
