// Package realstack starts the real servers of a chat stack on loopback for tests.
package realstack
