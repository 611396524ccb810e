package openmetrics

import "github.com/prometheus/common/model"

// passesOver reports whether the samples of a family are not wanted. It is decided at the first of them, when the
// family's type is known.
func (r *reader) passesOver(f *family) bool {
	if !f.judged {
		f.judged = true
		kind := f.kind
		if kind == "" {
			kind = model.MetricTypeUnknown
		}
		f.unwanted = r.opts.Keep != nil && !r.opts.Keep(f.declared, kind)
	}
	return f.unwanted
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
