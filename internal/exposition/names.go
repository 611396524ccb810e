package exposition

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"
)

// suffixes are what samples of a type add to the name of their family, in either format.
var suffixes = map[model.MetricType][]string{
	model.MetricTypeCounter:        {"_total", "_created"},
	model.MetricTypeInfo:           {"_info"},
	model.MetricTypeHistogram:      {"_bucket", "_count", "_sum", "_created"},
	model.MetricTypeGaugeHistogram: {"_bucket", "_gcount", "_gsum"},
	model.MetricTypeSummary:        {"_count", "_sum", "_created"},
}

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
		if kind, known := n.byName[f.Name[:i]]; known && slices.Contains(suffixes[kind], f.Name[i:]) {
			return false
		}
	}
	for _, suffix := range suffixes[f.Type] {
		n.scratch = append(append(n.scratch[:0], f.Name...), suffix...)
		if _, known := n.byName[string(n.scratch)]; known {
			return false
		}
	}
	n.byName[f.Name] = f.Type
	return true
}
