// Package workloads has the tests of how the exporter counts and judges the containers of real engines. It contains only tests.
package workloads
