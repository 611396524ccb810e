// Package chaos tests the exporter with every kind of fault between it and its targets, and without the resources that it needs: the
// disk, file descriptors, memory, the clock, the process.
package chaos
