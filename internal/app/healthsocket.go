package app

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// RuntimeDirectory returns the directory that the exporter and healthcheck share: the service manager's, or else the user's own in
// /dev/shm, which is writable even if the root file system is read-only.
func RuntimeDirectory(lookup func(string) (string, bool)) string {
	if named, _ := lookup("RUNTIME_DIRECTORY"); named != "" {
		first, _, _ := strings.Cut(named, ":")
		return first
	}
	shared := "/dev/shm"
	if _, err := os.Stat(shared); err != nil {
		shared = os.TempDir()
	}
	return filepath.Join(shared, "chatstack_exporter-"+strconv.Itoa(os.Getuid()))
}

// checkPrivate returns an error for a directory that another user may have created in a shared one.
func checkPrivate(dir string) error {
	const shared = 0o022
	if parent, err := os.Stat(filepath.Dir(dir)); err != nil || parent.Mode()&shared == 0 {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Getuid() || !info.IsDir() || info.Mode()&shared != 0 {
		return fmt.Errorf("%s is not a directory that only this user may write to; remove it, or name another in RUNTIME_DIRECTORY", dir)
	}
	return nil
}

// healthSocket returns the path of the socket of an exporter with this --web.listen-address. If the address includes localhost, the path
// depends only on the port.
func healthSocket(o Options, port string) (string, error) {
	host, wanted, err := net.SplitHostPort((*o.Web.WebListenAddresses)[0])
	if err != nil {
		return "", fmt.Errorf("read --web.listen-address: %w", err)
	}
	if port == "" {
		port = wanted
	}
	ip := net.ParseIP(host)
	// Another exporter may listen on the same port of another loopback address.
	local := host == "" || host == "localhost" || ip.IsUnspecified() || ip.Equal(net.IPv4(127, 0, 0, 1)) || ip.Equal(net.IPv6loopback)
	if !local {
		port = strings.NewReplacer("/", "_", ":", "_").Replace(host) + "-" + port
	}
	return filepath.Join(o.RuntimeDirectory, port+".sock"), nil
}

// healthServer answers healthcheck over a Unix socket that only this user can open. Methods of nil do nothing.
type healthServer struct {
	listener net.Listener
	server   *http.Server
}

// newHealthServer listens on the socket; serve answers.
func newHealthServer(src web.Liveness, o Options, listeners []net.Listener) (*healthServer, error) {
	if o.RuntimeDirectory == "" {
		return nil, nil //nolint:nilnil // see healthServer
	}
	port := ""
	if len(listeners) > 0 {
		port = portOf(listeners[0].Addr())
	}
	path, err := healthSocket(o, port)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(o.RuntimeDirectory, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := checkPrivate(o.RuntimeDirectory); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path) //nolint:noctx // lives as long as the process
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &healthServer{l, &http.Server{
		Handler:      web.Healthy(src),
		ReadTimeout:  healthPatience,
		WriteTimeout: healthPatience,
		ErrorLog:     slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}}, nil
}

const healthPatience = 5 * time.Second

// removeStale removes the socket of a killed process.
func removeStale(path string) error {
	conn, err := net.DialTimeout("unix", path, healthPatience) //nolint:noctx // has a bound
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("another exporter answers at %s; give each a RUNTIME_DIRECTORY of its own", path), conn.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return nil // net.Listen reports other errors
}

func (h *healthServer) serve() {
	if h != nil {
		h.server.Serve(h.listener) //nolint:errcheck,gosec // it ends with close
	}
}

func (h *healthServer) close() {
	if h != nil {
		h.server.Close()   //nolint:errcheck,gosec // whoever asks sees its end
		h.listener.Close() //nolint:errcheck,gosec // removes the socket, also where nothing was served
	}
}
