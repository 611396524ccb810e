package api

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// Endpoint is where an engine listens.
type Endpoint struct {
	Network, Address string // arguments of net.Dial
	TLS              bool
}

// RemoveTLSKeys is the advice for an engine without TLS.
const RemoveTLSKeys = "remove the TLS settings (ca_file and the like, DOCKER_TLS_VERIFY)"

// maxSocketPath is the longest path of a Unix socket that the kernel accepts.
const maxSocketPath = 107

// ParseEndpoint parses host: unix:///path, tcp://host:port, http:// or https://. Secure makes TLS the default for tcp. An error
// continues a sentence that begins with the key, and says what to write.
func ParseEndpoint(host string, secure bool) (Endpoint, error) {
	if socket, ok := strings.CutPrefix(host, "unix://"); ok {
		if !strings.HasPrefix(socket, "/") {
			return Endpoint{}, errors.New("is not an absolute path; write unix:///path/to/docker.sock, with three slashes")
		}
		if len(socket) > maxSocketPath {
			return Endpoint{}, fmt.Errorf("has a path of %d bytes, the system allows %d; link the socket to a shorter path",
				len(socket), maxSocketPath)
		}
		if strings.HasSuffix(socket, "/") || slices.Contains(strings.Split(socket, "/"), "..") {
			return Endpoint{}, errors.New("has a path that contains .. or ends in /; write the path of the socket itself")
		}
		return Endpoint{Network: "unix", Address: socket}, nil
	}
	if fault := config.BareIPv6(host); fault != "" {
		return Endpoint{}, errors.New(fault)
	}
	u, err := url.Parse(host)
	if err != nil {
		return Endpoint{}, errors.New("is not a URL; write unix:///path/to/docker.sock or tcp://host:port")
	}
	e := Endpoint{Network: "tcp", TLS: secure}
	switch u.Scheme {
	case "tcp":
	case "http":
		if e.TLS {
			return Endpoint{}, errors.New("begins with http://, but TLS settings are present; " + RemoveTLSKeys + ", or write https://")
		}
	case "https":
		e.TLS = true
	case "ssh":
		return Endpoint{}, errors.New("begins with ssh://, which runs commands over there and is not supported; " +
			"forward the socket with `ssh -L /path/docker.sock:/var/run/docker.sock HOST` and write unix:///path/docker.sock, " +
			"or expose the engine with TLS and write tcp://HOST:2376")
	case "npipe":
		return Endpoint{},
			errors.New("begins with npipe://, a Windows pipe, which is not supported; expose the engine with TLS and write tcp://HOST:2376")
	default:
		if strings.HasPrefix(host, "/") {
			return Endpoint{}, fmt.Errorf("must begin with unix:// or tcp://; did you mean unix://%s?", host)
		}
		return Endpoint{}, errors.New("must begin with unix:// or tcp://")
	}
	switch {
	case u.User != nil:
		return Endpoint{}, errors.New("contains credentials; an engine supports only client certificates: use cert_file and key_file")
	case u.Hostname() == "":
		return Endpoint{}, errors.New("has no host; write tcp://host:port")
	case strings.Contains(u.Hostname(), "%"):
		return Endpoint{}, errors.New("has an address with a zone, which is not supported; write a host name, or an address without %")
	case (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "":
		return Endpoint{}, errors.New("has more than host and port; write tcp://host:port")
	}
	port := u.Port()
	switch {
	case port != "":
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return Endpoint{}, fmt.Errorf("has the port %s, must be from 1 to 65535", port)
		}
	case e.TLS:
		port = "2376"
	default:
		port = "2375"
	}
	e.Address = net.JoinHostPort(u.Hostname(), port)
	return e, nil
}
