package openmetrics

import (
	"hash/maphash"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// rename renames a family as the options say.
func (r *reader) rename(f *family) {
	if len(f.samples) == 0 {
		return
	}
	f.own = f.name
	name, ok := r.newName(f)
	if !ok || !exposition.IsMetricName(name) {
		r.dropFamily(f, Clash, "name is reserved")
		return
	}
	if name == f.name {
		return
	}
	f.name, f.renamed = name, true
	if !unitFits(f.name, f.unit, f.kind) {
		f.unit = ""
	}
	if f.kind == model.MetricTypeStateset {
		r.renameState(f)
	}
}

// newName returns the new name of a family; false if the options refuse it.
func (r *reader) newName(f *family) (string, bool) {
	name := f.name
	if r.opts.Rename != nil {
		name = r.opts.Rename(name, f.kind)
	}
	if r.opts.Name == nil {
		return name, true
	}
	return r.opts.Name(name)
}

// renameState renames the label of a state set, which has the family's name.
func (r *reader) renameState(f *family) {
	for i := range f.samples {
		s := &f.samples[i]
		l := exposition.LabelReader[[]byte]{Set: s.labels}
		out := make([]byte, 0, len(s.labels)+len(f.name))
		open := byte('{')
		clash := false
		for name, value, more := l.Next(); more; name, value, more = l.Next() {
			if string(name) == f.declared {
				name = []byte(f.name)
			} else if string(name) == f.name {
				clash = true
			}
			out = exposition.AppendLabel(append(out, open), name, exposition.Unescape(value))
			open = ','
		}
		s.labels = append(out, '}')
		s.dropped = clash || !exposition.IsLabelName(f.name)
		if s.dropped {
			r.drop(Clash, f.line, 1, "label of the state set cannot be renamed", []byte(f.declared))
		}
	}
	f.compact()
}

// claimSamples claims the names of a family's samples and, except for counters, its own name.
func (r *reader) claimSamples(claims map[uint64]struct{}, f *family) bool {
	var room [exposition.Roles]exposition.Role
	roles := append(room[:0], exposition.RolesOf(f.kind)...)
	if roles[0] != exposition.Bare && f.kind != model.MetricTypeCounter {
		roles = append(roles, exposition.Bare)
	}
	return r.claim(claims, f.name, roles...)
}

// claim claims the names of a family's samples of these roles, or none if one of them is already claimed.
func (r *reader) claim(claims map[uint64]struct{}, name string, roles ...exposition.Role) bool {
	var scratch [256]byte
	var hashes [exposition.Roles]uint64
	for i, role := range roles {
		hashes[i] = maphash.Bytes(r.seed, append(append(scratch[:0], name...), role.Suffix()...))
		if _, taken := claims[hashes[i]]; taken {
			return false
		}
	}
	for _, h := range hashes[:len(roles)] {
		claims[h] = struct{}{}
	}
	return true
}
