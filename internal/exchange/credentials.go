package exchange

import (
	"net/http"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// Credentials are the keys of a block that authenticate: a bearer token, else HTTP Basic, else nothing.
type Credentials struct {
	Token config.Secret `yaml:"token"`
	// User and Password are sent where there is no token.
	User     string        `yaml:"user"`
	Password config.Secret `yaml:"password"`
}

// HasCredentials reports whether there is a credential to send.
func (c *Credentials) HasCredentials() bool { return !c.Token.IsZero() || c.UsesBasicAuth() }

// UsesBasicAuth reports whether the credential is a name and a password.
func (c *Credentials) UsesBasicAuth() bool {
	return c.Token.IsZero() && c.User != "" && !c.Password.IsZero()
}

// AuthHeader returns a new header with the credential, if there is one.
func (c *Credentials) AuthHeader() http.Header {
	h := http.Header{}
	switch {
	case !c.Token.IsZero():
		h.Set("Authorization", "Bearer "+c.Token.Reveal())
	case c.UsesBasicAuth():
		(&http.Request{Header: h}).SetBasicAuth(c.User, c.Password.Reveal())
	}
	return h
}

// CheckCredentials reports credentials that no header can carry, without repeating them.
func (c *Credentials) CheckCredentials(r *config.Report) {
	if strings.Contains(c.User, ":") {
		r.Faultf("user", "contains a colon, which HTTP Basic does not allow")
	}
}
