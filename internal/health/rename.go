package health

import "slices"

// renameTargets moves what is remembered of targets that are not there any more to new ones of the same place: they have another name. It
// returns an event for each.
func (j *Judge) renameTargets(f *Facts) (renamed []Event) {
	there := func(name string) bool {
		return slices.ContainsFunc(f.Targets, func(t Target) bool { return t.Name == name })
	}
	former := map[string][]string{} // by place
	for name, known := range j.targets {
		if known.place != "" && !there(name) {
			former[known.place] = append(former[known.place], name)
		}
	}
	for i := range f.Targets {
		t := &f.Targets[i]
		others := slices.ContainsFunc(f.Targets, func(o Target) bool { return o.Place == t.Place && o.Name != t.Name })
		if was := former[t.Place]; len(was) == 1 && j.targets[t.Name] == nil && !others {
			from, to := TargetSubject(was[0]), TargetSubject(t.Name)
			j.move(from, to)
			moveKey(j.targets, from.Name, to.Name, j.targets[from.Name])
			renamed = append(renamed, Event{Of: Key(to), Was: Key(from)})
		}
	}
	return renamed
}
