package collectors

import (
	"net/http"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// Credentials are the keys of a block that say who asks: a bearer token, else HTTP Basic, else nobody.
type Credentials struct {
	Token config.Secret `yaml:"token"`
	// User and Password are sent where there is no token.
	User     string        `yaml:"user"`
	Password config.Secret `yaml:"password"`
}

// given reports whether there is a credential to send.
func (c *Credentials) given() bool { return !c.Token.IsZero() || c.basic() }

// basic reports whether the credential is a name and a password.
func (c *Credentials) basic() bool {
	return c.Token.IsZero() && c.User != "" && !c.Password.IsZero()
}

// header returns a new header that bears the credential, if there is one.
func (c *Credentials) header() http.Header {
	h := http.Header{}
	switch {
	case !c.Token.IsZero():
		h.Set("Authorization", "Bearer "+c.Token.Reveal())
	case c.basic():
		(&http.Request{Header: h}).SetBasicAuth(c.User, c.Password.Reveal())
	}
	return h
}

// check reports what no header can bear, without repeating it.
func (c *Credentials) check(r *config.Report) {
	if strings.Contains(c.User, ":") {
		r.Faultf("user", "holds a colon, which HTTP Basic does not allow")
	}
}
