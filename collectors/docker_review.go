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
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// review updates the fleet from the engine's list and returns the length of the list.
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
	if l.All, err = c.list(ctx, s, b); err != nil {
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
		if found[i].Failed { // the list's data is better than none
			status := fleet.StatusOfSummary(&wanted[i], c.fleet.Rules)
			found[i].Status = &status
		}
	}
	c.describe(wanted, found, l.Mark)
	c.describeNew(ctx, s, b, wanted, l.Mark)
	return listed, nil
}

// networkOwner returns the id of the container whose network the exporter uses, or "" if unknown.
func networkOwner(mountInfo string) string {
	mounts, err := os.ReadFile(mountInfo)
	if err != nil {
		return ""
	}
	return fleet.NetworkOwner(string(mounts))
}

// learnNetworks finds the networks of the exporter's own container, once, if it runs on this engine. Best effort: without
// them, no container is found by its address. The caller holds the claim.
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

// describeNew inspects new containers again if an event came during their first inspection. That happens after a start,
// because a new event stream repeats the events of the last second.
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
	if err != nil { // the next probe finds these
		c.log.Debug("new containers were not inspected", "err", err)
		c.locked(func() { c.unsure = true })
		return
	}
	c.describe(again, found, mark)
}

// describe records the results of inspections that began after the mark.
func (c *docker) describe(wanted []container.Summary, found []fleet.Inspection, mark uint64) {
	c.locked(func() {
		now := time.Now()
		for i, d := range found {
			switch {
			case d.Status != nil:
				c.fleet.Describe(*d.Status, mark, d.Made, now)
			case d.Failed:
				c.fleet.MarkStale(wanted[i].ID)
			case !c.fleet.ChangedSince(mark, wanted[i].ID):
				c.fleet.MarkGone(wanted[i].ID, now)
			}
		}
		c.fleet.Expect(now)
		c.fleet.Tidy(now)
	})
}

// addNotes adds notes and impairments for people.
func (c *docker) addNotes(b *Batch, listed int) {
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
	c.noteLeftOut(b)
	if !xmpp {
		b.Note("no container has the role xmpp, so the alert rules for the XMPP server's container match none; set its role under roles")
	}
	// A probe has just succeeded, so refused and dns are outdated.
	if err := c.stream.err; err != nil && failure.ReasonOf(err) != failure.Refused && failure.ReasonOf(err) != failure.DNS {
		b.Note("engine events are unavailable, so changes are seen only when polling: " + withHintText(err))
	}
	c.noteSource(b)
	if err := c.stats.err; err != nil {
		b.Note("memory, CPU or network numbers of containers are missing: " + withHintText(err))
	}
}

// withHintText returns an error's text with its hint.
func withHintText(err error) string { return err.Error() + "; " + failure.HintOf(err) }

// watched returns the listed containers that may be watched. A container with a temporary name may get its lasting name a
// moment later, so inspection decides about it.
func (c *docker) watched(listed []container.Summary) []container.Summary {
	var chosen []container.Summary
	for _, l := range listed {
		if name := fleet.OwnName(l.Names); name == "" || c.fleet.Rules.Watches(fleet.LastingName(name), l.Labels) {
			chosen = append(chosen, l)
		}
	}
	return chosen
}

// open opens a session and negotiates the API version.
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

// list returns the chosen containers, running or not.
func (c *docker) list(ctx context.Context, s *api.Session, b *Batch) ([]container.Summary, error) {
	labels := c.settings.Labels
	// The engine requires all given labels, so it can filter for only one project.
	if len(c.settings.Projects) == 1 {
		labels = append(slices.Clone(labels), fleet.ComposeProject+"="+c.settings.Projects[0])
	}
	chosen := fleet.Selection{Rules: c.fleet.Rules}
	c.locked(func() { chosen.KnownIDs = c.fleet.KnownIDs() })
	reply, err := s.List(ctx, labels, chosen.Add)
	b.HTTPStatus = reply.Status
	if err != nil {
		return nil, err
	}
	listed := chosen.Containers()
	c.locked(func() { c.recordLeftOut(&chosen) })
	return listed, nil
}

