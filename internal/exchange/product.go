package exchange

import (
	"regexp"
	"strings"
)

// Product is the software of a server that showed it in its banner, capabilities or stream features; "" is unknown. The words of a
// refusal show nothing: servers copy them from each other.
type Product string

// The products whose limits and exemptions are known.
const (
	UnrealIRCd Product = "UnrealIRCd"
	InspIRCd   Product = "InspIRCd"
	NgIRCd     Product = "ngIRCd"
	Ergo       Product = "Ergo"
	Solanum    Product = "Solanum"
	Ejabberd   Product = "ejabberd"
	Prosody    Product = "Prosody"
)

// exemptions say how each product exempts an address. TARGETS.md explains them.
var exemptions = map[Product]string{
	UnrealIRCd: "UnrealIRCd allows 3 connections of one address in 60 s by default: exempt the exporter's address with except ban { mask IP; type { connect-flood; } } (it needs the type)",
	InspIRCd: `InspIRCd's connectban may allow 10 connections of one address in an hour: exempt the exporter's address with <connect allow="IP" parent="main" useconnectban="no">, ` +
		`and with <exception host="*@IP" reason="exporter"> from bans that are in force`,
	NgIRCd:   "ngIRCd limits the connections of one address at the same time: raise MaxConnectionsIP in its section [Limits]; it exempts no address",
	Ergo:     "exempt the exporter's address with server.ip-limits.exempted in Ergo's configuration",
	Solanum:  `exempt the exporter's address with exempt { ip = "IP"; }; in Solanum's configuration`,
	Ejabberd: "ejabberd's mod_fail2ban bans an address after 20 failed logins by default: exempt the exporter's address with the option access of mod_fail2ban, and end the ban with ejabberdctl unban-ip IP",
}

// LimitHint says what to do about a server that limits or bans this address. It names a product only if p is known.
func LimitHint(p Product) string {
	hint, ok := exemptions[p]
	if !ok {
		hint = "the server limits how often one address may connect or fail to log in, or bans it: exempt the exporter's address there; TARGETS.md has the syntax of several servers under Connection limits"
	}
	return hint + ". Check that nothing else behind that address connects, such as a second exporter"
}

// ircProducts match the capabilities and version strings of products.
var ircProducts = []struct {
	product Product
	shown   *regexp.Regexp
}{
	{UnrealIRCd, regexp.MustCompile(`(?i)\bunrealircd\.org/|\bunreal(ircd)?-?[0-9]`)},
	{InspIRCd, regexp.MustCompile(`(?i)\binspircd\.org/|\binspircd-?[0-9]`)},
	{NgIRCd, regexp.MustCompile(`(?i)\bngircd-[0-9]`)},
	{Ergo, regexp.MustCompile(`(?i)\b(ergo\.chat|oragono\.io)/|\b(ergo|oragono)-v?[0-9]`)},
	{Solanum, regexp.MustCompile(`(?i)\bsolanum\.chat/|\bsolanum-[0-9]`)},
}

// ProductOfIRC recognises the product in a line of an IRC server: its capabilities (CAP LS), or its version in 002, 004 or 351.
func ProductOfIRC(line string) Product {
	switch command, params := splitIRC(line); command {
	case "CAP", "002", "004", "351":
		for _, p := range ircProducts {
			if p.shown.MatchString(params) {
				return p.product
			}
		}
	}
	return ""
}

// ProductOfXMPP recognises the product by the node of its entity capabilities (XEP-0115) in the stream's features.
func ProductOfXMPP(node string) Product {
	switch {
	case strings.Contains(node, "process-one.net/en/ejabberd"):
		return Ejabberd
	case strings.Contains(node, "prosody.im"):
		return Prosody
	}
	return ""
}
