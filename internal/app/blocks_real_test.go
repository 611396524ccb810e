//go:build realservers

package app

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// TestRealServersAreGreenWithTheReadmesConfiguration has no real UnrealIRCd, which is in no Debian: the simulated stack serves irc_rpc.
func TestRealServersAreGreenWithTheReadmesConfiguration(t *testing.T) {
	prosody, atheme := realstack.StartProsody(t, realstack.ProsodyOptions{}), realstack.StartAtheme(t)
	irc := realstack.StartInspIRCd(t)
	p := simulatedPlaces(t)
	p.domain, p.engine = realstack.XMPPDomain, realstack.StartDocker(t, realstack.DockerOptions{}).Host
	p.of["xmpp_status"], p.of["xmpp_metrics"] = place{address: prosody.HTTPAddr}, place{address: prosody.HTTPAddr}
	p.of["xmpp_c2s"] = place{address: prosody.ClientAddr, ca: prosody.Authority.File}
	p.of["irc_tls"] = place{address: irc.TLSAddr, ca: irc.Authority.File, name: irc.Host}
	p.of["irc_services"] = place{address: atheme.Addr}
	for _, b := range yamlBlocks(t) {
		if filepath.Base(b.document) != "README.md" || strings.Contains(b.document, "/") || !strings.HasPrefix(b.text, "targets:") {
			continue
		}
		mustBeGreen(t, p.configuration(t, b))
		return
	}
	t.Error("README.md has no configuration")
}
