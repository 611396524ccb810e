// Package receivers has stand-ins of the services that send messages for Alertmanager. Each refuses what the service refuses: a text that
// is too long, one whose mark-up it cannot read, a field that it does not know. It also has alerts that are hard to send.
package receivers
