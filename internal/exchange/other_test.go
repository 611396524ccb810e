package exchange

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
)

// doubly is a server with certificates of several algorithms. Its fields change between probes.
type doubly struct {
	shown       []tls.Certificate
	min         uint16
	refuse      error
	connections int
}

// probe is one probe of a server or of an HTTP service.
func (d *doubly) probe(s *TLSServer, h *HTTP) Record {
	ctx := WithDialer(context.Background(), func(context.Context, string, string) (net.Conn, error) {
		d.connections++
		if d.refuse != nil && d.connections > 1 {
			return nil, d.refuse
		}
		client, server := net.Pipe()
		go func() {
			defer server.Close() //nolint:errcheck // a pipe's never fails
			(&front{config: &tls.Config{Certificates: d.shown, MinVersion: d.min}}).serve(server)
		}()
		return client, nil
	})
	d.connections = 0
	var r Record
	if s != nil {
		s.Converse(ctx, &r, nil) //nolint:errcheck,gosec // a refused certificate is seen too
	} else {
		h.Get(ctx, &r, nil) //nolint:errcheck,gosec // see above
	}
	return r
}

// certificates are an RSA and an ECDSA certificate for a name, and what trusts both.
func certificates(t *testing.T) (ec, rsa *exchangetest.Certified, trust config.TLS) {
	t.Helper()
	root := exchangetest.Certificate{Name: "root", Authority: true, End: exchangetest.ThirdDay}.Make(t)
	ec = exchangetest.Certificate{By: root, Names: []string{"chat.test"}, End: exchangetest.FirstDay}.Make(t)
	rsa = exchangetest.Certificate{
		By:    root,
		Names: []string{"chat.test"},
		RSA:   true,
		End:   exchangetest.SecondDay,
	}.Make(t)
	return ec, rsa, config.TLS{CAFile: exchangetest.Write(t, filepath.Join(t.TempDir(), "ca.pem"), root), ServerName: "chat.test"}
}

// wantOther compares the other certificate, and whether a note has some words.
func wantOther(t *testing.T, what string, r *Record, end time.Time, note string) {
	t.Helper()
	if !r.Certificate.Other.Ends.Equal(end) {
		t.Errorf("%s: the other certificate ends %s, want %s", what, r.Certificate.Other.Ends, end)
	}
	if notes := strings.Join(r.Notes, "; "); note == "" && notes != "" || !strings.Contains(notes, note) {
		t.Errorf("%s: notes %q, want %q", what, notes, note)
	}
}

