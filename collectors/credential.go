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

// Credentialed is implemented by settings of a target that sends a credential at each probe.
type Credentialed interface {
	// Credential returns the credential, zero if none is configured.
	Credential() pacing.Credential
}

// SessionKeeper is implemented by settings of a target that keeps sessions, which log in beside its probes.
type SessionKeeper interface {
	// SessionCredentials returns the credentials of the sessions.
	SessionCredentials() []pacing.Credential
}

// Connecting is implemented by settings of a target whose probes open connections that a chat server may limit.
type Connecting interface {
	// Connects returns the address that a probe connects to, host:port.
	Connects() string
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
	return pacing.Credential{Server: "http " + config.CanonicalServer(u) + socketPath(u), Account: digest(texts...)}
}

// socketPath is the path of a Unix socket, which has no host.
func socketPath(u *url.URL) string {
	if u.Scheme == "unix" {
		return u.Path
	}
	return ""
}

// Credential implements Credentialed.
func (s *Web) Credential() pacing.Credential {
	secrets := []config.Secret{s.Token, s.Password}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		secrets = append(secrets, s.Headers[name])
	}
	return httpCredential(s.URL, s.User, secrets...)
}

// Credential implements Credentialed.
func (s *OpenMetrics) Credential() pacing.Credential {
	return httpCredential(s.URL, s.User, s.Token, s.Password)
}

// Credential implements Credentialed.
func (s *XMPPRest) Credential() pacing.Credential {
	return httpCredential(s.URL, s.User, s.Token, s.Password)
}

// Credential implements Credentialed.
func (s *IRCRPC) Credential() pacing.Credential { return httpCredential(s.URL, s.User, s.Password) }

// Credential implements Credentialed.
func (s *PlantStore) Credential() pacing.Credential { return httpCredential(s.URL, "", s.Token) }

// Credential implements Credentialed.
func (s *Identity) Credential() pacing.Credential { return httpCredential(s.URL, "", s.Token) }

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

func hostOf(address string) string { return config.CanonicalHost(config.HostOf(address)) }

// Credential implements Credentialed.
func (s *IRCLogin) Credential() pacing.Credential { return s.login() }

// Credential implements Credentialed.
func (s *XMPPLogin) Credential() pacing.Credential { return s.login() }

// SessionCredentials implements SessionKeeper.
func (s *Relay) SessionCredentials() []pacing.Credential {
	return []pacing.Credential{s.IRC.login(), s.XMPP.login()}
}

// Connects implements Connecting.
func (s *IRCTLS) Connects() string { return exchange.WithPort(s.Address, ircTLSPort) }

// Connects implements Connecting.
func (s *IRCLogin) Connects() string { return s.account("").Address }

// Connects implements Connecting.
func (s *TCP) Connects() string { return s.Address }

// Connects implements Connecting.
func (s *TLSEndpoint) Connects() string { return s.Address }
