package app

import (
	"context"
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

// RuntimeDirectory returns the directory of the socket that the exporter shares with the commands of its user: the service manager's, or
// else the user's own in /dev/shm, which is writable even if the root file system is read-only.
func RuntimeDirectory(lookup func(string) (string, bool)) string {
	if named, _ := lookup("RUNTIME_DIRECTORY"); named != "" {
		first, _, _ := strings.Cut(named, ":")
		return first
	}
	return ownDirectories() + strconv.Itoa(os.Getuid())
}

// ownDirectories is how the paths of users' own directories begin.
func ownDirectories() string {
	shared := "/dev/shm"
	if _, err := os.Stat(shared); err != nil {
		shared = os.TempDir()
	}
	return filepath.Join(shared, "chatstack_exporter-")
}

// OtherRuntimeDirectories returns where root finds the exporters of other users: that of the service in deploy/systemd, and those of users.
// Others find none, and neither does root with RUNTIME_DIRECTORY.
func OtherRuntimeDirectories(lookup func(string) (string, bool)) []string {
	if named, _ := lookup("RUNTIME_DIRECTORY"); named != "" || os.Getuid() != 0 {
		return nil
	}
	found, _ := filepath.Glob(ownDirectories() + "*")
	return append(found, "/run/chatstack_exporter")
}

// checkPrivate returns an error for a directory that another user than its owner may have created in a shared one.
func checkPrivate(dir string, owner int) error {
	const shared = 0o022
	if parent, err := os.Stat(filepath.Dir(dir)); err != nil || parent.Mode()&shared == 0 {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != owner || !info.IsDir() || info.Mode()&shared != 0 {
		return fmt.Errorf("%s is not a directory that only its user may write to; remove it, or name another in RUNTIME_DIRECTORY", dir)
	}
	return nil
}

// socketIn returns the path of the socket in a directory of an exporter with this --web.listen-address. If the address includes localhost,
// the path depends only on the port.
func socketIn(dir string, o Options, port string) (string, error) {
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
	return filepath.Join(dir, port+".sock"), nil
}

// localServer answers the commands of this user and root over a Unix socket that nobody else can open. Methods of nil do nothing.
type localServer struct {
	listener net.Listener
	server   *http.Server
}

// privateSocket makes sockets that only this user can open. On Linux, the file has the mode of the socket from its beginning, so nobody
// else can connect before newLocalServer changes the mode of the file.
var privateSocket = net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { syscall.Fchmod(int(fd), socketMode) }) //nolint:errcheck,gosec // see above
}}

const socketMode = 0o600

// newLocalServer listens on the socket; serve answers.
func newLocalServer(h http.Handler, o Options, listeners []net.Listener) (*localServer, error) {
	if o.RuntimeDirectory == "" {
		return nil, nil //nolint:nilnil // see localServer
	}
	port := ""
	if len(listeners) > 0 {
		port = portOf(listeners[0].Addr())
	}
	path, err := socketIn(o.RuntimeDirectory, o, port)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(o.RuntimeDirectory, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := checkPrivate(o.RuntimeDirectory, os.Getuid()); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := privateSocket.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &localServer{l, &http.Server{
		Handler:        h,
		ReadTimeout:    10 * time.Second,
		WriteTimeout:   30 * time.Second, // a change waits for the disk
		MaxHeaderBytes: maxHeader,
		ConnContext:    func(ctx context.Context, _ net.Conn) context.Context { return web.AsLocal(ctx) },
		ErrorLog:       slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
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

func (h *localServer) serve() {
	if h != nil {
		h.server.Serve(h.listener) //nolint:errcheck,gosec // it ends with close
	}
}

func (h *localServer) close() {
	if h != nil {
		h.server.Close()   //nolint:errcheck,gosec // whoever asks sees its end
		h.listener.Close() //nolint:errcheck,gosec // removes the socket, also where nothing was served
	}
}
