package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/setup"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// InitOptions are the flags of init.
type InitOptions struct {
	// File is the path of the configuration to write.
	File string
	// Project is the Compose project of the stack, Domain the XMPP server's virtual host; "" to find them.
	Project, Domain string
	// look changes where to look, and sockets is the directory of engines' sockets, in tests that must not depend on this machine.
	look    func(*setup.Options)
	sockets string
}

// initTime bounds the whole of init.
const initTime = 55 * time.Second

// The usual places of the state file and of Docker's data.
const (
	usualStateFile = "/var/lib/chatstack_exporter/state.json"
	dockerData     = "/var/lib/docker"
)

// errNothingFound is returned if there is nothing to write a configuration from.
var errNothingFound = errors.New("no service of a chat stack was found: set DOCKER_HOST to the engine's address, " +
	"run init on the machine of the stack, or write the file by hand")

// Init looks around, writes a new configuration, and says on w what it found. It overwrites no file and only reads from others. The
// results are those of Check with the new file.
func Init(ctx context.Context, w io.Writer, o Options, flags InitOptions) ([]CheckResult, error) {
	ctx, cancel := context.WithTimeout(ctx, initTime)
	defer cancel()
	if err := mayCreate(flags.File); err != nil {
		return nil, err
	}
	looked, err := o.lookOptions(flags)
	if err != nil {
		return nil, err
	}
	facts, err := setup.Look(ctx, looked)
	if err != nil {
		return nil, err
	}
	result := setup.Write(facts)
	for _, line := range result.Found {
		fmt.Fprintln(w, line) //nolint:errcheck // the file matters more
	}
	if facts.Engine == "" && len(facts.Answers) == 0 {
		return nil, errNothingFound
	}
	written := o
	written.ConfigFile, written.configContent = flags.File, result.YAML
	if _, err := LoadConfig(written); err != nil {
		return nil, fmt.Errorf("nothing was written: %w", err)
	}
	if err := createFile(flags.File, result.YAML); err != nil {
		return nil, err
	}
	//nolint:errcheck // as above
	fmt.Fprintf(w, "\nWrote %s: %s, %d more as comments to decide. Checking it:\n\n",
		absolute(flags.File), wording.Count(result.Targets, "target"), result.Open)
	o.ConfigFile = flags.File
	checked, err := Check(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("%s was written, but checking it failed: %w", flags.File, err)
	}
	return slices.DeleteFunc(checked, func(r CheckResult) bool { return r.State == notConfigured }), nil
}

// lookOptions says where to look. The engine is the first that is found.
func (o Options) lookOptions(flags InitOptions) (setup.Options, error) {
	looked := setup.Options{
		Project:   flags.Project,
		Domain:    flags.Domain,
		Lookup:    o.Lookup,
		Directory: ".",
		Volumes:   []string{dockerData, "/"},
		Dial:      (&net.Dialer{}).DialContext,
	}
	if dir, err := os.Getwd(); err == nil {
		looked.Directory = dir
	}
	if _, err := state.Inspect(usualStateFile); err == nil || madeBySystemd(filepath.Dir(usualStateFile), o) {
		looked.StateFile = usualStateFile
	}
	places := setup.Places{Lookup: o.Lookup, Socket: o.DockerSocket, Run: cmp.Or(flags.sockets, "/run")}
	hosts, problem := places.Engines()
	if problem != nil {
		looked.Problem = problem.Error()
	}
	looked.NoEngine = cmp.Or(looked.Problem, places.Looked())
	if len(hosts) > 1 {
		looked.OtherEngines = hosts[1:]
	}
	engine := o
	engine.ConfigFile, engine.configContent, engine.Environ = "", []byte("targets:\n  - kind: docker\n"), nil
	engine.Lookup = func(name string) (string, bool) {
		if name == "DOCKER_HOST" && len(hosts) > 0 {
			return hosts[0], true
		}
		if !strings.HasPrefix(name, "DOCKER_") && name != "HOME" {
			return "", false
		}
		return o.Lookup(name)
	}
	cfg, err := LoadConfig(engine)
	if err != nil {
		return looked, err
	}
	for _, settings := range cfg.Targets {
		if d, ok := settings.(*collectors.Docker); ok {
			looked.Engine, err = d.Client(int64(cfg.Limits.MetricsBody), "chatstack_exporter/"+version.Version)
		}
	}
	if flags.look != nil {
		flags.look(&looked)
	}
	return looked, err
}

// mayCreate returns an error if there is something at path, or no directory for it.
func mayCreate(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s is already there, and init overwrites nothing: move it away, or name another file with --config.file", path)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%w; name a file in a directory that you can write to with --config.file", err)
	}
	return nil
}

// createFile writes a file that was not there before.
func createFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return mayCreate(path)
	}
	if err != nil {
		return fmt.Errorf("%w; name a file in a directory that you can write to with --config.file", err)
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
