package config

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Target has the keys of every kind.
type Target struct {
	// Kind names the entry of the table of kinds.
	Kind string `yaml:"kind"`
	// Name is the value of the label target; the kind if unset.
	Name string `yaml:"name"`
	// Schedule is "@every 30s" or a cron line of five fields; the poll interval if unset.
	Schedule string `yaml:"schedule"`
	// OwnSchedule says that the target's block sets Schedule.
	OwnSchedule bool `yaml:"-"`
	// Timeout is the deadline of one probe; the poll timeout if unset.
	Timeout Duration `yaml:"timeout"`
	// Slow is how long a successful probe may take until TargetSlow counts it; 0 for any time. Of a relay, it is how long a message may.
	Slow Duration `yaml:"slow"`
	// Container is the name of the container that serves the target, and Service the service whose instances do. Without
	// either, the container is inferred from the address. ContainerHost is the docker_host of its engine: another exporter
	// may watch the engine of a container.
	Container     string `yaml:"container"`
	Service       string `yaml:"service"`
	ContainerHost string `yaml:"container_host"`
	// ChatServer is the server that the target is part of, in the alerts' label chat_server. If unset, it is that of its role, else that
	// of its container, else its name.
	ChatServer string `yaml:"chat_server"`
	// IPVersion is the version of IP, 4 or 6, that the target must work over; 0 is any.
	IPVersion int `yaml:"ip_version"`
	// Addresses is AllAddresses to probe each address of the host name, or "" to probe the first that answers.
	Addresses string `yaml:"addresses"`
	// Page is whether the target's alerts may be critical. The default depends on the kind.
	Page bool `yaml:"page"`
}

const (
	// slowAnswer is how long an answer to one question may take by default.
	slowAnswer = 3 * second
	// UsualSlow is the value of Slow until the block of the target is read.
	UsualSlow Duration = -1
)

// AllAddresses is the value of the key addresses.
const AllAddresses = "all"

// Common returns the target itself, for settings that embed it.
func (t *Target) Common() *Target { return t }

// Environ implements Settings for the kinds that no variable is for.
func (t *Target) Environ(*Env) {}

// usualSlow is how long a successful probe of a target may take by default: half of its deadline, if it asks several questions.
func (t *Target) usualSlow(row *Row) Duration {
	if row.Steps || t.Addresses == AllAddresses || t.Timeout <= slowAnswer {
		return t.Timeout / 2
	}
	return slowAnswer
}

// SlowProbe is how long a successful probe may take until it is slow; 0 for any time.
func (t *Target) SlowProbe(row *Row) Duration {
	if row.Relay {
		return t.usualSlow(row)
	}
	return t.Slow
}

// targetName matches valid names of targets, which become part of labels and paths.
var targetName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)

// mustBeName says in faults what targetName matches.
const mustBeName = "must be 1 to 64 letters, digits, '_', '.' or '-', and not begin with '.' or '-'"

// check sets the defaults that depend on others, and reports errors in the keys of every kind.
func (t *Target) check(r *Report, poll Poll) {
	if t.OwnSchedule = t.Schedule != ""; !t.OwnSchedule {
		t.Schedule = "@every " + max(poll.Interval.Std(), r.row.Interval).String()
	}
	schedule, err := ParseSchedule(t.Schedule)
	gap := poll.Timeout
	if err == nil {
		gap = Duration(shortestGap(schedule))
	}
	t.Timeout = cmp.Or(t.Timeout, min(poll.Timeout, gap))
	if !targetName.MatchString(t.Name) {
		r.Faultf("name", "is %q, %s", t.Name, mustBeName)
	}
	r.AtLeast("timeout", t.Timeout, second, "")
	if t.ChatServer != "" {
		r.ChatServer("chat_server", t.ChatServer)
	}
	switch usual := t.usualSlow(&r.row); {
	case t.Slow == UsualSlow:
		t.Slow = usual
	case r.row.Relay: // of its messages
	case t.Slow >= t.Timeout:
		r.Faultf("slow", "is %s, must be 0s (off) or less than timeout, which is %s", t.Slow.Std(), t.Timeout.Std())
	}
	t.checkServer(r)
	switch {
	case err != nil:
		r.scheduleFault(err, `"@every 30s" or five cron fields such as "*/5 * * * *"`)
	case t.Timeout > gap:
		r.Faultf("timeout", "is %s, must be at most the %s between two probes, so that a hung service is detected by then",
			t.Timeout.Std(), gap.Std())
	}
}

