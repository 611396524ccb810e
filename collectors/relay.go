package collectors

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/chat"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

var relayLabels = []string{"target", "from", "to"}

var (
	relaySuccessDesc = readDesc("chatstack_relay_success",
		"Whether the last check's message arrived before its deadline; 0 also if none could be sent.", relayLabels...)
	relayDeliveryDesc = readDesc("chatstack_relay_delivery_seconds",
		"Time from sending a message of the relay check until it arrived on the other side, without lost ones, in seconds.", relayLabels...)
	relayLastDeliveryDesc = readDesc("chatstack_relay_last_delivery_seconds",
		"Time that the last message of the relay check took, if it arrived before its deadline, in seconds.", relayLabels...)
	relayMessagesDesc = readDesc("chatstack_relay_messages_total",
		"Messages of the relay check by outcome: delivered before the deadline; late; lost, "+
			"if they had not arrived when the next one was sent; not_sent, if there was no session or the server refused them.",
		append(slices.Clone(relayLabels), "outcome")...)
	relayLastDeliveredDesc = readDesc("chatstack_relay_last_delivered_timestamp_seconds",
		"Unix time when a message of the relay check last arrived, late or not.", relayLabels...)
	relaySessionDesc = readDesc("chatstack_relay_session_up",
		"Whether the session of the relay check is logged in, has joined, and may speak.", "target", "side")
	relayBrokenDesc = readDesc("chatstack_relay_broken_at",
		"1 for the place where messages of the relay check stop: irc, xmpp or bridge.", append(slices.Clone(relayLabels), "at")...)
	relayFailuresDesc = readDesc("chatstack_relay_consecutive_failures",
		"Relay checks that failed at the bridge since the last message that arrived before its deadline; "+
			"fewer than 3 start over after a check that could not test the bridge.",
		relayLabels...)
)

// The sides of a relay, as label values.
const (
	sideIRC  = health.SideIRC
	sideXMPP = health.SideXMPP
	// atBridge says that a message was lost between the sides.
	atBridge = "bridge"
)

// The outcomes of a message.
const (
	relayDelivered = "delivered"
	relayLate      = "late"
	relayLost      = "lost"
	relayNotSent   = "not_sent"
)

var relayOutcomes = []string{relayDelivered, relayLate, relayLost, relayNotSent}

// relayBuckets are the upper bounds of the histogram, in seconds. The defaults of deadline and slow are among them.
var relayBuckets = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30}

// relayProbe sends a marked message to each side of a bridge and waits for it on the other side. Follow keeps both sessions; Collect sends
// and judges. Text that people or the bridge add to a message does not matter: its number identifies it.
type relayProbe struct {
	settings     *Relay
	run          string // new for each process, so that no number is used twice
	silent, once bool
	key          []byte // makes the numbers
	log          *slog.Logger
	sides        [2]*relaySide // IRC, XMPP
	marks        *regexp.Regexp

	mu      sync.Mutex
	count   uint64 // of the messages
	ways    [2]*crossing
	arrival chan struct{} // closed and renewed at each event
}

// relaySide is a session, and the listener to it.
type relaySide struct {
	name   string
	relay  *relayProbe
	keeper *chat.Keeper
	// mute is why the last message was not accepted; nil if it was. deaf is why the last one from the other side could not be heard.
	mute, deaf error
	// known says that a session has joined, so the address of its channel or room is right. failedJoins are those that a check has counted.
	known       bool
	failedJoins uint64
}

// crossing is one way across the bridge, with its last message and the outcomes of all.
type crossing struct {
	from, to *relaySide
	message

	checked    bool   // there was a check
	brokenAt   string // "" if the last check succeeded
	failures   uint64 // in a row, at the bridge
	untested   bool   // the last check shows nothing about the bridge, or its result is not known yet
	outcomes   map[string]uint64
	buckets    map[float64]uint64
	sum        float64
	count      uint64
	last       time.Time
	recent     []recentMessage
	lost       map[uint64]time.Time // when messages were sent that did not arrive, by number
	stragglers []time.Duration      // how long lost messages took that have arrived since the last check
}

