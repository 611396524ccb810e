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

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

const (
	// peersTimeout is how long a check waits for all peers together.
	peersTimeout = 5 * time.Second
	// peerAnswerLimit is the longest answer of a peer that is read, in bytes: it is far above that of a thousand containers.
	peerAnswerLimit = 8 << 20
)

// duty is something that only one of several exporters that ask the same targets may do.
type duty struct {
	// do and does are how it is called: "run the canary", "runs the canary".
	do, does string
	// other and all say what to do about it: in an exporter that is other, and among those that do it.
	other, all string
	// done reports whether an exporter does it for this target, by its own status.
	done func(peerTarget) bool
}

var (
	canaryDuty = &duty{
		"run the canary", "runs the canary",
		"set mode: reject here", "set mode: reject in all but one",
		// In mode reject nothing is deleted; while the store cannot be reached, by neither.
		func(t peerTarget) bool {
			return t.Kind == "plant_store" && slices.ContainsFunc(t.Values, func(v peerValue) bool { return v.Name == "deleting" })
		},
	}
	statisticsDuty = &duty{
		"read the XMPP server's metrics while its statistics_interval is \"manual\"", "reads an XMPP server's metrics",
		"set a number of seconds there, or leave this target to the first of the pair",
		"with statistics_interval = \"manual\" the server counts for one reader only, so set a number of seconds there, or leave the target to one of them",
		func(t peerTarget) bool { return t.Kind == "xmpp_metrics" },
	}
)

// sparingDuty is that of targets which a config.Sparing describes.
var sparingDuty = &duty{
	"connect to the IRC server's TLS port, which limits how often an address connects", "checks the IRC server's TLS port",
	"set pair: other here", "set pair: other in all but one, unless the IRC server sees them under different addresses",
	func(t peerTarget) bool { return t.Kind == "irc_tls" },
}

// stateful is implemented by settings of probes that may leave something behind.
type stateful interface {
	// NeedsState reports whether a state file must name what is left behind when the process ends.
	NeedsState() bool
}

// dutyOf is what only one exporter may do of what a target's settings want, or nil.
func dutyOf(settings config.Settings) *duty {
	if n, ok := settings.(stateful); ok && n.NeedsState() {
		return canaryDuty
	}
	if settings.Common().Kind == "xmpp_metrics" {
		return statisticsDuty
	}
	if _, ok := settings.(config.Sparing); ok {
		return sparingDuty
	}
	return nil
}

// dutiesOf are the duties of a configuration by the names of its targets.
func dutiesOf(cfg *config.Config) map[string]*duty {
	duties := map[string]*duty{}
	for _, settings := range cfg.Targets {
		if d := dutyOf(settings); d != nil {
			duties[settings.Common().Name] = d
		}
	}
	return duties
}

// peerTarget is what is read of a target in a peer's GET /api/v1/status.
type peerTarget struct {
	Kind   string      `json:"kind"`
	Values []peerValue `json:"values"`
}

type peerValue struct {
	Name string `json:"name"`
}

// peer is what came of asking one.
type peer struct {
	address string
	// here is whether its address is one of this machine, so that it may be the exporter that is checked.
	here    bool
	targets []peerTarget
	err     error
}

// askPeers asks all that are named under peers: for their status, without credentials, within peersTimeout.
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
	var asked sync.WaitGroup
	slots := make(chan struct{}, checkParallelism)
	for i := range peers {
		asked.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			p := &peers[i]
			p.here = isHere(ctx, p.address)
			p.targets, p.err = askPeer(ctx, schemes[i]+"://"+p.address+"/api/v1/status")
		})
	}
	asked.Wait()
	return peers
}

func askPeer(ctx context.Context, url string) ([]peerTarget, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		// It is told nothing, and what it says becomes advice only.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it is only read
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return nil, fmt.Errorf("it wants a password, and a check has none: status %d", resp.StatusCode)
	case http.StatusBadRequest: // what net/http says to plain HTTP on a TLS port
		return nil, fmt.Errorf("if it speaks TLS, give it the label __scheme__: https: status %d", resp.StatusCode)
	default:
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	var answer struct {
		Services []peerTarget `json:"services"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, peerAnswerLimit)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("read its status: %w", err)
	}
	return answer.Services, nil
}

// isHere reports whether an address host:port is one of this machine's, or of this container's.
func isHere(ctx context.Context, address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return false
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && slices.ContainsFunc(found, func(ip netip.Addr) bool { return ip.Unmap() == p.Addr().Unmap() })
	})
}

// othersThatDo is what is said of the peers that do the same, and of those of which that is not known. One that does it at
// an address of this machine is taken for the exporter that is checked.
func othersThatDo(d *duty, peers []peer) (warnings, notes []string) {
	self := false
	for _, p := range peers {
		switch {
		case p.err != nil:
			notes = append(notes, fmt.Sprintf("whether the peer %s %s too is not known: %v", p.address, d.does, p.err))
		case !slices.ContainsFunc(p.targets, d.done):
		case p.here && !self:
			self = true
		default:
			warnings = append(warnings, fmt.Sprintf("the peer %s %s too, unless that is this exporter itself; %s", p.address, d.does, d.all))
		}
	}
	return warnings, notes
}
