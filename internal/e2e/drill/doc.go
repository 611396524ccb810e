// Package drill causes every fault that the alert rules know, and holds that the right people are told of it.
package drill
