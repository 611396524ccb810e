package collectors

import (
	"io"
	"log"
	"net"
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

// badRequest is a page of status 400.
func badRequest(body string) func(net.Conn) {
	return exchangetest.Say("HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + body)
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

func TestPlainHTTPToTLSIsKnownByEveryAnswer(t *testing.T) {
	for name, answer := range map[string]func(net.Conn){
		"nginx":      badRequest("<center><h1>400 Bad Request</h1></center>\r\n<center>The plain HTTP request was sent to HTTPS port</center>"),
		"Go":         badRequest("Client sent an HTTP request to an HTTPS server.\n"),
		"Apache":     badRequest("Reason: You're speaking plain HTTP to an SSL-enabled server port.<br />"),
		"Tomcat":     badRequest("Bad Request\r\nThis combination of host and port requires TLS.\r\n"),
		"a TLS stop": exchangetest.Say("\x15\x03\x01\x00\x02\x02\x46"),
	} {
		_, err := readFails(t, proxyProbe(t, "http://"+exchangetest.RawServer(t, "tcp", answer)+"/health", config.TLS{}), failure.TLS)
		if got := failure.HintOf(err); !strings.Contains(got, "write https:// in the url") {
			t.Errorf("%s: hint of %v: got %q", name, err, got)
		}
	}
	mustFail(t, proxyProbe(t, "http://"+exchangetest.RawServer(t, "tcp", badRequest("no such host"))+"/health", config.TLS{}), failure.HTTPStatus)
}

func TestTLSToAPortWithoutItSaysWhatAnswers(t *testing.T) {
	ssh := exchangetest.RawServer(t, "tcp", exchangetest.Say("SSH-2.0-OpenSSH_9.2\r\n"))
	for _, c := range []struct {
		probe Collector
		hint  string
	}{
		{proxyProbe(t, "https://"+ssh+"/health", config.TLS{}), "speaks neither TLS nor HTTP"},
		{proxyProbe(t, "https://"+exchangetest.RawServer(t, "tcp", exchangetest.Say("<?xml version='1.0'?><stream:stream>"))+"/health", config.TLS{}), "speaks neither TLS nor HTTP"},
		{proxyProbe(t, "https://"+exchangetest.RawServer(t, "tcp", exchangetest.Say("<!DOCTYPE HTML>\n<html lang=\"en\">"))+"/health", config.TLS{}), "this port speaks plain HTTP: write http:// in the url"},
		{proxyProbe(t, "https://"+exchangetest.RawServer(t, "tcp", exchangetest.Say("<HTML><head>"))+"/health", config.TLS{}), "this port speaks plain HTTP: write http:// in the url"},
		{ircTLSProbe(t, ssh, config.TLS{}), `does not speak TLS, it answers with "SSH-2"`},
	} {
		_, err := readFails(t, c.probe, failure.TLS)
		if got := failure.HintOf(err); !strings.Contains(got, c.hint) {
			t.Errorf("%T: hint of %v: got %q, want %q in it", c.probe, err, got, c.hint)
		}
	}
}

func TestDockerSaysThatItsSchemeIsWrong(t *testing.T) {
	secure, plain := quietTLS(t), httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for host, hint := range map[string]string{
		"tcp://" + secure.Listener.Addr().String():                                                    "the engine speaks TLS on this port: write https://, or set ca_file or DOCKER_TLS_VERIFY=1",
		"https://" + plain.Listener.Addr().String():                                                   "write http:// in the host",
		"tcp://" + exchangetest.RawServer(t, "tcp", exchangetest.Say("\x15\x03\x01\x00\x02\x02\x46")): "the engine speaks TLS on this port: write https://, or set ca_file or DOCKER_TLS_VERIFY=1",
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
		wantDockerFailure(t, err, failure.TLS, "remove the keys of TLS (ca_file and the like, DOCKER_TLS_VERIFY) and write tcp:// in the host")
	}
	s := dockerSettings(plain.URL)
	s.InsecureSkipVerify = true
	const want = "begins with http:// beside keys of TLS; remove the keys of TLS (ca_file and the like, DOCKER_TLS_VERIFY), or write https://"
	if _, err := s.endpoint(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestRedirectToTLSSaysSo(t *testing.T) {
	for location, hint := range map[string]string{
		"https://127.0.0.1/health": "write https:// in the url",
		"http://127.0.0.2/health":  "the service redirects to another host",
	} {
		answer := exchangetest.Say("HTTP/1.1 301 Moved Permanently\r\nLocation: " + location + "\r\nContent-Length: 0\r\n\r\n")
		_, err := readFails(t, proxyProbe(t, "http://"+exchangetest.RawServer(t, "tcp", answer)+"/health", config.TLS{}), failure.HTTPStatus)
		if got := failure.HintOf(err); !strings.Contains(got, hint) {
			t.Errorf("to %s: hint of %v: got %q, want %q in it", location, err, got, hint)
		}
	}
}
