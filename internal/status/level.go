package status

import "fmt"

var levelNames = [...]string{OK: "ok", Maintenance: "maintenance", Unknown: "unknown", Warning: "warning", Critical: "critical"}

// String returns the level's name, as it is in JSON.
func (l Level) String() string {
	if l < 0 || int(l) >= len(levelNames) {
		return fmt.Sprintf("Level(%d)", int(l))
	}
	return levelNames[l]
}

// MarshalText implements encoding.TextMarshaler.
func (l Level) MarshalText() ([]byte, error) {
	if l < 0 || int(l) >= len(levelNames) {
		return nil, fmt.Errorf("there is no level %d", int(l))
	}
	return []byte(levelNames[l]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Level) UnmarshalText(text []byte) error {
	for i, name := range levelNames {
		if name == string(text) {
			*l = Level(i)
			return nil
		}
	}
	return fmt.Errorf("there is no level %q", text)
}
