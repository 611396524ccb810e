package collectors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// review updates the fleet from the engine's list and returns the length of the list.
func (c *docker) review(ctx context.Context, s *api.Session, b *Batch) (listed int, err error) {
	select {
	case c.reviewing <- struct{}{}: // no other list is being applied
		defer func() { <-c.reviewing }()
	case <-ctx.Done():
		return 0, fmt.Errorf("describe containers of %s: %w", c.settings.Host, ctx.Err())
	}
	var l fleet.Listing
	c.locked(func() {
		l.Mark, l.Following = c.fleet.Mark(), c.stream.open
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
	chosen, err := c.list(ctx, s, b)
	if err != nil {
		return 0, err
	}
	l.All, l.Chosen = chosen.All, chosen.Chosen
	var (
		wanted, paused []container.Summary
		silent         bool // about all containers
	)
	c.locked(func() {
		now := time.Now()
		c.hangs.Forget(l.All, now)
		wanted, paused = c.hangs.Split(c.fleet.ApplyList(&l, now), now)
		n := len(l.Chosen)
		silent = n > 1 && (c.stalled > 0 || len(paused) == n)
	})
	if silent {
		wanted, paused = append(wanted, paused...), nil
		if err := c.tryOne(ctx, s, b, wanted); err != nil {
			return 0, err
		}
	}
	undescribed, err := c.inspectAll(ctx, s, b, wanted)
	if err != nil {
		return 0, err
	}
	for i := range paused {
		undescribed = append(undescribed, failed{paused[i], &inspection{}})
	}
	return chosen.Listed, c.recordUndescribed(b, undescribed, &l)
}

// tryOne asks an engine that did not answer about any container about one of them. It takes another one each time.
func (c *docker) tryOne(ctx context.Context, s *api.Session, b *Batch, wanted []container.Summary) error {
	if len(wanted) == 0 {
		return nil
	}
	var i int
	c.locked(func() {
		i = c.stalled % len(wanted)
		c.stalled++
	})
	undescribed, err := c.inspectAll(ctx, s, b, wanted[i:i+1])
	if err == nil && len(undescribed) > 0 {
		err = c.errSilent(undescribed[0])
	}
	if err == nil {
		c.locked(func() { c.stalled = 0 })
	}
	return err
}

// errSilent is the error of an engine that does not describe any container.
func (c *docker) errSilent(one failed) error {
	if one.err != nil && !errors.Is(one.err, context.DeadlineExceeded) {
		return one.err
	}
	return failure.Errorf(failure.Timeout, "inspect containers of %s: the engine does not answer for any of them", c.settings.Host)
}

// recordUndescribed records what the list says about containers that the engine has not described, and pauses those that it hangs at.
// It returns an error if the engine describes none, unless it may be starting one.
func (c *docker) recordUndescribed(b *Batch, undescribed []failed, l *fleet.Listing) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	starting := func(one failed) bool { return c.hangs.Starting(one.listed.ID, now) }
	n, all := len(undescribed), len(l.Chosen)
	if n == all && n > 1 && !slices.ContainsFunc(undescribed, starting) {
		c.stalled = 1
		b.HTTPStatus = undescribed[0].status
		return c.errSilent(undescribed[0])
	}
	for i := range undescribed {
		one := &undescribed[i]
		if one.hung && !starting(*one) {
			c.hangs.Pause(&one.listed, now)
		}
		c.fleet.Describe(fleet.StatusOfSummary(&one.listed, c.fleet.Rules()), l.Mark, time.Time{}, now)
	}
	c.fleet.CompleteList()
	c.fleet.Expect(now)
	c.fleet.Tidy(now)
	if n > 0 {
		part := fmt.Sprintf("the engine cannot describe %d of %d containers", n, all)
		b.Impair(part)
		b.Note(part + "; the exporter shows what the container list says about them")
	}
	return nil
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
// them, no container is found by its address.
func (c *docker) learnNetworks(ctx context.Context, s *api.Session) {
	var owner string
	c.locked(func() { owner = c.networkOwner })
	if owner == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, slotTime)
	defer cancel()
	own, _, err := s.Inspect(ctx, owner)
	if err != nil {
		c.log.Debug("the exporter's own container was not inspected", "err", err)
		return
	}
	c.locked(func() {
		if c.networkOwner = ""; own != nil {
			c.fleet.JoinNetworks(fleet.NetworksOf(own))
		}
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

// list lists the containers, running or not, and lets the fleet choose.
func (c *docker) list(ctx context.Context, s *api.Session, b *Batch) (chosen fleet.Choice, err error) {
	labels := c.settings.Labels
	// The engine requires all given labels, so it can filter for only one project.
	if len(c.settings.Projects) == 1 {
		labels = append(slices.Clone(labels), fleet.ComposeProject+"="+c.settings.Projects[0])
	}
	listed, reply, err := s.List(ctx, labels)
	b.HTTPStatus = reply.Status
	if err != nil {
		return chosen, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	chosen = c.fleet.Choose(listed)
	if chosen.OverLimit > 0 && c.leftOut.OverLimit == 0 || chosen.Misnamed > 0 && c.leftOut.Misnamed == 0 {
		c.log.Warn("containers are not watched", "beyond_max_containers", chosen.OverLimit, "with_impossible_names", chosen.Misnamed)
	}
	c.leftOut = chosen.ListCounts
	return chosen, nil
}

// noteLeftOut adds notes about containers and labels that are left out. The caller holds the lock.
func (c *docker) noteLeftOut(b *Batch) {
	if c.leftOut.OverLimit > 0 {
		part := wording.Count(c.leftOut.OverLimit, "container") + " over max_containers"
		b.Impair(part)
		b.Note(fmt.Sprintf("%s (%d): select the stack's containers with projects, labels, names or exclude, or raise the limit",
			part, c.settings.MaxContainers))
	}
	if c.leftOut.Misnamed > 0 {
		b.Impair(wording.Count(c.leftOut.Misnamed, "container") + " with invalid names")
		b.Note(fmt.Sprintf("%s left out: a name may have up to %d bytes and only letters, digits, '_', '.' and '-'",
			wording.Count(c.leftOut.Misnamed, "container"), fleet.MaxName))
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
