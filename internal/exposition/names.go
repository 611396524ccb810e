package exposition

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"
)

// names are the families of a page: their types by their names.
type names struct {
	byName  map[string]model.MetricType
	scratch []byte
}

// claim enters a family, unless its name belongs to one of another type, or a sample of one of the two could have a
// name that is the other's.
func (n *names) claim(f *Family) bool {
	if kind, known := n.byName[f.Name]; known {
		return kind == f.Type
	}
	if i := strings.LastIndexByte(f.Name, '_'); i >= 0 {
		kind, known := n.byName[f.Name[:i]]
		if known && slices.ContainsFunc(rolesOf[kind], func(r Role) bool { return suffixes[r] == f.Name[i:] }) {
			return false
		}
	}
	for _, role := range rolesOf[f.Type] {
		n.scratch = append(append(n.scratch[:0], f.Name...), suffixes[role]...)
		if _, known := n.byName[string(n.scratch)]; known {
			return false
		}
	}
	n.byName[f.Name] = f.Type
	return true
}
