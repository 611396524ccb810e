package collectors

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// review brings the fleet up to the engine's list, and returns how many containers that has.
func (c *docker) review(ctx context.Context, s *api.Session, b *Batch) (listed int, err error) {
	release, err := c.claim(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	var (
		l      fleet.Listing
		wanted []container.Summary
	)
	c.locked(func() {
		l.Mark, l.Following = c.fleet.Mark, c.stream.open
		l.Full = c.unsure || !l.Following
		c.unsure = false
	})
	defer func() {
		if err != nil {
			c.locked(func() { c.unsure = true })
		}
	}()
	if l.Full {
		c.learnNetworks(ctx, s)
	}
	if l.All, l.Made, err = c.list(ctx, s, b); err != nil {
		return 0, err
	}
	l.Chosen = c.watched(l.All)
	c.locked(func() {
		listed = c.leftOut.listed
		c.hangs.Forget(l.All)
		wanted = c.fleet.ApplyList(&l, time.Now())
	})
	found, err := c.inspectAll(ctx, s, b, wanted, len(l.Chosen))
	if err != nil {
		return 0, err
	}
	for i := range found {
		if found[i].Failed { // the list's words are better than none
			status := fleet.StatusOfSummary(&wanted[i], c.fleet.Rules)
			found[i].Status = &status
		}
	}
	c.describe(wanted, found, l.Mark)
	c.describeNew(ctx, s, b, wanted, l.Mark)
	return listed, nil
}

// networkOwner is the id of the container whose network the exporter is on, "" if nothing tells of one.
func networkOwner(mountInfo string) string {
	mounts, err := os.ReadFile(mountInfo)
	if err != nil {
		return ""
	}
	return fleet.NetworkOwner(string(mounts))
}

// learnNetworks finds out once on which networks the exporter meets containers: those of the container that it runs in, if this is
// that one's engine. Best effort: without them, no container is found by an address. The caller has claimed the descriptions.
func (c *docker) learnNetworks(ctx context.Context, s *api.Session) {
	if c.networkOwner == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.inspectPatience(ctx))
	defer cancel()
	own, _, err := s.Inspect(ctx, c.networkOwner)
	switch {
	case err != nil:
		c.log.Debug("the exporter's own container was not inspected", "err", err)
		return
	case own != nil:
		c.fleet.Rules.Networks = fleet.NetworksOf(own)
	}
	c.networkOwner = ""
}

// describeNew describes those again whom nobody knows yet, since an event has overtaken their description: the engine repeats
// the events of the last second when they are followed first. The reading would not know who has just been started.
func (c *docker) describeNew(ctx context.Context, s *api.Session, b *Batch, wanted []container.Summary, mark uint64) {
	var again []container.Summary
	c.locked(func() {
		for i := range wanted {
			if id := wanted[i].ID; c.fleet.Member(id) == nil && c.fleet.ChangedSince(mark, id) {
				again = append(again, wanted[i])
			}
		}
		mark = c.fleet.Mark
	})
	if len(again) == 0 {
		return
	}
	found, err := c.inspectAll(ctx, s, b, again, len(again)+1)
	if err != nil { // all others are known: the next reading finds these
		c.log.Debug("new containers were not inspected", "err", err)
		c.locked(func() { c.unsure = true })
		return
	}
	c.describe(again, found, mark)
}

// describe takes in what inspections found, which began after the mark.
func (c *docker) describe(wanted []container.Summary, found []fleet.Inspection, mark uint64) {
	c.locked(func() {
		c.touched = true
		now := time.Now()
		for i, d := range found {
			switch {
			case d.Status != nil:
				c.fleet.Describe(*d.Status, mark, d.Made, now)
			case d.Failed:
				c.fleet.Doubt(wanted[i].ID)
			case !c.fleet.ChangedSince(mark, wanted[i].ID):
				c.fleet.MarkGone(wanted[i].ID, now)
			}
		}
		c.fleet.Expect(now)
		c.fleet.Tidy(now)
	})
}

