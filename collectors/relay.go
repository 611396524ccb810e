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
		"Time from sending a message of the relay check until it arrived on the other side, late or not, without lost ones, in seconds.",
		relayLabels...)
	relayLastDeliveryDesc = readDesc("chatstack_relay_last_delivery_seconds",
		"Time that the last message of the relay check took, if it arrived before its deadline, in seconds.", relayLabels...)
	relayMessagesDesc = readDesc("chatstack_relay_messages_total",
		"Messages of the relay check by outcome: delivered before the deadline; late, counted when they arrive; lost, "+
			"counted after 10 minutes; not_sent, if there was no session or the server refused them.",
		append(slices.Clone(relayLabels), "outcome")...)
	relayLastDeliveredDesc = readDesc("chatstack_relay_last_delivered_timestamp_seconds",
		"Unix time when a message of the relay check last arrived, late or not.", relayLabels...)
	relayCopiesDesc = readDesc("chatstack_relay_copies_total",
		"Copies of messages of the relay check: how often one arrived again, or came back to the side where it was sent.", relayLabels...)
	relaySessionDesc = readDesc("chatstack_relay_session_up",
		"Whether the session of the relay check is logged in, has joined, and may speak.", "target", "side")
	relayBrokenDesc = readDesc("chatstack_relay_broken_at",
		"1 for the place where messages of the relay check stop: irc, xmpp or bridge.", append(slices.Clone(relayLabels), "at")...)
	relayCauseDesc = readDesc("chatstack_relay_broken_cause",
		"1 for what the check sees of the bridge while messages stop there: hangs, left, netsplit, killed, kicked, banned, silenced, "+
			"absent, or unknown, if no message has crossed yet.", "target", "from", "to", "cause")
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
	late    uint64 // of the checks that failed only because messages were late, which have arrived since
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
	seen        witness
	// renamed says that somebody changed the session's nick, archived that the room keeps its messages.
	renamed  string
	archived bool
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
	s.relay.event(func() { s.known, s.renamed, s.archived = true, "", false })
	s.relay.log.Info("relay check has joined", "side", s.name)
}

// Heard implements chat.Listener: the message is our own, accepted, or it has crossed the bridge.
func (s *relaySide) Heard(said chat.Message) {
	now := time.Now()
	s.relay.each(said.Text, func(w *crossing, number uint64) {
		if m := w.messages[number]; w.to == s && m != nil && m.arrived.IsZero() {
			s.seen.carried(said, m.sent)
		}
		w.hear(s, number, now)
		s.relay.forgive(w.messages[number])
	})
}

// forgive counts a check that failed only because messages were late, once all of them have arrived. After an outage that has been
// reported, BridgeNotRelaying covers the check. The caller holds mu.
func (c *relayProbe) forgive(m *message) {
	switch {
	case m == nil || m.twin == nil || !m.failed && !m.twin.failed || m.forgiven:
	case m.arrived.IsZero() || m.twin.arrived.IsZero() || c.ways[0].outage || c.ways[1].outage:
	default:
		m.forgiven, m.twin.forgiven = true, true
		c.late++
	}
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
		if number, err := strconv.ParseUint(mark[1], 10, 64); err == nil && !slices.Contains(list, number) {
			list = append(list, number)
		}
	}
	return list
}

// Refused implements chat.Listener. A refusal may come long after its message.
func (s *relaySide) Refused(text string, err error) {
	s.relay.each(text, func(w *crossing, number uint64) {
		if w.from == s {
			w.refuse(number, err)
		}
	})
}

// Members implements chat.Listener.
func (s *relaySide) Members(nicks []string) { s.relay.event(func() { s.seen.list(nicks) }) }

// Moved implements chat.Listener.
func (s *relaySide) Moved(m chat.Move) {
	s.relay.event(func() {
		if s.seen.see(m, time.Now()); m.Own {
			s.renamed = fmt.Sprintf("%s: somebody, such as the services, changed the nick of the check's session from %s to %s; if "+
				"the nick is registered, log in to its account, or set another nick", s.name, shownNick(m.Nick), shownNick(m.Why))
		}
	})
}

