package collectors

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestAuthorityFileThatIsGoneIsAFaultOfTLS has the file vanish after the configuration was checked.
func TestAuthorityFileThatIsGoneIsAFaultOfTLS(t *testing.T) {
	gone := config.TLS{CAFile: filepath.Join(t.TempDir(), "ca.pem")}
	_, err := read(t, ircTLSProbe(t, "127.0.0.1:1", gone), 10*time.Second)
	wantReason(t, err, failure.TLS)

	_, err = read(t, proxyProbe(t, "https://127.0.0.1:1/health", gone), 10*time.Second)
	wantReason(t, err, failure.TLS)

	s := newDockerSettings()
	s.Host, s.TLS = "tcp://127.0.0.1:1", gone
	engine, err := newDocker(s, deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = read(t, engine, 10*time.Second)
	wantReason(t, err, failure.TLS)
	if d, ok := engine.(*docker); ok {
		wantReason(t, d.look(t.Context(), nil, 0), failure.TLS)
	}
}
