package health

// Renames returns the former names of the targets that only got another name, by the new one. Both maps have the place of every target by
// its name, as before and as now. Where two could be meant, and where the place is unknown, none was renamed.
func Renames(before, now map[string]string) map[string]string {
	gone, there := map[string][]string{}, map[string]int{} // by place
	for name, place := range before {
		if _, kept := now[name]; !kept && place != "" {
			gone[place] = append(gone[place], name)
		}
	}
	for _, place := range now {
		there[place]++
	}
	renamed := map[string]string{}
	for name, place := range now {
		if _, known := before[name]; !known && there[place] == 1 && len(gone[place]) == 1 {
			renamed[name] = gone[place][0]
		}
	}
	return renamed
}

// renameTargets moves the memory of a target to its new name, if kind and place are the same. It returns an event for each.
func (j *Judge) renameTargets(f *Facts) (events []Event) {
	before, now := make(map[string]string, len(j.targets)), make(map[string]string, len(f.Targets))
	for name, known := range j.targets {
		before[name] = known.place
	}
	for i := range f.Targets {
		now[f.Targets[i].Name] = f.Targets[i].Place
	}
	renamed := Renames(before, now)
	for i := range f.Targets {
		name := f.Targets[i].Name
		if was := renamed[name]; was != "" {
			from, to := TargetSubject(was), TargetSubject(name)
			j.move(from, to)
			moveKey(j.targets, was, name, j.targets[was])
			events = append(events, Event{Of: Key(to), Was: Key(from)})
		}
	}
	return events
}
