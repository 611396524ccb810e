package collectors

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

func identityProbe(t *testing.T, url string, d Deps, change func(*Identity)) *identity {
	t.Helper()
	s := newIdentitySettings()
	s.Name, s.URL, s.Token = "identity", url, config.NewSecret("sesame")
	if change != nil {
		change(s)
	}
	c, err := newIdentity(s, d)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*identity)
}

// identityAPI answers a lookup with a status, a content type and a body.
func identityAPI(t *testing.T, status int, contentType, body string) string {
	t.Helper()
	return answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		io.WriteString(w, body) //nolint:errcheck // a test's server
	})
}

const person = `{"ok":true,"identity":{"user_id":"user-1","discord_id":"42","irc_nick":"alice","xmpp_jid":"alice@chat.test"}}`

// aliceOf is what may be known of the person nowhere outside the API.
var aliceOf = []string{"user-1", "alice", "sesame", unmatchedDiscordID}

func TestIdentityShapes(t *testing.T) {
	nick := func(s *Identity) { s.IRCNick, s.IRCServer = "alice", "irc.test" }
	mustMatch := func(s *Identity) { nick(s); s.MustMatch = true }
	for name, c := range map[string]struct {
		change      func(*Identity)
		status      int
		contentType string
		body        string
		want        failure.Reason // "" is up
		says        string         // in the hint, or in the notes; "" there means that there are none
	}{
		"no match":            {nil, 404, "application/json", `{"ok":false}`, "", ""},
		"no match, other":     {nil, 404, "text/html", `<html>`, "", "BRIDGE_IDENTITY_BASE_URL is wrong"},
		"no match, empty":     {nil, 404, "", ``, "", "BRIDGE_IDENTITY_BASE_URL is wrong"},
		"own key, match":      {nick, 200, "application/json", person, "", ""},
		"own key, no match":   {nick, 404, "application/json", `{}`, "", "no identity matches"},
		"must match, match":   {mustMatch, 200, "application/json", person, "", ""},
		"must match, no":      {mustMatch, 404, "application/json", `{}`, failure.NotFound, "no identity matches"},
		"impossible match":    {nil, 200, "application/json", person, "", "answer so to everything"},
		"not ok":              {nick, 200, "application/json", `{"ok":false,"error":"alice"}`, failure.Mismatch, "read its log"},
		"no json":             {nick, 200, "application/json", `alice`, failure.Malformed, ""},
		"broken off":          {nick, 200, "application/json", person[:30], failure.Malformed, ""},
		"no ok":               {nick, 200, "application/json", `{"identity":{"irc_nick":"alice"}}`, failure.Malformed, ""},
		"null ok":             {nick, 200, "application/json", `{"ok":null}`, failure.Malformed, ""},
		"odd ok":              {nick, 200, "application/json", `{"ok":"alice"}`, failure.Malformed, ""},
		"list":                {nick, 200, "application/json", `[true]`, failure.Malformed, ""},
		"refused key":         {nil, 400, "application/json", `{"ok":false}`, failure.HTTPStatus, "discord_id, irc_nick or xmpp_jid"},
		"unknown token":       {nil, 401, "application/json", `{"ok":false}`, failure.Unauthorized, "BRIDGE_IDENTITY_TOKEN"},
		"forbidden":           {nil, 403, "application/json", `{"ok":false}`, failure.Forbidden, ""},
		"too many":            {nil, 429, "application/json", `{"ok":false}`, failure.HTTPStatus, ""},
		"server error":        {nil, 500, "text/html", `<html>alice`, failure.HTTPStatus, ""},
		"server unavailable":  {nil, 503, "text/plain", `alice`, failure.HTTPStatus, ""},
		"no content":          {nil, 204, "", ``, failure.HTTPStatus, ""},
		"too long":            {nil, 200, "application/json", strings.Repeat(" ", 2<<20), failure.TooLarge, ""},
		"accepted, not found": {nil, 202, "application/json", person, failure.HTTPStatus, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := read(t, identityProbe(t, identityAPI(t, c.status, c.contentType, c.body), deps(&memory{}), c.change), 10*time.Second)
			said := strings.Join(b.Notes, "\n")
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(said, c.says) || c.says == "" && said != "" {
					t.Errorf("notes: got %q, want %q", b.Notes, c.says)
				}
			} else {
				wantReason(t, err, c.want)
				if !strings.Contains(failure.HintOf(err), c.says) {
					t.Errorf("hint: got %q, want %q in it", failure.HintOf(err), c.says)
				}
				said += err.Error() + failure.HintOf(err)
				goldenFailure(t, "identity/"+strings.NewReplacer(" ", "_", ",", "").Replace(name), b, err)
			}
			for _, e := range b.Exchanges {
				said += e.Request + e.Err
			}
			for _, secret := range aliceOf {
				if strings.Contains(said, secret) {
					t.Errorf("%q stands in %q", secret, said)
				}
			}
			if len(b.Exchanges) != 1 {
				t.Errorf("%d attempts in one reading, want 1", len(b.Exchanges))
			}
		})
	}
}