// tell says what a person should know.
func (c *docker) tell(b *Batch, listed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	known := c.fleet.Notes(now)
	for _, line := range known.Lines {
		b.Note(line)
	}
	here, xmpp := known.Present, known.XMPP
	if empty := here == 0; empty != c.empty {
		c.empty = empty
		if empty {
			c.log.Warn("no container is watched; check projects, labels, names and exclude", "listed", listed)
		}
	}
	b.Note(fmt.Sprintf("%d of %d containers are watched", here, listed))
	c.tellLeftOut(b)
	if !xmpp {
		b.Note("no container has the role xmpp, so the alert rules for the XMPP server's container match none; set its role under roles")
	}
	// That nobody listens is disproved by the reading.
	if err := c.stream.err; err != nil && failure.ReasonOf(err) != failure.Refused && failure.ReasonOf(err) != failure.DNS {
		b.Note("engine events are unavailable, so changes are seen only when polling: " + withHintText(err))
	}
	if err := c.stats.err; err != nil {
		b.Note("memory, CPU and network numbers of some containers are missing: " + withHintText(err))
	}
}

// withHintText is an error with what to do about it.
func withHintText(err error) string {
	if hint := failure.HintOf(err); hint != "" {
		return err.Error() + "; " + hint
	}
	return err.Error()
}

// watched are the listed containers that may be watched. One with a temporary name may bear its lasting one a moment
// later, so it is judged once it is inspected.
func (c *docker) watched(listed []container.Summary) []container.Summary {
	var chosen []container.Summary
	for _, l := range listed {
		if name := fleet.OwnName(l.Names); name == "" || c.fleet.Rules.Watches(fleet.LastingName(name), l.Labels) {
			chosen = append(chosen, l)
		}
	}
	return chosen
}

// open opens a session that has agreed with the engine on a version.
func (c *docker) open(ctx context.Context, connections int) (*api.Session, error) {
	s, err := c.engine.Open(connections)
	if err == nil {
		if err = c.negotiate(ctx, s, &Batch{}); err != nil {
			s.Close()
		}
	}
	return s, err
}

// negotiate makes the first call of a session.
func (c *docker) negotiate(ctx context.Context, s *api.Session, b *Batch) error {
	reply, err := s.Negotiate(ctx)
	b.HTTPStatus = reply.Status
	if err != nil {
		return err
	}
	c.begin(reply.Date)
	return nil
}

// list chooses among all containers that the engine's own filters let through, running ones and others, and tells when the
// list was made.
func (c *docker) list(ctx context.Context, s *api.Session, b *Batch) (listed []container.Summary, made fleet.Span, err error) {
	labels := c.settings.Labels
	// The engine wants all of the labels that it is given, so it can look for one project only.
	if len(c.settings.Projects) == 1 {
		labels = append(slices.Clone(labels), fleet.ComposeProject+"="+c.settings.Projects[0])
	}
	chosen := fleet.Selection{Rules: c.fleet.Rules}
	c.locked(func() { chosen.Known = c.fleet.KnownIDs() })
	asked := time.Now()
	reply, err := s.List(ctx, labels, chosen.Take)
	b.HTTPStatus = reply.Status
	if err != nil {
		return nil, fleet.Span{}, err
	}
	if !reply.Date.IsZero() {
		// The engine's clock is told to the second, and read when the list is ready.
		made = fleet.Span{From: reply.Date.Add(-time.Since(asked)), To: reply.Date.Add(time.Second)}
	}
	listed = chosen.Containers()
	c.locked(func() { c.noteLeftOut(&chosen) })
	return listed, made, nil
}

