package collectors

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// volumeProbe is a collector of the volume data at /data.
func volumeProbe(t *testing.T, all *measurements[diskUsage], mountpoint bool) Collector {
	t.Helper()
	s := &Volume{}
	s.Name, s.Path, s.Mountpoint = "data", "/data", mountpoint
	c, err := newVolume(all)(s, deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func measured(u diskUsage, err error) *measurements[diskUsage] {
	return newMeasurements(func(string) (diskUsage, error) { return u, err })
}

func TestVolumeShapes(t *testing.T) {
	full := diskUsage{
		size:       1000,
		free:       300,
		available:  250,
		inodes:     50,
		inodesFree: 7,
		mounted:    true,
	}
	noInodes, noSize := full, full
	noInodes.inodes, noInodes.inodesFree = 0, 0
	noSize.size, noSize.free, noSize.available = 0, 0, 0
	overdrawn := full
	overdrawn.available = -50
	writable, readOnly := full, full
	writable.readOnly, readOnly.readOnly = new(bool), new(bool)
	*readOnly.readOnly = true
	elsewhere := full
	elsewhere.mounted = false
	for name, c := range map[string]struct {
		usage      diskUsage
		err        error
		mountpoint bool
		want       failure.Reason
	}{
		"usage":         {usage: full},
		"mounted":       {usage: full, mountpoint: true},
		"writable":      {usage: writable},
		"read_only":     {usage: readOnly},
		"no_inodes":     {usage: noInodes},
		"no_size":       {usage: noSize},
		"overdrawn":     {usage: overdrawn},
		"not_asked":     {usage: elsewhere},
		"not_mounted":   {usage: elsewhere, mountpoint: true, want: failure.Mismatch},
		"mount_unknown": {usage: diskUsage{size: 1, mountErr: errors.New("no /proc")}, mountpoint: true, want: failure.Internal},
		"missing":       {err: syscall.ENOENT, want: failure.NotFound},
		"file_in_path":  {err: syscall.ENOTDIR, want: failure.NotFound},
		"permission":    {err: syscall.EACCES, want: failure.Forbidden},
		"not_permitted": {err: syscall.EPERM, want: failure.Forbidden},
		"stale":         {err: syscall.ESTALE, want: failure.Closed},
		"fuse_ended":    {err: syscall.ENOTCONN, want: failure.Closed},
		"disk_error":    {err: syscall.EIO, want: failure.Closed},
		"other":         {err: syscall.ENOSYS, want: failure.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := read(t, volumeProbe(t, measured(c.usage, c.err), c.mountpoint), 10*time.Second)
			if c.want != "" {
				wantReason(t, err, c.want)
				wantListed(t, "volume", c.want)
				goldenFailure(t, "volume/"+name, b, err)
				if !strings.Contains(err.Error(), "/data") {
					t.Errorf("%v does not say of what path", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			goldenPage(t, "volume/"+name, b)
		})
	}
}

// TestHungMountCostsOneGoroutine reads a mount that hangs again and again, also with a collector of its own as after a
// reload: the kernel is asked once, every reading is a timeout, and when the kernel answers at last the next reading is
// a fresh one.
func TestHungMountCostsOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		hang := make(chan struct{})
		all := newMeasurements(func(string) (diskUsage, error) {
			n := asked.Add(1)
			if n == 1 {
				<-hang
			}
			return diskUsage{size: float64(n)}, nil
		})
		for n := range 3 {
			b, err := readFails(t, volumeProbe(t, all, n == 2), failure.Timeout)
			if !strings.Contains(failure.HintOf(err), "hangs") {
				t.Errorf("hint %q", failure.HintOf(err))
			}
			if got, want := string(pageOf(t, b, false)), `chatstack_volume_error{volume="data"} 1`; !strings.Contains(got, want) {
				t.Errorf("page %s lacks %s", got, want)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the kernel was asked %d times while it did not answer", n)
		}
		close(hang)
		synctest.Wait()
		b := readUp(t, volumeProbe(t, all, false))
		page := string(pageOf(t, b, true))
		for _, want := range []string{`chatstack_volume_error{volume="data"} 0`, `chatstack_volume_size_bytes{volume="data"} 2`} {
			if !strings.Contains(page, want) {
				t.Errorf("page %s lacks %s", page, want)
			}
		}
	})
}

// TestHungMountRecoversWithinAReading answers while a reading waits: that reading is good.
func TestHungMountRecoversWithinAReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newMeasurements(func(string) (diskUsage, error) {
			<-time.After(15 * time.Second)
			return diskUsage{size: 1}, nil
		})
		mustFail(t, volumeProbe(t, all, false), failure.Timeout)
		if _, err := read(t, volumeProbe(t, all, false), 10*time.Second); err != nil {
			t.Error(err)
		}
	})
}

