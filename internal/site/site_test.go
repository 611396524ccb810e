package site_test

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
)

// TestCacheMakesAValueOnce: those who ask meanwhile get the same.
func TestCacheMakesAValueOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := site.Cache[string, int]{Age: time.Minute}
		var made atomic.Int64
		get := func(key string) int {
			v, err := c.Get(time.Now(), key, func() (int, error) { return int(made.Add(1)), nil })
			if err != nil {
				t.Error(err)
			}
			return v
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if got := get("a"); got != 1 {
					t.Errorf("got value %d, want 1", got)
				}
			})
		}
		all.Wait()
		if got := get("b"); got != 2 {
			t.Errorf("another key: value %d, want 2", got)
		}
		time.Sleep(time.Minute - 1)
		if got := get("b"); got != 2 {
			t.Errorf("before its age: value %d, want 2", got)
		}
		time.Sleep(time.Nanosecond)
		if got := get("b"); got != 3 {
			t.Errorf("after its age: value %d, want 3", got)
		}
	})
}

func TestCacheKeepsNoError(t *testing.T) {
	var c site.Cache[int, int]
	if _, err := c.Get(time.Now(), 1, func() (int, error) { return 0, errors.New("broken") }); err == nil {
		t.Error("got no error")
	}
	if v, err := c.Get(time.Now(), 1, func() (int, error) { return 7, nil }); v != 7 || err != nil {
		t.Errorf("got %d, %v", v, err)
	}
}

// TestCacheServesWhatIsNewer: a slow client does not bring an old value back.
func TestCacheServesWhatIsNewer(t *testing.T) {
	c := site.Cache[int, int]{Serves: func(made, asked int) bool { return made > asked }}
	for _, step := range []struct{ key, want int }{{1, 1}, {3, 3}, {2, 3}, {4, 4}} {
		if got, err := c.Get(time.Now(), step.key, func() (int, error) { return step.key, nil }); got != step.want || err != nil {
			t.Errorf("key %d: got %d, want %d (%v)", step.key, got, step.want, err)
		}
	}
}

func TestDocumentIsSentOnce(t *testing.T) {
	d := site.NewDocument("text/plain", []byte("hello"))
	tags := map[string]bool{}
	for _, encoding := range []string{"", "gzip"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		d.Serve(w, r, "no-cache")
		var body io.Reader = w.Body
		if encoding != "" {
			unpacked, err := gzip.NewReader(body)
			if err != nil {
				t.Fatal(err)
			}
			body = unpacked
		}
		if got, err := io.ReadAll(body); err != nil || string(got) != "hello" || w.Header().Get("Content-Encoding") != encoding {
			t.Errorf("%q: got %q, %v, %v", encoding, got, w.Header(), err)
		}
		tag := w.Header().Get("ETag")
		tags[tag] = true
		r.Header.Set("If-None-Match", `"x", W/`+tag)
		again := httptest.NewRecorder()
		d.Serve(again, r, "no-cache")
		if again.Code != http.StatusNotModified || again.Body.Len() > 0 || again.Header().Get("Content-Type") != "" {
			t.Errorf("%q: got %d for its own tag, %v", encoding, again.Code, again.Header())
		}
	}
	if len(tags) != 2 {
		t.Errorf("the encodings have the tags %v", tags)
	}
}

func TestEachStateHasItsOwnShape(t *testing.T) {
	shapes := map[string]bool{}
	for state := history.Up; state <= history.NotWatched; state++ {
		paths := site.BarPaths([]history.State{state, state})
		if len(paths) != 1 || paths[0].Class != state.String() || shapes[paths[0].Line] || site.StateWords[state] == "" {
			t.Errorf("%s: got %v", state, paths)
			continue
		}
		shapes[paths[0].Line] = true
	}
}
