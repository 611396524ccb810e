package collectors

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
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
	up, down := serving(t, 404, "{}"), serving(t, 500, "")
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
	probe.http.Settings.URL = down
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
	b, err := read(t, identityProbe(t, serving(t, 404, "{}"), d, nil), 10*time.Second)
	if err != nil || expiry(t, b, true) == 0 || !strings.Contains(log.String(), "disk full") {
		t.Errorf("got %v, cache %v, log %q; want success, a number, and the fault in the log", err, expiry(t, b, true), log.String())
	}
	log.Reset()
	d.State = &memory{saved: []byte(`"nonsense"`)}
	b, err = read(t, identityProbe(t, serving(t, 500, ""), d, nil), 10*time.Second)
	if err == nil || expiry(t, b, false) != 0 || !strings.Contains(log.String(), "cannot be loaded") {
		t.Errorf("got %v, cache %v, log %q; want a failure, no number, and the fault in the log", err, expiry(t, b, false), log.String())
	}
}

func TestOutagePageSaysUntilWhenTheCacheHelps(t *testing.T) {
	kept := &memory{saved: []byte(`"2026-11-20T15:32:15.25Z"`)}
	b, err := read(t, identityProbe(t, serving(t, 503, ""), deps(kept), nil), 10*time.Second)
	goldenFailure(t, "identity/outage", b, err)
}
