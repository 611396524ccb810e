package collectors

import (
	"context"
	"encoding/json"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

var identityCacheExpiresDesc = prometheus.NewDesc("chatstack_identity_cache_expires_timestamp_seconds",
	"When the last entry of the bridge's identity cache expires, in seconds since the epoch: "+
		"the identity API's last answer plus the cache's time to live.",
	nil, nil)

// unmatchedDiscordID is a well-formed Discord id that nobody has: such ids begin with their time of birth, and this
// one's is in 2084. It is still a number that 64 bits and JSON readers hold exactly.
const unmatchedDiscordID = "9200000000000000000"

// Identity is the block of the identity API.
type Identity struct {
	config.Target `yaml:",inline"`
	config.HTTP   `yaml:",inline"` // the URL is the API's base address
	Token         config.Secret    `yaml:"token"`
	// DiscordID, IRCNick with IRCServer, or XMPPJID is the key to look up. By default it is a Discord id that cannot match.
	DiscordID string `yaml:"discord_id"`
	IRCNick   string `yaml:"irc_nick"`
	IRCServer string `yaml:"irc_server"`
	XMPPJID   string `yaml:"xmpp_jid"`
	// MustMatch makes the probe fail if no identity matches. It requires a key.
	MustMatch bool `yaml:"must_match"`
	// CacheTTL is how long the bridge caches an identity: 1 h by default.
	CacheTTL config.Duration `yaml:"cache_ttl"`
}

func newIdentitySettings() *Identity { return &Identity{CacheTTL: config.Duration(time.Hour)} }

// Environ implements config.Settings.
func (s *Identity) Environ(e *config.Env) {
	e.String("url", "BRIDGE_IDENTITY_BASE_URL", &s.URL)
	e.Secret("token", "BRIDGE_IDENTITY_TOKEN", &s.Token)
	e.TLS("BRIDGE_IDENTITY", &s.TLS)
}

// Check implements config.Settings.
func (s *Identity) Check(r *config.Report) {
	s.HTTP.Check(r)
	set := ""
	for _, key := range []struct{ name, value string }{
		{"discord_id", s.DiscordID}, {"irc_nick", s.IRCNick}, {"xmpp_jid", s.XMPPJID},
	} {
		if key.value == "" {
			continue
		}
		if set != "" {
			r.Faultf(key.name, "is set beside %s; a lookup takes only one key", set)
		}
		set = key.name
	}
	if s.IRCServer != "" && s.IRCNick == "" {
		r.Faultf("irc_server", "requires irc_nick")
	}
	if s.MustMatch && set == "" {
		r.Faultf("must_match", "requires a key that can match; set discord_id, irc_nick or xmpp_jid")
	}
	if s.CacheTTL <= 0 {
		r.Faultf("cache_ttl", "is %s, must be above 0", s.CacheTTL.Std())
	}
}

// query returns the parameters of the lookup.
func (s *Identity) query() url.Values {
	q := url.Values{}
	switch {
	case s.IRCNick != "":
		q.Set("ircNick", s.IRCNick)
		if s.IRCServer != "" {
			q.Set("ircServer", s.IRCServer)
		}
	case s.XMPPJID != "":
		q.Set("xmppJid", s.XMPPJID)
	case s.DiscordID != "":
		q.Set("discordId", s.DiscordID)
	default:
		q.Set("discordId", unmatchedDiscordID)
	}
	return q
}

// identity makes one lookup. It never keeps, shows or logs anything about a person whom it finds.
type identity struct {
	http        exchange.HTTP
	credentials exchange.Credentials
	mustMatch   bool
	ownKey      bool
	ttl         time.Duration
	state       State
	log         *slog.Logger
	// answered is when a lookup last succeeded; saved is the copy in the state file.
	answered, saved time.Time
}

func newIdentity(s *Identity, d Deps) (Collector, error) {
	lookup := parsed(s.URL).JoinPath("api", "bridge", "identity")
	query := s.query()
	lookup.RawQuery = query.Encode()
	c := &identity{
		http:        d.http(s.HTTP),
		credentials: exchange.Credentials{Token: s.Token},
		mustMatch:   s.MustMatch,
		ownKey:      query.Get("discordId") != unmatchedDiscordID,
		ttl:         s.CacheTTL.Std(),
		state:       d.State,
		log:         d.Log,
	}
	c.http.Settings.URL = lookup.String()
	if err := d.State.Load(&c.answered); err != nil {
		d.Log.Error("time of the identity API's last answer cannot be loaded", "err", err)
		c.answered = time.Time{}
	}
	c.saved = c.answered
	return c, nil
}

// saveEvery is the maximum lag of the state file, to spare the disk a write per probe. After a restart, the exporter takes
// the cache for older than it is, by up to this time.
const saveEvery = time.Minute

// Collect implements Collector.
func (c *identity) Collect(ctx context.Context, b *Batch) error {
	err := c.lookUp(ctx, b)
	if err == nil {
		c.remember(time.Now().UTC())
	}
	if !c.answered.IsZero() {
		b.Kept.Gauge(identityCacheExpiresDesc, float64(c.answered.Add(c.ttl).UnixMilli())/1000)
		b.Kept.Condition(health.AlertCacheExhausted, "", err != nil && time.Since(c.answered) > c.ttl)
	}
	return err
}

// remember records when the API last answered. It replaces a saved time in the future, which is left if the clock was set back.
func (c *identity) remember(now time.Time) {
	c.answered = now
	if since := now.Sub(c.saved); since >= 0 && since < saveEvery {
		return
	}
	if err := c.state.Save(now); err != nil {
		c.log.Error("time of the identity API's last answer cannot be saved", "err", err)
		return
	}
	c.saved = now
}

func (c *identity) lookUp(ctx context.Context, b *Batch) error {
	a, err := c.http.Get(ctx, &b.Record, c.credentials.AuthHeader())
	if err != nil {
		return err
	}
	if a.Status == http.StatusNotFound && !c.mustMatch {
		c.noteAbsence(b, a)
		return nil
	}
	if err := a.WantOK(c.hints(a)); err != nil {
		return err
	}
	return c.found(b, a)
}

// hints say what to do about a status.
func (c *identity) hints(a *exchange.Answer) map[int]string {
	refused := "the identity API rejects the token: set BRIDGE_IDENTITY_TOKEN to the bridge's token"
	if !c.credentials.HasCredentials() {
		refused = "no token is set, and the identity API requires one: set BRIDGE_IDENTITY_TOKEN"
	}
	return map[int]string{
		http.StatusNotFound: "no identity at " + exchange.PathOf(a.URL) + " matches the configured key: link one, or correct the key; " +
			"if it matches elsewhere, BRIDGE_IDENTITY_BASE_URL is wrong",
		http.StatusBadRequest:   "the identity API rejects the lookup key: set discord_id, irc_nick or xmpp_jid to a valid one",
		http.StatusUnauthorized: refused,
		http.StatusForbidden:    "the identity API allows no lookups to this token or without one, or it blocks this address",
	}
}

func (c *identity) found(b *Batch, a *exchange.Answer) error {
	var lookup struct {
		OK *bool `json:"ok"`
	}
	if err := json.Unmarshal(a.Body, &lookup); err != nil || lookup.OK == nil {
		// The decoder's error could repeat a person's name.
		return a.Errorf(failure.Malformed, "the answer is not a JSON object with a boolean ok")
	}
	if !*lookup.OK {
		return a.Errorf(failure.Mismatch, "the answer has ok set to false").
			WithHint("the identity API reports that the lookup failed: read its log")
	}
	if !c.ownKey {
		b.Note("the API found an identity for a key that nobody has; it may answer every lookup like this")
	}
	return nil
}

// noteAbsence notes what a 404 may mean. It is the expected answer to a key that cannot match, but a wrong base URL gives
// a 404, too.
func (c *identity) noteAbsence(b *Batch, a *exchange.Answer) {
	if c.ownKey {
		b.Note("no identity matches the configured key; the API works")
	}
	if mediaType, _, err := mime.ParseMediaType(a.Header.Get("Content-Type")); err != nil || mediaType != "application/json" {
		b.Note("the 404 for " + exchange.PathOf(a.URL) + " is not JSON, so it may not come from the identity API: " +
			"check BRIDGE_IDENTITY_BASE_URL; to be sure, set must_match and a key that matches")
	}
}

// bridgeRetry is the bridge's own rule for a lookup that fails: five attempts altogether, 2 to 30 seconds apart.
var bridgeRetry = config.Retry{First: 2 * time.Second, Most: 4}
