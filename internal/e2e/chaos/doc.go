// Package chaos holds the tests that put every fault that can be thought of between the exporter and what it watches, and
// take away what the exporter itself lives on: the disk, descriptors, memory, the clock, the process.
package chaos
