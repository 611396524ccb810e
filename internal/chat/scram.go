package chat

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // of SCRAM-SHA-1, for servers without a newer one
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"strconv"
	"strings"

	xdg "github.com/xdg-go/scram"
	"github.com/xdg-go/stringprep"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// scram is one login by SCRAM (RFC 5802). Its computation ends with the context, which those of libraries do not.
type scram struct {
	hash           func() hash.Hash
	name, password string // prepared
	iterations     int    // at most
	nonce          string
	binding        xdg.ChannelBinding
	signature      []byte // that the server must show; nil before the proof
	proved         bool
}

const (
	// minIterations is what RFC 5802 and RFC 7677 demand: less makes a stolen proof easy to guess from.
	minIterations = 4096
	// interruptEach is after how many iterations a computation looks whether it must end: about a millisecond.
	interruptEach = 2048
)

func newSCRAM(newHash func() hash.Hash, user, password string, iterations int, binding xdg.ChannelBinding) (*scram, error) {
	name, err := stringprep.SASLprep.Prepare(user)
	if err != nil {
		return nil, err
	}
	prepared, err := stringprep.SASLprep.Prepare(password)
	if err != nil {
		return nil, errors.New("the password has characters that are not allowed") // the error would quote it
	}
	return &scram{
		hash:       newHash,
		name:       strings.NewReplacer("=", "=3D", ",", "=2C").Replace(name),
		password:   prepared,
		iterations: iterations,
		nonce:      rand.Text(),
		binding:    binding,
	}, nil
}

// header says how the login is bound to its TLS connection. Without a binding it is n, never y: a server with bindings refuses y.
func (s *scram) header() string {
	if !s.binding.IsSupported() {
		return "n,,"
	}
	return "p=" + string(s.binding.Type) + ",,"
}

// first is the client's first message without its header.
func (s *scram) first() string { return "n=" + s.name + ",r=" + s.nonce }

// serverFirst matches the server's first message: each attribute once, in this order, and then extensions, which may be ignored.
var serverFirst = regexp.MustCompile(`^r=([!-+\--~]+),s=([A-Za-z0-9+/]+={0,2}),i=([1-9][0-9]{0,18})((?:,[a-zA-Z]=[^,\x00]*)*)$`)

// answer answers a message of the server.
func (s *scram) answer(ctx context.Context, message string) (string, error) {
	switch {
	case s.proved:
		return "", errors.New("it goes on after its proof")
	case strings.HasPrefix(message, "e="):
		return "", &refusal{failure.OneLine(message[len("e="):])}
	case s.signature == nil:
		return s.prove(ctx, message)
	}
	shown, found := strings.CutPrefix(message, "v=")
	shown, _, _ = strings.Cut(shown, ",")
	signature, err := base64.StdEncoding.DecodeString(shown)
	if !found || err != nil || !hmac.Equal(signature, s.signature) {
		return "", errors.New("its proof is wrong")
	}
	s.proved = true
	return "", nil
}

// prove answers the server's first message with the proof that the client knows the password.
func (s *scram) prove(ctx context.Context, message string) (string, error) {
	m := serverFirst.FindStringSubmatch(message)
	if m == nil || repeats(m[4]) {
		return "", errors.New("its first message does not follow SCRAM, or demands an extension")
	}
	if !strings.HasPrefix(m[1], s.nonce) || m[1] == s.nonce {
		return "", errors.New("its nonce does not continue ours")
	}
	salt, err := base64.StdEncoding.DecodeString(m[2])
	if err != nil {
		return "", err
	}
	iterations, err := strconv.ParseUint(m[3], 10, 64)
	if err != nil || iterations > uint64(s.iterations) { //nolint:gosec // a limit that was checked
		return "", &tooMuchWork{m[3], s.iterations}
	}
	if iterations < minIterations {
		return "", fmt.Errorf("it demands %d iterations, fewer than %d", iterations, minIterations)
	}
	salted, err := s.salt(ctx, salt, int(iterations)) //nolint:gosec // see above
	if err != nil {
		return "", err
	}
	clientKey := s.mac(salted, "Client Key")
	stored := s.hash()
	stored.Write(clientKey)
	final := "c=" + encode(s.header()+string(s.binding.Data)) + ",r=" + m[1]
	all := s.first() + "," + message + "," + final
	proof := make([]byte, len(clientKey))
	subtle.XORBytes(proof, clientKey, s.mac(stored.Sum(nil), all))
	s.signature = s.mac(s.mac(salted, "Server Key"), all)
	return final + ",p=" + base64.StdEncoding.EncodeToString(proof), nil
}

// repeats reports whether an extension occurs twice, is an attribute of another place, or must be understood (m).
func repeats(extensions string) bool {
	seen := "rsimnpcve"
	for extension := range strings.SplitSeq(strings.TrimPrefix(extensions, ","), ",") {
		if extension != "" && strings.Contains(seen, extension[:1]) {
			return true
		}
		seen += extension[:min(1, len(extension))]
	}
	return false
}

func (s *scram) mac(key []byte, text string) []byte {
	mac := hmac.New(s.hash, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// salt is the function Hi of RFC 5802: PBKDF2 with one block.
func (s *scram) salt(ctx context.Context, salt []byte, iterations int) ([]byte, error) {
	mac := hmac.New(s.hash, []byte(s.password))
	mac.Write(append(salt, 0, 0, 0, 1))
	block := mac.Sum(nil)
	salted := append([]byte(nil), block...)
	for n := 1; n < iterations; n++ {
		if n%interruptEach == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("compute the proof: %w", ctx.Err())
		}
		mac.Reset()
		mac.Write(block)
		block = mac.Sum(block[:0])
		subtle.XORBytes(salted, salted, block)
	}
	return salted, nil
}

// tooMuchWork says that a server demands more iterations than the limit.
type tooMuchWork struct {
	demanded string
	limit    int
}

func (e *tooMuchWork) Error() string {
	return fmt.Sprintf("it demands %s iterations, more than %d", e.demanded, e.limit)
}

// refusal says why a server refuses a login, in SCRAM's own words. The protocol around SCRAM refuses it too.
type refusal struct{ words string }

func (e *refusal) Error() string { return "the server refuses it: " + e.words }

// hashes are the hash functions of SCRAM's mechanisms.
var hashes = map[string]func() hash.Hash{"SCRAM-SHA-512": sha512.New, "SCRAM-SHA-256": sha256.New, "SCRAM-SHA-1": sha1.New}