// inspectAll inspects containers in parallel. An engine that fails or hangs for one container does not hide the others,
// unless it does so for all of them. Any other error ends it.
func (c *docker) inspectAll(
	ctx context.Context, s *api.Session, b *Batch, listed []container.Summary, all int,
) ([]fleet.Inspection, error) {
	var (
		found    = make([]fleet.Inspection, len(listed))
		stumbles atomic.Int64
		status   atomic.Int64
		patience = c.inspectPatience(ctx)
	)
	if len(listed) >= all {
		c.locked(func() { c.hangs.AllowOneIfStalled(listed, time.Now()) })
	}
	err := api.ForEach(ctx, len(listed), c.settings.Parallelism, func(ctx context.Context, i int) error {
		asked := time.Now()
		d, reply, stumbled, err := c.inspect(ctx, s, listed[i].ID, patience)
		if stumbled && int(stumbles.Add(1)) < max(all, 2) {
			found[i].Failed = true
			return nil
		}
		if err != nil && ctx.Err() == nil && reply.Status != 0 {
			status.Store(int64(reply.Status))
		}
		if !reply.Date.IsZero() {
			found[i].Made = reply.Date.Add(-time.Since(asked))
		}
		if d == nil {
			return err
		}
		known, err := fleet.StatusOf(d, c.fleet.Rules) // the whole description would take too much memory
		found[i].Status = &known
		return err
	})
	if err == nil {
		if n := stumbles.Load(); n > 0 {
			part := fmt.Sprintf("the engine cannot describe %d of %d containers", n, all)
			b.Impair(part)
			b.Note(part + "; the exporter shows what the container list says about them")
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

// inspect inspects one container, unless the engine hangs when asked about it. It stumbled if the error may be about that one alone.
func (c *docker) inspect(
	ctx context.Context, s *api.Session, id string, patience time.Duration,
) (d *container.InspectResponse, reply api.Reply, stumbled bool, err error) {
	var allowed bool
	c.locked(func() { allowed = c.hangs.MayInspect(id, time.Now()) })
	if !allowed {
		err = failure.Errorf(failure.Timeout, "inspect containers of %s: the engine does not answer for any of them", c.settings.Host)
		return nil, reply, true, err
	}
	one, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d, reply, err = s.Inspect(one, id)
	hung := err != nil && one.Err() != nil && ctx.Err() == nil
	if err == nil || ctx.Err() == nil {
		c.locked(func() { c.hangs.RecordInspection(id, hung, time.Now()) })
	}
	stumbled = err != nil && ctx.Err() == nil &&
		(hung || reply.Status >= http.StatusInternalServerError || failure.ReasonOf(err) == failure.TooLarge)
	return d, reply, stumbled, err
}

// One inspection may take 1/inspectShare of the remaining time.
const inspectShare = 4

// inspectPatience returns how long one inspection may take.
func (c *docker) inspectPatience(ctx context.Context) time.Duration {
	patience := c.settings.Timeout.Std() / inspectShare
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(max(patience, time.Second), time.Until(deadline)/inspectShare)
	}
	return patience
}

// recordLeftOut records which containers were left out, and logs the first time. The caller holds the lock.
func (c *docker) recordLeftOut(s *fleet.Selection) {
	if s.OverLimit > 0 && c.leftOut.beyond == 0 || s.Misnamed > 0 && c.leftOut.misnamed == 0 {
		c.log.Warn("containers are not watched", "beyond_max_containers", s.OverLimit, "with_impossible_names", s.Misnamed)
	}
	c.leftOut, c.fleet.Displaced = listCounts{s.Listed, s.OverLimit, s.Misnamed}, s.Displaced
}

// noteLeftOut adds notes about containers and labels that are left out. The caller holds the lock.
func (c *docker) noteLeftOut(b *Batch) {
	if c.leftOut.beyond > 0 {
		part := wording.Count(c.leftOut.beyond, "container") + " over max_containers"
		b.Impair(part)
		b.Note(fmt.Sprintf("%s (%d): select the stack's containers with projects, labels, names or exclude, or raise the limit",
			part, c.settings.MaxContainers))
	}
	if c.leftOut.misnamed > 0 {
		b.Impair(wording.Count(c.leftOut.misnamed, "container") + " with invalid names")
		b.Note(fmt.Sprintf("%s left out: a name may have up to %d bytes and only letters, digits, '_', '.' and '-'",
			wording.Count(c.leftOut.misnamed, "container"), fleet.MaxName))
	}
	if cut := c.fleet.ShortenedLabels(); cut > 0 {
		b.Impair("labels of " + wording.Count(cut, "container") + " are too long")
		b.Note(fmt.Sprintf("project, service, image or depends_on of %s is left out: longer than %d bytes (depends_on: %d)",
			wording.Count(cut, "container"), fleet.MaxLabel, fleet.MaxDependsOn))
	}
}

// begin sets from when events are requested: a second before the first answer, by the engine's clock. The engine answers a
// request for events a moment before it starts to collect them.
func (c *docker) begin(engine time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream.last.IsZero() && !engine.IsZero() {
		c.stream.last = engine.Add(-time.Second)
	}
}
