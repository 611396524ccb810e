// Package kubernetes holds nothing: its tests build deploy/kubernetes and read it with the types of Kubernetes and of the
// Prometheus Operator.
package kubernetes
