package state

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

func TestValuesAndRecordsOutliveTheProcess(t *testing.T) {
	j := open(t)
	j.save("plants", []int{1, 2})
	j.save("other", "kept")
	for i := range 10 {
		j.part.add(j.File, i)
		j.part.set(j.File, fmt.Sprint("k", i%3), i)
	}
	must(t, j.Flush())
	j.isKept("written")
	j.end()
	if err := j.Value("late").Save(1); err == nil {
		t.Error("saved into a file that another process may have by now")
	}
	again := openAt(t, j.path)
	if again.notice != "" || again.log.Len() > 0 {
		t.Errorf("notice %q, log %s", again.notice, again.log)
	}
	var plants []int
	must(t, again.Value("plants").Load(&plants))
	if len(plants) != 2 || plants[1] != 2 || again.part.text() != j.part.text() {
		t.Errorf("got %v and %s, want %s", plants, again.part.text(), j.part.text())
	}
	unset := 7
	if err := again.Value("unset").Load(&unset); err != nil || unset != 7 {
		t.Errorf("an unset value: %d, %v; want it left as it is", unset, err)
	}
	again.save("other", "changed")
	again.isKept("in the second process")
	entries, err := os.ReadDir(filepath.Dir(j.path))
	if err != nil || len(entries) != 2 { // and the lock
		t.Errorf("files left behind: %v, %v", entries, err)
	}
}

func TestWithoutPathValuesAreInMemory(t *testing.T) {
	part := newNumbers()
	f, _, err := Open("", nil, part)
	must(t, err)
	part.set(f, "a", 1)
	must(t, f.Value("a").Save(1))
	var got int
	if err := f.Value("a").Load(&got); err != nil || got != 1 || f.Keeps() || f.Flush() != nil {
		t.Errorf("got %d, %v, keeps %t, %v", got, err, f.Keeps(), f.Flush())
	}
	must(t, f.Close())
}

// inVirtualTime runs a test with a file on a slow disk.
func inVirtualTime(t *testing.T, test func(j *journal, s *slow)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j := open(t)
		s := j.slow
		test(j, s)
		s.set(0, nil)
		j.Close() //nolint:errcheck // the disk may still hang
		synctest.Wait()
	})
}

// took is how long something waits.
func took(do func()) time.Duration {
	begun := time.Now()
	do()
	return time.Since(begun)
}

// TestNobodyWaitsForADiskThatHangs holds that only the first ones wait, for patience, and that nothing is lost in the end.
func TestNobodyWaitsForADiskThatHangs(t *testing.T) {
	inVirtualTime(t, func(j *journal, s *slow) {
		const disk = patience / 3
		s.set(disk, nil)
		j.part.set(j.File, "a", 1)
		if waits := took(func() { must(t, j.Flush()) }); waits != disk && waits != 2*disk { // a write that has begun goes first
			t.Errorf("waited %s, want as long as the disk takes", waits)
		}
		time.Sleep(3 * syncEvery)
		begun := time.Now()
		s.set(time.Hour, nil)
		j.part.set(j.File, "a", 2)
		if waits := took(func() { j.Flush() }); waits != patience { //nolint:errcheck // it is about the time
			t.Errorf("waited %s, want %s", waits, patience)
		}
		waits := took(func() {
			for i := range 3 * maxQueue {
				j.part.set(j.File, "a", i)
				j.part.add(j.File, i)
				if j.Flush() == nil || j.Value("v").Save(i) == nil {
					t.Fatal("what is not on the disk was saved")
				}
			}
		})
		if saved, err := j.Status(); waits != 0 || saved.After(begun) || err == nil || !strings.Contains(err.Error(), "longer than 2s") {
			t.Errorf("waited %s; saved until %s, %v", waits, saved, err)
		}
		j.mu.Lock()
		queued := len(j.queue)
		j.mu.Unlock()
		if queued > maxQueue {
			t.Errorf("%d records wait for the disk", queued)
		}
		s.set(0, nil)
		time.Sleep(3 * time.Hour)
		j.isKept("the disk works again")
		j.logged(map[string]int{"cannot save the state": 1, "the state is saved again": 1})
		if saved, err := j.Status(); time.Since(saved) > retryEvery || err != nil {
			t.Errorf("saved until %s, %v", saved, err)
		}
	})
}

