package status

import (
	"fmt"
	"strconv"
)

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
