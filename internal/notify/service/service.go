// Package service delivers one message to one receiver. A URL in the form of github.com/nicholas-fedor/shoutrrr names the receiver.
//
// The table kinds has all services. The package itself speaks to the most common ones, and so supports deadlines, ca_file, proxy_url and
// Retry-After there. The library sends to the others; it supports none of these, and obeys HTTP_PROXY for some of them. The package has
// no queue and never retries: its caller does.
package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Level is how urgent a message is. Services show it as a priority, a colour or a symbol.
type Level int

// The levels. The zero Level is LevelInfo.
const (
	LevelInfo Level = iota
	LevelWarning
	LevelCritical
	LevelOver
)

// String returns info, warning, critical or over.
func (l Level) String() string {
	return [...]string{"info", "warning", "critical", "over"}[l.index()]
}

// index is l as an index of a table with a row for each level.
func (l Level) index() int {
	if l < LevelInfo || l > LevelOver {
		return int(LevelInfo)
	}
	return int(l)
}

// Message is what is sent. A service that has no room for all of it gets whole lines from the beginning, and "…".
type Message struct {
	Title  string // the first words say what fires: "[CRITICAL] XMPP server is down", one line
	Text   string // plain text in lines, without the title; may be empty
	Link   string // URL of the incident or the status page; "" if unknown
	Level  Level
	Thread string // the same for all messages about one cause, letters and digits; "" for none
	ID     string // unique for this message, the same for every attempt, letters and digits
	// Reached are the places that have it already, as Reached of an earlier attempt's error says; they are skipped.
	Reached []string `json:",omitempty"`
}

// Options are what a receiver's block sets besides the URL.
type Options struct {
	// CAFile is a PEM file of authorities that replace the system's. It is read before every attempt, so a renewed one counts at once.
	CAFile string
	// ProxyURL is an HTTP proxy; none if empty, even with HTTP_PROXY.
	ProxyURL string
	// UserAgent names the program in requests; "chatstack_exporter" by default.
	UserAgent string

	// dial replaces the dialer in tests, so that a vendor's host can be a stand-in.
	dial dialFunc
}

// Receiver sends messages to one place. It never prints its URL.
type Receiver interface {
	// Send delivers a message and returns what the service answered in a few words, without secrets. It may be called from one goroutine at
	// a time, and returns soon after ctx is done. An error has a failure.Reason and a hint, and contains no secret and no URL. Another
	// attempt with the same ID goes only to those chats, rooms or recipients that the message has not reached.
	Send(ctx context.Context, m *Message) (answer string, err error)
	// Host returns the host that it talks to, without a port.
	Host() string
	// Service returns the service's name, such as ntfy, telegram, smtp, generic or discord.
	Service() string
	// Threads reports whether messages of one Thread are shown together.
	Threads() bool
}

// Parse checks a URL and returns its receiver. It connects to nothing, but reads Options.CAFile. One line break at the end of the URL is
// ignored. The error says what is wrong and which form is right, without the URL's secrets.
func Parse(url string, o Options) (Receiver, error) {
	a, err := read(url)
	if err != nil {
		return nil, err
	}
	c, err := newClient(a, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.kind.scheme, err)
	}
	p := a.kind.open(a, o)
	if err := a.check(); err != nil {
		return nil, err
	}
	return &receiver{
		plan:   *p,
		scheme: a.kind.scheme,
		client: c,
		hide:   masker(a.secrets),
	}, nil
}

// RetryAfter returns how long the service asked to wait before the next attempt, at most an hour; 0 if it did not say.
func RetryAfter(err error) time.Duration { return failure.RetryAfterOf(err) }

// Permanent reports whether no other attempt with the same message can succeed, because the service refused the message itself. It is
// false for what a person can mend: the token, the chat, the address.
func Permanent(err error) bool {
	return failure.HasType[interface {
		error
		Permanent()
	}](err)
}

// Reached returns the places that have the message although the attempt failed, as hashes. Empty: it has reached nobody.
func Reached(err error) []string {
	partial, ok := errors.AsType[interface {
		error
		Reached() []string
	}](err)
	if !ok {
		return nil
	}
	return partial.Reached()
}

// partialError marks the failure of a message that some places have.
type partialError struct {
	error
	reached []string
}

func (e partialError) Unwrap() error     { return e.error }
func (e partialError) Reached() []string { return e.reached }

// permanentError marks the refusal of a message.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks it; see the function.
func (permanentError) Permanent() {}

// plan is how the messages of one URL are sent.
type plan struct {
	host    string
	threads bool
	// places are the chats, rooms or recipients; one empty string for a service that has none. Noun names several of them.
	places []string
	noun   string
	// deliver makes one attempt to send a message to one place.
	deliver func(ctx context.Context, c *client, d *delivery) (*receipt, error)
}

