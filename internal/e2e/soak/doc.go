// Package soak runs the exporter for a long time at a hundred times its rate, while faults and clients come and go, and checks
// that its resource usage does not grow.
package soak