// message is the last message one way.
type message struct {
	// open says that its outcome is not decided.
	open   bool
	number uint64
	sent   time.Time
	// accepted is when its own server had it, arrived when the other side did; zero before that.
	accepted, arrived time.Time
	// refused is why its own server did not take it, swallowed why that server took it and passed it to nobody.
	refused, swallowed error
}

// maxLost is how many lost messages are known by number: of the last hours.
const maxLost = 500

// recentMessage is a message of the last hour.
type recentMessage struct {
	sent       time.Time
	slow, lost bool // what is lost is slow too
}

func newRelay(s *Relay, d Deps) (Collector, error) {
	run, key := make([]byte, 6), make([]byte, sha256.Size)
	rand.Read(run) // it never fails
	rand.Read(key)
	c := &relayProbe{
		settings: s,
		run:      hex.EncodeToString(run),
		silent:   d.ReadOnly,
		once:     d.Once,
		key:      key,
		log:      d.Log,
		arrival:  make(chan struct{}),
	}
	c.marks = marksOf(c.run)
	irc, xmpp := &relaySide{name: sideIRC, relay: c}, &relaySide{name: sideXMPP, relay: c}
	irc.keeper = chat.NewKeeper(s.IRC.account(s.IRC.Channel), irc)
	xmpp.keeper = chat.NewKeeper(s.XMPP.account(s.XMPP.Room, s.XMPP.Nick), xmpp)
	irc.keeper.Gate = &sessionPace{gate: d.Logins.Gate(s.IRC.login()), scheduled: s.OwnSchedule}
	xmpp.keeper.Gate = &sessionPace{gate: d.Logins.Gate(s.XMPP.login())}
	c.sides = [2]*relaySide{irc, xmpp}
	c.ways = [2]*crossing{newCrossing(irc, xmpp), newCrossing(xmpp, irc)}
	return c, nil
}

