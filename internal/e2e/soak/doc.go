// Package soak runs the exporter for long at a hundred times its rate, while faults and clients come and go, and holds
// that it stays as small as it was.
package soak