func TestIdentityLookupIsTheBridges(t *testing.T) {
	for want, change := range map[string]func(*Identity){
		"discordId=" + unmatchedDiscordID:     nil,
		"discordId=42":                        func(s *Identity) { s.DiscordID = "42" },
		"ircNick=al%5Bce":                     func(s *Identity) { s.IRCNick = "al[ce" },
		"ircNick=alice&ircServer=irc.test":    func(s *Identity) { s.IRCNick, s.IRCServer = "alice", "irc.test" },
		"xmppJid=alice%2Btag%40chat.test%2Fx": func(s *Identity) { s.XMPPJID = "alice+tag@chat.test/x" },
	} {
		var got *http.Request
		api := answering(t, func(w http.ResponseWriter, r *http.Request) { got = r; w.WriteHeader(http.StatusNotFound) })
		readUp(t, identityProbe(t, api+"/app/", deps(&memory{}), change))
		if got.URL.Path != "/app/api/bridge/identity" || got.URL.RawQuery != want || got.Header.Get("Authorization") != "Bearer sesame" {
			t.Errorf("got %s with %q, want /app/api/bridge/identity?%s with the token", got.URL, got.Header.Get("Authorization"), want)
		}
	}
}

// TestNobodyHasTheDefaultKey reads the key as Discord makes its ids: milliseconds since 2015 in the upper 42 bits.
func TestNobodyHasTheDefaultKey(t *testing.T) {
	var id int64
	for _, digit := range unmatchedDiscordID {
		id = id*10 + int64(digit-'0')
	}
	born := time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(id>>22) * time.Millisecond)
	if id < 0 || int64(float64(id)) != id || born.Year() != 2084 {
		t.Errorf("id %d of %s; want one that 64 bits and a double hold, of a far year", id, born)
	}
}

// expiry is when the cache is said to be of no use any more; 0 where nothing is said.
func expiry(t *testing.T, b *Batch, success bool) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(batchCollector(b.Metrics(success))); err != nil {
		t.Fatal(err)
	}
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range gathered {
		if f.GetName() == "chatstack_identity_cache_expires_timestamp_seconds" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return 0
}

func TestCacheOutlivesTheAPIAndTheExporter(t *testing.T) {
	kept := &memory{}
	up, down := identityAPI(t, 404, "application/json", "{}"), identityAPI(t, 500, "", "")
	b, err := read(t, identityProbe(t, down, deps(kept), nil), 10*time.Second)
	if got := expiry(t, b, err == nil); err == nil || got != 0 {
		t.Errorf("before the first answer: got %v, %v; want a failure, and nothing said of a cache", got, err)
	}
	before := float64(time.Now().UnixMilli()) / 1000
	probe := identityProbe(t, up, deps(kept), nil)
	b, err = read(t, probe, 10*time.Second)
	after := float64(time.Now().UnixMilli()) / 1000
	if err != nil {
		t.Fatal(err)
	}
	answered := expiry(t, b, true)
	if answered < before+3600 || answered > after+3600 {
		t.Errorf("after an answer: got %v, want an hour after %v to %v", answered, before, after)
	}
	probe.url = down
	b, err = read(t, probe, 10*time.Second)
	if got := expiry(t, b, err == nil); err == nil || got != answered {
		t.Errorf("after a failure: got %v, %v; want a failure and %v still", got, err, answered)
	}
	b, err = read(t, identityProbe(t, down, deps(kept), func(s *Identity) { s.CacheTTL = config.Duration(time.Minute) }), 10*time.Second)
	if got := expiry(t, b, err == nil); err == nil || got != answered-3600+60 {
		t.Errorf("after a restart with a cache of a minute: got %v, %v; want a failure and %v", got, err, answered-3540)
	}
}

func TestLastAnswerIsWrittenOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &memory{}
		c := &identity{state: kept, log: slog.New(slog.DiscardHandler)}
		for range 10 {
			c.remember(time.Now())
			time.Sleep(30 * time.Second)
		}
		if len(kept.saves) != 5 {
			t.Errorf("%d writes in five minutes, want 5", len(kept.saves))
		}
		c.saved = time.Now().Add(time.Hour) // the clock was set back
		c.remember(time.Now())
		if len(kept.saves) != 6 {
			t.Errorf("%d writes, want one more: a time that lies ahead says nothing", len(kept.saves))
		}
	})
}

func TestStateFileThatFailsFailsNoLookup(t *testing.T) {
	d := deps(&memory{err: errors.New("disk full")})
	var log strings.Builder
	d.Log = slog.New(slog.NewTextHandler(&log, nil))
	b, err := read(t, identityProbe(t, identityAPI(t, 404, "application/json", "{}"), d, nil), 10*time.Second)
	if err != nil || expiry(t, b, true) == 0 || !strings.Contains(log.String(), "disk full") {
		t.Errorf("got %v, cache %v, log %q; want success, a number, and the fault in the log", err, expiry(t, b, true), log.String())
	}
	log.Reset()
	d.State = &memory{saved: []byte(`"nonsense"`)}
	b, err = read(t, identityProbe(t, identityAPI(t, 500, "", ""), d, nil), 10*time.Second)
	if err == nil || expiry(t, b, false) != 0 || !strings.Contains(log.String(), "forgotten") {
		t.Errorf("got %v, cache %v, log %q; want a failure, no number, and the fault in the log", err, expiry(t, b, false), log.String())
	}
}

func TestIdentityIsRetriedAsTheBridgeDoes(t *testing.T) {
	var r Retrier = identityProbe(t, "http://identity.invalid", deps(&memory{}), nil)
	policy := r.Backoff()
	for range 2 {
		for i, want := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, backoff.Stop, backoff.Stop} {
			if got := policy.NextBackOff(); got != want {
				t.Errorf("retry %d: got %s, want %s", i+1, got, want)
			}
		}
		policy.Reset()
	}
	if other := r.Backoff(); other == policy || other.NextBackOff() != 2*time.Second {
		t.Error("the next outage does not begin anew")
	}
}

func TestIdentityConnectionFaults(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(net.Conn)
		want   failure.Reason
	}{
		"hangs":              {exchangetest.Hold, failure.Timeout},
		"closes":             {func(net.Conn) {}, failure.Closed},
		"resets":             {exchangetest.Reset, failure.Closed},
		"redirect elsewhere": {exchangetest.Say("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.2:1/?discordId=alice\r\nContent-Length: 0\r\n\r\n"), failure.HTTPStatus},
	} {
		timeout := 10 * time.Second
		if c.want == failure.Timeout {
			timeout = 100 * time.Millisecond
		}
		_, err := read(t, identityProbe(t, "http://"+exchangetest.RawServer(t, "tcp", c.answer), deps(&memory{}), nil), timeout)
		wantReason(t, err, c.want)
		if err != nil && strings.Contains(err.Error(), "alice") {
			t.Errorf("%s: somebody's key stands in %q", name, err)
		}
	}
}

func TestOutagePageSaysUntilWhenTheCacheHelps(t *testing.T) {
	kept := &memory{saved: []byte(`"2026-11-20T15:32:15.25Z"`)}
	b, err := read(t, identityProbe(t, identityAPI(t, 503, "", ""), deps(kept), nil), 10*time.Second)
	goldenFailure(t, "identity/outage", b, err)
}
