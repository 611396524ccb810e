package service

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// sending is one service of the library. Its Send knows no context, so an attempt that its caller has given up may still run; there is
// at most one.
type sending struct {
	service types.Sender
	host    string
	busy    atomic.Bool
	// arrived has the messages that arrived, perhaps after their attempts were given up.
	arrived memory
}

func openLibrary(a *address, o Options, vendor string, limit int) *plan {
	if o.CAFile != "" || o.ProxyURL != "" {
		a.fault("ca_file and proxy_url do not apply, since a library sends these messages; remove them, or use generic+https://")
	}
	host := a.Hostname()
	if key, ok := strings.CutPrefix(vendor, "?"); ok {
		host = cmp.Or(a.query[key], host)
	} else {
		host = cmp.Or(vendor, host)
	}
	a.hideAll(host)
	service, err := newService(a)
	if err != nil {
		a.fault("%s", withoutURLs(masker(a.secrets)(err.Error())))
	}
	clear(a.query) // the library has read it
	s := &sending{service: service, host: host}
	return &plan{
		host:   host,
		places: []string{""},
		deliver: func(ctx context.Context, _ *client, d *delivery) (*receipt, error) {
			return s.send(ctx, d.ID, d.whole(limit, inCharacters))
		},
	}
}

// hideAll makes all parts of the URL secret: where the token is depends on the service.
func (a *address) hideAll(host string) {
	a.secret(strings.FieldsFunc(a.Path, func(r rune) bool { return r == '/' || r == '@' })...)
	for _, text := range append(slices.Collect(maps.Values(a.query)), a.Hostname()) {
		if text != host {
			a.part(text)
		}
	}
}

// newService makes the library's service of a URL.
func newService(a *address) (types.Sender, error) {
	service, err := (&router.ServiceRouter{}).NewService(a.kind.scheme)
	if err != nil {
		return nil, err
	}
	u := *a.URL
	if u.Scheme != a.kind.scheme {
		custom, ok := service.(types.CustomURLService)
		if !ok {
			return nil, errors.New("the scheme has no +https")
		}
		turned, err := custom.GetConfigURLFromCustom(&u)
		if err != nil {
			return nil, err
		}
		u = *turned
	}
	return service, service.Initialize(&u, nil)
}

func (s *sending) send(ctx context.Context, id, text string) (*receipt, error) {
	if s.arrived.get(id) != "" {
		return &receipt{answer: "an earlier attempt reached it"}, nil
	}
	if s.busy.Swap(true) {
		return nil, failure.Errorf(failure.Timeout, "%s: an earlier attempt still waits for an answer", s.host).
			WithHint("the service accepts connections but does not answer; the next attempt after its end will be made")
	}
	ended := make(chan error, 1)
	go func() {
		err := s.attempt(text)
		if err == nil {
			s.arrived.put(id, "yes")
		}
		s.busy.Store(false)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			return nil, s.explain(err)
		}
		return &receipt{answer: "the service accepted it"}, nil
	case <-ctx.Done():
		return nil, failure.Errorf(failure.Timeout, "%s: no complete answer in time: %w", s.host, ctx.Err())
	}
}

// attempt calls the library, and survives its panics.
func (s *sending) attempt(text string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = failure.Errorf(failure.Panic, "the library panics: %v", p)
		}
	}()
	return s.service.Send(text, &types.Params{})
}

// statusIn finds an HTTP status in the library's words, which mostly have no type.
var statusIn = regexp.MustCompile(`\b([45]\d\d)\b`)

// explain gives an error of the library a reason. Its words stay, but for URLs; the receiver masks the rest.
func (s *sending) explain(err error) error {
	reason := failure.ReasonOf(err)
	if found := statusIn.FindString(err.Error()); reason == failure.Internal {
		reason = failure.HTTPStatus
		if status, convErr := strconv.Atoi(found); convErr == nil {
			reason = failure.ReasonOfStatus(status)
		}
	}
	failed := failure.Errorf(reason, "%s: %s", s.host, withoutURLs(err.Error()))
	if hint := hints[reason]; hint != "" {
		failed = failed.WithHint(hint)
	}
	return failed
}

// anyURL matches URLs in a text.
var anyURL = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"']+`)

// withoutURLs removes URLs from a text, and flattens it.
func withoutURLs(text string) string {
	return strings.ReplaceAll(anyURL.ReplaceAllString(text, "<URL>"), "\n", "; ")
}
