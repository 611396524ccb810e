package app

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

const (
	// peersTimeout bounds how long a check waits for all peers together.
	peersTimeout = 5 * time.Second
	// maxPeerStatus bounds a peer's status, in bytes. The status of a thousand containers is far smaller.
	maxPeerStatus = 8 << 20
)

// rowOf returns the row of a target's kind.
func rowOf(settings config.Settings) *config.Row {
	kind, _ := collectors.KindOf(settings.Common().Kind)
	return &kind.Row
}

// dutyOf returns the duty that comes with a target's settings, or nil.
func dutyOf(settings config.Settings) *config.Duty {
	d := rowOf(settings).Duty
	if d == nil || d.Has != nil && !d.Has(settings) {
		return nil
	}
	return d
}

// dutiesOf returns the duties of a configuration by target name.
func dutiesOf(cfg *config.Config) map[string]*config.Duty {
	duties := map[string]*config.Duty{}
	for _, settings := range cfg.Targets {
		if d := dutyOf(settings); d != nil {
			duties[settings.Common().Name] = d
		}
	}
	return duties
}

// peerTarget is a target in a peer's GET /api/v1/status, with the fields that a check uses.
type peerTarget struct {
	Kind   string      `json:"kind"`
	Values []peerValue `json:"values"`
}

type peerValue struct {
	Name string `json:"name"`
}

// does reports whether the peer performs a duty for the target.
func (t *peerTarget) does(d *config.Duty) bool {
	kind, _ := collectors.KindOf(t.Kind)
	return kind.Duty == d && (d.Value == "" || slices.ContainsFunc(t.Values, func(v peerValue) bool { return v.Name == d.Value }))
}

// peer is another exporter, with the targets of its status or the error of the request for it.
type peer struct {
	address string
	// sameHost means that this peer may be the exporter whose configuration is checked.
	sameHost bool
	targets  []peerTarget
	err      error
}

// askPeers requests the status of all peers, without credentials, within peersTimeout.
func askPeers(ctx context.Context, groups []config.Peers) []peer {
	ctx, cancel := context.WithTimeout(ctx, peersTimeout)
	defer cancel()
	var peers []peer
	var schemes []string
	for _, g := range groups {
		scheme := "http"
		if g.Labels["__scheme__"] == "https" {
			scheme = "https"
		}
		for _, address := range g.Targets {
			peers, schemes = append(peers, peer{address: address}), append(schemes, scheme)
		}
	}
	var requests sync.WaitGroup
	slots := make(chan struct{}, checkParallelism)
	for i := range peers {
		requests.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			p := &peers[i]
			p.sameHost = isLocalAddress(ctx, p.address)
			p.targets, p.err = askPeer(ctx, schemes[i]+"://"+p.address+"/api/v1/status")
		})
	}
	requests.Wait()
	return peers
}

func askPeer(ctx context.Context, url string) ([]peerTarget, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		//nolint:gosec // the request has no secret, the answer only leads to advice
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing was written
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return nil, fmt.Errorf("status %d: it requires a password, and check sends none", resp.StatusCode)
	case http.StatusBadRequest: // net/http's answer to plain HTTP on a TLS port
		return nil, fmt.Errorf("status %d: if it serves TLS, set its label __scheme__: https", resp.StatusCode)
	default:
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	var answer struct {
		Services []peerTarget `json:"services"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxPeerStatus)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("decode its status: %w", err)
	}
	return answer.Services, nil
}

// isLocalAddress reports whether host:port is an address of this machine or container.
func isLocalAddress(ctx context.Context, address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	resolved, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return false
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && slices.ContainsFunc(resolved, func(ip netip.Addr) bool { return ip.Unmap() == p.Addr().Unmap() })
	})
}

// dutyConflicts returns a warning for each peer with the same duty, and a note for each peer whose status is unknown. It skips the
// first such peer on this machine, which is probably the exporter whose configuration is checked.
func dutyConflicts(d *config.Duty, peers []peer) (warnings, notes []string) {
	skippedSelf := false
	for _, p := range peers {
		switch {
		case p.err != nil:
			notes = append(notes, fmt.Sprintf("cannot find out whether the peer %s %s too: %v", p.address, d.ThirdPerson, p.err))
		case !slices.ContainsFunc(p.targets, func(t peerTarget) bool { return t.does(d) }):
		case p.sameHost && !skippedSelf:
			skippedSelf = true
		default:
			warnings = append(warnings,
				fmt.Sprintf("the peer %s %s too, unless that is this exporter itself; %s", p.address, d.ThirdPerson, d.AdviceForAll))
		}
	}
	return warnings, notes
}
