package app

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	promconfig "github.com/prometheus/common/config"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// webConfigInterval is how often a running exporter looks at the file of --web.config.file: whoever asks reads it anew, so a
// fault in it counts at once.
const webConfigInterval = 10 * time.Second

// watchWebConfig tells once that the file is broken, and once that it is sound again, until ctx is done. Of TLS that cannot
// be spoken nobody else tells, and who comes with a password sees a bare 500.
func watchWebConfig(ctx context.Context, path string, log *slog.Logger) {
	tick := time.NewTicker(webConfigInterval)
	defer tick.Stop()
	told := ""
	for {
		faults := webFaults(path, false)
		switch {
		case len(faults) > 0 && faults.Error() != told:
			told = faults.Error()
			log.Error("web configuration is broken; who asks this exporter may get no answer until it is mended", "err", faults)
		case len(faults) == 0 && told != "":
			told = ""
			log.Info("web configuration is sound again", "file", path)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// checkWebConfig refuses what the toolkit refuses, in words that say where and what to do. Of what it does not mind the log
// tells later: an exporter that watches is better than none.
func checkWebConfig(path string) error {
	if toolkit.Validate(path) == nil {
		return nil
	}
	faults := webFaults(path, false)
	if len(faults) == 0 { // mended meanwhile
		return nil
	}
	return fmt.Errorf("read web configuration %s:\n%w", path, faults)
}

// bcryptHash is the shape of a password's hash.
var bcryptHash = regexp.MustCompile(`^\$2[a-z]?\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}$`)

// webConfig is one file of --web.config.file as it is looked through.
type webConfig struct {
	path    string
	doc     yaml.Node
	decoded toolkit.Config
	faults  config.Faults
}

// webFaults are all faults in a file of --web.config.file, each with its line and what to do. None of them repeats a value,
// which may be a hash or a key. withoutKey leaves the file of the key alone.
func webFaults(path string, withoutKey bool) config.Faults {
	c := &webConfig{path: path}
	content, err := os.ReadFile(path)
	if err != nil {
		c.faultf(nil, "", "%v; %s", cause(err), fileHint(err, "name the file with --web.config.file"))
		return c.faults
	}
	if !c.decode(content) {
		return c.faults
	}
	c.checkUsers()
	c.checkTLS(withoutKey)
	if len(c.faults) == 0 && !withoutKey {
		// What is left are headers. Other texts might repeat a value.
		if err := toolkit.Validate(path); err != nil {
			text := err.Error()
			if !strings.HasPrefix(text, "HTTP header") && !strings.HasPrefix(text, "invalid value for") {
				text = "cannot be read"
			}
			c.faultf(nodeAt(&c.doc, "http_server_config"), "", "%s; %s", text, webDocumentation)
		}
	}
	return c.faults
}

const webDocumentation = "https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md lists what may stand there"

func (c *webConfig) faultf(n *yaml.Node, key, format string, args ...any) {
	where := c.path
	if n != nil {
		where = atLine(filepath.Base(c.path), n)
	}
	c.faults = append(c.faults, config.Fault{Where: where, Key: key, Message: fmt.Sprintf(format, args...)})
}

// cause is an error of the file system without the path, which stands before it already.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// fileHint is what to do about a file that cannot be read.
func fileHint(err error, missing string) string {
	if errors.Is(err, fs.ErrPermission) {
		return "give the exporter's user the right to read it"
	}
	return missing
}

// decode reads the file as the toolkit does, strictly, and reports whether its values can be looked at.
func (c *webConfig) decode(content []byte) bool {
	if err := yaml.Unmarshal(content, &c.doc); err != nil {
		line := regexp.MustCompile(`line (\d+)`).FindStringSubmatch(err.Error())
		n := &yaml.Node{}
		if line != nil {
			fmt.Sscan(line[1], &n.Line) //nolint:errcheck,gosec // digits; too many are no line
		}
		c.faultf(n, "", "is not YAML; indent with spaces, never with tabs, and put values with special characters into quotes")
		return false
	}
	strict := yaml.NewDecoder(bytes.NewReader(content))
	strict.KnownFields(true)
	err := strict.Decode(&c.decoded)
	if wrong, ok := errors.AsType[*yaml.TypeError](err); ok {
		for _, text := range wrong.Errors {
			c.wrongType(text)
		}
	} else if err != nil && !errors.Is(err, io.EOF) {
		c.wrongName(err.Error())
	}
	return len(c.faults) == 0
}

var (
	unknownField = regexp.MustCompile(`^line (\d+): field (.*) not found in type web\.(\w+)$`)
	wrongTyped   = regexp.MustCompile(`^line (\d+): `)
)

// wrongType words one fault that the YAML reader found, without the value that it repeats.
func (c *webConfig) wrongType(text string) {
	n := &yaml.Node{}
	if m := unknownField.FindStringSubmatch(text); m != nil {
		fmt.Sscan(m[1], &n.Line) //nolint:errcheck,gosec // digits
		key, known := m[2], keysOf(m[3])
		if config.MayBeSecret(key, known) {
			key = ""
		}
		c.faultf(n, key, "unknown key; there are %s", strings.Join(known, ", "))
		return
	}
	m := wrongTyped.FindStringSubmatch(text)
	if m != nil {
		fmt.Sscan(m[1], &n.Line) //nolint:errcheck,gosec // digits
	}
	c.faultf(n, "", "has a value of the wrong kind, or a key twice; %s", webDocumentation)
}

// keysOf are the keys of one of the toolkit's structs.
func keysOf(structure string) []string {
	var keys []string
	for _, t := range []reflect.Type{
		reflect.TypeFor[toolkit.Config](), reflect.TypeFor[toolkit.TLSConfig](),
		reflect.TypeFor[toolkit.HTTPConfig](), reflect.TypeFor[toolkit.RateLimiterConfig](),
	} {
		for field := range t.Fields() {
			if key, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); t.Name() == structure {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// wrongName words that a list of names, such as those of ciphers, has one that is none: the toolkit says so without a line.
func (c *webConfig) wrongName(text string) {
	what, name, _ := strings.Cut(text, ": ")
	var find func(*yaml.Node) *yaml.Node
	find = func(n *yaml.Node) *yaml.Node {
		if n.Kind == yaml.ScalarNode && n.Value == name {
			return n
		}
		for _, child := range n.Content {
			if found := find(child); found != nil {
				return found
			}
		}
		return nil
	}
	c.faultf(find(&c.doc), "tls_server_config", "%s; %s", what, webDocumentation)
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
		if !bcryptHash.MatchString(hash.Value) {
			c.faultf(name, "basic_auth_users."+name.Value, "is no bcrypt hash; write what htpasswd -nBC 10 '' | tr -d ':\\n' prints, which asks for the password")
		}
	}
}

// tlsFaults are what the toolkit says about TLS, the key that is meant, and what to do.
var tlsFaults = []struct{ text, key, todo string }{
	{"missing one of cert or cert_file", "", "cert_file names the certificate; TLS needs it and its key_file"},
	{"missing one of key or key_file", "", "key_file names the key of the certificate; TLS needs both"},
	{"does not match public key", "key_file", "it must be the key of the first certificate in cert_file"},
	{"found a certificate rather than a key", "key_file", "it must hold the certificate's key as PEM"},
	{"in key input", "key_file", "it must hold the certificate's key as PEM, without a password"},
	{"failed to parse private key", "key_file", "it must hold the certificate's key as PEM, without a password"},
	{"failed to load X509KeyPair", "cert_file", "it must hold the certificate as PEM, the exporter's own first, then those that signed it"},
	{"invalid ClientAuth", "client_auth_type", "write RequireAndVerifyClientCert, VerifyClientCertIfGiven, RequireAnyClientCert, RequestClientCert or NoClientCert"},
	{"without a Client Auth Policy", "client_ca_file", "add client_auth_type: RequireAndVerifyClientCert"},
}

func (c *webConfig) checkTLS(withoutKey bool) {
	tls := c.decoded.TLSConfig
	if !tls.IsEnabled() {
		return
	}
	tls.SetDirectory(filepath.Dir(c.path))
	for _, file := range []struct {
		key, path string
		certs     bool
	}{
		{"cert_file", tls.TLSCertPath, true},
		{"key_file", tls.TLSKeyPath, false},
		{"client_ca_file", tls.ClientCAs, true},
	} {
		if file.path != "" && (file.certs || !withoutKey) {
			c.checkFile(file.key, file.path, file.certs)
		}
	}
	if len(c.faults) > 0 {
		return
	}
	if withoutKey && (tls.TLSCertPath != "" || tls.TLSCert != "") && (tls.TLSKeyPath != "" || tls.TLSKey != "") {
		// The rest can be looked at with any pair.
		tls.TLSCertPath, tls.TLSKeyPath = "", ""
		if err := inventPair(&tls); err != nil {
			c.faultf(nil, "tls_server_config", "%v", err)
			return
		}
	}
	_, err := toolkit.ConfigToTLSConfig(&tls)
	if err == nil {
		return
	}
	for _, f := range tlsFaults {
		if strings.Contains(err.Error(), f.text) {
			path := []string{"tls_server_config"}
			if f.key != "" {
				path = append(path, f.key)
			}
			c.faultf(nodeAt(&c.doc, path...), strings.Join(path, "."), "%s; %s", f.text, f.todo)
			return
		}
	}
	c.faultf(nodeAt(&c.doc, "tls_server_config"), "tls_server_config", "%v; %s", err, webDocumentation)
}

// checkFile holds that a file that the configuration names can be read, and has certificates if it is to.
func (c *webConfig) checkFile(key, path string, certs bool) {
	n, key := nodeAt(&c.doc, "tls_server_config", key), "tls_server_config."+key
	content, err := os.ReadFile(path)
	if err != nil {
		c.faultf(n, key, "%s: %v; %s", path, cause(err), fileHint(err, "put the file there, or correct the path: relative ones begin where "+filepath.Base(c.path)+" lies"))
		return
	}
	if certs && !x509.NewCertPool().AppendCertsFromPEM(content) {
		c.faultf(n, key, "%s holds no certificate that can be read; put it there as PEM", path)
	}
}

// inventPair fills in a certificate and its key that nobody has.
func inventPair(c *toolkit.TLSConfig) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	c.TLSCert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	c.TLSKey = promconfig.Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	return nil
}
