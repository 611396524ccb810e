package service

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// address is a receiver's URL while its kind reads it. It gathers what is wrong with it, and what must never be shown.
type address struct {
	kind *kind
	*url.URL
	user, password string
	// query has the values that the kind has not read yet, by key in small letters. Keys are what it has read.
	query   map[string]string
	keys    []string
	faults  []string
	secrets []string
}

// read finds the kind of a URL and splits it.
func read(raw string) (*address, error) {
	raw = strings.TrimSuffix(strings.TrimSuffix(raw, "\n"), "\r")
	switch {
	case raw == "":
		return nil, errors.New("the URL is empty: write a receiver's URL, such as ntfy://ntfy.sh/TOPIC")
	case strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return nil, errors.New("the URL contains a space, a line break or a control character: write it in one line, with spaces as %20")
	case strings.Contains(raw, "#"):
		return nil, errors.New("the URL contains a #: write it as %23")
	case !strings.Contains(raw, "://"):
		return nil, fmt.Errorf("the URL has no scheme: begin with the service's name and ://, one of %s", known())
	}
	scheme, _, _ := strings.Cut(strings.ToLower(raw), "://")
	isWebhook := scheme == "https" || scheme == "http"
	if !isWebhook && kindOf(scheme) == nil {
		if !shownScheme.MatchString(scheme) {
			scheme = "" // perhaps a secret
		}
		return nil, fmt.Errorf("the URL's service %q is not known: use one of %s", scheme, known())
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New(explainURL(err))
	}
	if isWebhook {
		if u, err = fromWebhook(u); err != nil {
			return nil, err
		}
	}
	return newAddress(kindOf(u.Scheme), u)
}

// shownScheme and shownKey match the unknown schemes and keys of a query that errors may show.
var (
	shownScheme = regexp.MustCompile(`^[a-z+]{1,12}$`)
	shownKey    = regexp.MustCompile(`^[@$]?[a-z_-]{1,24}$`)
)

// kindOf returns the kind of a scheme, which may end with +https; nil if there is none.
func kindOf(scheme string) *kind {
	scheme, _, _ = strings.Cut(scheme, "+")
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.scheme == scheme }); i >= 0 {
		return &kinds[i]
	}
	return nil
}

func newAddress(k *kind, u *url.URL) (*address, error) {
	a := &address{
		kind:  k,
		URL:   u,
		query: map[string]string{},
		user:  u.User.Username(),
	}
	a.password, _ = u.User.Password()
	values, err := url.ParseQuery(strings.ReplaceAll(u.RawQuery, ";", "%3b"))
	if err != nil {
		return nil, fmt.Errorf("%s: the part after the ? is malformed: write a %% as %%25", k.scheme)
	}
	for key, list := range values {
		a.query[strings.ToLower(key)] = list[0]
	}
	a.part(a.user)
	a.secret(a.password, base64.StdEncoding.EncodeToString([]byte(a.user+":"+a.password)))
	return a, nil
}

// explainURL says what is wrong with a URL without a part of it, as net/url's error would.
func explainURL(err error) string {
	const reserved = " (in a user or password, write / as %2F, ? as %3F, # as %23, @ as %40 and : as %3A)"
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	_, badEscape := errors.AsType[url.EscapeError](err)
	switch text := err.Error(); {
	case badEscape:
		return "the URL has a % without two hexadecimal digits after it: write a % as %25"
	case strings.Contains(text, "invalid port"):
		return "the URL's port is not a number" + reserved
	case strings.Contains(text, "invalid userinfo"):
		return "the URL's user or password contains a character that must be escaped" + reserved
	}
	return "the URL is malformed: write SERVICE://HOST/..." + reserved
}

// known lists the schemes.
func known() string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.scheme)
	}
	return strings.Join(names, ", ")
}

// minSecret and minPart are how long a secret, or a part of a path that may be one, has to be to be masked. Shorter ones are words.
const (
	minSecret = 4
	minPart   = 8
)

