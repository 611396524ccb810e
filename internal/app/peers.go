package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/version"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

const (
	// peersTimeout bounds how long a check waits for all peers together.
	peersTimeout = 5 * time.Second
	// maxPeerAnswer bounds a peer's answer, in bytes. The status of a thousand containers is far smaller.
	maxPeerAnswer = 8 << 20
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

// askPeers requests the status of all peers within peersTimeout.
func askPeers(ctx context.Context, groups []config.Peers) []peer {
	ctx, cancel := context.WithTimeout(ctx, peersTimeout)
	defer cancel()
	var peers []peer
	var clients []*peerClient
	for i := range groups {
		for n, url := range groups[i].URLs() {
			peers = append(peers, peer{address: groups[i].Targets[n]})
			clients = append(clients, newPeerClient(&groups[i], url))
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
			p.targets, p.err = clients[i].status(ctx)
		})
	}
	requests.Wait()
	return peers
}

// peerClient asks one peer.
type peerClient struct {
	http        exchange.HTTP
	credentials exchange.Credentials
}

func newPeerClient(group *config.Peers, url string) *peerClient {
	return &peerClient{
		exchange.HTTP{
			Settings:  config.HTTP{URL: url, TLS: config.TLS{CAFile: group.CAFile}},
			Limit:     maxPeerAnswer,
			UserAgent: "chatstack_exporter/" + version.Version,
		},
		exchange.Credentials{User: group.User, Password: group.Password},
	}
}

// get decodes what the peer answers to a request for a path.
func (c *peerClient) get(ctx context.Context, path string, into any) error {
	a, err := c.http.Do(ctx, &exchange.Record{}, http.MethodGet, c.http.Settings.URL+path, c.credentials.AuthHeader(), nil)
	if err != nil && failure.ReasonOf(err) == failure.TLS && strings.HasPrefix(c.http.Settings.URL, "http://") {
		err = failure.Errorf(failure.TLS, "%w", err).WithHint("set the peers' label __scheme__: https")
	}
	if err != nil {
		return err
	}
	if err := a.WantOK(map[int]string{
		http.StatusUnauthorized: "set user and password of the peers to those of its web configuration",
		http.StatusNotFound:     "it is another program, or an older version",
	}); err != nil {
		return err
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return a.Errorf(failure.Malformed, "the answer is not that of an exporter: %w", err)
	}
	return nil
}

// status returns the targets of the peer. Without a password, the certificate does not matter: the answer only leads to advice.
func (c *peerClient) status(ctx context.Context) ([]peerTarget, error) {
	c.http.Settings.InsecureSkipVerify = !c.credentials.HasCredentials()
	var answer struct {
		Services []peerTarget `json:"services"`
	}
	err := c.get(ctx, "/api/v1/status", &answer)
	if err == nil {
		return answer.Services, nil
	}
	return nil, fmt.Errorf("%w; %s", err, cmp.Or(failure.HintOf(err), "read its log"))
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
