// Package drill causes every fault that the alert rules detect, and checks that the right people are notified.
package drill
