package config

// Secret is a value that cannot be printed by accident: fmt, slog, JSON and YAML show a mask. The zero Secret is unset. It
// holds a pointer because fmt prints unexported strings, but only the address of a pointer.
type Secret struct{ value *string }

const mask = "<secret>"

// NewSecret wraps s. An empty s gives a Secret that is set, but empty.
func NewSecret(s string) Secret { return Secret{&s} }

// Reveal returns the value, "" if unset. Only code that sends or masks the value may call it.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether the secret is unset or empty.
func (s Secret) IsZero() bool { return s.value == nil || *s.value == "" }

// String returns a mask, or "" for an empty secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return mask
}

// GoString implements fmt.GoStringer with the mask.
func (s Secret) GoString() string { return s.String() }

// MarshalText implements encoding.TextMarshaler with the mask, which covers JSON, YAML and slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
