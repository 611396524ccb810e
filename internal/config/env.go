package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Env applies environment variables to the block of one target. An empty variable counts as unset, because Compose passes
// unset variables as empty.
type Env struct {
	loader *loader
	kind   string
	path   string
}

// In applies variables to the mapping under a key of the block.
func (e *Env) In(key string) *Env {
	inner := *e
	inner.path = join(e.path, key)
	return &inner
}

// Get returns the variable's value, "" if it is unset.
func (e *Env) Get(name string) string {
	if e.loader.read[name] == "" {
		e.loader.read[name] = e.kind
	}
	value, _ := e.loader.src.Lookup(name)
	return value
}

// unquoted returns the variable's value. It refuses quotes around it, which some readers of env files keep.
func (e *Env) unquoted(name string) string {
	value := e.Get(name)
	if isQuoted(value) {
		e.fault(name, "begins and ends with a quote, which counts as part of the value; remove both: docker run --env-file keeps quotes")
		return ""
	}
	return value
}

// String replaces the value of key by the variable's, if set. It reports space around an address.
func (e *Env) String(key, name string, value *string) {
	text := e.unquoted(name)
	if text == "" {
		return
	}
	if fault := spaceAround(text); fault != "" && isAddressKey(key) {
		e.fault(name, fault)
		text = strings.TrimSpace(text)
	}
	full := join(e.path, key)
	if where := e.loader.origins[full]; *value != "" && *value != text && strings.Contains(where, ":") {
		e.loader.cfg.Overridden = append(e.loader.cfg.Overridden, Override{name, full, where})
	}
	*value = text
	e.set(key, name)
}

// Origin replaces the value of key by the scheme, host and port of the variable's URL, if the variable is set: its path is
// that of another page. An invalid URL is kept, so that the check reports it.
func (e *Env) Origin(key, name string, value *string) {
	e.String(key, name, value)
	if e.unquoted(name) == "" {
		return
	}
	if u, err := url.Parse(*value); err == nil && u.Host != "" {
		*value = (&url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}).String()
	}
}

// Secret replaces the value of key by the variable's, or by the content of the file NAME_FILE unless that is empty. It
// reports an error if both are set.
func (e *Env) Secret(key, name string, value *Secret) {
	plain, file := e.Get(name), e.unquoted(name+"_FILE")
	switch {
	case plain != "" && file != "":
		e.fault(name, fmt.Sprintf("is set beside %s_FILE; keep one of them", name))
	case plain != "":
		*value = NewSecret(plain)
		e.set(key, name)
		e.warn(key, name, doubtAbout(*value, ""), false)
	case file != "":
		secret, err := e.loader.secret(file, file)
		if err != nil {
			e.fault(name+"_FILE", fmt.Sprintf("%v; name a file that the exporter's user can read", err))
			return
		}
		e.warn(key, name+"_FILE", doubtAbout(secret, file), secret.IsZero() && value.IsZero())
		if !secret.IsZero() { // Compose files also mount secrets that are not used
			*value = secret
			e.set(key, name+"_FILE")
		}
	}
}

// TLS replaces the values of ca_file and fingerprint by PREFIX_CA_FILE's and PREFIX_FINGERPRINT's.
func (e *Env) TLS(prefix string, t *TLS) {
	e.String("ca_file", prefix+"_CA_FILE", &t.CAFile)
	e.String("fingerprint", prefix+"_FINGERPRINT", &t.Fingerprint)
}

func (e *Env) set(key, name string) { e.loader.origins[join(e.path, key)] = name }

// fault reports an error in a variable once, although several kinds may read it.
func (e *Env) fault(name, message string) {
	if f := (Fault{Where: name, Message: message}); !slices.Contains(e.loader.faults, f) {
		e.loader.faults = append(e.loader.faults, f)
	}
}

func (e *Env) warn(key, name, message string, unset bool) {
	e.loader.warn(pathWarning{join(e.path, key), Fault{Where: name, Message: message}, unset})
}

// ReadEnvironment applies variables to settings of a command, which the file does not have. The error is Faults. Origins say where keys
// come from that are set already.
func ReadEnvironment(lookup func(string) (string, bool), origins map[string]string, apply func(*Env, *Report)) error {
	l := newLoader(Source{Lookup: lookup}, &Config{secretFiles: map[string]Secret{}})
	l.origins = origins
	apply(&Env{loader: l}, &Report{loader: l, where: fromEnvironment})
	if len(l.faults) > 0 {
		return l.faults
	}
	return nil
}