// secret adds texts that must never be shown, in the forms that a URL and HTTP Basic give them.
func (a *address) secret(texts ...string) {
	for _, text := range texts {
		if len(text) >= minSecret {
			a.secrets = append(a.secrets, text, url.QueryEscape(text), url.PathEscape(text))
		}
	}
}

// part is secret for texts that may be one, such as a topic.
func (a *address) part(texts ...string) {
	for _, text := range texts {
		if len(text) >= minPart {
			a.secret(text)
		}
	}
}

// basic returns the header for HTTP Basic.
func (a *address) basic() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(a.user+":"+a.password))
}

// masker returns a function that masks secrets in a text.
func masker(secrets []string) func(string) string {
	longest := slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, s := range longest {
		pairs = append(pairs, s, "<secret>")
	}
	return strings.NewReplacer(pairs...).Replace
}

// fault records what is wrong with the URL.
func (a *address) fault(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

// check returns an error about all faults, and about keys that the kind has not asked for.
func (a *address) check() error {
	for _, key := range slices.Sorted(maps.Keys(a.query)) {
		mend := "remove it; keys that apply: " + strings.Join(a.keys, ", ")
		if strings.Contains(key, "verif") {
			mend = "remove it, and set ca_file to the authority of a certificate of your own"
		}
		if !shownKey.MatchString(key) {
			key = "..." // perhaps a secret
		}
		a.fault("the key %q does not apply: %s", key, mend)
	}
	if len(a.faults) == 0 {
		return nil
	}
	return errors.New(masker(a.secrets)(fmt.Sprintf("%s: %s; the form is %s", a.kind.scheme, strings.Join(a.faults, "; "), a.kind.form)))
}

// text returns the value of a key that may have several names.
func (a *address) text(names ...string) string {
	value := ""
	for _, name := range names {
		if v, ok := a.query[name]; ok {
			value = v
		}
		delete(a.query, name)
	}
	a.keys = append(a.keys, names[0])
	return value
}

// list returns the values of a key, which commas separate.
func (a *address) list(names ...string) []string {
	var list []string
	for v := range strings.SplitSeq(a.text(names...), ",") {
		if v = strings.TrimSpace(v); v != "" {
			list = append(list, v)
		}
	}
	return list
}

// yes returns whether a key says yes.
func (a *address) yes(name string, byDefault bool) bool {
	switch value := a.text(name); strings.ToLower(value) {
	case "":
		return byDefault
	case "yes", "y", "true", "1", "on":
		return true
	case "no", "n", "false", "0", "off":
		return false
	default:
		a.fault("%s is %q, must be yes or no", name, value)
		return byDefault
	}
}

// priority returns the row of priorities for the levels, or the value of the key for all levels.
func (a *address) priority(lowest, highest int, names map[string]int, byLevel [4]int) [4]int {
	value := strings.ToLower(a.text("priority"))
	if value == "" {
		return byLevel
	}
	n, ok := names[value]
	if !ok {
		var err error
		n, err = strconv.Atoi(value)
		if ok = err == nil && n >= lowest && n <= highest; !ok {
			a.fault("priority is %q, must be from %d to %d", value, lowest, highest)
		}
	}
	return [4]int{n, n, n, n}
}

// server returns the beginning of the service's URLs, and checks its host. TLS is the default.
func (a *address) server() string {
	scheme := "https"
	if a.yes("disabletls", false) {
		scheme = "http"
	}
	a.wantHost()
	return scheme + "://" + a.URL.Host
}

func (a *address) wantHost() {
	if a.Hostname() == "" {
		a.fault("the host is missing")
	}
	if port := a.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			a.fault("the port is not from 1 to 65535")
		}
	}
}

// parts returns the parts of the path.
func (a *address) parts() []string {
	return strings.FieldsFunc(a.Path, func(r rune) bool { return r == '/' })
}
