package status

import (
	"fmt"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// Level is how bad something is. The order of the values is that of their weight.
type Level int

// The levels, from the best to the worst. Maintenance weighs less than Unknown: somebody knows.
const (
	OK Level = iota
	Maintenance
	Unknown
	Warning
	Critical
)

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
	i := slices.Index(levelNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("there is no level %q", text)
	}
	*l = Level(i)
	return nil
}

// after is warning until something has lasted so long that it is critical. What does not last has no since.
func after(now, since time.Time, critical config.Duration) Level {
	return criticalIf(!since.IsZero() && now.Sub(since) >= critical.Std())
}

func criticalIf(critical bool) Level {
	if critical {
		return Critical
	}
	return Warning
}
