package config

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
	"unicode"
)

// Public is a page for the users of the stack, at a listener of its own.
type Public struct {
	// ListenAddress is where to serve it; "" for nowhere.
	ListenAddress string `yaml:"listen_address"`
	// WebConfigFile is a file as for --web.config.file, for this listener; "" for plain HTTP.
	WebConfigFile string `yaml:"web_config_file" path:"file"`
	// TrustedProxies are the addresses and networks of reverse proxies that write the client into X-Forwarded-For.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// Title is the page's title: that of Web by default.
	Title string `yaml:"title"`
	// LogoFile is a picture beside the title; "" for none. Logo is its content.
	LogoFile string `yaml:"logo_file" path:"file"`
	Logo     Image  `yaml:"-"`
	// Colour is the ground of the title; "" for none.
	Colour string `yaml:"colour"`
	// HomeURL is where the page links back to; "" for nowhere.
	HomeURL string `yaml:"home_url"`
	// Services are all that the page shows.
	Services []PublicService `yaml:"services"`
	// Announcements are shown between their times.
	Announcements []Announcement `yaml:"announcements"`

	// TrustedNetworks are TrustedProxies, where an address is a network of one.
	TrustedNetworks []netip.Prefix `yaml:"-"`
}

// PublicService is a service as users know it.
type PublicService struct {
	// Name is what users call it.
	Name string `yaml:"name"`
	// Targets are the names of the targets that it needs.
	Targets []string `yaml:"targets"`
}

// Announcement is a text for users.
type Announcement struct {
	From  time.Time `yaml:"from"`
	Until time.Time `yaml:"until"`
	Text  string    `yaml:"text"`
}

const (
	// maxTitle and maxAnnouncement are lengths in bytes.
	maxTitle        = 80
	maxAnnouncement = 500
	// maxPublicServices limits the size of the page.
	maxPublicServices = 100
)

// checkPublic checks the public page, and sets its default title.
func (l *loader) checkPublic(r *Report) {
	p := &l.cfg.Public
	if p.Title == "" {
		p.Title = l.cfg.Web.Title
	}
	r.checkText("public.title", p.Title, maxTitle)
	if p.ListenAddress == "" {
		if len(p.Services) > 0 {
			r.Faultf("public.listen_address",
				"is not set, so nobody sees public.services; write an address such as 127.0.0.1:9657, or remove public")
		}
		return
	}
	if fault := BareIPv6(p.ListenAddress); fault != "" {
		r.Faultf("public.listen_address", "%s", fault)
	} else if _, port, err := net.SplitHostPort(p.ListenAddress); err != nil || port == "" {
		r.Faultf("public.listen_address", "is %q, must be HOST:PORT or :PORT", p.ListenAddress)
	}
	for _, text := range p.TrustedProxies {
		network, err := parseNetwork(text)
		if err != nil {
			r.Faultf("public.trusted_proxies", "has %q, must be an address or a network such as 10.0.0.0/8", text)
		}
		p.TrustedNetworks = append(p.TrustedNetworks, network)
	}
	p.checkBrand(r)
	if len(p.Services) == 0 {
		r.Faultf("public.services", "is empty; list what users may see, each with name and targets")
	}
	if len(p.Services) > maxPublicServices {
		r.Faultf("public.services", "has %d entries, must have at most %d", len(p.Services), maxPublicServices)
	}
	names := map[string]bool{}
	for i, s := range p.Services {
		l.checkPublicService(r.In(fmt.Sprintf("public.services[%d]", i)), s, names)
	}
	for i, a := range p.Announcements {
		a.check(r.In(fmt.Sprintf("public.announcements[%d]", i)))
	}
}

func (a Announcement) check(r *Report) {
	r.checkText("text", a.Text, maxAnnouncement)
	switch {
	case r.HasFault("from", "until"):
	case a.From.IsZero() || a.Until.IsZero():
		r.Faultf("until", "or from is missing; write when the announcement appears and disappears, such as 2026-05-01T22:00:00Z")
	case !a.Until.After(a.From):
		r.Faultf("until", "is not after from")
	}
}

// parseNetwork reads a network, or an address as a network of one.
func parseNetwork(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		ip = ip.Unmap().WithZone("")
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

func (l *loader) checkPublicService(r *Report, s PublicService, names map[string]bool) {
	if r.checkText("name", s.Name, maxTitle) && names[s.Name] {
		r.Faultf("name", "is %q, already used by another public service", s.Name)
	}
	names[s.Name] = true
	if len(s.Targets) == 0 {
		r.Faultf("targets", "is empty; list the targets that users of this service need")
	}
	for _, name := range s.Targets {
		if !l.hasTarget(name) {
			r.Faultf("targets", "has %q, but there is no such target; write the target's name, or its kind if it has no name", name)
		}
	}
}

// checkText checks a text of one line that people read, and reports whether it is valid.
func (r *Report) checkText(key, text string, most int) bool {
	switch {
	case strings.TrimSpace(text) == "":
		r.Faultf(key, "is empty")
	case len(text) > most:
		r.Faultf(key, "has %d bytes, must have at most %d", len(text), most)
	case strings.ContainsFunc(text, unicode.IsControl):
		r.Faultf(key, "has control characters; write one line")
	default:
		return true
	}
	return false
}