// checkServer checks the keys about what serves the target.
func (t *Target) checkServer(r *Report) {
	switch {
	case t.Container != "" && t.Service != "":
		r.Faultf("service", "is set beside container; keep service, whose containers may have any name")
	case strings.Contains(strings.Trim(t.Container, "/"), "/"):
		r.Faultf("container", "is %q, which is a service, not a container; write service: %[1]s", t.Container)
	case t.Service != "":
		r.Service("service", t.Service)
	}
	if t.ContainerHost != "" && t.Container == "" && t.Service == "" {
		r.Faultf("container_host", "is set without container or service on that host; set one of them too, or remove it")
	}
}

// serviceName matches the names of services: project/service of Compose, a swarm service, a systemd unit, or a container.
var serviceName = regexp.MustCompile(`^[A-Za-z0-9_.:@\\-]{1,255}(/[A-Za-z0-9_.-]{1,255})?$`)

// IsService reports whether a text can be the name of a service.
func IsService(name string) bool { return serviceName.MatchString(name) }

// Service reports a value that cannot be the name of a service.
func (r *Report) Service(key, name string) {
	switch {
	case strings.ContainsAny(name, "*?["):
		r.Faultf(key, "is %q, but patterns are not supported; name one service, such as chat/web", name)
	case !IsService(name):
		r.Faultf(key, "is %q, must be the name of one service: chat/web for the service web of the Compose project chat, or that of a "+
			"swarm service, systemd unit or container", name)
	}
}

// ChatServer reports a value that cannot be the name of a server in the alerts' label chat_server.
func (r *Report) ChatServer(key, name string) {
	if !targetName.MatchString(name) {
		r.Faultf(key, "is %q, %s", name, mustBeName)
	}
}

// checkAddresses checks the keys about addresses, of a target that has this host, "" for none.
func (t *Target) checkAddresses(r *Report, host string) {
	ip, err := netip.ParseAddr(host)
	switch v := t.IPVersion; {
	case v == 0:
	case v != 4 && v != 6:
		r.Faultf("ip_version", "is %d, must be 4 or 6", v)
	case host == "":
		r.Faultf("ip_version", "is set, but the exporter resolves no host name of this target; remove it")
	case err == nil && ip.Is4() != (v == 4):
		r.Faultf("ip_version", "is %d, but the target's address %s is none of that version; remove it", v, host)
	}
	switch {
	case t.Addresses == "":
	case t.Addresses != AllAddresses:
		r.Faultf("addresses", "is %q, must be %s, or empty for the first address that answers", t.Addresses, AllAddresses)
	case !r.row.EachAddress || host == "":
		r.Faultf("addresses",
			"is set, but only a target of a kind that checks whether a port answers can be probed at each address; remove it")
	}
}

// Connection is how a connection over TCP begins.
type Connection struct {
	// ProxyProtocol is the version of the PROXY header that is sent first: "v1" or "v2"; "" for none.
	ProxyProtocol string `yaml:"proxy_protocol"`
}

// The versions of the PROXY header.
const (
	ProxyV1 = "v1"
	ProxyV2 = "v2"
)

// CheckConnection reports errors in the keys of the connection.
func (c *Connection) CheckConnection(r *Report) {
	if !slices.Contains([]string{"", ProxyV1, ProxyV2}, c.ProxyProtocol) {
		r.Faultf("proxy_protocol", "is %q, must be %s, %s or empty", c.ProxyProtocol, ProxyV1, ProxyV2)
	}
}

