package service

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nicholas-fedor/shoutrrr/pkg/types"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// mattermost returns a receiver of the library, and its URL's host, for a server in plain HTTP.
func mattermost(t *testing.T, answer http.HandlerFunc) Receiver {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return open(t, "mattermost://bot@"+server.Listener.Addr().String()+"/S3cretOfTheHook/alerts?disabletls=yes", Options{})
}

var mattermostSecrets = []string{"S3cretOfTheHook"}

// https://developers.mattermost.com/integrate/webhooks/incoming/
func TestLibrarySendsTitleTextAndLink(t *testing.T) {
	var path, body string
	r := mattermost(t, func(w http.ResponseWriter, req *http.Request) {
		content, _ := io.ReadAll(req.Body)
		path, body = req.URL.Path, string(content)
		io.WriteString(w, "ok") //nolint:errcheck,gosec // the client may be gone
	})
	answer, err := r.Send(soon(t), message())
	if err != nil || answer == "" {
		t.Fatalf("got %q and %v", answer, err)
	}
	if path != "/hooks/S3cretOfTheHook" {
		t.Errorf("the path is %s", path)
	}
	for _, want := range []string{`"text":"[CRITICAL] XMPP server is down\nUsers cannot log in.`, link, `"channel":"alerts"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the body has no %s: %s", want, body)
		}
	}
}

func TestLibrarysErrorsHaveReasonsAndNoSecrets(t *testing.T) {
	for _, tt := range []struct {
		answer http.HandlerFunc
		want   failure.Reason
	}{
		{status(401, "no"), failure.Unauthorized},
		{status(404, ""), failure.NotFound},
		{status(429, "", "Retry-After", "9"), failure.Throttled},
		{status(500, ""), failure.HTTPStatus},
		{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, failure.Closed},
	} {
		r := mattermost(t, tt.answer)
		_, err := r.Send(soon(t), message())
		wantFailure(t, err, tt.want, mattermostSecrets)
		if Permanent(err) {
			t.Errorf("permanent: %v", err)
		}
	}
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.Listener.Addr().String()
	server.Close()
	_, err := open(t, "mattermost://"+address+"/S3cretOfTheHook?disabletls=yes", Options{}).Send(soon(t), message())
	wantFailure(t, err, failure.Refused, mattermostSecrets)
}

// sender is a service of the library that does what a test wants.
type sender func() error

func (s sender) Send(string, *types.Params) error { return s() }

// libraryReceiver is a receiver that sends with s.
func libraryReceiver(s sender) *receiver {
	l := &sending{service: s, host: "hook.example.org"}
	return &receiver{
		plan: plan{
			places: []string{""},
			deliver: func(ctx context.Context, _ *client, d *delivery) (*receipt, error) {
				return l.send(ctx, d.ID, d.whole(1000, inCharacters))
			},
		},
		hide: masker([]string{"s3sam-open"}),
	}
}

// TestHangingLibraryHoldsNobodyUp gives an attempt up that the library goes on with, and that ends well in the end.
func TestHangingLibraryHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		answer := make(chan error)
		r := libraryReceiver(func() error {
			calls.Add(1)
			return <-answer
		})
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		begin := time.Now()
		_, err := r.Send(ctx, message())
		wantFailure(t, err, failure.Timeout, nil)
		if took := time.Since(begin); took != 15*time.Second {
			t.Errorf("the first attempt took %s", took)
		}
		_, err = r.Send(t.Context(), message())
		wantFailure(t, err, failure.Timeout, nil)
		if !strings.Contains(err.Error(), "still waits") || time.Since(begin) != 15*time.Second || calls.Load() != 1 {
			t.Errorf("the second attempt: %v, after %s, %d calls", err, time.Since(begin), calls.Load())
		}
		answer <- nil
		synctest.Wait()
		if answer, err := r.Send(t.Context(), message()); err != nil || answer != "an earlier attempt reached it" || calls.Load() != 1 {
			t.Errorf("the third attempt: %q, %v, %d calls", answer, err, calls.Load())
		}
		go func() { answer <- nil }()
		if _, err := r.Send(t.Context(), next(message(), "id2")); err != nil || calls.Load() != 2 {
			t.Errorf("another message: %v, %d calls", err, calls.Load())
		}
	})
}

// TestHangingAttemptThatFailsIsMadeAgain gives an attempt up that fails in the end.
func TestHangingAttemptThatFailsIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		answer := make(chan error)
		r := libraryReceiver(func() error {
			calls.Add(1)
			return <-answer
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Send(ctx, message())
		wantFailure(t, err, failure.Timeout, nil)
		answer <- errors.New("no")
		synctest.Wait()
		go func() { answer <- nil }()
		if _, err := r.Send(t.Context(), message()); err != nil || calls.Load() != 2 {
			t.Errorf("the second attempt: %v, %d calls", err, calls.Load())
		}
	})
}

func TestPanicOfTheLibraryIsAFailure(t *testing.T) {
	r := libraryReceiver(func() error { panic("at https://h/s3sam-open") })
	for range 2 {
		_, err := r.Send(soon(t), message())
		if failure.ReasonOf(err) != failure.Panic {
			t.Fatalf("got %v", err)
		}
		wantNoSecret(t, err.Error(), []string{"s3sam-open"})
	}
}
