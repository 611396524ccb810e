package config

import (
	"bytes"
	"encoding/base64"
	"maps"
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
	forms := map[string]bool{}
	for _, settings := range targets {
		users := usersOf(settings)
		for secret := range secretsOf(settings) {
			for _, form := range append(encoded(secret, users), secret, url.QueryEscape(secret), url.PathEscape(secret)) {
				forms[form] = len(form) >= minFound
			}
		}
	}
	f := &SecretFinder{}
	for _, form := range slices.Sorted(maps.Keys(forms)) {
		if forms[form] {
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
	fields := map[string]reflect.Value{}
	collectFields(reflect.ValueOf(settings).Elem(), fields)
	for _, key := range []string{"user", "username"} {
		if user, ok := fields[key]; ok && user.Kind() == reflect.String {
			users = append(users, user.String())
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

// secretsOf returns the secrets of a target with the keys that set them: those with the type Secret, what these hold if they are the
// value of an Authorization header, and tokens in the query of a URL.
func secretsOf(settings Settings) map[string]string {
	secrets := map[string]string{}
	v := reflect.ValueOf(settings).Elem()
	eachSecret(v, func(key string, s Secret) {
		secrets[s.Reveal()] = key
		for _, inner := range credentials(s.Reveal()) {
			secrets[inner] = key
		}
	})
	fields := map[string]reflect.Value{}
	collectFields(v, fields)
	for key, field := range fields {
		if field.Kind() == reflect.String {
			for _, token := range tokensIn(field.String()) {
				secrets[token] = key
			}
		}
	}
	delete(secrets, "")
	return secrets
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
	eachSecret(reflect.ValueOf(settings).Elem(), func(key string, s Secret) {
		if n := len(s.Reveal()); n > 0 && n < minFound {
			keys = append(keys, key)
		}
	})
	slices.Sort(keys)
	return keys
}