// TLS is which servers a TLS client trusts. The zero TLS trusts the system's certificate authorities and verifies the host
// name.
type TLS struct {
	// CAFile is a PEM file of authorities; they replace the system's.
	CAFile string `yaml:"ca_file" path:"file"`
	// Fingerprint is the SHA-256 of the only accepted leaf certificate, as 64 hexadecimal digits with or without colons. It
	// replaces verification by authority, name and date.
	Fingerprint string `yaml:"fingerprint"`
	// ServerName replaces the host of the URL or address in SNI and verification.
	ServerName string `yaml:"server_name"`
	// InsecureSkipVerify accepts every certificate.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify"`
	// CertificateFile is the PEM file, or a glob of files, that the server loads its certificate from. It is compared with
	// the served certificate and does not affect connections.
	CertificateFile string `yaml:"certificate_file" path:"file"`
	// CertificateExpiry replaces the limits of TLSCertificateExpiry for the server's certificates.
	CertificateExpiry ExpiryLimits `yaml:"certificate_expiry"`
	// CertFile and KeyFile are the client's certificate and key, in PEM. They come in pairs.
	CertFile string `yaml:"cert_file" path:"file"`
	KeyFile  string `yaml:"key_file" path:"file"`
	// ALPN are the application protocols that the client offers. Nil offers those of the kind, an empty list none.
	ALPN []string `yaml:"alpn"`
}

// PinnedSHA256 returns the fingerprint's 32 bytes, or nil if it is unset or malformed.
func (t *TLS) PinnedSHA256() []byte {
	digest, err := hex.DecodeString(strings.ReplaceAll(t.Fingerprint, ":", ""))
	if err != nil || len(digest) != 32 {
		return nil
	}
	return digest
}

// ExpiryLimits are how little time a target's certificates may have left; zero for those of the alert.
type ExpiryLimits struct {
	Warning  Duration `yaml:"warning"`
	Critical Duration `yaml:"critical"`
}

func (l ExpiryLimits) check(r *Report) {
	switch {
	case l == ExpiryLimits{}:
	case l.Warning.Std() < time.Second || l.Critical.Std() < time.Second:
		r.Faultf("certificate_expiry",
			"has warning %s and critical %s, both must be at least 1s; set both, such as {warning: 2d, critical: 1d}",
			l.Warning.Std(), l.Critical.Std())
	case l.Critical > l.Warning:
		r.Faultf("certificate_expiry.critical", "is %s, must be at most the warning's %s", l.Critical.Std(), l.Warning.Std())
	}
}

// Check reports errors in the TLS keys.
func (t *TLS) Check(r *Report) {
	if t.Fingerprint != "" && t.PinnedSHA256() == nil {
		r.Faultf("fingerprint",
			"must be a SHA-256 digest of 64 hexadecimal digits, as `openssl x509 -noout -fingerprint -sha256` prints it")
	}
	if t.InsecureSkipVerify && (t.CAFile != "" || t.Fingerprint != "") {
		r.Faultf("insecure_skip_verify", "is true, which disables ca_file and fingerprint; keep one of them")
	}
	if t.CAFile != "" && t.Fingerprint != "" {
		r.Faultf("fingerprint", "is set beside ca_file; keep one of them")
	}
	if _, err := t.Roots(); err != nil && !r.runs() {
		r.Faultf("ca_file", "%v", err)
	}
	t.CertificateExpiry.check(r)
	if (t.CertFile == "") != (t.KeyFile == "") {
		r.Faultf("cert_file", "and key_file must be set together")
	} else if _, err := t.ClientCertificates(); err != nil && !r.runs() {
		r.Faultf("cert_file", "%v", err)
	}
	if _, err := filepath.Match(t.CertificateFile, ""); err != nil {
		r.Faultf("certificate_file", "is %q, must be a path or a pattern such as certs/live/*/fullchain.pem", t.CertificateFile)
	}
	for i, name := range t.ALPN {
		if name == "" || len(name) > maxALPN || strings.ContainsAny(name, " ,") {
			r.Faultf(fmt.Sprintf("alpn[%d]", i), "is %q, must be one protocol such as xmpp-client, irc or http/1.1", name)
		}
	}
}

