package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/notify"
)

// peerTimeout bounds one request to a peer.
const peerTimeout = 5 * time.Second

// asksPeers reports whether a running exporter asks its peers: one with a role, and messages to send.
func asksPeers(cfg *config.Config) bool {
	return cfg.Pair != "" && len(cfg.Notify) > 0 && len(cfg.Peers) > 0
}

// whomItAsks says that a running exporter connects to its peers; "" if it does not.
func whomItAsks(cfg *config.Config) string {
	if !asksPeers(cfg) {
		return ""
	}
	var addresses []string
	for i := range cfg.Peers {
		addresses = append(addresses, cfg.Peers[i].Targets...)
	}
	return "asks its peers at each poll what they have told the receivers: " + strings.Join(addresses, ", ")
}

// pairOf is the place of this exporter among its peers. They may ask one that has none to ask.
func (a *App) pairOf(cfg *config.Config) notify.Pair {
	if cfg.Pair == "" || len(cfg.Notify) == 0 {
		return notify.Pair{}
	}
	host, _ := os.Hostname()
	pair := notify.Pair{ID: a.id, Name: cmp.Or(host, "another exporter"), Role: cfg.Pair}
	for i := range cfg.Peers {
		pair.Peers = append(pair.Peers, cfg.Peers[i].URLs()...)
	}
	for _, settings := range cfg.Targets {
		pair.Targets = append(pair.Targets, settings.Common().Name)
	}
	return pair
}

// newID returns an ID that no other process has.
func newID() string { return rand.Text() }

// Told implements web.Source.
func (a *App) Told() any { return a.notifier.Account(time.Now()) }

// askPeers asks the peers at each poll what they have told, until ctx is done.
func (a *App) askPeers(ctx context.Context, cfg *config.Config) {
	if !asksPeers(cfg) {
		return
	}
	var asking sync.WaitGroup
	for i := range cfg.Peers {
		for _, url := range cfg.Peers[i].URLs() {
			c := newPeerClient(&cfg.Peers[i], url)
			asking.Go(func() { a.follow(ctx, c, cfg.Poll.Interval.Std()) })
		}
	}
	asking.Wait()
}

// follow asks one peer at each interval. The log says when it does not answer, and when it answers again.
func (a *App) follow(ctx context.Context, c *peerClient, interval time.Duration) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	fails := false
	for {
		account := &notify.Account{}
		limited, cancel := context.WithTimeout(ctx, peerTimeout)
		err := c.get(limited, "/api/v1/notifications", account)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if account = nil; !fails {
				a.log.Warn("a peer does not answer; without it, this exporter sends what that one has not", "peer", c.http.Settings.URL,
					"err", err, "hint", failure.HintOf(err))
			}
		case fails:
			a.log.Info("a peer answers again", "peer", c.http.Settings.URL)
		}
		fails = err != nil
		a.notifier.Hear(c.http.Settings.URL, account, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}