// Archived implements chat.Listener.
func (s *relaySide) Archived() { s.relay.event(func() { s.archived = true }) }

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
	if err := c.loop(time.Now()); err != nil {
		return err
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

// loop is why nothing is sent: a message comes back again and again, and each new one would do so too. It is nil if none does.
func (c *relayProbe) loop(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := 0
	for _, w := range c.ways {
		most = max(most, w.comesBack(now))
	}
	if most == 0 {
		return nil
	}
	return failure.Errorf(failure.Mismatch, "nothing is sent, since a message has come back %d times", most).
		WithHint("bridges relay each other's messages for ever: let only one bridge map " + c.settings.IRC.Channel + " and " +
			c.settings.XMPP.Room + ", once, and let it ignore the nicks of other bridges")
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

// send sends one message each way, at the same time: one server may not read.
func (c *relayProbe) send(ctx context.Context, talks [2]chat.Conversation) {
	var sending sync.WaitGroup
	defer sending.Wait()
	c.mu.Lock()
	now, pair := time.Now(), [2]*message{}
	for i, w := range c.ways {
		c.count++
		pair[i] = &message{number: c.numberOf(c.count), sent: now}
		w.begin(pair[i])
	}
	pair[0].twin, pair[1].twin = pair[1], pair[0]
	c.mu.Unlock()
	for i, w := range c.ways {
		text := c.text(pair[i].number)
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
		return c.notDelivered("messages from either side have not arrived on the other", atBridge, c.sharedEvidence())
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
	if !w.arrived.IsZero() && w.took() <= c.settings.Deadline.Std() {
		w.succeed()
		return nil
	}
	if w.failed = true; w.stopped() != nil && w.refused != nil {
		w.count(w.message, relayNotSent)
	}
	if at := cmp.Or(w.stoppedAt(), back.stoppedAt(), w.to.deafAt(), atBridge); at == atBridge {
		w.failTested()
		w.remember()
		if w.late(time.Now()) == 0 {
			w.because = c.evidenceOf(w)
		}
	} else {
		w.failUntested(at)
	}
	c.forgive(w.message)
	if w.brokenAt == w.from.name {
		w.from.mute = w.stopped()
		return fmt.Errorf("%s: %w", w.from.name, w.stopped())
	}
	if w.brokenAt == w.to.deafAt() && w.brokenAt == w.to.name {
		return fmt.Errorf("%s: %w", w.to.name, w.to.deaf)
	}
	return c.notDelivered("a message from "+w.from.name+" has not arrived on "+w.to.name, w.brokenAt, &w.because)
}

// sharedEvidence is the evidence for both ways: that of the way that shows more. The caller holds mu.
func (c *relayProbe) sharedEvidence() *relayEvidence {
	for _, w := range c.ways {
		if w.because.hint() != "" {
			return &w.because
		}
	}
	if because := &c.ways[0].because; because.text != "" {
		return because
	}
	return &c.ways[1].because
}

// notDelivered says where messages stop, and what to do.
func (c *relayProbe) notDelivered(what, at string, because *relayEvidence) error {
	mapping := c.settings.IRC.Channel + " to " + c.settings.XMPP.Room
	hint := "the " + at + " server does not pass messages on to the exporter: read its log"
	now := time.Now()
	late := max(c.ways[0].late(now), c.ways[1].late(now))
	switch {
	case at == atBridge && late > 0:
		hint = fmt.Sprintf("the bridge is slow: the last message took %s; look for load on it, or a limit on how fast it may send, "+
			"or raise deadline", late.Round(time.Millisecond))
	case at == atBridge && because.hint() != "":
		hint = because.hint()
	case at == atBridge && c.ways[0].latest == nil && c.ways[1].latest == nil:
		hint = "both servers work, and nothing has crossed since the exporter started: check that the bridge maps " + mapping +
			", then read its log"
	case at == atBridge:
		hint = "both servers work, so the bridge loses messages: read its log, then restart it; check that it maps " + mapping
	}
	return failure.Errorf(failure.NotDelivered, "%s within %s; stopped at: %s", what, c.settings.Deadline.Std(), at).WithHint(hint)
}

// report adds what is known of both ways, after a failure too.
func (c *relayProbe) report(b *Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sides {
		if s.renamed != "" {
			b.Note(s.renamed)
		}
		if s.archived {
			b.Note(s.name + ": the room keeps an archive; the check asks that its own messages are not kept, but the bridge's copies " +
				"may be; turn the room's archive off")
		}
		b.Kept.Gauge(relaySessionDesc, boolValue(s.mute == nil), c.settings.Name, s.name)
		// A room whose bridge is silent is the bridge's own failure.
		b.Kept.Condition(health.AlertRelaySessionDown, s.name, s.mute != nil && !errors.Is(s.mute, chat.ErrRoomSilent))
	}
	blind, now := false, time.Now()
	for _, w := range c.ways {
		if c.reportWay(b, w, now) {
			blind = true
		}
	}
	b.Kept.Condition(health.AlertRelayUnwatched, "", blind)
	if because := c.sharedEvidence(); because.text != "" {
		b.Note(because.text)
	}
}

// reportWay adds what is known of one way, and reports whether that says nothing of the bridge. The caller holds mu.
func (c *relayProbe) reportWay(b *Batch, w *crossing, now time.Time) (blind bool) {
	w.expire(now)
	success := w.checked && w.brokenAt == ""
	c.measure(b, w, success)
	way := w.from.name + " to " + w.to.name
	lost := w.notRelaying(now)
	w.outage = w.outage || lost && w.failsInARow()
	// The first failures after a start may continue an outage, which must not end with the start.
	if blind = w.untested || w.latest == nil && !lost; !blind {
		b.Kept.conditions = append(b.Kept.conditions, health.Condition{
			Alert:   health.AlertBridgeNotRelaying,
			Of:      way,
			Holds:   lost,
			Because: w.because.text,
		})
	}
	b.Kept.conditions = append(b.Kept.conditions, health.Condition{
		Alert: health.AlertBridgeSlow,
		Of:    way,
		Holds: w.slow(now),
		Late:  c.late,
	})
	b.Kept.Condition(health.AlertBridgeDuplicates, way, w.repeats())
	if success && c.once {
		b.Note(fmt.Sprintf("%s: the message took %s", way, w.took().Round(100*time.Microsecond)))
	}
	if n := len(w.lateTimes); n > 0 {
		b.Note(fmt.Sprintf("%s: %s arrived, the last after %s",
			way, wording.Count(n, "late message"), w.lateTimes[n-1].Round(time.Millisecond)))
		w.lateTimes = nil
	}
	return blind
}

// measure adds the metrics and the figure of one way. The caller holds mu.
func (c *relayProbe) measure(b *Batch, w *crossing, success bool) {
	labels := []string{c.settings.Name, w.from.name, w.to.name}
	for _, outcome := range relayOutcomes {
		b.Kept.Counter(relayMessagesDesc, float64(w.outcomes[outcome]), append(slices.Clone(labels), outcome)...)
	}
	b.Kept.Counter(relayCopiesDesc, float64(w.copies), labels...)
	b.Kept.Histogram(relayDeliveryDesc, w.delivery.count, w.delivery.sum, w.delivery.buckets, labels...)
	b.Kept.Gauge(relayFailuresDesc, float64(w.failures), labels...)
	if w.latest != nil {
		b.Kept.Gauge(relayLastDeliveredDesc, float64(w.latest.arrived.UnixMilli())/1e3, labels...)
	}
	if w.checked {
		b.Kept.Gauge(relaySuccessDesc, boolValue(success), labels...)
	}
	if success {
		b.Kept.Gauge(relayLastDeliveryDesc, w.took().Seconds(), labels...)
		b.Kept.Figure(Figure{
			Name:  strings.ToUpper(w.from.name) + " to " + strings.ToUpper(w.to.name),
			Value: w.took().Seconds(),
			Unit:  "seconds",
			Chart: true,
		})
	} else if w.checked {
		b.Kept.Gauge(relayBrokenDesc, 1, append(slices.Clone(labels), w.brokenAt)...)
		if w.because.cause != "" {
			b.Kept.Gauge(relayCauseDesc, 1, append(slices.Clone(labels), w.because.cause)...)
		}
	}
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