// maxALPN is how long the name of a protocol may be, in bytes (RFC 7301).
const maxALPN = 255

// Warnings implements Settings for the kinds that embed TLS.
func (t *TLS) Warnings() (list []string) {
	if t.InsecureSkipVerify {
		list = append(list, "insecure_skip_verify accepts every certificate, even an attacker's; prefer fingerprint")
	}
	for _, name := range t.ALPN {
		meant := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		if meant != name && slices.Contains([]string{"xmpp-client", "xmpp-server", "http/1.1", "h2", "irc"}, meant) {
			list = append(list, fmt.Sprintf("alpn has %q, which servers do not take for %s; write %s", name, meant, meant))
		}
	}
	return list
}

// HTTP is the address of an HTTP service and how to connect to it.
type HTTP struct {
	// URL is absolute, http or https. It must not contain credentials; there are keys for them.
	URL string `yaml:"url"`
	// ProxyURL is an HTTP proxy; none if unset, even with HTTP_PROXY.
	ProxyURL   string `yaml:"proxy_url"`
	Connection `yaml:",inline"`
	TLS        `yaml:",inline"`
}

// Configured implements Settings for the kinds that embed HTTP.
func (h *HTTP) Configured() bool { return h.URL != "" }

// Place implements Settings for the kinds that embed HTTP.
func (h *HTTP) Place() string { return h.URL }

// HostName implements Settings for the kinds that embed HTTP. It is empty behind a proxy, which resolves the name.
func (h *HTTP) HostName() string {
	u, err := url.Parse(h.URL)
	if err != nil || h.ProxyURL != "" {
		return ""
	}
	return u.Hostname()
}

// HostOf returns the host of an address with or without a port, an IPv6 address without brackets.
func HostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

// Check implements Settings for the kinds that embed HTTP: it adds the kind's path to the URL, and reports errors in the HTTP keys.
func (h *HTTP) Check(r *Report) {
	if r.row.Path != "" {
		h.URL = WithPath(h.URL, r.row.Path)
	}
	CheckURL(r, "url", h.URL, "http", "https")
	if h.ProxyURL != "" {
		CheckURL(r, "proxy_url", h.ProxyURL, "http", "https")
	}
	h.CheckConnection(r)
	if h.ProxyURL != "" && h.ProxyProtocol != "" {
		r.Faultf("proxy_protocol", "is set beside proxy_url, and an HTTP proxy expects no PROXY header; keep one of them")
	}
	h.TLS.Check(r)
	if i := slices.Index(h.ALPN, "h2"); i >= 0 {
		r.Faultf(fmt.Sprintf("alpn[%d]", i), "is h2, but the exporter speaks HTTP/1.1; remove it")
	}
	if !strings.HasPrefix(strings.ToLower(h.URL), "http://") {
		return
	}
	refuse := func(set bool, key, why string) {
		if set {
			r.Faultf(key, "is set beside an http:// url, which "+why+", or write https://")
		}
	}
	refuse(h.CertificateFile != "", "certificate_file", "has no certificate; remove it")
	refuse(h.CertificateExpiry != ExpiryLimits{}, "certificate_expiry", "has no certificate; remove it")
	refuse(h.ALPN != nil, "alpn", "offers no protocols; remove it")
	refuse(h.CertFile != "", "cert_file", "asks for no certificate; remove it and key_file")
}

// WithPath adds a path to a URL that has neither path nor query, not even an empty one.
func WithPath(raw, path string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery {
		return raw
	}
	u.Path = path
	return u.String()
}

// BareIPv6 returns what is wrong with a URL or an address if its IPv6 address has no brackets, else "".
func BareIPv6(raw string) string {
	authority := authorityOf(raw)
	if strings.Contains(authority, "[") || strings.Count(authority, ":") < 2 {
		return ""
	}
	end := strings.LastIndexByte(authority, ':')
	host, port := authority[:end], authority[end+1:]
	if _, err := netip.ParseAddr(host); err != nil || !isPort(port) {
		host, port = authority, "port"
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return ""
	}
	return "contains an IPv6 address without brackets; write brackets around the address, such as [" + host + "]:" + port
}

