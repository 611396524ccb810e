package collectors

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/pacing"
)

// Paced is implemented by settings of a target whose server may refuse or limit the exporter, which then waits on purpose.
type Paced interface {
	Pacing() Pacing
}

// Pacing is what decides whether a target waits.
type Pacing struct {
	// Credential is sent at each probe; zero for none.
	Credential pacing.Credential
	// Sessions are the credentials of the sessions that the target keeps, which log in beside its probes.
	Sessions []pacing.Credential
	// Address is what a probe connects to, host:port, if that is a chat server, which may limit connections; else "".
	Address string
}

// digest identifies an account with its secrets without revealing them.
func digest(texts ...string) string {
	sum := sha256.New()
	for _, text := range texts {
		own := sha256.Sum256([]byte(text))
		sum.Write(own[:])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// httpCredential is a credential for a URL, made of secrets; zero if all of them are unset.
func httpCredential(address, user string, secrets ...config.Secret) pacing.Credential {
	texts := []string{user}
	for _, s := range secrets {
		texts = append(texts, s.Reveal())
	}
	u, err := url.Parse(address)
	if err != nil || !slices.ContainsFunc(secrets, func(s config.Secret) bool { return !s.IsZero() }) {
		return pacing.Credential{}
	}
	server := "http " + exchange.CanonicalServer(u)
	if u.Scheme == "unix" { // a socket has no host
		server += u.Path
	}
	return pacing.Credential{Server: server, Account: digest(texts...)}
}

// Pacing implements Paced.
func (s *Web) Pacing() Pacing {
	secrets := []config.Secret{s.Token, s.Password}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		secrets = append(secrets, s.Headers[name])
	}
	return Pacing{Credential: httpCredential(s.URL, s.User, secrets...)}
}

// Pacing implements Paced.
func (s *OpenMetrics) Pacing() Pacing {
	return Pacing{Credential: httpCredential(s.URL, s.User, s.Token, s.Password)}
}

// Pacing implements Paced.
func (s *XMPPRest) Pacing() Pacing {
	return Pacing{Credential: httpCredential(s.URL, s.User, s.Token, s.Password)}
}

// Pacing implements Paced.
func (s *IRCRPC) Pacing() Pacing {
	return Pacing{Credential: httpCredential(s.URL, s.User, s.Password)}
}

// Pacing implements Paced.
func (s *PlantStore) Pacing() Pacing { return Pacing{Credential: httpCredential(s.URL, "", s.Token)} }

// Pacing implements Paced.
func (s *Identity) Pacing() Pacing { return Pacing{Credential: httpCredential(s.URL, "", s.Token)} }

// login is a credential for a chat server, which counts failed logins on all its ports together.
func (s *IRCAccount) login() pacing.Credential {
	if s.Password.IsZero() && s.ServerPassword.IsZero() {
		return pacing.Credential{}
	}
	account := s.account("")
	return pacing.Credential{
		Server:  "irc " + hostOf(account.Address),
		Account: digest(account.User, s.Password.Reveal(), s.ServerPassword.Reveal()),
		Login:   true,
	}
}

func (s *XMPPAccount) login() pacing.Credential {
	return pacing.Credential{Server: "xmpp " + hostOf(s.server()), Account: digest(s.User, s.Password.Reveal()), Login: true}
}

func hostOf(address string) string { return exchange.CanonicalHost(config.HostOf(address)) }

// Pacing implements Paced.
func (s *IRCLogin) Pacing() Pacing {
	return Pacing{Credential: s.login(), Address: s.account("").Address}
}

// Pacing implements Paced.
func (s *XMPPLogin) Pacing() Pacing { return Pacing{Credential: s.login()} }

// Pacing implements Paced.
func (s *Relay) Pacing() Pacing {
	return Pacing{Sessions: []pacing.Credential{s.IRC.login(), s.XMPP.login()}}
}

// Pacing implements Paced.
func (s *IRCTLS) Pacing() Pacing { return Pacing{Address: exchange.WithPort(s.Address, ircTLSPort)} }

// Pacing implements Paced.
func (s *TCP) Pacing() Pacing { return Pacing{Address: s.Address} }

// Pacing implements Paced.
func (s *TLSEndpoint) Pacing() Pacing { return Pacing{Address: s.Address} }