// delivery is a message on its way to one place.
type delivery struct {
	Message
	place string
	// number counts the places, from 0.
	number int
	// root is the service's id of the first message of the thread at this place; "" if there is none or it is unknown.
	root string
}

// receipt is what a service said about a message that it accepted.
type receipt struct {
	answer string
	// id is the service's id of the message, which starts a thread; it may be empty.
	id string
}

// receiver implements Receiver for all services.
type receiver struct {
	plan
	scheme string
	client *client
	hide   func(string) string

	// reached has the places that a message has reached, by message and place; roots has the services' ids of first messages, by thread
	// and place. Both end with the next reload.
	reached, roots memory
}

// memory keeps the last maxMemory values.
type memory struct {
	mu     sync.Mutex
	values map[string]string
	order  []string
}

const maxMemory = 512

func (m *memory) get(key string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key]
}

func (m *memory) put(key, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[string]string{}
	}
	if _, known := m.values[key]; !known {
		m.order = append(m.order, key)
	}
	m.values[key] = value
	if len(m.order) > maxMemory {
		delete(m.values, m.order[0])
		m.order = m.order[1:]
	}
}

func (r *receiver) Host() string     { return r.host }
func (r *receiver) Service() string  { return r.scheme }
func (r *receiver) Threads() bool    { return r.threads }
func (r *receiver) String() string   { return r.scheme + " receiver" }
func (r *receiver) GoString() string { return r.String() }

// sendTo makes one attempt to send to a place, of so many that are left. One that hangs leaves time to the others.
func (r *receiver) sendTo(ctx context.Context, d *delivery, left int) (*receipt, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	return r.deliver(ctx, r.client, d)
}

func (r *receiver) Send(ctx context.Context, m *Message) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends what a service's connection still does
	d := delivery{Message: clean(m)}
	if d.ID == "" {
		d.ID = rand.Text()
	}
	answer := "it has the message already"
	var failed []error
	var reached []string
	for done, place := range r.places {
		d.number, d.place = done, place
		attempt, thread := d.ID+"\n"+d.place, d.Thread+"\n"+d.place
		mark := markOf(d.place)
		if r.reached.get(attempt) != "" || slices.Contains(m.Reached, mark) {
			reached = append(reached, mark)
			continue
		}
		d.root = r.roots.get(thread)
		got, err := r.sendTo(ctx, &d, len(r.places)-done)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		answer, reached = got.answer, append(reached, mark)
		r.reached.put(attempt, cmp.Or(answer, "yes"))
		if d.root == "" && d.Thread != "" && got.id != "" {
			r.roots.put(thread, got.id)
		}
	}
	switch {
	case len(failed) > 0 && len(reached) > 0:
		return "", partialError{r.explain(failed), reached}
	case len(failed) > 0:
		return "", r.explain(failed)
	}
	if len(r.places) > 1 {
		answer = fmt.Sprintf("%d %s: %s", len(r.places), r.noun, answer)
	}
	return failure.Printable(r.hide(answer), maxWords), nil
}

// markOf is what a state file may have of a place.
func markOf(place string) string {
	h := fnv.New64a()
	h.Write([]byte(place))
	return hex.EncodeToString(h.Sum(nil))
}

// explain returns the error that a retry has to deal with: it is final only if all are. It keeps nothing of the causes but their words,
// since a cause may contain the URL.
func (r *receiver) explain(failed []error) error {
	worst, wait := failed[0], time.Duration(0)
	for _, err := range failed {
		wait = max(wait, RetryAfter(err))
		if Permanent(worst) && !Permanent(err) {
			worst = err
		}
	}
	text := worst.Error()
	if len(r.places) > 1 {
		text = fmt.Sprintf("%d of %d %s failed: %s", len(failed), len(r.places), r.noun, text)
	}
	var err error = &failure.Error{
		Reason:     failure.ReasonOf(worst),
		Hint:       r.hide(failure.HintOf(worst)),
		RetryAfter: wait,
		Err:        errors.New(failure.Printable(r.hide(text), maxWords)),
	}
	if Permanent(worst) {
		err = permanentError{err}
	}
	return err
}

// clean returns a message without line breaks in its title, and without control characters and invalid UTF-8.
func clean(m *Message) Message {
	c := *m
	c.Title = strings.Join(strings.Fields(failure.OneLine(strings.ToValidUTF8(c.Title, "\uFFFD"))), " ")
	c.Text = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.TrimSpace(strings.ToValidUTF8(c.Text, "\uFFFD")))
	c.Link = strings.Join(strings.Fields(c.Link), "")
	word := func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r)) {
			return r
		}
		return -1
	}
	c.Thread, c.ID = strings.Map(word, c.Thread), strings.Map(word, c.ID)
	return c
}