// isAddressKey reports whether the value at a path of keys is a URL, an address or a host. Texts to send or to expect may begin or
// end with a space.
func isAddressKey(path string) bool {
	parts := strings.Split(path, ".")
	key := parts[len(parts)-1]
	if len(parts) > 1 && slices.Contains([]string{"labels", "headers"}, parts[len(parts)-2]) {
		return false // keys that people choose
	}
	return strings.HasSuffix(key, "url") || strings.HasSuffix(key, "address") ||
		slices.Contains([]string{"host", "domain", "server_name"}, key)
}

// spaceAround returns what is wrong with an address if there is white space around it, else "".
func spaceAround(value string) string {
	switch trimmed := strings.TrimSpace(value); {
	case trimmed == value:
		return ""
	case trimmed == "":
		return "is only white space; write an address, or remove it"
	case strings.HasSuffix(value, trimmed):
		return "begins with " + nameOfSpace(value[0]) + "; remove it"
	case strings.HasPrefix(value, trimmed):
		return "ends in " + nameOfSpace(value[len(value)-1]) + "; remove it"
	}
	return "begins with " + nameOfSpace(value[0]) + " and ends in " + nameOfSpace(value[len(value)-1]) + "; remove both"
}

// nameOfSpace names a character of white space.
func nameOfSpace(c byte) string {
	switch c {
	case '\t':
		return "a tab"
	case '\r', '\n':
		return "a line end"
	}
	return "a space"
}

// CheckURL reports an error unless raw is an absolute URL of one of the schemes, with a host (a path for unix) and without
// credentials. It never shows credentials.
func CheckURL(r *Report, key, raw string, schemes ...string) {
	want := strings.Join(schemes, ":// or ") + "://"
	u, err := url.Parse(raw)
	if err != nil {
		u = &url.URL{}
	}
	known := slices.Contains(schemes, u.Scheme)
	same := map[string]string{"ws": "http", "wss": "https"}[u.Scheme]
	switch bare := BareIPv6(raw); {
	case bare != "":
		r.Faultf(key, "%s", bare)
	case err != nil && strings.Contains(raw, "${"):
		r.Faultf(key, "contains ${...}, but variables are not expanded in this file; write the whole URL")
	case err != nil:
		r.Faultf(key, "is not a valid URL; write one that begins with %s", want)
	case !known && slices.Contains(schemes, same):
		r.Faultf(key, "begins with %q; write %s://, with which every WebSocket connection begins", u.Scheme+"://", same)
	case !known && strings.Contains(raw, "://"):
		r.Faultf(key, "begins with %q, must begin with %s", u.Scheme+"://", want)
	case !known:
		r.Faultf(key, "has no scheme, must begin with %s", want)
	case u.User != nil:
		r.Faultf(key, "contains credentials, which everybody can read in a URL; move them to the keys for credentials")
	case u.Scheme == "unix" && (u.Host != "" || u.Opaque != "" || !strings.HasPrefix(u.Path, "/")):
		r.Faultf(key, "has no absolute path; write unix:///path/to/socket, with three slashes")
	case u.Scheme == "unix" && len(u.Path) > maxSocketPath:
		r.Faultf(key, "has a path of %d bytes, must have at most %d", len(u.Path), maxSocketPath)
	case u.Scheme != "unix" && u.Hostname() == "":
		r.Faultf(key, "has no host; write %shost:port/path", u.Scheme+"://")
	case u.Scheme != "unix" && u.Port() != "" && !isPort(u.Port()):
		r.Faultf(key, "has port %s, must be 1 to 65535", u.Port())
	}
}

// authorityOf returns host and port of a URL that may be malformed, or of an address without a scheme.
func authorityOf(raw string) string {
	_, rest, found := strings.Cut(raw, "://")
	if !found {
		rest = raw
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return rest[strings.LastIndexByte(rest, '@')+1:]
}

// maxSocketPath is the limit of Linux, in bytes.
const maxSocketPath = 107

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}
