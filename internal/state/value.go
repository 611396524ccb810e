package state

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Value is one named value of a file.
type Value struct {
	file *File
	name string
	// unsynced says that Save waits only until the value is written.
	unsynced bool
}

// Value returns the value with this name, which need not exist yet.
func (f *File) Value(name string) *Value { return &Value{file: f, name: name} }

// Written returns the value with a Save that returns once it is written. SIGKILL does not lose it, a power cut may within a second.
func (v *Value) Written() *Value { return &Value{v.file, v.name, true} }

// Load decodes the last saved value into a pointer, or leaves it unchanged if there is none.
func (v *Value) Load(into any) error {
	v.file.mu.Lock()
	raw, ok := v.file.values[v.name]
	v.file.mu.Unlock()
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read %s from state file: %w", v.name, err)
	}
	return nil
}

// Put saves the value without waiting for the disk. One that is the same is not written again.
func (v *Value) Put(value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s to state file: %w", v.name, err)
	}
	v.file.put(record{v.name, replaces, raw})
	return nil
}

// Forget removes the value without waiting for the disk.
func (v *Value) Forget() { v.file.put(record{v.name, removes, nil}) }

// Save saves the value. When it returns nil, the value is on the disk, if the file has a path. After an error it is in memory, and written
// when the disk works again.
func (v *Value) Save(value any) error {
	if err := v.Put(value); err != nil {
		return err
	}
	return v.file.wait(waiter{insists: true, sync: !v.unsynced})
}

// Group is many small values of one owner, such as one for each problem.
type Group struct {
	file   *File
	prefix string
}

// Group returns the values whose names begin with a name and a slash.
func (f *File) Group(name string) *Group { return &Group{f, name + "/"} }

// Load returns the JSON of the values by the rest of their names.
func (g *Group) Load() map[string]json.RawMessage {
	g.file.mu.Lock()
	defer g.file.mu.Unlock()
	found := map[string]json.RawMessage{}
	for name, raw := range g.file.values {
		if rest, ours := strings.CutPrefix(name, g.prefix); ours {
			found[rest] = raw
		}
	}
	return found
}

// Put makes these the values of the group, without waiting for the disk.
func (g *Group) Put(values map[string]any) error {
	before := g.Load()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		delete(before, name)
		if err := g.file.Value(g.prefix + name).Put(values[name]); err != nil {
			return err
		}
	}
	for name := range before {
		g.file.Value(g.prefix + name).Forget()
	}
	return nil
}
