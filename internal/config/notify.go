package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The severities of problems that a receiver may be limited to.
const (
	SeverityWarning  = "warning"
	SeverityCritical = "critical"
)

const (
	// EnvironmentReceiver is the name of the receiver that the variable NOTIFY_URL makes.
	EnvironmentReceiver = "notify_url"
	// leastRepeat is the least time until a message is sent again.
	leastRepeat = Duration(10 * time.Minute)
)

// Notify is a receiver of the messages that the exporter sends by itself.
type Notify struct {
	// Name is unique. Load sets the default: the service of the URL, such as ntfy, with -2, -3 and so on where that is taken.
	Name string `yaml:"name"`
	// URL is the receiver's address, such as ntfy://ntfy.sh/TOPIC. It contains the token.
	URL Secret `yaml:"url"`
	// Severity is the least severity that it gets: SeverityWarning by default, or SeverityCritical.
	Severity string `yaml:"severity"`
	// Hours are when it gets what is not critical: from 07:30 to 22:30 by default, by the clocks of Location.
	Hours Hours `yaml:"hours"`
	// TimeZone is the name of Location; "" for that of the variable TZ, else UTC.
	TimeZone string `yaml:"time_zone"`
	// Repeat is how long after a message about a critical problem another one follows, unless somebody acknowledges it: 2 h by default, at
	// least 10 min; 0 for never.
	Repeat Duration `yaml:"repeat"`
	// Targets are names of targets and containers, whose problems alone it gets. Empty: all.
	Targets []string `yaml:"targets"`
	// CAFile is a PEM file of authorities; they replace the system's.
	CAFile string `yaml:"ca_file" path:"file"`
	// ProxyURL is an HTTP proxy, which may have credentials; none if unset, even with HTTP_PROXY.
	ProxyURL Secret `yaml:"proxy_url"`
	// Notes says that it also gets what people write: notes and acknowledgements.
	Notes bool `yaml:"notes"`

	// Location is where Hours apply. It is never nil after Load.
	Location *time.Location `yaml:"-"`
}

// setDefaults is called before the keys of an entry are read.
func (n *Notify) setDefaults() {
	*n = Notify{
		Severity: SeverityWarning,
		Hours:    Hours{From: 7*60 + 30, To: 22*60 + 30},
		Repeat:   Duration(2 * time.Hour),
		Location: time.UTC,
	}
}

// Hours are a part of each day: from From until To, which is not included. Both are in minutes since midnight, and To may be 24 h. If To is
// before From, they span midnight. The zero Hours are the whole day.
type Hours struct{ From, To int }

// minutesPerDay is the latest end of Hours.
const minutesPerDay = 24 * 60

// hoursText matches what Hours.Set reads.
var hoursText = regexp.MustCompile(`^(\d\d?):([0-5]\d) ?- ?(\d\d?):([0-5]\d)$`)

// Set reads hours such as 07:30-22:30, or "" for the whole day. Its error says what to write.
func (h *Hours) Set(text string) error {
	if text == "" {
		*h = Hours{}
		return nil
	}
	found := hoursText.FindStringSubmatch(text)
	if found == nil {
		return errors.New(`must be two times of day such as 07:30-22:30, or "" for the whole day`)
	}
	var numbers [4]int
	for i := range numbers {
		numbers[i], _ = strconv.Atoi(found[i+1]) // two digits
	}
	parsed := Hours{From: numbers[0]*60 + numbers[1], To: numbers[2]*60 + numbers[3]}
	switch {
	case parsed.From >= minutesPerDay || parsed.To > minutesPerDay:
		return errors.New("must be times from 00:00 to 24:00, such as 07:30-22:30")
	case parsed.From == parsed.To:
		return errors.New(`begins and ends at the same time; write two times, or "" for the whole day`)
	}
	*h = parsed
	return nil
}

// Contains reports whether the clock shows a time within the hours at t. The clock is that of t's zone: pass t.In(location).
func (h Hours) Contains(t time.Time) bool {
	now := t.Hour()*60 + t.Minute()
	if h.From < h.To {
		return h.From <= now && now < h.To
	}
	return h.From <= now || now < h.To
}

// String returns hours as Set reads them.
func (h Hours) String() string {
	if h == (Hours{}) {
		return ""
	}
	return fmt.Sprintf("%02d:%02d-%02d:%02d", h.From/60, h.From%60, h.To/60, h.To%60)
}

