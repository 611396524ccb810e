package openmetrics

import (
	"hash/maphash"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// rename gives a family the name that the options have for it.
func (r *reader) rename(f *family) {
	if len(f.samples) == 0 {
		return
	}
	f.own = f.name
	name, ok := r.newName(f)
	if !ok || !exposition.IsMetricName(name) {
		r.dropFamily(f, Clash, "name is not the upstream's to use")
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

// newName is what the options call a family; false where they refuse it.
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

// renameState renames the label of a state set, which is called like its family.
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
			r.dropped(f, Clash, exposition.Bare, 1, "label of the state set cannot be renamed")
		}
	}
	f.compact()
}

// claim takes the names that a family may write samples under, and its own, but for a counter. It returns false if one of
// them is taken.
func (r *reader) claim(claims map[uint64]struct{}, f *family) bool {
	var scratch [256]byte
	var hashes [exposition.Roles]uint64
	list := exposition.RolesOf(f.kind)
	for i, role := range list {
		hashes[i] = maphash.Bytes(r.seed, append(append(scratch[:0], f.name...), role.Suffix()...))
	}
	n := len(list)
	if list[0] != exposition.Bare && f.kind != model.MetricTypeCounter {
		hashes[n] = maphash.Bytes(r.seed, append(scratch[:0], f.name...))
		n++
	}
	for _, h := range hashes[:n] {
		if _, taken := claims[h]; taken {
			return false
		}
	}
	for _, h := range hashes[:n] {
		claims[h] = struct{}{}
	}
	return true
}

// claimBase takes the name that a counter has without _total, which none of its samples has. It returns false if that is
// taken.
func (r *reader) claimBase(claims map[uint64]struct{}, f *family) bool {
	h := maphash.String(r.seed, f.name)
	if _, taken := claims[h]; taken {
		return false
	}
	claims[h] = struct{}{}
	return true
}
