package collectors

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
)

// load restores what an earlier process saved, or this one before a reload.
func (c *docker) load() {
	if c.state == nil {
		return
	}
	var kept fleet.Memory
	if err := c.state.Load(&kept); err != nil {
		c.log.Error("saved container state cannot be loaded; container counters restart", "err", err)
		return
	}
	c.fleet.Restore(kept, time.Now())
	if !c.once {
		c.fleet.ShowSaved(c.fleet.Counts())
	}
}

// keepCounts saves changed counters. Present shows only saved ones.
func (c *docker) keepCounts() {
	differ := false
	c.locked(func() { differ = c.fleet.Unsaved() })
	if differ {
		c.save()
	}
}

// save saves what must survive a restart, if it has changed.
func (c *docker) save() {
	if c.state == nil {
		return
	}
	c.saving.Lock() // so that no older state overwrites a newer one
	defer c.saving.Unlock()
	var (
		kept  fleet.Memory
		saved map[string]fleet.Counts
	)
	c.locked(func() { kept, saved = c.fleet.Memory(), c.fleet.Counts() })
	// Present must show restarts even if the disk cannot be written.
	defer c.locked(func() { c.fleet.ShowSaved(saved) })
	content, err := json.Marshal(kept)
	if err != nil {
		c.log.Error("container state cannot be encoded", "err", err)
		return
	}
	if bytes.Equal(content, c.saved) {
		return
	}
	c.saved = content
	c.state.Save(json.RawMessage(content)) //nolint:errcheck,gosec // it is logged, and saved once the disk works again
}
