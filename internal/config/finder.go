package config

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// minFound is the least length in bytes of a secret that is looked for in metrics. A shorter one would match ordinary words.
const minFound = 8

// SecretFinder finds secrets in what servers send, in the forms in which the exporter sends them. The nil SecretFinder finds none.
type SecretFinder struct{ forms [][]byte }

// findSecrets returns a finder of all secrets of these targets.
func findSecrets(targets []Settings) *SecretFinder {
	var forms []string
	for _, settings := range targets {
		users := usersOf(settings)
		for _, secret := range secretsIn(settings) {
			forms = append(append(forms, encoded(secret, users)...), secret, url.QueryEscape(secret), url.PathEscape(secret))
		}
	}
	slices.Sort(forms)
	f := &SecretFinder{}
	for _, form := range slices.Compact(forms) {
		if len(form) >= minFound {
			f.forms = append(f.forms, []byte(form))
		}
	}
	return f
}

// In reports whether a text holds a secret of 8 bytes or more.
func (f *SecretFinder) In(text []byte) bool {
	return f != nil && slices.ContainsFunc(f.forms, func(form []byte) bool { return bytes.Contains(text, form) })
}

// Equal reports whether both find the same.
func (f *SecretFinder) Equal(other *SecretFinder) bool {
	return slices.EqualFunc(f.forms, other.forms, bytes.Equal)
}

// usersOf returns the users with whom the secrets of a target are sent.
func usersOf(settings Settings) (users []string) {
	for _, f := range fieldsOf(reflect.ValueOf(settings).Elem()) {
		if f.Kind() == reflect.String && (f.path == "user" || f.path == "username") {
			users = append(users, f.String())
		}
	}
	return users
}

// encoded returns a secret in base64, alone and as HTTP Basic sends it. Without padding, it is found with and without.
func encoded(secret string, users []string) (forms []string) {
	sent := []string{secret}
	for _, user := range users {
		sent = append(sent, user+":"+secret)
	}
	for _, text := range sent {
		forms = append(forms, base64.RawStdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text)))
	}
	return forms
}

// secretsIn returns the secrets of a target: those with the type Secret, what these hold if they are the value of an Authorization
// header, and tokens in the query of a URL.
func secretsIn(settings Settings) (secrets []string) {
	for _, s := range secretsOf(settings) {
		secrets = append(append(secrets, s.Reveal()), credentials(s.Reveal())...)
	}
	for _, f := range fieldsOf(reflect.ValueOf(settings).Elem()) {
		if f.Kind() == reflect.String {
			secrets = append(secrets, tokensIn(f.String())...)
		}
	}
	return slices.DeleteFunc(secrets, func(s string) bool { return s == "" })
}

// credentials returns the credentials in an Authorization header: the token after Bearer, or what Basic encodes, and its password.
func credentials(header string) []string {
	scheme, token, ok := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	switch {
	case ok && strings.EqualFold(scheme, "bearer"):
		return []string{token}
	case ok && strings.EqualFold(scheme, "basic"):
		decoded, err := base64.StdEncoding.DecodeString(token)
		if err != nil {
			return []string{token}
		}
		_, password, _ := strings.Cut(string(decoded), ":")
		return []string{token, string(decoded), password}
	}
	return nil
}

// tokenNames are in the names of query parameters that hold a secret.
var tokenNames = []string{"token", "key", "secret", "pass", "pwd", "auth", "sig", "credential", "session", "jwt"}

// tokensIn returns the values of a URL's query that are secrets by their names, as written and decoded.
func tokensIn(rawURL string) (tokens []string) {
	_, query, _ := strings.Cut(rawURL, "?")
	query, _, _ = strings.Cut(query, "#")
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(pair, "=")
		name = strings.ToLower(name)
		if !slices.ContainsFunc(tokenNames, func(part string) bool { return strings.Contains(name, part) }) {
			continue
		}
		tokens = append(tokens, value)
		if decoded, err := url.QueryUnescape(value); err == nil {
			tokens = append(tokens, decoded)
		}
	}
	return tokens
}

// ShortSecrets returns the keys of a target's secrets that are too short to be found in what servers send.
func ShortSecrets(settings Settings) (keys []string) {
	for key, s := range secretsOf(settings) {
		if n := len(s.Reveal()); n > 0 && n < minFound {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
