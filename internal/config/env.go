package config

import (
	"fmt"
	"net/url"
)

// Env applies environment variables to the block of one target. An empty variable counts as unset, because Compose passes
// unset variables as empty.
type Env struct {
	lookup  func(string) (string, bool)
	secret  func(file string) (Secret, error)
	faults  *Faults
	origins map[string]string
	path    string
}

// In applies variables to the mapping under a key of the block.
func (e *Env) In(key string) *Env {
	inner := *e
	inner.path = join(e.path, key)
	return &inner
}

// Get returns the variable's value, "" if it is unset.
func (e *Env) Get(name string) string {
	value, _ := e.lookup(name)
	return value
}

// String replaces the value of key by the variable's, if set.
func (e *Env) String(key, name string, value *string) {
	if s := e.Get(name); s != "" {
		*value = s
		e.set(key, name)
	}
}

// Origin replaces the value of key by the scheme, host and port of the variable's URL, if the variable is set: its path is
// that of another page. An invalid URL is kept, so that the check reports it.
func (e *Env) Origin(key, name string, value *string) {
	raw := e.Get(name)
	if raw == "" {
		return
	}
	e.set(key, name)
	*value = raw
	if u, err := url.Parse(raw); err == nil && u.Host != "" {
		*value = (&url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}).String()
	}
}

// Secret replaces the value of key by the variable's, or by the content of the file NAME_FILE unless that is empty. It
// reports an error if both are set.
func (e *Env) Secret(key, name string, value *Secret) {
	plain, file := e.Get(name), e.Get(name+"_FILE")
	switch {
	case plain != "" && file != "":
		e.fault(name, fmt.Sprintf("is set beside %s_FILE; keep one of them", name))
	case plain != "":
		*value = NewSecret(plain)
		e.set(key, name)
	case file != "":
		secret, err := e.secret(file)
		if err != nil {
			e.fault(name+"_FILE", fmt.Sprintf("%v; name a file that the exporter's user can read", err))
			return
		}
		if secret.IsZero() {
			return // Compose files also mount secrets that are not used
		}
		*value = secret
		e.set(key, name+"_FILE")
	}
}

// TLS replaces the values of ca_file and fingerprint by PREFIX_CA_FILE's and PREFIX_FINGERPRINT's.
func (e *Env) TLS(prefix string, t *TLS) {
	e.String("ca_file", prefix+"_CA_FILE", &t.CAFile)
	e.String("fingerprint", prefix+"_FINGERPRINT", &t.Fingerprint)
}

func (e *Env) set(key, name string) { e.origins[join(e.path, key)] = name }

func (e *Env) fault(name, message string) {
	*e.faults = append(*e.faults, Fault{Where: name, Message: message})
}

// ReadEnvironment applies variables to settings of a command, which the file does not have. The error is Faults. Origins say where keys
// come from that are set already.
func ReadEnvironment(lookup func(string) (string, bool), origins map[string]string, apply func(*Env, *Report)) error {
	var faults Faults
	apply(&Env{lookup: lookup, secret: readSecret, faults: &faults, origins: origins}, &Report{faults: &faults, origins: origins, where: "environment"})
	if len(faults) > 0 {
		return faults
	}
	return nil
}