// TestOneHungMountHoldsNoOther hangs /hung for ever and reads /data beside it.
func TestOneHungMountHoldsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		all := newMeasurements(func(path string) (diskUsage, error) {
			if path == "/hung" {
				<-hang
			}
			return diskUsage{size: 1}, nil
		})
		all.begin("/hung")
		if _, err := read(t, volumeProbe(t, all, false), time.Second); err != nil {
			t.Error(err)
		}
		close(hang)
	})
}

func TestKernelIsAskedAboutRealPaths(t *testing.T) {
	for name, c := range map[string]struct {
		path       string
		mountpoint bool
		want       failure.Reason
	}{
		"root":      {"/", true, ""},
		"directory": {t.TempDir(), false, ""},
		"no mount":  {t.TempDir(), true, failure.Mismatch},
		"missing":   {t.TempDir() + "/nowhere", false, failure.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Volume{}
			s.Name, s.Path, s.Mountpoint = "data", c.path, c.mountpoint
			probe, err := newVolume(newMeasurements(measureVolume))(s, deps(&memory{}))
			if err != nil {
				t.Fatal(err)
			}
			b, err := read(t, probe, 10*time.Second)
			if c.want != "" {
				wantReason(t, err, c.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if page := string(pageOf(t, b, true)); !strings.Contains(page, "chatstack_volume_available_bytes") {
				t.Errorf("page %s tells no size", page)
			}
		})
	}
	if u, err := measureVolume(t.TempDir()); err != nil || u.size <= 0 || u.free <= 0 {
		t.Errorf("got %+v, %v, want a size", u, err)
	}
	if _, err := measureVolume("/does/not/exist"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestVolumeThatIsMeantToBeReadOnlyIsNoProblem(t *testing.T) {
	for _, c := range []struct{ is, meant, want bool }{
		{true, false, true}, {true, true, false}, {false, false, false}, {false, true, false},
	} {
		s := &Volume{}
		s.Name, s.Path, s.ReadOnly = "data", "/data", c.meant
		probe, err := newVolume(measured(diskUsage{size: 1, readOnly: &c.is}, nil))(s, deps(&memory{}))
		if err != nil {
			t.Fatal(err)
		}
		list := readUp(t, probe).Conditions(nil)
		i := slices.IndexFunc(list, func(h health.Condition) bool { return h.Alert == health.AlertVolumeReadOnly })
		if i < 0 || list[i].Holds != c.want {
			t.Errorf("%+v: the conditions are %+v", c, list)
		}
	}
}

func TestMountsAreReadAsTheKernelWritesThem(t *testing.T) {
	const mounts = `22 28 0:21 / /proc rw,nosuid shared:13 - proc proc rw
28 1 254:1 / / ro,relatime shared:1 - ext4 /dev/vda1 ro,errors=remount-ro
97 28 254:1 /srv/x /data\040of\134mine rw - ext4 /dev/vda1 rw
98 28 254:2 / /mnt/bound ro,relatime master:1 shared:2 - ext4 /dev/vdb rw,errors=remount-ro
99 28 0:50 / /mnt/no\040source rw - tmpfs  ro,size=4096k
100 28 254:3 / /mnt/failed rw - ext4 /dev/vdc rw,emergency_ro
101 28 254:4 / /mnt/stopped rw - ext4 /dev/vdd rw,shutdown
102 28 0:60 / /mnt/layers rw - overlay overlay ro,lowerdir=`
	want := []mount{
		{"22", "/proc", false},
		{"28", "/", true},
		{"97", `/data of\mine`, false},
		{"98", "/mnt/bound", false},
		{"99", "/mnt/no source", true},
		{"100", "/mnt/failed", true},
		{"101", "/mnt/stopped", true},
		{"102", "/mnt/layers", true},
	}
	if got, err := parseMounts(mounts + strings.Repeat("/layer:", 10_000) + "/last\n"); err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, short := range []string{"22 28\n", "22 28 0:21 /\n"} {
		if got, err := parseMounts(short); err == nil {
			t.Errorf("%q: got %v, want an error", short, got)
		}
	}
	if _, _, err := mountOf("/does/not/exist"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a path that is not there: %v, want that it is not there", err)
	}
}
