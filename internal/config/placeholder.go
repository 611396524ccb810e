package config

import (
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// placeholders are the beginnings of secrets that are meant to be replaced.
var placeholders = []string{
	"change_me", "changeme", "change-me", "change_this", "change-this", "replace_with", "replace-with", "replace_me",
	"replace-me", "replaceme", "placeholder", "your_", "your-", "<", "${",
}

// Placeholders returns the keys of a target's secrets that begin like placeholders. If there are none, and the target
// has only empty secrets, it returns the keys of those.
func Placeholders(settings Settings) []string {
	var obvious, empty []string
	given := false
	for key, s := range secretsOf(settings) {
		switch {
		case s.value == nil:
		case *s.value == "":
			empty = append(empty, key)
		case isPlaceholder(*s.value):
			obvious = append(obvious, key)
		default:
			given = true
		}
	}
	if given || len(obvious) > 0 {
		return obvious
	}
	return empty
}

func isPlaceholder(value string) bool {
	value = strings.ToLower(strings.TrimSpace(value))
	value = strings.TrimPrefix(strings.TrimPrefix(value, "bearer "), "basic ")
	return slices.ContainsFunc(placeholders, func(p string) bool { return strings.HasPrefix(value, p) })
}

// secretsOf returns every secret of a target by its key.
func secretsOf(settings Settings) map[string]Secret {
	secrets := map[string]Secret{}
	for _, f := range leaves(reflect.ValueOf(settings).Elem(), "") {
		switch value := f.Interface().(type) {
		case Secret:
			secrets[f.path] = value
		case map[string]Secret:
			for name, s := range value {
				secrets[f.path+"."+name] = s
			}
		}
	}
	return secrets
}

// checkSecrets reports secrets that cannot be sent. A line end usually comes from badly joined files.
func checkSecrets(r *Report, settings Settings) {
	for key, s := range secretsOf(settings) {
		r.checkSendable(key, s)
	}
}

// checkSendable reports a secret that cannot be sent, and returns false for it.
func (r *Report) checkSendable(key string, s Secret) bool {
	switch {
	case isUTF16(s):
		r.Faultf(key, "is in UTF-16, as PowerShell writes files; save it in UTF-8, without a byte-order mark")
	case isUnsendable(s):
		r.Faultf(key, "contains a control character, such as a line end, which cannot be sent; remove it at the source")
	default:
		return true
	}
	return false
}

func isUnsendable(s Secret) bool { return strings.ContainsFunc(s.Reveal(), unicode.IsControl) }

// isUTF16 reports whether a secret begins with the byte-order mark of UTF-16.
func isUTF16(s Secret) bool {
	return strings.HasPrefix(s.Reveal(), "\xff\xfe") || strings.HasPrefix(s.Reveal(), "\xfe\xff")
}