func TestWhatAFullDiskMissedIsWrittenLater(t *testing.T) {
	inVirtualTime(t, func(j *journal, s *slow) {
		j.part.set(j.File, "a", 1)
		j.save("v", 1)
		s.set(0, errFull)
		full := time.Now()
		j.part.set(j.File, "b", 1)
		j.part.add(j.File, 1)
		if err := j.Flush(); err == nil {
			t.Error("flushed to a full disk")
		}
		if err := j.Value("v").Save(2); err == nil {
			t.Error("saved to a full disk")
		}
		time.Sleep(time.Hour)
		if saved, err := j.Status(); saved.After(full) || err == nil {
			t.Errorf("saved until %s, %v", saved, err)
		}
		s.set(0, nil)
		j.save("w", 1)
		j.isKept("a value is saved, so the disk is tried at once")
		s.set(0, errFull)
		j.part.add(j.File, 1)
		time.Sleep(time.Hour)
		s.set(0, nil)
		time.Sleep(retryEvery)
		synctest.Wait()
		j.isKept("nobody saves anything, so the disk is tried after a while")
		j.logged(map[string]int{"cannot save the state": 2, "the state is saved again": 2})
	})
}

// TestSyncsAtMostOnceASecond holds that what is flushed is synced within a second, and what is saved at once.
func TestSyncsAtMostOnceASecond(t *testing.T) {
	inVirtualTime(t, func(j *journal, s *slow) {
		time.Sleep(time.Minute)
		for i := range 100 {
			j.part.set(j.File, "a", i)
			must(t, j.Flush())
			must(t, j.Value("v").Written().Save(i))
			time.Sleep(syncEvery / 10)
		}
		if n := s.done().syncs; n < 9 || n > 11 {
			t.Errorf("%d syncs in 10 s", n)
		}
		time.Sleep(syncEvery)
		synctest.Wait()
		before := s.done().syncs
		time.Sleep(time.Hour)
		if n := s.done().syncs; n != before {
			t.Errorf("%d syncs although nothing was written", n-before)
		}
		for i := range 10 {
			j.save("debt", i)
		}
		if n := s.done().syncs; n != before+10 {
			t.Errorf("%d syncs for 10 saves", n-before)
		}
	})
}

// TestCloseWritesWhatIsLeft has the end come while a write runs. A disk that hangs delays it by closeWithin at most.
func TestCloseWritesWhatIsLeft(t *testing.T) {
	inVirtualTime(t, func(j *journal, s *slow) {
		s.set(closeWithin/4, nil)
		j.part.set(j.File, "a", 1)
		synctest.Wait()
		j.part.set(j.File, "b", 1)
		j.end()
		j.isKept("at the end")
	})
	inVirtualTime(t, func(j *journal, s *slow) {
		s.set(time.Hour, nil)
		j.part.set(j.File, "a", 1)
		if waits := took(func() { j.Close() }); waits != closeWithin { //nolint:errcheck // it is about the time
			t.Errorf("waited %s", waits)
		}
		time.Sleep(2 * time.Hour)
	})
}

// TestFileStaysSmall holds that values that change often cannot fill the disk.
func TestFileStaysSmall(t *testing.T) {
	inVirtualTime(t, func(j *journal, s *slow) {
		for n := range 40 {
			j.save("v", strings.Repeat(fmt.Sprint(n%10), minRewrite/8))
			if info, err := os.Stat(j.path); err != nil || info.Size() > 2*minRewrite {
				t.Fatalf("after %d values, the file has %d bytes, %v", n, info.Size(), err)
			}
		}
		if s.done().rewrites < 2 {
			t.Error("it was never rewritten")
		}
		j.isKept("rewritten")
	})
}

// TestClockThatIsSetMakesNothingLookUnsaved: its alert compares the time with the exporter's clock.
func TestClockThatIsSetMakesNothingLookUnsaved(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		f, begun := newFile(slog.New(slog.DiscardHandler), &none{}), time.Now()
		// Full seconds are above 30 bits of nanoseconds. The clock of then was another one.
		*(*uint64)(unsafe.Pointer(&f.saved)) -= uint64(by/time.Second) << 30
		if saved, err := f.Status(); saved.Round(0).Sub(begun.Round(0)).Abs() > time.Minute || err != nil {
			t.Errorf("the clock was set by %s: saved until %s, not at about %s; %v", by, saved, begun, err)
		}
	}
}
