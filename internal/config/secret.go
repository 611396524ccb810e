package config

import "log/slog"

// Secret is a value that cannot be printed by accident: fmt, slog, JSON and YAML all show a mask. The zero Secret is
// unset. It holds a pointer, because fmt reaches into unexported strings, but prints a pointer as an address.
type Secret struct{ value *string }

const mask = "<secret>"

// NewSecret keeps s secret. An empty s gives a set, empty Secret.
func NewSecret(s string) Secret { return Secret{&s} }

// Reveal returns the value, for the one place that sends it. Unset gives "".
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether the secret is unset or empty.
func (s Secret) IsZero() bool { return s.value == nil || *s.value == "" }

// String returns a mask, or "" where there is nothing to hide.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return mask
}

// GoString implements fmt.GoStringer with the mask.
func (s Secret) GoString() string { return s.String() }

// MarshalText implements encoding.TextMarshaler with the mask, which covers JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML implements yaml.Marshaler with the mask.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// LogValue implements slog.LogValuer with the mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