// addReceiver adds the receiver that variables make, if they are set.
func (l *loader) addReceiver() {
	path := fmt.Sprintf("notify[%d]", len(l.cfg.Notify))
	l.origins[path] = fromEnvironment
	before := len(l.warnings)
	var n Notify
	n.setDefaults()
	n.Name = EnvironmentReceiver
	(&Env{l, "notify", path}).Secret("url", "NOTIFY_URL", &n.URL)
	if n.URL.IsZero() {
		l.warnings = l.warnings[:before] // Compose files also mount secrets that are not used
		return
	}
	l.cfg.Notify = append(l.cfg.Notify, n)
}

// checkNotify checks the receivers, and completes their names and time zones.
func (l *loader) checkNotify(root *Report) {
	for key, text := range map[string]string{"environment": l.cfg.Environment, "cluster": l.cfg.Cluster} {
		if text != "" {
			root.checkText(key, text, maxTitle)
		}
	}
	l.checkReceiverNames(root)
	urls := map[string]string{}
	for i := range l.cfg.Notify {
		n, r := &l.cfg.Notify[i], root.receiver(i)
		if n.Severity != SeverityWarning && n.Severity != SeverityCritical {
			r.Faultf("severity", "is %q, must be %s or %s", n.Severity, SeverityWarning, SeverityCritical)
		}
		if n.Repeat != 0 && !r.HasFault("repeat") {
			r.AtLeast("repeat", n.Repeat, leastRepeat, "set 0s to send nothing again")
		}
		if _, err := (&TLS{CAFile: n.CAFile}).Roots(); err != nil && !r.runs() {
			r.Faultf("ca_file", "%v", err)
		}
		if !n.ProxyURL.IsZero() {
			r.checkSecretURL("proxy_url", n.ProxyURL)
		}
		l.checkReceiverURL(r, n, urls)
		l.checkReceiverTargets(r, n.Targets)
	}
	if l.cfg.Pair != "" && len(l.cfg.Notify) > 0 && len(l.cfg.Peers) == 0 {
		root.warnf("pair", "is set without peers, so this exporter does not hear what the others have sent; list them under peers")
	}
	if l.cfg.Pair == "" && len(l.cfg.Notify) > 0 && len(l.cfg.Peers) > 0 {
		root.warnf("peers", "is set without pair, so this exporter sends whatever the others send, too; if they have the same receivers, "+
			"set pair: first in one and pair: other in the rest")
	}
	l.setZones(root)
}

// receiver returns a report on a receiver.
func (r *Report) receiver(i int) *Report { return r.In(fmt.Sprintf("notify[%d]", i)) }

// checkReceiverNames checks the names of receivers. Then it names those that have none.
func (l *loader) checkReceiverNames(root *Report) {
	taken := map[string]string{}
	for i := range l.cfg.Notify {
		name, r := l.cfg.Notify[i].Name, root.receiver(i)
		switch first, again := taken[name]; {
		case name == "":
			continue
		case !targetName.MatchString(name):
			r.Faultf("name", "is %q, %s", name, mustBeName)
		case name == "heartbeat":
			r.Faultf("name", "is %q, which names the heartbeat on the status page; choose another name", name)
		case again:
			r.Faultf("name", "is %q, already used by %s; give each receiver its own name", name, first)
		}
		taken[name] = r.where
	}
	for i := range l.cfg.Notify {
		n := &l.cfg.Notify[i]
		if n.Name != "" {
			continue
		}
		service := serviceOf(n.URL.Reveal())
		n.Name = service
		for k := 2; taken[n.Name] != ""; k++ {
			n.Name = fmt.Sprintf("%s-%d", service, k)
		}
		taken[n.Name] = root.receiver(i).where
	}
}

