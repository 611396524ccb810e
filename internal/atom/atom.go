// Package atom names the Atom feeds (RFC 4287) and their entries.
package atom

import (
	"crypto/sha256"
	"fmt"
)

// URN returns the same URN for the same name: a UUID of version 8, RFC 9562.
func URN(name string) string {
	u := sha256.Sum256([]byte(name))
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
}
