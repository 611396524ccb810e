package collectors

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

var (
	volumeUsedDesc = readDesc("chatstack_volume_used_ratio",
		"Used share of the volume from 0 to 1, as in df: space reserved for root does not count.", "volume")
	volumeSizeDesc = readDesc("chatstack_volume_size_bytes",
		"Size of the volume's file system in bytes, as in df.", "volume")
	volumeFreeDesc = readDesc("chatstack_volume_free_bytes",
		"Free bytes on the volume, including those reserved for root.", "volume")
	volumeAvailableDesc = readDesc("chatstack_volume_available_bytes",
		"Bytes that users other than root can still write to the volume.", "volume")
	volumeInodesDesc = readDesc("chatstack_volume_inodes",
		"Inodes of the volume. Absent if its file system has no fixed number of them.", "volume")
	volumeInodesFreeDesc = readDesc("chatstack_volume_inodes_free",
		"Free inodes of the volume. Absent if its file system has no fixed number of them.", "volume")
	volumeInodesUsedDesc = readDesc("chatstack_volume_inodes_used_ratio",
		"Used share of the volume's inodes, from 0 to 1. Absent if its file system has no fixed number of them.", "volume")
	volumeReadOnlyDesc = readDesc("chatstack_volume_read_only",
		"Whether the volume's file system is read-only, whatever the options of the mount. Absent if the mount is unknown.", "volume")
	volumeErrorDesc = readDesc("chatstack_volume_error",
		"Whether the volume cannot be read, for example because its mount hangs.", "volume")
)

// Volume is the block of one data volume. Its name is the label volume.
type Volume struct {
	config.Target `yaml:",inline"`
	// Path is any path on the volume, absolute.
	Path string `yaml:"path"`
	// Mountpoint requires a mount at Path, so that the disk below is not mistaken for a volume that is not mounted.
	Mountpoint bool `yaml:"mountpoint"`
	// ReadOnly says that the file system is meant to be read-only.
	ReadOnly bool `yaml:"read_only"`
}

// Configured implements config.Settings.
func (s *Volume) Configured() bool { return s.Path != "" }

// Place implements config.Settings.
func (s *Volume) Place() string { return s.Path }

// HostName implements config.Settings.
func (s *Volume) HostName() string { return "" }

// Warnings implements config.Settings.
func (s *Volume) Warnings() []string { return nil }

// Check implements config.Settings.
func (s *Volume) Check(r *config.Report) {
	if !filepath.IsAbs(s.Path) {
		r.Faultf("path", "is %q, must be an absolute path such as /var/lib/docker", s.Path)
	}
}

// diskUsage is what a file system reports.
type diskUsage struct {
	// size, free and available are in bytes. As in df, available is negative if users took space reserved for root.
	size, free, available float64
	// inodes is 0 if the file system has no fixed number of them.
	inodes, inodesFree float64
	// mounted reports whether path is a mount point, unless mountErr says why that is unknown.
	mounted  bool
	mountErr error
	// readOnly is whether the file system is read-only; nil if that is unknown.
	readOnly *bool
}

// measurement is one call to the kernel, which may never return. found and err are set once done is closed.
type measurement[T any] struct {
	begun time.Time
	done  chan struct{}
	found T
	err   error
}

// measurements are the running calls to the kernel, by path. A call on a hung mount cannot be cancelled. So there is at most
// one per path, even after a reload, and a hung mount costs only one goroutine.
type measurements[T any] struct {
	// measure asks the kernel. It may block for ever.
	measure func(path string) (T, error)

	mu       sync.Mutex
	underway map[string]*measurement[T]
}

func newMeasurements[T any](measure func(path string) (T, error)) *measurements[T] {
	return &measurements[T]{measure: measure, underway: map[string]*measurement[T]{}}
}

// await returns the result of a measurement, or an error if the kernel does not answer in time. call says what is asked of it.
func (m *measurements[T]) await(ctx context.Context, call, path string) (T, error) {
	running := m.begin(path)
	select {
	case <-running.done:
	case <-ctx.Done():
		select {
		case <-running.done: // at the last moment
		default:
			var none T
			return none, failure.Errorf(failure.Timeout, "%s %s: no answer since %s: %w",
				call, path, time.Since(running.begun).Round(time.Second), ctx.Err()).
				WithHint("the mount hangs, and so does every program that uses it: check the server or disk behind it; " +
					"probes succeed again once the kernel answers")
		}
	}
	return running.found, fileSystemError(call, path, running.err)
}

