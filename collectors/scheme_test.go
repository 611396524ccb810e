package collectors

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// quietTLS serves nothing over TLS, and says nothing in the test's output.
func quietTLS(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func TestEveryHTTPTargetSaysThatItsSchemeIsWrong(t *testing.T) {
	secure, plain := quietTLS(t), httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for _, c := range []struct{ url, hint string }{
		{strings.Replace(secure.URL, "https://", "http://", 1), "this port speaks TLS: write https:// in the url"},
		{strings.Replace(plain.URL, "http://", "https://", 1), "this port speaks plain HTTP: write http:// in the url"},
	} {
		for _, probe := range append(answeringCollectors(t, c.url), proxyProbe(t, c.url, config.TLS{})) {
			_, err := readFails(t, probe, failure.TLS)
			if got := failure.HintOf(err); !strings.Contains(got, c.hint) {
				t.Errorf("%T: hint of %v: got %q, want %q in it", probe, err, got, c.hint)
			}
		}
	}
}

func TestDockerSaysThatItsSchemeIsWrong(t *testing.T) {
	secure, plain := quietTLS(t), httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for host, hint := range map[string]string{
		"tcp://" + secure.Listener.Addr().String(): "the engine requires TLS on this " +
			"port: write https://, or set ca_file or DOCKER_TLS_VERIFY=1",
		"https://" + plain.Listener.Addr().String(): "write http:// in the host",
		"tcp://" + exchangetest.RawServer(t, "tcp", exchangetest.Say("\x15\x03\x01\x00\x02\x02\x46")): "the engine requires TLS on this " +
			"port: write https://, or set ca_file or DOCKER_TLS_VERIFY=1",
	} {
		_, err := readDocker(t, dockerSettings(host))
		wantDockerFailure(t, err, failure.TLS, hint)
	}
}

// TestDockerWithKeysOfTLSSaysToRemoveThem has a server without TLS, where another scheme alone does not help.
func TestDockerWithKeysOfTLSSaysToRemoveThem(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for _, scheme := range []string{"tcp", "https"} {
		s := dockerSettings(scheme + "://" + plain.Listener.Addr().String())
		s.InsecureSkipVerify = true
		_, err := readDocker(t, s)
		wantDockerFailure(t, err, failure.TLS,
			"remove the TLS settings (ca_file and the like, DOCKER_TLS_VERIFY) and write tcp:// in the host")
	}
	s := dockerSettings(plain.URL)
	s.InsecureSkipVerify = true
	const want = "begins with http://, but TLS settings are present; remove the TLS settings (ca_file and the like, DOCKER_TLS_VERIFY), " +
		"or write https://"
	if _, err := s.endpoint(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
