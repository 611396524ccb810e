package config

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// warnAboutOwnHost warns about a receiver at a host that fails with what it reports: this machine, the host of a target, or one in the
// domain of a target. Host may be empty. Advice is what to do.
func (l *loader) warnAboutOwnHost(r *Report, key, host, advice string) {
	host = hostForm(host)
	if host == "" {
		return
	}
	if isThisMachine(host) {
		r.warnf(key, "leads to this machine (%s), so it fails with the machine; %s", host, advice)
		return
	}
	for _, s := range l.cfg.Targets {
		if hostForm(s.HostName()) == host {
			r.warnf(key, "leads to %s, the host of target %s, so it fails with what it reports; %s", host, s.Common().Name, advice)
			return
		}
	}
	for _, s := range l.cfg.Targets {
		for _, domain := range l.domainsOf(s) {
			if sameDomain(host, domain) {
				r.warnf(key, "leads to %s, in the domain of target %s (%s), so it may fail with what it reports; %s",
					host, s.Common().Name, domain, advice)
				return
			}
		}
	}
}

// hostForm returns a host in the form in which hosts are compared.
func hostForm(host string) string {
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// isThisMachine reports whether a host is an address or a usual name of the machine that the exporter runs on.
func isThisMachine(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback() || ip.IsUnspecified()
	}
	host = hostForm(host)
	return strings.HasSuffix(host, ".localhost") || slices.Contains([]string{
		"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "host.docker.internal", "host.containers.internal",
	}, host)
}

// domainsOf returns the domains of a target: its virtual host, and that of the account with which the exporter logs in to a chat server.
// The user of another service may be a mail address anywhere.
func (l *loader) domainsOf(settings Settings) (domains []string) {
	row := l.kind(settings.Common().Kind).Row
	chats := row.ShowsServer || row.Side != "" || row.Relay
	for _, f := range leaves(reflect.ValueOf(settings).Elem(), "") {
		if f.Kind() != reflect.String {
			continue
		}
		switch f.path[strings.LastIndexByte(f.path, '.')+1:] {
		case "domain":
			domains = append(domains, hostForm(f.String()))
		case "user":
			if _, domain, isJID := strings.Cut(f.String(), "@"); isJID && chats {
				domain, _, _ = strings.Cut(domain, "/")
				domains = append(domains, hostForm(domain))
			}
		}
	}
	return slices.DeleteFunc(domains, func(domain string) bool { return domain == "" })
}

// sameDomain reports whether somebody who registers domains has both names, such as mail.example.org and chat.example.org.
func sameDomain(host, domain string) bool {
	if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(host, ".") {
		return host == domain
	}
	of := func(name string) string {
		if registered, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
			return registered
		}
		return name
	}
	return of(host) == of(domain)
}

// valuesOf returns the values of all keys of a target.
func valuesOf(settings Settings) (values []any) {
	for _, f := range leaves(reflect.ValueOf(settings).Elem(), "") {
		values = append(values, f.Interface())
	}
	return values
}
