package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxSecretBytes bounds the file of a secret.
const maxSecretBytes = 64 << 10

// readSecret reads the file of a secret without its trailing line ends. Written is its path as the configuration has it.
func readSecret(written, name string) (Secret, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Secret{}, fmt.Errorf("read secret: %w", withoutPath(written, err))
	}
	if !info.Mode().IsRegular() {
		return Secret{}, fmt.Errorf("read secret: %s is not a regular file", name)
	}
	if info.Size() > maxSecretBytes {
		return Secret{}, fmt.Errorf("read secret: %s has %d bytes, must be at most %d", name, info.Size(), maxSecretBytes)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return Secret{}, fmt.Errorf("read secret: %w", err)
	}
	return NewSecret(strings.TrimRight(string(content), "\r\n")), nil
}

// withoutPath removes the path from an error unless it looks like one: it may be the secret itself.
func withoutPath(name string, err error) error {
	pathErr, ok := errors.AsType[*fs.PathError](err)
	if !ok || looksLikePath(name) {
		return err
	}
	return fmt.Errorf("%w; write the path of a file, not the secret itself", pathErr.Err)
}

// pathPart matches the parts of usual paths. Generated secrets mix digits with letters of both cases.
var pathPart = regexp.MustCompile(`^([a-z0-9_.-]{0,40}|[A-Za-z_.-]{0,40})$`)

// looksLikePath reports whether the name of a missing file may be shown: its directory exists, or all of its parts are usual.
func looksLikePath(name string) bool {
	dir := filepath.Dir(name)
	if _, err := os.Stat(dir); err == nil && filepath.IsAbs(name) && dir != "/" {
		return true
	}
	if !strings.ContainsAny(name, "/._-") && strings.ContainsAny(name, "0123456789") {
		return false
	}
	return !slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return !pathPart.MatchString(part) })
}

// secret reads a secret's file, or returns a dummy with WithoutSecrets. Written is the path as the configuration has it. A file that cannot
// be used keeps the secret that it had before a change.
func (l *loader) secret(written, path string) (Secret, error) {
	if l.src.WithoutSecrets {
		return NewSecret(notRead), nil
	}
	secret, err := readSecret(written, path)
	if former, ok := l.src.former[path]; ok && cmp.Or(err, unusable(path, secret)) != nil {
		secret, err = former, nil
	}
	if err == nil {
		l.cfg.secretFiles[path] = secret
	}
	return secret, err
}

// notRead is the dummy for a secret whose file is not read.
const notRead = "not read"

// isNotRead reports whether a secret is the dummy of one.
func (l *loader) isNotRead(s Secret) bool { return l.src.WithoutSecrets && s.Reveal() == notRead }

// unusable returns why a secret is not taken over from a file that has changed: whoever writes it may not be done.
func unusable(path string, s Secret) error {
	switch {
	case s.IsZero():
		return fmt.Errorf("read secret: %s is empty", path)
	case isUnsendable(s):
		return fmt.Errorf("read secret: %s contains a control character, such as a line end", path)
	}
	return nil
}

// ChangedSecretFiles returns which files of secrets have other secrets now than the configuration, in alphabetical order.
// The error is about those that cannot be used now.
func (c *Config) ChangedSecretFiles() (changed []string, err error) {
	for _, path := range slices.Sorted(maps.Keys(c.secretFiles)) {
		now, readErr := readSecret(path, path)
		same := readErr == nil && now.Reveal() == c.secretFiles[path].Reveal()
		switch readErr = cmp.Or(readErr, unusable(path, now)); {
		case same:
		case readErr != nil:
			err = errors.Join(err, readErr)
		default:
			changed = append(changed, path)
		}
	}
	return changed, err
}

// WithSecretsOfNow returns the same configuration with what the files of its secrets contain now.
// A file that cannot be used keeps its secret.
func (c *Config) WithSecretsOfNow() (*Config, error) {
	src := c.source
	src.former = c.secretFiles
	return Load(src)
}

// authScheme matches how the value of an Authorization header begins, which clients add to a secret.
var authScheme = regexp.MustCompile(`(?i)^(authorization: *)?(bearer|basic) +|^authorization:`)

// doubtAbout returns what is suspicious about a secret, "" if nothing is. Path is its file, "" for a variable or a key.
func doubtAbout(s Secret, path string) string {
	value := s.Reveal()
	trimmed := strings.TrimSpace(value)
	switch {
	case value == "" && path != "":
		return path + " is empty; write the secret into it, or remove the setting"
	case strings.HasPrefix(value, byteOrderMark):
		return "begins with a byte-order mark, which counts as part of the secret; save it in UTF-8 without the mark"
	case isQuoted(value), hasTypographicQuotes(value):
		return "begins and ends with a quote, which counts as part of the secret; unless the secret has them, remove both"
	case authScheme.MatchString(value):
		return fmt.Sprintf("begins with %q, which counts as part of the secret; unless the secret has it, remove it: "+
			"over HTTP the exporter adds the scheme itself",
			authScheme.FindString(value))
	case filepath.IsAbs(value) && exists(value):
		return "is the path of a file, which counts as the secret itself; to read the file, " +
			"set the key or variable that ends in _file or _FILE"
	case trimmed != value:
		return "begins or ends with white space, which counts as part of the secret; unless the secret has it, remove it"
	}
	return ""
}

const byteOrderMark = "\ufeff"

// isQuoted reports whether a value begins and ends with the same quote.
func isQuoted(value string) bool {
	return len(value) >= 2 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0]
}

// hasTypographicQuotes reports whether a value begins and ends with quotes as word processors write them.
func hasTypographicQuotes(value string) bool {
	const quotes = "“”„‘’‚«»‹›"
	first, _ := utf8.DecodeRuneInString(value)
	last, size := utf8.DecodeLastRuneInString(value)
	return len(value) > size && strings.ContainsRune(quotes, first) && strings.ContainsRune(quotes, last)
}
