package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/version"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
)

// Remote says how a command reaches a running exporter.
type Remote struct {
	// URL is the exporter's. Without one, it is that of this host with the same --web.listen-address, over its socket.
	URL string
	// User and PasswordFile are one in basic_auth_users and the file of the password. The socket needs neither.
	User, PasswordFile string
}

// remote is the client of every command that changes something in a running exporter.
type remote struct {
	exchange.HTTP
	exchange.Credentials
	socket string // "" for HTTP
}

// maxRemoteAnswer limits an answer, in bytes; an incident has at most some hundred kB.
const maxRemoteAnswer = 4 << 20

// newRemote finds the socket, or reads the password.
func newRemote(o Options, r Remote) (*remote, error) {
	c := &remote{HTTP: exchange.HTTP{UserAgent: "chatstack_exporter/" + version.Version, Limit: maxRemoteAnswer}}
	switch {
	case r.URL == "" && r.User == "" && r.PasswordFile == "":
		var err error
		c.Settings.URL = "http://localhost"
		c.socket, err = o.findSocket()
		return c, err
	case r.URL == "" || r.User == "" || r.PasswordFile == "":
		return nil, UsageError{errors.New("--url, --user and --password-file belong together; without them, the command uses the socket " +
			"of the exporter on this machine")}
	}
	password, err := os.ReadFile(r.PasswordFile)
	if err != nil {
		return nil, fmt.Errorf("read --password-file: %w", err)
	}
	c.User, c.Password = r.User, config.NewSecret(strings.TrimRight(string(password), "\r\n"))
	c.Settings.URL = strings.TrimSuffix(r.URL, "/")
	flags := map[string]string{"url": "--url", "user": "--user"}
	if err := config.ReadEnvironment(o.Lookup, flags, func(e *config.Env, report *config.Report) {
		e.TLS("EXPORTER", &c.Settings.TLS)
		c.Settings.Check(report)
		c.CheckCredentials(report)
	}); err != nil {
		return nil, UsageError{err}
	}
	return c, nil
}

// findSocket returns the socket of the exporter with this --web.listen-address: that of this user, else the only one that root finds.
func (o Options) findSocket() (string, error) {
	var tried, found []string
	for n, dir := range append([]string{o.RuntimeDirectory}, o.OtherRuntimeDirectories...) {
		socket, err := socketIn(dir, o, "")
		if err != nil {
			return "", UsageError{err}
		}
		owner := os.Getuid()
		if _, uid, numbered := strings.Cut(dir, ownDirectories()); numbered {
			owner, _ = strconv.Atoi(uid)
		}
		if slices.Contains(tried, socket) {
			continue
		}
		tried = append(tried, socket)
		if conn, err := net.Dial("unix", socket); err != nil || checkPrivate(dir, owner) != nil { //nolint:noctx // it answers at once
			continue
		} else if conn.Close(); n == 0 { //nolint:errcheck,gosec // nothing was sent
			return socket, nil
		}
		found = append(found, socket)
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no exporter listens at %s: run the command as the user of the exporter or as root, with its "+
			"--web.listen-address and RUNTIME_DIRECTORY, or add --url, --user and --password-file", strings.Join(tried, " or "))
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("several exporters listen at %s: name the directory of one of them in RUNTIME_DIRECTORY",
		strings.Join(found, " and "))
}

// dialSocket connects to a socket, whatever the address.
func dialSocket(socket string) exchange.DialFunc {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
}

// send sends a request, and decodes the answer. If the exporter refuses it, the error is what the exporter says.
func (c *remote) send(ctx context.Context, method, to string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	header, where := c.AuthHeader(), exchange.PrintableURL(c.Settings.URL)
	header.Set("Content-Type", "application/json")
	if c.socket != "" {
		ctx, where = exchange.WithDialer(ctx, dialSocket(c.socket)), c.socket
	}
	answer, err := c.Do(ctx, &exchange.Record{}, method, c.Settings.URL+to, header, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	var refused struct {
		Error string `json:"error"`
	}
	switch {
	case answer.Status == http.StatusUnauthorized:
		return fmt.Errorf("%s refuses the user or the password", where)
	case answer.Status/100 == 2 && json.Unmarshal(answer.Body, into) == nil:
		return nil
	case answer.Status/100 != 2 && json.Unmarshal(answer.Body, &refused) == nil && refused.Error != "":
		return fmt.Errorf("%s answers %d: %s", where, answer.Status, failure.Printable(refused.Error, maxCell))
	}
	return fmt.Errorf("%s does not answer as a chatstack_exporter: status %d", where, answer.Status)
}

// Ack says who takes care of an incident. id is its id, or the address of its page. Which one it was goes to out, warnings go to warn.
func Ack(ctx context.Context, o Options, r Remote, id, as string, out, warn io.Writer) error {
	if id = path.Base(strings.TrimSpace(id)); strings.Trim(id, "./") == "" {
		return UsageError{errors.New("the incident has no id: copy that of its page, as in 20260102-1a2b3c4d")}
	}
	c, err := newRemote(o, r)
	if err != nil {
		return err
	}
	if as == "" && c.socket != "" {
		if as = callerName(o.Lookup); as == "" {
			return UsageError{errors.New("nobody knows your name here: add --as NAME")}
		}
	}
	body := struct {
		As string `json:"as,omitempty"`
	}{as}
	var answer struct {
		incident.Incident
		Warnings []string
	}
	if err := c.send(ctx, http.MethodPost, "/api/v1/incidents/"+url.PathEscape(id)+"/acknowledgement", body, &answer); err != nil {
		return err
	}
	for _, text := range answer.Warnings {
		fmt.Fprintln(warn, "warning:", failure.Printable(text, maxCell)) //nolint:errcheck // the exit code says enough
	}
	_, err = fmt.Fprintf(out, "%s is on it: %s (%s)\n", failure.Printable(answer.Acknowledged.By, maxCell),
		failure.Printable(answer.Title, maxCell), failure.Printable(answer.ID, maxCell))
	return err
}

// callerName is who runs the command: for sudo the user who ran that; "" if the system does not know.
func callerName(lookup func(string) (string, bool)) string {
	if name, _ := lookup("SUDO_USER"); name != "" {
		return name
	}
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
