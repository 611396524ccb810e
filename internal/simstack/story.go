package simstack

import (
	_ "embed" // for the stories
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"gopkg.in/yaml.v3"
)

// Story is a set of faults that are switched together, for people who see the stack for the first time.
type Story struct {
	ID    string `json:"story" yaml:"id"`
	Title string `json:"title" yaml:"title"`
	// Watch says in one sentence what the demo's status page shows, and when.
	Watch string `json:"watch" yaml:"watch"`
	// Faults are the story's faults by service.
	Faults map[string]string `json:"faults" yaml:"faults"`
	// Shows are the problems that Watch announces.
	Shows []Announcement `json:"-" yaml:"shows"`
	// Silent are the alerts that stay pending until the last of Shows.
	Silent []string `json:"-" yaml:"silent"`
}

// Announcement is a problem that a story leads to in the demo: within a time, or when its alert has waited for a time.
type Announcement struct {
	Within   time.Duration `yaml:"within"`
	After    time.Duration `yaml:"after"`
	Alert    string        `yaml:"alert"`
	Name     string        `yaml:"name"`
	Severity string        `yaml:"severity"`
}

//go:embed stories.yaml
var storiesYAML []byte

var knownStories = sync.OnceValue(func() (all []Story) {
	if err := yaml.Unmarshal(storiesYAML, &all); err != nil {
		panic(err) // it is part of the binary
	}
	return all
})

// Stories returns all stories in the order of the switchboard.
func Stories() []Story { return slices.Clone(knownStories()) }

// has reports whether a fault is part of the story.
func (s *Story) has(f Fault) bool { return s.Faults[f.Service] == f.Name }

// faults returns the story's faults, sorted by service.
func (s *Story) faults() (all []Fault) {
	for _, service := range slices.Sorted(maps.Keys(s.Faults)) {
		all = append(all, Fault{Service: service, Name: s.Faults[service]})
	}
	return all
}

// storySwitches are the stories that were switched on. The zero value has none.
type storySwitches struct {
	mu sync.Mutex // held while a story is switched
	// switched are the faults that each story switched on: a fault that was on before stays on after the story.
	switched map[string][]Fault
}

// ActiveStories returns the ids of the stories that were switched on and whose faults are all still on.
func (k *Stack) ActiveStories() []string {
	k.stories.mu.Lock()
	defer k.stories.mu.Unlock()
	return k.activeStories()
}

// activeStories is ActiveStories for callers that hold the lock.
func (k *Stack) activeStories() (ids []string) {
	for _, s := range knownStories() {
		if _, on := k.stories.switched[s.ID]; on && !slices.ContainsFunc(s.faults(), func(f Fault) bool { return !k.isOn(f) }) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func (k *Stack) isOn(f Fault) bool {
	s := k.service(f.Service)
	return s != nil && s.on(f.Name)
}

// SwitchStory turns all faults of a story on, or turns off those that the story turned on, unless another story that is on needs them.
func (k *Stack) SwitchStory(id string, on bool) error {
	stories := knownStories()
	i := slices.IndexFunc(stories, func(s Story) bool { return s.ID == id })
	if i < 0 {
		var ids []string
		for _, s := range stories {
			ids = append(ids, s.ID)
		}
		return fmt.Errorf("unknown story %q; the stories are %v", id, ids)
	}
	k.stories.mu.Lock()
	defer k.stories.mu.Unlock()
	if on {
		return k.beginStory(&stories[i])
	}
	return k.endStory(&stories[i])
}

// beginStory turns a story's faults on. The caller holds the stories' lock.
func (k *Stack) beginStory(s *Story) error {
	if k.stories.switched == nil {
		k.stories.switched = map[string][]Fault{}
	}
	own, errs := k.stories.switched[s.ID], []error{}
	for _, f := range s.faults() {
		if k.isOn(f) {
			continue
		}
		err := k.Switch(f.Service, f.Name, true)
		if err == nil {
			own = append(own, f)
		}
		errs = append(errs, err)
	}
	k.stories.switched[s.ID] = own
	return errors.Join(errs...)
}

// endStory turns the faults off that a story turned on. The caller holds the stories' lock.
func (k *Stack) endStory(s *Story) error {
	own := k.stories.switched[s.ID]
	delete(k.stories.switched, s.ID)
	var others []*Story
	for i, other := range knownStories() {
		if slices.Contains(k.activeStories(), other.ID) {
			others = append(others, &knownStories()[i])
		}
	}
	var errs []error
	for _, f := range own {
		if i := slices.IndexFunc(others, func(other *Story) bool { return other.has(f) }); i >= 0 {
			k.stories.switched[others[i].ID] = append(k.stories.switched[others[i].ID], f)
			continue
		}
		errs = append(errs, k.Switch(f.Service, f.Name, false))
	}
	// In a coupled stack, the end of one fault can end another.
	for _, other := range others {
		errs = append(errs, k.beginStory(other))
	}
	return errors.Join(errs...)
}