// begin starts a measurement, or joins the running one.
func (m *measurements[T]) begin(path string) *measurement[T] {
	m.mu.Lock()
	defer m.mu.Unlock()
	if running, ok := m.underway[path]; ok {
		return running
	}
	begun := &measurement[T]{begun: time.Now(), done: make(chan struct{})}
	m.underway[path] = begun
	go func() {
		defer close(begun.done)
		begun.found, begun.err = m.measure(path)
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.underway, path)
	}()
	return begun
}

// volume reads one data volume.
type volume struct {
	*Volume
	path string
	all  *measurements[diskUsage]
}

// newVolume returns what makes a collector of a volume's settings. The collectors share the measurements.
func newVolume(all *measurements[diskUsage]) func(*Volume, Deps) (Collector, error) {
	return func(s *Volume, _ Deps) (Collector, error) {
		return &volume{s, filepath.Clean(s.Path), all}, nil
	}
}

// Collect implements Collector.
func (c *volume) Collect(ctx context.Context, b *Batch) error {
	u, err := c.usage(ctx)
	b.Kept.Gauge(volumeErrorDesc, boolValue(err != nil), c.Name)
	if err != nil {
		return err
	}
	if u.size > 0 {
		b.Gauge(volumeSizeDesc, u.size, c.Name)
		b.Gauge(volumeFreeDesc, u.free, c.Name)
		b.Gauge(volumeAvailableDesc, u.available, c.Name)
		b.Figure(Figure{Name: "available", Value: u.available, Unit: "bytes"})
		if used := u.size - u.free; used+u.available > 0 {
			b.Gauge(volumeUsedDesc, used/(used+u.available), c.Name)
			b.conditions = append(b.conditions, health.Condition{Alert: health.AlertVolumeUsage, Used: used / (used + u.available)})
		}
	} else {
		b.Note("the file system does not report its size")
	}
	if u.inodes > 0 {
		b.Gauge(volumeInodesDesc, u.inodes, c.Name)
		b.Gauge(volumeInodesFreeDesc, u.inodesFree, c.Name)
		used := 1 - u.inodesFree/u.inodes
		b.Gauge(volumeInodesUsedDesc, used, c.Name)
		b.conditions = append(b.conditions, health.Condition{Alert: health.AlertVolumeInodes, Used: used})
	}
	if u.readOnly != nil {
		b.Gauge(volumeReadOnlyDesc, boolValue(*u.readOnly), c.Name)
		b.Condition(health.AlertVolumeReadOnly, "", *u.readOnly && !c.ReadOnly)
	}
	return nil
}

func (c *volume) usage(ctx context.Context) (diskUsage, error) {
	u, err := c.all.await(ctx, "statfs", c.path)
	switch {
	case err != nil:
		return diskUsage{}, err
	case c.Mountpoint && u.mountErr != nil:
		return diskUsage{}, fmt.Errorf("find mount of %s: %w", c.path, u.mountErr)
	case c.Mountpoint && !u.mounted:
		return diskUsage{}, failure.Errorf(failure.Mismatch, "find mount of %s: nothing is mounted there", c.path).
			WithHint("the volume is not mounted, so writes go to the disk below it: mount it, or set mountpoint to false")
	}
	return u, nil
}

// fileSystemError classifies the kernel's error about a path, if there is one.
func fileSystemError(call, path string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s %s: %w", call, path, err)
	for _, row := range []struct {
		cause  error
		reason failure.Reason
		hint   string
	}{
		{
			syscall.ENOENT,
			failure.NotFound,
			"there is no such path: correct it, or mount the volume into the exporter's container (read-only is enough)",
		},
		{syscall.ENOTDIR, failure.NotFound, "a part of the path is a file: correct it"},
		{
			syscall.EACCES,
			failure.Forbidden,
			"this user may not enter a directory on the path: run the exporter as a user or group that may, or choose a path above it",
		},
		{
			syscall.EPERM,
			failure.Forbidden,
			"the exporter's security profile forbids this call: check its seccomp, AppArmor or SELinux settings",
		},
		{syscall.ESTALE, failure.Closed, "the mounted directory no longer exists on its server: mount it again"},
		{syscall.ENOTCONN, failure.Closed, "the program that serves the mount has exited: mount it again"},
		{syscall.EIO, failure.Closed, "the disk or the server behind the mount fails: read the kernel's log"},
	} {
		if errors.Is(err, row.cause) {
			return failure.Errorf(row.reason, "%w", err).WithHint(row.hint)
		}
	}
	return err
}