// marksOf matches the numbers of a run. Colours, which some bridges add, may stand between the words.
func marksOf(run string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)` + run + `[^0-9]+([0-9]{18})`)
}

// numberOf is the number of the n-th message. Nobody knows it before that is sent, so nobody can play the bridge.
func (c *relayProbe) numberOf(n uint64) uint64 {
	mac := hmac.New(sha256.New, c.key)
	mac.Write(binary.BigEndian.AppendUint64(nil, n))
	return binary.BigEndian.Uint64(mac.Sum(nil)) % 1e18
}

func newCrossing(from, to *relaySide) *crossing {
	w := &crossing{
		from:     from,
		to:       to,
		outcomes: map[string]uint64{},
		buckets:  map[float64]uint64{},
		lost:     map[uint64]time.Time{},
	}
	for _, bound := range relayBuckets {
		w.buckets[bound] = 0
	}
	return w
}

// Follow implements Follower: it keeps both sessions.
func (c *relayProbe) Follow(ctx context.Context, _ func()) {
	var sessions sync.WaitGroup
	for _, s := range c.sides {
		sessions.Go(func() { s.keeper.Run(ctx) })
	}
	sessions.Wait()
}

// Joined implements chat.Listener.
func (s *relaySide) Joined(chat.Conversation) {
	s.relay.event(func() { s.known = true })
	s.relay.log.Info("relay check has joined", "side", s.name)
}

// Heard implements chat.Listener: the message is our own, accepted, or it has crossed the bridge.
func (s *relaySide) Heard(text string) {
	now := time.Now()
	s.relay.each(text, func(w *crossing, number uint64) { w.hear(s, number, now) })
}

// each calls do for each of the check's messages in a text, with each way.
func (c *relayProbe) each(text string, do func(w *crossing, number uint64)) {
	for _, number := range c.numbers(text) {
		c.event(func() {
			do(c.ways[0], number)
			do(c.ways[1], number)
		})
	}
}

// numbers are those of the check's messages in a text.
func (c *relayProbe) numbers(text string) (list []uint64) {
	for _, mark := range c.marks.FindAllStringSubmatch(colours.ReplaceAllLiteralString(text, ""), -1) {
		if number, err := strconv.ParseUint(mark[1], 10, 64); err == nil {
			list = append(list, number)
		}
	}
	return list
}

// hear records that a side has heard a message.
func (w *crossing) hear(s *relaySide, number uint64, now time.Time) {
	sent, lost := w.lost[number]
	switch {
	case w.to == s && lost:
		w.stragglers = append(w.stragglers, now.Sub(sent))
		delete(w.lost, number)
	case !w.open || w.number != number:
	case w.from == s && w.accepted.IsZero():
		w.accepted = now
	case w.to == s && w.arrived.IsZero():
		w.arrived = now
	}
}

// Refused implements chat.Listener. A refusal may come long after its message.
func (s *relaySide) Refused(text string, err error) {
	s.relay.each(text, func(w *crossing, number uint64) {
		if w.from == s && w.open && w.number == number && w.accepted.IsZero() {
			w.refused = err
		}
	})
}

// event changes the state and wakes Collect.
func (c *relayProbe) event(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.arrival)
	c.arrival = make(chan struct{})
}

// colours matches the formatting of IRC, which contains digits.
var colours = regexp.MustCompile(`\x03([0-9]{1,2}(,[0-9]{1,2})?)?|\x04([0-9A-Fa-f]{6})?|[\x02\x0f\x11\x16\x1d-\x1f]`)

// Collect implements Collector.
func (c *relayProbe) Collect(ctx context.Context, b *Batch) error {
	if c.once {
		sessions, end := context.WithCancel(ctx)
		var following sync.WaitGroup
		following.Go(func() { c.Follow(sessions, nil) })
		defer following.Wait()
		defer end()
	}
	defer c.report(b)
	talks, err := c.join(ctx)
	if err != nil {
		return err
	}
	if c.silent {
		b.Note(fmt.Sprintf("both sessions have joined; each probe sends one message each way, such as %q; check --write sends one now",
			c.text(c.numberOf(0))))
		return nil
	}
	c.event(func() { // until judge has decided
		for _, w := range c.ways {
			w.untested = true
		}
	})
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < c.settings.Deadline.Std()+2*verifyTimeout {
		return failure.Errorf(failure.Timeout, "logging in on both sides took so long that no time was left for a message")
	}
	until, cancel := context.WithTimeout(ctx, c.settings.Deadline.Std())
	defer cancel()
	c.send(until, talks)
	c.wait(until)
	return c.judge(ctx, talks)
}

// join waits until both sessions have joined. If one has not, no message is sent.
func (c *relayProbe) join(ctx context.Context) (talks [2]chat.Conversation, err error) {
	var down *relaySide
	var failedJoins uint64 // of the side that is down
	for i, s := range c.sides {
		talk, joins, failed := s.keeper.Await(ctx)
		c.event(func() {
			if failed != nil {
				failed = s.nameMisspelling(failed)
			}
			s.mute = failed
		})
		switch {
		case failed == nil:
		case err == nil:
			down, failedJoins, err = s, joins, fmt.Errorf("%s: %w", s.name, failed)
		default:
			err = fmt.Errorf("%w; %s: %v", err, s.name, failed) //nolint:errorlint // the first is the reason
		}
		talks[i] = talk
	}
	if err != nil {
		c.event(func() {
			for _, w := range c.ways {
				w.settle()
				w.outcomes[relayNotSent]++
				switch {
				case !errors.Is(err, chat.ErrRoomSilent):
					w.failUntested(down.name)
				case failedJoins != down.failedJoins:
					w.failTested()
				default: // nothing was tried since the last check
					w.failAt(atBridge)
				}
			}
			down.failedJoins = failedJoins
		})
	}
	return talks, err
}

// nameMisspelling changes the error of a server that does not know the room's service, if it never did. The caller holds mu.
func (s *relaySide) nameMisspelling(err error) error {
	if s.known || !errors.Is(err, chat.ErrNoRoomService) {
		return err
	}
	return failure.Errorf(failure.NotFound, "%s", err).
		WithHint(
			"set xmpp.room to the address of the room that the bridge maps, or connect the component that serves it to the XMPP server")
}

func (c *relayProbe) text(number uint64) string {
	return fmt.Sprintf("%s %s %018d", c.settings.Prefix, c.run, number)
}

// settle decides on a message that had not arrived by its deadline, before the next one is sent.
func (w *crossing) settle() {
	switch {
	case !w.open:
	case w.arrived.IsZero() && w.accepted.IsZero() && w.refused != nil: // the refusal came after the deadline
		w.outcomes[relayNotSent]++
	case w.arrived.IsZero():
		w.outcomes[relayLost]++
		if len(w.lost) >= maxLost {
			delete(w.lost, slices.MinFunc(slices.Collect(maps.Keys(w.lost)), func(a, b uint64) int { return w.lost[a].Compare(w.lost[b]) }))
		}
		w.lost[w.number] = w.sent
	default:
		w.outcomes[relayLate]++
		w.observe()
	}
	w.open = false
}

// observe records a message that has arrived.
func (w *crossing) observe() {
	took := w.arrived.Sub(w.sent).Seconds()
	for bound := range w.buckets {
		if took <= bound {
			w.buckets[bound]++
		}
	}
	w.sum += took
	w.count++
	w.last = w.arrived
}

// failAt records that a check has failed at that place.
func (w *crossing) failAt(at string) { w.checked, w.brokenAt = true, at }

// failTested records that the bridge has failed, although both servers work.
func (w *crossing) failTested() {
	w.failAt(atBridge)
	w.untested = false
	w.failures++
}

// failUntested records that a server has failed, so that nothing is known of the bridge. Failures that are no alert yet do not count then.
func (w *crossing) failUntested(at string) {
	w.failAt(at)
	w.untested = true
	if w.failures < relayFailuresLimit {
		w.failures = 0
	}
}

// send sends one message each way, at the same time: one server may not read.
func (c *relayProbe) send(ctx context.Context, talks [2]chat.Conversation) {
	var sending sync.WaitGroup
	defer sending.Wait()
	for i, w := range c.ways {
		c.mu.Lock()
		w.settle()
		c.count++
		w.message = message{open: true, number: c.numberOf(c.count), sent: time.Now()}
		text := c.text(w.number)
		c.mu.Unlock()
		sending.Go(func() {
			if err := guarded(func() error { return talks[i].Say(ctx, text) }); err != nil {
				c.event(func() { w.refused = fmt.Errorf("send the message: %w", err) })
			}
		})
	}
}

// wait waits until both messages have arrived or are refused, or ctx is done.
func (c *relayProbe) wait(ctx context.Context) {
	for {
		c.mu.Lock()
		waiting := slices.ContainsFunc(c.ways[:], func(w *crossing) bool { return w.arrived.IsZero() && w.refused == nil })
		arrival := c.arrival
		c.mu.Unlock()
		if !waiting {
			return
		}
		select {
		case <-arrival:
		case <-ctx.Done():
			return
		}
	}
}

// verifyTimeout bounds the question whether a session still lives. There may be two.
const verifyTimeout = relayReserve * 45 / 100

// judge decides which messages were delivered, and where the others stopped.
func (c *relayProbe) judge(ctx context.Context, talks [2]chat.Conversation) error {
	for i, s := range c.sides {
		if err := c.verify(ctx, s, talks[i], c.ways[i], c.ways[1-i]); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var failed [2]error
	for i, w := range c.ways {
		w.from.mute = nil
		if w.from.deafAt() == w.from.name {
			w.from.mute = w.from.deaf
		}
		failed[i] = c.decide(w, c.ways[1-i])
	}
	if failed[0] != nil && failed[1] != nil && c.ways[0].brokenAt == atBridge && c.ways[1].brokenAt == atBridge {
		return c.notDelivered("messages from either side have not arrived on the other", atBridge)
	}
	for i, w := range c.ways { // the way that begins on the broken side knows the cause
		if failed[i] != nil && w.brokenAt == w.from.name {
			return failed[i]
		}
	}
	return cmp.Or(failed[0], failed[1])
}

// verify finds out whether a session still lives if its own message out was not confirmed, or the message in has not arrived there.
func (c *relayProbe) verify(ctx context.Context, s *relaySide, talk chat.Conversation, out, in *crossing) error {
	c.mu.Lock()
	silent := out.accepted.IsZero() && out.arrived.IsZero() && out.refused == nil
	missing := in.arrived.IsZero()
	s.deaf = nil
	c.mu.Unlock()
	if !silent && !missing {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	ended, err := s.keeper.Verify(asking, talk)
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", s.name, ctx.Err())
	}
	c.event(func() {
		s.deaf = err
		switch {
		case !silent:
		case ended:
			out.refused = err
		case err != nil:
			out.swallowed = err
		default:
			out.swallowed = failure.Errorf(failure.NotDelivered, "the server answers, but does not pass our own message on").
				WithHint("the server drops what the exporter's account says, without an error: look for a ban, a filter or a rate limit, " +
					"and read its log")
		}
	})
	return nil
}

// stopped returns why the bridge did not get a message; nil if it did, as far as its server shows.
func (w *crossing) stopped() error {
	if !w.accepted.IsZero() || !w.arrived.IsZero() {
		return nil
	}
	return cmp.Or(w.refused, w.swallowed)
}

// stoppedAt is the place that stopped a message before the bridge had it: "" if none did.
func (w *crossing) stoppedAt() string { return w.from.placeOf(w.stopped()) }

// deafAt is the place that keeps a side from hearing: "" if it hears.
func (s *relaySide) deafAt() string { return s.placeOf(s.deaf) }

// placeOf is where an error of that side is: a room's own service is part of the bridge. It is "" without an error.
func (s *relaySide) placeOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, chat.ErrRoomSilent):
		return atBridge
	}
	return s.name
}

// decide decides on one message; back is the message in the other direction, which shows whether the receiving side works. The caller
// holds mu.
func (c *relayProbe) decide(w, back *crossing) error {
	took := w.arrived.Sub(w.sent)
	if !w.arrived.IsZero() && took <= c.settings.Deadline.Std() {
		w.forgetOutage()
		w.open, w.checked, w.untested, w.failures, w.brokenAt = false, true, false, 0, ""
		w.outcomes[relayDelivered]++
		w.observe()
		w.remember(took > c.settings.Slow.Std(), false)
		return nil
	}
	if w.stopped() != nil && w.refused != nil {
		w.open = false
		w.outcomes[relayNotSent]++
	}
	if at := cmp.Or(w.stoppedAt(), back.stoppedAt(), w.to.deafAt(), atBridge); at == atBridge {
		w.failTested()
		w.remember(true, true)
	} else {
		w.failUntested(at)
	}
	if w.brokenAt == w.from.name {
		w.from.mute = w.stopped()
		return fmt.Errorf("%s: %w", w.from.name, w.stopped())
	}
	if w.brokenAt == w.to.deafAt() && w.brokenAt == w.to.name {
		return fmt.Errorf("%s: %w", w.to.name, w.to.deaf)
	}
	return c.notDelivered("a message from "+w.from.name+" has not arrived on "+w.to.name, w.brokenAt)
}

func (c *relayProbe) notDelivered(what, at string) error {
	mapping := c.settings.IRC.Channel + " to " + c.settings.XMPP.Room
	hint := "the " + at + " server does not pass messages on to the exporter: read its log"
	switch {
	case at == atBridge && c.ways[0].last.IsZero() && c.ways[1].last.IsZero():
		hint = "both servers work, and nothing has crossed since the exporter started: check that the bridge maps " + mapping +
			", then read its log"
	case at == atBridge:
		hint = "both servers work, so the bridge loses messages: read its log, then restart it; check that it maps " + mapping
	}
	return failure.Errorf(failure.NotDelivered, "%s within %s; stopped at: %s", what, c.settings.Deadline.Std(), at).WithHint(hint)
}

// remember adds a message to those of the last hour.
func (w *crossing) remember(slow, lost bool) {
	w.recent = append(w.recent, recentMessage{w.sent, slow, lost})
	old := slices.IndexFunc(w.recent, func(m recentMessage) bool { return w.sent.Sub(m.sent) < time.Hour })
	w.recent = slices.Delete(w.recent, 0, old)
}

// minRecent is how many messages an hour must have for the bridge to be judged by their share. steady is how many must arrive in a row
// for a bridge that lost most of them to relay again.
const (
	minRecent = 10
	steady    = 5
)

// forgetOutage removes the messages of an outage that BridgeNotRelaying has reported, since they do not make the bridge slow.
func (w *crossing) forgetOutage() {
	if w.failures < relayFailuresLimit {
		return
	}
	for n, left := len(w.recent), w.failures; n > 0 && left > 0 && w.recent[n-1].slow; n, left = n-1, left-1 {
		w.recent = w.recent[:n-1]
	}
}

// mostly reports whether at least half of the messages of the last hour are like that.
func (w *crossing) mostly(is func(recentMessage) bool) bool {
	n := 0
	for _, m := range w.recent {
		if is(m) {
			n++
		}
	}
	return len(w.recent) >= minRecent && 2*n >= len(w.recent)
}

func isSlow(m recentMessage) bool { return m.slow }
func isLost(m recentMessage) bool { return m.lost }

// notRelaying reports whether the bridge counts as down: it lost the last three messages, or loses most of them.
func (w *crossing) notRelaying() bool {
	return w.failures >= relayFailuresLimit ||
		w.mostly(isLost) && slices.ContainsFunc(w.recent[len(w.recent)-steady:], isLost)
}

// report adds what is known of both ways, after a failure too.
func (c *relayProbe) report(b *Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sides {
		b.Kept.Gauge(relaySessionDesc, boolValue(s.mute == nil), c.settings.Name, s.name)
		// A room whose bridge is silent is the bridge's own failure.
		b.Kept.Condition(health.AlertRelaySessionDown, s.name, s.mute != nil && !errors.Is(s.mute, chat.ErrRoomSilent))
	}
	blind := false
	for _, w := range c.ways {
		labels := []string{c.settings.Name, w.from.name, w.to.name}
		for _, outcome := range relayOutcomes {
			b.Kept.Counter(relayMessagesDesc, float64(w.outcomes[outcome]), append(slices.Clone(labels), outcome)...)
		}
		b.Kept.Histogram(relayDeliveryDesc, w.count, w.sum, w.buckets, labels...)
		b.Kept.Gauge(relayFailuresDesc, float64(w.failures), labels...)
		if !w.last.IsZero() {
			b.Kept.Gauge(relayLastDeliveredDesc, float64(w.last.UnixMilli())/1e3, labels...)
		}
		took, success := w.arrived.Sub(w.sent), w.checked && w.brokenAt == ""
		if w.checked {
			b.Kept.Gauge(relaySuccessDesc, boolValue(success), labels...)
		}
		if success {
			b.Kept.Gauge(relayLastDeliveryDesc, took.Seconds(), labels...)
			b.Kept.Figure(Figure{
				Name:  strings.ToUpper(w.from.name) + " to " + strings.ToUpper(w.to.name),
				Value: took.Seconds(),
				Unit:  "seconds",
				Chart: true,
			})
		} else if w.checked {
			b.Kept.Gauge(relayBrokenDesc, 1, append(slices.Clone(labels), w.brokenAt)...)
		}
		way := w.from.name + " to " + w.to.name
		// The first failures after a start may continue an outage, which must not end with the start.
		undecided := w.outcomes[relayDelivered] == 0 && w.failures < relayFailuresLimit
		if w.untested || undecided {
			blind = true
		} else {
			b.Kept.Condition(health.AlertBridgeNotRelaying, way, w.notRelaying())
		}
		b.Kept.Condition(health.AlertBridgeSlow, way, !w.notRelaying() && w.mostly(isSlow))
		if success && c.once {
			b.Note(fmt.Sprintf("%s: the message took %s", way, took.Round(100*time.Microsecond)))
		}
		if n := len(w.stragglers); n > 0 {
			b.Note(fmt.Sprintf("%s: %s arrived later, the last after %s",
				way, wording.Count(n, "lost message"), w.stragglers[n-1].Round(time.Millisecond)))
			w.stragglers = nil
		}
	}
	b.Kept.Condition(health.AlertRelayUnwatched, "", blind)
}

// seldomWarnings warn if a schedule sends too few messages for a share of them to say something.
func seldomWarnings(text string) []string {
	schedule, err := config.ParseSchedule(text)
	if err != nil {
		return nil // an error of the configuration
	}
	now := time.Now()
	last := now
	for range minRecent {
		last = schedule.Next(last)
	}
	if last.Sub(now) <= time.Hour {
		return nil
	}
	return []string{fmt.Sprintf("schedule sends fewer than %d messages an hour, so %s never fires; send at least one each %s",
		minRecent, health.AlertBridgeSlow, time.Hour/minRecent)}
}

// relayFailuresLimit is how many messages in a row must fail one way for the bridge to count as not relaying.
const relayFailuresLimit = 3