// inspectAll inspects containers, some at once. The first failure ends it, but that the engine stumbles over one container,
// or hangs at it, hides no other, unless it does so with all of so many.
func (c *docker) inspectAll(ctx context.Context, s *api.Session, b *Batch, listed []container.Summary, all int) ([]fleet.Inspection, error) {
	var (
		found    = make([]fleet.Inspection, len(listed))
		stumbles atomic.Int64
		status   atomic.Int64
		patience = c.inspectPatience(ctx)
	)
	if len(listed) >= all {
		c.locked(func() { c.hangs.TryStalled(listed, time.Now()) })
	}
	err := api.ForEach(ctx, len(listed), c.settings.Parallelism, func(inner context.Context, i int) error {
		one, cancel := context.WithTimeout(inner, patience)
		defer cancel()
		asked := time.Now()
		var allowed bool
		c.locked(func() { allowed = c.hangs.MayInspect(listed[i].ID, asked) })
		if !allowed {
			if int(stumbles.Add(1)) < max(all, 2) {
				found[i].Failed = true
				return nil
			}
			return failure.Errorf(failure.Timeout, "inspect containers of %s: the engine does not answer for any of them", c.settings.Host)
		}
		d, reply, err := s.Inspect(one, listed[i].ID)
		hung := one.Err() != nil && inner.Err() == nil
		if err == nil || inner.Err() == nil {
			c.locked(func() { c.hangs.Inspected(listed[i].ID, err != nil && hung, time.Now()) })
		}
		stumbled := reply.Status >= http.StatusInternalServerError || hung || err != nil && failure.ReasonOf(err) == failure.TooLarge
		if err != nil && stumbled && inner.Err() == nil && int(stumbles.Add(1)) < max(all, 2) {
			found[i].Failed = true
			return nil
		}
		if err != nil && inner.Err() == nil {
			status.Store(int64(reply.Status))
		}
		if !reply.Date.IsZero() {
			found[i].Made = reply.Date.Add(-time.Since(asked))
		}
		if d == nil {
			return err
		}
		known, err := fleet.StatusOf(d, c.fleet.Rules) // descriptions themselves take too much memory to be kept
		found[i].Status = &known
		return err
	})
	if err == nil {
		if n := stumbles.Load(); n > 0 {
			b.Impair(fmt.Sprintf("the engine cannot describe %d of %d containers", n, all))
			b.Note(fmt.Sprintf("the engine cannot describe %d of %d containers; the exporter shows what the container list says about them", n, all))
		}
		return found, nil
	}
	if n := status.Load(); n != 0 {
		b.HTTPStatus = int(n)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("inspect containers of %s: %w", c.settings.Host, ctx.Err())
	}
	return nil, err
}

// inspectShare is the part of the time that is left which one inspection may take.
const inspectShare = 4

// inspectPatience is how long one inspection may take.
func (c *docker) inspectPatience(ctx context.Context) time.Duration {
	patience := c.settings.Timeout.Std() / inspectShare
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(max(patience, time.Second), time.Until(deadline)/inspectShare)
	}
	return patience
}

// noteLeftOut records what a list left out, and logs when it leaves out something for the first time. The caller holds the lock.
func (c *docker) noteLeftOut(s *fleet.Selection) {
	if s.Beyond > 0 && c.leftOut.beyond == 0 || s.Misnamed > 0 && c.leftOut.misnamed == 0 {
		c.log.Warn("containers are not watched", "beyond_max_containers", s.Beyond, "with_impossible_names", s.Misnamed)
	}
	c.leftOut, c.fleet.Displaced = listCounts{s.Listed, s.Beyond, s.Misnamed}, s.Displaced
}

// tellLeftOut says which containers, and what of them, are not on the page. The caller holds the lock.
func (c *docker) tellLeftOut(b *Batch) {
	if c.leftOut.beyond > 0 {
		b.Impair(failure.Count(c.leftOut.beyond, "container") + " over max_containers")
		b.Note(fmt.Sprintf("%s over max_containers (%d): select the stack's containers with projects, labels, names or exclude, or raise the limit",
			failure.Count(c.leftOut.beyond, "container"), c.settings.MaxContainers))
	}
	if c.leftOut.misnamed > 0 {
		b.Impair(failure.Count(c.leftOut.misnamed, "container") + "with invalid names")
		b.Note(fmt.Sprintf("%s left out: a name may have up to %d bytes and only letters, digits, '_', '.' and '-'",
			failure.Count(c.leftOut.misnamed, "container"), fleet.MaxName))
	}
	if cut := c.fleet.ShortenedLabels(); cut > 0 {
		b.Impair("labels of " + failure.Count(cut, "container") + " are too long")
		b.Note(fmt.Sprintf("project, service, image or depends_on of %s is left out: longer than %d bytes (depends_on: %d)",
			failure.Count(cut, "container"), fleet.MaxLabel, fleet.MaxDependsOn))
	}
}

// begin takes in the engine's clock, to the second. Events are wanted from the first answer on: an engine answers a request
// for events a moment before it begins to listen for them.
func (c *docker) begin(engine time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream.last.IsZero() && !engine.IsZero() {
		c.stream.last = engine.Add(-time.Second)
	}
}