// TestBothCertificatesOfAServerAreSeen, whichever the server prefers and however TLS begins.
func TestBothCertificatesOfAServerAreSeen(t *testing.T) {
	ec, rsa, trust := certificates(t)
	foreign := exchangetest.Certificate{Names: []string{"chat.test"}, RSA: true, End: exchangetest.ThirdDay}.Make(t)
	for name, c := range map[string]struct {
		shown []tls.Certificate
		min   uint16
		leaf  time.Time
		other time.Time
		note  string
	}{
		"ECDSA first": {
			[]tls.Certificate{exchangetest.Chain(ec), exchangetest.Chain(rsa)},
			tls.VersionTLS12,
			exchangetest.FirstDay,
			exchangetest.SecondDay,
			"also has an RSA certificate, valid until 2190-02-01 00:00 UTC",
		},
		"RSA first": {
			[]tls.Certificate{exchangetest.Chain(rsa), exchangetest.Chain(ec)},
			tls.VersionTLS12,
			exchangetest.SecondDay,
			exchangetest.FirstDay,
			"also has an ECDSA certificate",
		},
		"ECDSA alone": {
			[]tls.Certificate{exchangetest.Chain(ec)},
			tls.VersionTLS12,
			exchangetest.FirstDay,
			time.Time{},
			"",
		},
		"RSA alone": {
			[]tls.Certificate{exchangetest.Chain(rsa)},
			tls.VersionTLS12,
			exchangetest.SecondDay,
			time.Time{},
			"",
		},
		"only TLS 1.3": {
			[]tls.Certificate{exchangetest.Chain(ec), exchangetest.Chain(rsa)},
			tls.VersionTLS13,
			exchangetest.FirstDay,
			time.Time{},
			"only TLS 1.3",
		},
		"one that is not good": {
			[]tls.Certificate{exchangetest.Chain(ec), exchangetest.Chain(foreign)},
			tls.VersionTLS12,
			exchangetest.FirstDay,
			exchangetest.ThirdDay,
			"the RSA certificate does not verify: x509: ",
		},
	} {
		for kind, probe := range map[string]func(*doubly) Record{
			"tls": func(d *doubly) Record { return d.probe(&TLSServer{Address: "chat.test:5223", Trust: trust}, nil) },
			"starttls": func(d *doubly) Record {
				return d.probe(&TLSServer{
					Address:  "chat.test:5222",
					StartTLS: XMPPClient,
					Domain:   "chat.test",
					Trust:    trust,
				}, nil)
			},
			"http": func(d *doubly) Record {
				return d.probe(nil, &HTTP{Settings: config.HTTP{URL: "https://chat.test/", TLS: trust}, Limit: 100})
			},
		} {
			d := &doubly{shown: c.shown, min: c.min}
			r := probe(d)
			wantOther(t, name+", "+kind, &r, c.other, c.note)
			if !r.Certificate.Leaf.Ends.Equal(c.leaf) || d.connections != 2 {
				t.Errorf("%s, %s: leaf until %s after %d connections, want until %s after 2",
					name, kind, r.Certificate.Leaf.Ends, d.connections, c.leaf)
			}
		}
	}
}

// TestOtherCertificateIsAskedForHourly counts the connections of probes at certain times.
func TestOtherCertificateIsAskedForHourly(t *testing.T) {
	ec, rsa, trust := certificates(t)
	trust = config.TLS{InsecureSkipVerify: true, ServerName: trust.ServerName} // the clock of these tests is in 2000
	at := func(c *exchangetest.Certified) []tls.Certificate {
		return []tls.Certificate{exchangetest.Chain(ec), exchangetest.Chain(c)}
	}
	renewed := exchangetest.Certificate{Names: []string{"chat.test"}, RSA: true, End: exchangetest.ThirdDay}.Make(t)
	later := exchangetest.Certificate{Names: []string{"chat.test"}, Begins: time.Now().Add(time.Hour), End: exchangetest.ThirdDay}.Make(t)
	synctest.Test(t, func(t *testing.T) {
		d := &doubly{shown: at(rsa)}
		s := &TLSServer{Address: "chat.test:5223", Trust: trust}
		step := func(what string, wait time.Duration, connections int, end time.Time) {
			t.Helper()
			time.Sleep(wait)
			r := d.probe(s, nil)
			if !r.Certificate.Other.Ends.Equal(end) || d.connections != connections {
				t.Errorf("%s: the other until %s, %d connections; want until %s, %d",
					what, r.Certificate.Other.Ends, d.connections, end, connections)
			}
		}
		step("at start", 0, 2, exchangetest.SecondDay)
		d.shown = at(renewed)
		step("a minute later", time.Minute, 1, exchangetest.SecondDay)
		step("just before", 58*time.Minute-time.Second, 1, exchangetest.SecondDay)
		step("after an hour", time.Second, 2, exchangetest.ThirdDay)
		d.refuse = syscall.ECONNREFUSED
		step("it cannot be asked", time.Hour, 2, exchangetest.ThirdDay)
		d.refuse, d.shown = nil, at(rsa)[:1]
		step("it is gone", time.Hour, 2, time.Time{})
		d.shown = []tls.Certificate{exchangetest.Chain(later), exchangetest.Chain(rsa)}
		step("the usual one is renewed", time.Minute, 2, exchangetest.SecondDay)
		d.shown = at(rsa)
		step("servers take turns", time.Minute, 1, exchangetest.SecondDay)
		d.shown = []tls.Certificate{exchangetest.Chain(later), exchangetest.Chain(rsa)}
		step("servers take turns again", time.Minute, 1, exchangetest.SecondDay)
		s.Trust = config.TLS{ServerName: "chat.test"}
		step("a refused certificate", time.Hour, 1, exchangetest.SecondDay)
		s.Trust = trust
		patient := &TLSServer{Address: "chat.test:6697", Trust: trust, IRC: true}
		s = patient
		step("the first probe of an IRC server", 0, 1, time.Time{})
		step("the second probe of an IRC server, soon after", 30*time.Second, 1, time.Time{})
		step("a probe of an IRC server, a minute later", time.Minute, 2, exchangetest.SecondDay)
		s = &TLSServer{Address: "chat.test:6697", Trust: trust, Lasting: true}
		step("a session", 0, 1, time.Time{})
		step("another session", time.Minute, 1, time.Time{})
	})
}

