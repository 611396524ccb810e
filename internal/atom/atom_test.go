package atom

import (
	"fmt"
	"regexp"
	"testing"
)

func TestURNIsAUUIDOfVersion8(t *testing.T) {
	valid := regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for n := range 1000 {
		name := fmt.Sprint(n)
		got := URN(name)
		if !valid.MatchString(got) || seen[got] || URN(name) != got {
			t.Errorf("%q: got %s", name, got)
		}
		seen[got] = true
	}
}
