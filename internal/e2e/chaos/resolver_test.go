//go:build chaos

package chaos

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// zone is where the names of the targets end.
const zone = ".chaos.test"

// resolver is a name server that knows every name below zone as 127.0.0.1, but for those that a fault is about.
type resolver struct {
	conn    net.PacketConn
	address netip.Addr

	mu    sync.Mutex
	modes map[string]fault // by the first label
}

func startResolver(t *testing.T) *resolver {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a name server at its port; .ci/nightly is root")
	}
	// An address of loopback that is hardly another resolver's: the configuration of a resolver names no port.
	address := netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(254)), byte(1 + rand.IntN(254)), byte(1 + rand.IntN(254))})
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", netip.AddrPortFrom(address, 53).String())
	if err != nil {
		t.Fatal(err)
	}
	r := &resolver{conn: conn, address: address, modes: map[string]fault{}}
	var serving sync.WaitGroup
	serving.Go(r.serve)
	t.Cleanup(func() {
		conn.Close() //nolint:errcheck // a test's socket
		serving.Wait()
	})
	return r
}

// serveTo has a command that is not started ask this name server and no other.
func (r *resolver) serveTo(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver "+r.address.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	prepare(cmd, "mount --bind "+file+" /etc/resolv.conf")
	cmd.Args = append([]string{"unshare", "--mount"}, append([]string{cmd.Path}, cmd.Args[1:]...)...)
	cmd.Path = "/usr/bin/unshare"
}

// turn puts a fault in place for one name.
func (r *resolver) turn(label string, f fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.modes[label] = f
}

func (r *resolver) serve() {
	datagram := make([]byte, 4096)
	for {
		n, from, err := r.conn.ReadFrom(datagram)
		if err != nil {
			return
		}
		if answer := r.answer(datagram[:n]); answer != nil {
			r.conn.WriteTo(answer, from) //nolint:errcheck // whoever asked may have gone
		}
	}
}

// answer is nil where there is none to be.
func (r *resolver) answer(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	label, known := strings.CutSuffix(q.Name.String(), zone+".")
	r.mu.Lock()
	mode := r.modes[label]
	r.mu.Unlock()
	if mode == hangingDNS {
		return nil
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}, Questions: m.Questions}
	switch {
	case !known || mode == unknownName:
		reply.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	answer, err := reply.Pack()
	if err != nil {
		return nil
	}
	return answer
}
