package status

import (
	"fmt"
	"slices"
	"strconv"
)

// Level is how bad something is. Higher values are worse.
type Level int

// The levels, from the best to the worst. Maintenance is better than Unknown, since it is planned. Pending is a problem without
// an alert: it has not lasted long enough, or it is excused.
const (
	OK Level = iota
	Maintenance
	Unknown
	Pending
	Warning
	Critical
)

var levelNames = [...]string{
	OK: "ok", Maintenance: "maintenance", Unknown: "unknown", Pending: "pending", Warning: "warning", Critical: "critical",
}

// String returns the level's name, as in JSON.
func (l Level) String() string { return levelNames[l] }

// MarshalText implements encoding.TextMarshaler.
func (l Level) MarshalText() ([]byte, error) {
	if l < 0 || int(l) >= len(levelNames) {
		return nil, fmt.Errorf("unknown level %d", int(l))
	}
	return []byte(levelNames[l]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Level) UnmarshalText(text []byte) error {
	i := slices.Index(levelNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("unknown level %q", text)
	}
	*l = Level(i)
	return nil
}

// SchemaVersion is the version of the JSON that programs read: the answers below /api/v1, the events, and the output of check. It grows
// when a field is renamed, removed or changes its meaning.
const SchemaVersion = 1

// Schema is a field that is always SchemaVersion in JSON. Decoding another version is an error.
type Schema struct{}

// MarshalJSON implements json.Marshaler.
func (Schema) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, SchemaVersion, 10), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (*Schema) UnmarshalJSON(data []byte) error {
	if text := string(data); text != strconv.Itoa(SchemaVersion) {
		return fmt.Errorf("schema is %s, must be %d: use programs of the same version", text, SchemaVersion)
	}
	return nil
}