// TestFileOfAnyServedCertificateMatches compares files of both algorithms with what servers serve.
func TestFileOfAnyServedCertificateMatches(t *testing.T) {
	ec, rsa, trust := certificates(t)
	root := trust
	dir := t.TempDir()
	write := func(name string, c exchangetest.Certificate) string {
		c.Names = []string{"chat.test"}
		return exchangetest.Write(t, filepath.Join(dir, name), c.Make(t))
	}
	ecFile, rsaFile := exchangetest.Write(t, filepath.Join(dir, "both", "ec.pem"), ec),
		exchangetest.Write(t, filepath.Join(dir, "both", "rsa.pem"), rsa)
	newRSA := write("new-rsa.pem", exchangetest.Certificate{RSA: true, End: exchangetest.ThirdDay})
	newEC := write("new-ec.pem", exchangetest.Certificate{End: exchangetest.ThirdDay})
	exchangetest.Write(t, filepath.Join(dir, "renewed", "ec.pem"), ec)
	write("renewed/rsa.pem", exchangetest.Certificate{RSA: true, End: exchangetest.ThirdDay})
	yes, no := new(true), new(false)
	both, ecOnly, rsaOnly := []*exchangetest.Certified{ec, rsa}, []*exchangetest.Certified{ec}, []*exchangetest.Certified{rsa}
	for name, c := range map[string]struct {
		served  []*exchangetest.Certified
		min     uint16
		file    string
		matches *bool
		stale   time.Time
		end     time.Time
		note    string
	}{
		"the usual one": {
			both,
			0,
			ecFile,
			yes,
			time.Time{},
			exchangetest.FirstDay,
			"also has",
		},
		"the other one": {
			both,
			0,
			rsaFile,
			yes,
			time.Time{},
			exchangetest.SecondDay,
			"also has",
		},
		"a glob of both": {
			both,
			0,
			filepath.Join(dir, "both", "*.pem"),
			yes,
			time.Time{},
			exchangetest.FirstDay,
			"also has",
		},
		"the usual one is renewed": {
			both,
			0,
			newEC,
			no,
			exchangetest.FirstDay,
			exchangetest.ThirdDay,
			"another certificate than the one in " + newEC + ": reload",
		},
		"the other one is renewed": {
			both,
			0,
			newRSA,
			no,
			exchangetest.SecondDay,
			exchangetest.ThirdDay,
			"another certificate than the one in " + newRSA + ": reload",
		},
		"one of a glob is renewed": {
			both,
			0,
			filepath.Join(dir, "renewed", "*.pem"),
			no,
			exchangetest.SecondDay,
			exchangetest.FirstDay,
			"rsa.pem: reload",
		},
		"one that is not served": {
			ecOnly,
			0,
			rsaFile,
			no,
			exchangetest.FirstDay,
			exchangetest.SecondDay,
			"does not serve the RSA certificate in " + rsaFile + ", only one with ECDSA",
		},
		"another one that is not": {
			rsaOnly,
			0,
			ecFile,
			no,
			exchangetest.SecondDay,
			exchangetest.FirstDay,
			"does not serve the ECDSA certificate in " + ecFile + ", only one with RSA",
		},
		"one of a glob is not": {
			ecOnly,
			0,
			filepath.Join(dir, "both", "*.pem"),
			yes,
			time.Time{},
			exchangetest.FirstDay,
			"does not serve the RSA certificate",
		},
		"one of a glob is not, renewed": {
			rsaOnly,
			0,
			filepath.Join(dir, "renewed", "*.pem"),
			no,
			exchangetest.SecondDay,
			exchangetest.ThirdDay,
			"rsa.pem: reload",
		},
		"one that cannot be seen": {
			both,
			tls.VersionTLS13,
			rsaFile,
			nil,
			time.Time{},
			exchangetest.SecondDay,
			"whether it also serves the RSA certificate in " + rsaFile + " cannot be seen",
		},
		"one in TLS 1.3": {
			both,
			tls.VersionTLS13,
			ecFile,
			yes,
			time.Time{},
			exchangetest.FirstDay,
			"only TLS 1.3",
		},
		"a glob in TLS 1.3": {
			both,
			tls.VersionTLS13,
			filepath.Join(dir, "both", "*.pem"),
			yes,
			time.Time{},
			exchangetest.FirstDay,
			"only TLS 1.3",
		},
		"a renewed one in TLS 1.3": {
			both,
			tls.VersionTLS13,
			newEC,
			no,
			exchangetest.FirstDay,
			exchangetest.ThirdDay,
			"reload",
		},
		"a renewed other one, in TLS 1.3": {
			both,
			tls.VersionTLS13,
			newRSA,
			nil,
			time.Time{},
			exchangetest.ThirdDay,
			"cannot be seen",
		},
	} {
		d := &doubly{min: c.min}
		for _, s := range c.served {
			d.shown = append(d.shown, exchangetest.Chain(s))
		}
		trust := root
		trust.CertificateFile = c.file
		r := d.probe(&TLSServer{Address: "chat.test:5223", Trust: trust}, nil)
		got := r.Certificate
		if (got.MatchesFile == nil) != (c.matches == nil) || got.MatchesFile != nil && *got.MatchesFile != *c.matches {
			t.Errorf("%s: matches: %v, want %v", name, got.MatchesFile, c.matches)
		}
		if !got.Stale.Ends.Equal(c.stale) || !got.File.Ends.Equal(c.end) {
			t.Errorf("%s: stale until %s, the file until %s; want %s, %s", name, got.Stale.Ends, got.File.Ends, c.stale, c.end)
		}
		if notes := strings.Join(r.Notes, "; "); !strings.Contains(notes, c.note) {
			t.Errorf("%s: notes %q, want %q", name, notes, c.note)
		}
	}
}

// TestServerThatCannotBeAskedIsNotBlamed has nobody ask, as through an HTTP proxy, and ask in vain.
func TestServerThatCannotBeAskedIsNotBlamed(t *testing.T) {
	ec, rsa, trust := certificates(t)
	trust.CertificateFile = exchangetest.Write(t, filepath.Join(t.TempDir(), "rsa.pem"), rsa)
	d := &doubly{shown: []tls.Certificate{exchangetest.Chain(ec)}, refuse: errors.New("no route")}
	for _, s := range []*TLSServer{{Address: "chat.test:5223", Trust: trust}, {Address: "chat.test:5223", Trust: trust, Lasting: true}} {
		if r := d.probe(s, nil); r.Certificate.MatchesFile != nil || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "cannot be seen") {
			t.Errorf("lasting %t: matches %v, notes %q", s.Lasting, r.Certificate.MatchesFile, r.Notes)
		}
	}
}