// urlScheme matches how a URL begins, with the name of the service in front of a +, as in generic+https.
var urlScheme = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9.-]{0,30})(\+[A-Za-z0-9.+-]*)?:`)

// serviceOf returns the service of a receiver's URL, such as ntfy; receiver if it names none.
func serviceOf(raw string) string {
	if found := urlScheme.FindStringSubmatch(raw); found != nil {
		return strings.ToLower(found[1])
	}
	return "receiver"
}

// checkReceiverURL checks where a receiver is. Urls has the names of the receivers before, by their URLs, and gets this one.
func (l *loader) checkReceiverURL(r *Report, n *Notify, urls map[string]string) {
	raw, key := n.URL.Reveal(), r.secretKey("url")
	switch {
	case r.HasFault("", "url", "url_file", "ca_file", "proxy_url"):
		return
	case n.URL.IsZero():
		r.Faultf("url", "is not set; write the receiver's address, such as ntfy://ntfy.sh/TOPIC, or set url_file to the path of a file "+
			"that contains it")
		return
	case l.isNotRead(n.URL), !r.checkSendable(key, n.URL):
		return
	case !urlScheme.MatchString(raw):
		r.Faultf(key, "has no service; write the name of the receiver's service in front, such as ntfy://ntfy.sh/TOPIC")
		return
	}
	if l.src.CheckURL != nil {
		if err := l.src.CheckURL(n); err != nil {
			r.Faultf(key, "%v", errors.New(RedactorOf(n.URL)(err.Error())))
			return
		}
	}
	if first := urls[raw]; first != "" {
		r.warnf(key, "is the url of %s, too, so a message for both arrives twice; remove one of them, "+
			"unless their keys tell them apart", first)
	}
	urls[raw] = n.Name
	if l.src.HostOf != nil {
		l.warnAboutOwnHost(r, key, l.src.HostOf(raw), "add a receiver that runs elsewhere")
	}
}

// checkReceiverTargets warns about names that nothing in the file has: an engine may still have such a container.
func (l *loader) checkReceiverTargets(r *Report, names []string) {
	for i, name := range names {
		key := fmt.Sprintf("targets[%d]", i)
		switch {
		case !IsService(name):
			r.Faultf(key, "is %q, must be the name of a target or a container", name)
		case !l.hasTarget(name) && !l.isNamed(name):
			r.warnf(key, "is %q, which is not the name of a target; correct it, unless a container has that name", name)
		}
	}
}

// isNamed reports whether a value of any target is a name, such as that of an expected container.
func (l *loader) isNamed(name string) bool {
	return slices.ContainsFunc(l.blocks, func(b block) bool {
		return slices.ContainsFunc(valuesOf(b.settings), func(v any) bool {
			switch v := v.(type) {
			case string:
				return v == name
			case []string:
				return slices.Contains(v, name)
			case map[string]string:
				_, ok := v[name]
				return ok
			}
			return false
		})
	})
}

// setZones finds the time zones of the receivers. It warns about hours that are in UTC because nothing names a zone.
func (l *loader) setZones(root *Report) {
	var unset []string
	var first *Report
	for i := range l.cfg.Notify {
		n, r := &l.cfg.Notify[i], root.receiver(i)
		if n.TimeZone != "" {
			zone, err := time.LoadLocation(n.TimeZone)
			if err != nil {
				r.Faultf("time_zone", "is %q, which is not the name of a time zone; write one such as Europe/Berlin, with these capitals",
					n.TimeZone)
				continue
			}
			n.Location = zone
			continue
		}
		zone, known := l.zoneOfVariable()
		n.Location = zone
		if !known && l.origins[join(r.path, "hours")] == "" && n.Severity == SeverityWarning {
			unset, first = append(unset, n.Name), cmp.Or(first, r)
		}
	}
	if len(unset) > 0 {
		first.warnf("time_zone", "is not set for %s, nor is the variable TZ, so the hours from 07:30 to 22:30 are in UTC; "+
			"set time_zone or TZ, such as Europe/Berlin", strings.Join(unset, ", "))
	}
}

// zoneOfVariable returns the zone that TZ names, else UTC. It returns false if TZ is not set.
func (l *loader) zoneOfVariable() (zone *time.Location, ok bool) {
	name, _ := l.src.Lookup("TZ")
	if name = strings.TrimPrefix(name, ":"); name == "" {
		return time.UTC, false
	}
	if zone, err := time.LoadLocation(name); err == nil {
		return zone, true
	}
	if filepath.IsAbs(name) {
		return time.Local, true // the path of a zone file, which Go has read
	}
	return time.UTC, true // as Go takes it, which check-config warns of
}

// checkSecretURL reports a URL that is not one of HTTP. It may contain credentials, and is never shown.
func (r *Report) checkSecretURL(key string, s Secret) (*url.URL, bool) {
	key = r.secretKey(key)
	if r.loader.isNotRead(s) || !r.checkSendable(key, s) {
		return nil, false
	}
	u, err := url.Parse(s.Reveal())
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		r.Faultf(key, "is not a valid URL; write one that begins with https:// or http:// and a host")
	case u.Port() != "" && !isPort(u.Port()):
		r.Faultf(key, "has a port that is not from 1 to 65535")
	default:
		return u, true
	}
	return nil, false
}

// secretKey returns the key that sets a secret: key, or that of its file.
func (r *Report) secretKey(key string) string {
	if full := join(r.path, key); r.loader.origins[full] == "" && r.loader.origins[full+fileSuffix] != "" {
		return key + fileSuffix
	}
	return key
}
