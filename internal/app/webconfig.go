package app

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	toolkit "github.com/prometheus/exporter-toolkit/web"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// watchWebConfig logs once when the file becomes invalid, and once when it is valid again, until ctx is done. Every request reads the file
// again: otherwise TLS would fail without a log line, and clients with a password would only see a status 500.
func watchWebConfig(ctx context.Context, path string, log *slog.Logger) {
	tick := time.NewTicker(filesInterval)
	defer tick.Stop()
	logged := ""
	for {
		faults := webFaults(path, false)
		switch {
		case len(faults) > 0 && faults.Error() != logged:
			logged = faults.Error()
			log.Error("web configuration is invalid; requests to this exporter may fail until it is corrected", "err", faults)
		case len(faults) == 0 && logged != "":
			logged = ""
			log.Info("web configuration is valid again", "file", path)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// checkWebConfig rejects what the toolkit rejects, with errors that say where and what to do. Errors that the toolkit accepts are only
// logged, by watchWebConfig, so that the exporter still starts.
func checkWebConfig(path string) error {
	if toolkit.Validate(path) == nil {
		return nil
	}
	faults := webFaults(path, false)
	if len(faults) == 0 { // somebody has just corrected it
		return nil
	}
	return fmt.Errorf("read web configuration %s:\n%w", path, faults)
}

// bcryptHash matches the bcrypt hash of a password.
var bcryptHash = regexp.MustCompile(`^\$2[a-z]?\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}$`)

// webUsers returns who has a password in the file of --web.config.file, which takes effect without a restart. It is nobody if the file
// cannot be read.
func (o *Options) webUsers() []string {
	if o.Web == nil || o.Web.WebConfigFile == nil || *o.Web.WebConfigFile == "" {
		return nil
	}
	content, err := os.ReadFile(*o.Web.WebConfigFile)
	if err != nil {
		return nil
	}
	var c struct {
		Users map[string]yaml.Node `yaml:"basic_auth_users"`
	}
	if yaml.Unmarshal(content, &c) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(c.Users))
}

const webDocumentation = "https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md lists the keys and values"

// webConfig checks one file of --web.config.file.
type webConfig struct {
	path   string
	doc    yaml.Node
	faults config.Faults
}

// webFaults returns the errors in a file of --web.config.file, each with its line and what to do. It never repeats the toolkit's own
// texts, which may contain a hash or a key. withoutKey skips the private key's file.
func webFaults(path string, withoutKey bool) config.Faults {
	c := &webConfig{path: path}
	content, err := os.ReadFile(path)
	if err != nil {
		c.faultf(nil, "", "%v; %s", withoutPath(err), fileHint(err, "name the file with --web.config.file"))
		return c.faults
	}
	var decoded toolkit.Config
	if !c.decode(content, &decoded) {
		return c.faults
	}
	c.checkUsers()
	if decoded.TLSConfig.IsEnabled() {
		c.checkTLS(decoded.TLSConfig, withoutKey)
	}
	if len(c.faults) == 0 && !withoutKey && toolkit.Validate(path) != nil {
		key := ""
		if len(decoded.HTTPConfig.Header) > 0 {
			key = "http_server_config.headers"
		}
		c.faultAt(key, "has a header or a value that is not supported; %s", webDocumentation)
	}
	return c.faults
}

func (c *webConfig) faultf(n *yaml.Node, key, format string, args ...any) {
	where := c.path
	if n != nil && n.Line > 0 {
		where = atLine(filepath.Base(c.path), n)
	}
	c.faults = append(c.faults, config.Fault{Where: where, Key: key, Message: fmt.Sprintf(format, args...)})
}

// faultAt adds an error about a key, at the line of its value. If the key is missing, the line is that of its nearest parent.
func (c *webConfig) faultAt(key, format string, args ...any) {
	path := strings.Split(key, ".")
	var n *yaml.Node
	for ; n == nil && len(path) > 0; path = path[:len(path)-1] {
		n = nodeAt(&c.doc, path...)
	}
	c.faultf(n, key, format, args...)
}

// withoutPath cuts the path from an error of the file system, for messages that begin with the path.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// fileHint says what to do about a file that cannot be read.
func fileHint(err error, missing string) string {
	if errors.Is(err, fs.ErrPermission) {
		return "give the exporter's user the right to read it"
	}
	return missing
}

// decode parses the file strictly, as the toolkit does, and reports whether its values can be checked. Of an error it uses only the
// line.
func (c *webConfig) decode(content []byte, into *toolkit.Config) bool {
	atLines := func(texts []string, format string, args ...any) {
		for _, text := range texts {
			n := &yaml.Node{}
			if line := regexp.MustCompile(`line (\d+)`).FindStringSubmatch(text); line != nil {
				fmt.Sscan(line[1], &n.Line) //nolint:errcheck,gosec // too many digits leave it 0
			}
			c.faultf(n, "", format, args...)
		}
	}
	if err := yaml.Unmarshal(content, &c.doc); err != nil {
		atLines([]string{err.Error()}, "is not valid YAML; indent with spaces, not with tabs, and quote values with special characters")
		return false
	}
	strict := yaml.NewDecoder(bytes.NewReader(content))
	strict.KnownFields(true)
	err := strict.Decode(into)
	if typeError, ok := errors.AsType[*yaml.TypeError](err); ok {
		atLines(typeError.Errors, "has an unknown key, a duplicate key or a value of the wrong type; %s", webDocumentation)
	} else if err != nil && !errors.Is(err, io.EOF) {
		c.faultAt("tls_server_config", "has an unknown TLS version, cipher or curve; %s", webDocumentation)
	}
	return len(c.faults) == 0
}

func (c *webConfig) checkUsers() {
	users := nodeAt(&c.doc, "basic_auth_users")
	if users == nil || users.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(users.Content); i += 2 {
		name, hash := users.Content[i], users.Content[i+1]
		if hash.Kind == yaml.AliasNode {
			hash = hash.Alias
		}
		if bcryptHash.MatchString(hash.Value) {
			continue
		}
		key := "basic_auth_users." + name.Value
		if bcryptHash.MatchString(name.Value) { // name and hash are swapped
			key = "basic_auth_users"
		}
		c.faultf(name, key, "is not a bcrypt hash; write the output of htpasswd -nBC 10 '' | tr -d ':\\n', which asks for the password")
	}
}

// clientAuthTypes are the policies for clients' certificates. The toolkit also accepts "" and the older name RequireClientCert.
var clientAuthTypes = []string{
	"RequireAndVerifyClientCert", "VerifyClientCertIfGiven", "RequireAnyClientCert", "RequestClientCert", "NoClientCert",
}

func (c *webConfig) checkTLS(s toolkit.TLSConfig, withoutKey bool) {
	s.SetDirectory(filepath.Dir(c.path))
	cert := c.readPEM("cert_file", s.TLSCertPath, s.TLSCert, true)
	c.readPEM("client_ca_file", s.ClientCAs, s.ClientCAsText, true)
	var key []byte
	if !withoutKey {
		key = c.readPEM("key_file", s.TLSKeyPath, string(s.TLSKey), false)
	}
	switch {
	case len(c.faults) > 0:
		return
	case s.TLSCertPath == "" && s.TLSCert == "":
		c.faultAt("tls_server_config", "cert_file is missing; set it to the path of the certificate, and key_file to that of its key")
	case s.TLSKeyPath == "" && s.TLSKey == "":
		c.faultAt("tls_server_config", "key_file is missing; set it to the path of the certificate's key")
	case s.ClientAuth != "" && s.ClientAuth != "RequireClientCert" && !slices.Contains(clientAuthTypes, s.ClientAuth):
		c.faultAt("tls_server_config.client_auth_type", "is unknown; set one of %s", strings.Join(clientAuthTypes, ", "))
	case (s.ClientCAs != "" || s.ClientCAsText != "") && (s.ClientAuth == "" || s.ClientAuth == "NoClientCert"):
		c.faultAt("tls_server_config.client_ca_file",
			"has no effect, because clients are not asked for a certificate; add client_auth_type: RequireAndVerifyClientCert")
	case !withoutKey:
		if _, err := tls.X509KeyPair(cert, key); err != nil {
			c.faultAt("tls_server_config.key_file",
				"is not the key of the first certificate in cert_file; write that key as PEM, without a password")
		}
	}
}

// readPEM returns the value of a key: the text, or the content of the file at path. certs requires it to contain certificates.
func (c *webConfig) readPEM(key, path, text string, certs bool) []byte {
	key = "tls_server_config." + key
	content := []byte(text)
	if path != "" {
		var err error
		if content, err = os.ReadFile(path); err != nil {
			c.faultAt(key, "%s: %v; %s", path, withoutPath(err),
				fileHint(err, "put the file there, or correct the path, which is relative to the directory of "+filepath.Base(c.path)))
			return nil
		}
	}
	if certs && len(content)+len(path) > 0 && !x509.NewCertPool().AppendCertsFromPEM(content) {
		c.faultAt(key, "%s has no readable certificate; write it as PEM", cmp.Or(path, "the text"))
	}
	return content
}
