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
	mustFail(t, ircTLSProbe(t, "127.0.0.1:1", gone), failure.TLS)
	mustFail(t, proxyProbe(t, "https://127.0.0.1:1/health", gone), failure.TLS)
	s := newDockerSettings()
	s.Host, s.TLS, s.Timeout = "tcp://127.0.0.1:1", gone, config.Duration(10*time.Second)
	engine, err := newDocker(s, deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	mustFail(t, engine, failure.TLS)
	if d, ok := engine.(*docker); ok {
		_, err := d.open(t.Context(), 1)
		wantReason(t, err, failure.TLS)
	}
}
