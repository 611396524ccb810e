package exposition

import "github.com/prometheus/common/model"

// Role is what a sample is to its family; each has a suffix of its own.
type Role uint8

// The roles, in the order in which the samples of one metric are written.
const (
	Bare Role = iota // the family's own name: a gauge, a quantile, a state
	Bucket
	Sum
	Count
	GSum
	GCount
	Total
	Info
	Created
	// Roles is how many there are.
	Roles
)

var suffixes = [Roles]string{
	Bare: "", Bucket: "_bucket", Sum: "_sum", Count: "_count", GSum: "_gsum", GCount: "_gcount", Total: "_total",
	Info: "_info", Created: "_created",
}

// rolesOf are the samples that a family of each type may have, in either format.
var rolesOf = map[model.MetricType][]Role{
	model.MetricTypeCounter:        {Total, Created},
	model.MetricTypeGauge:          {Bare},
	model.MetricTypeUnknown:        {Bare},
	model.MetricTypeStateset:       {Bare},
	model.MetricTypeInfo:           {Info},
	model.MetricTypeHistogram:      {Bucket, Sum, Count, Created},
	model.MetricTypeGaugeHistogram: {Bucket, GSum, GCount},
	model.MetricTypeSummary:        {Bare, Sum, Count, Created},
}

// Suffix is what the role adds to the name of a family.
func (r Role) Suffix() string { return suffixes[r] }

// RolesOf returns the roles that samples of a type can have; nil for a type that the formats do not know.
func RolesOf(t model.MetricType) []Role { return rolesOf[t] }

// RoleOf returns the role that a suffix stands for. The empty suffix stands for Bare.
func RoleOf(suffix []byte) (Role, bool) {
	for r := range Roles {
		if string(suffix) == suffixes[r] {
			return r, true
		}
	}
	return 0, false
}

// NamesOf returns the names that the samples and the metadata of a family can have.
func NamesOf(family string, t model.MetricType) []string {
	names := []string{family}
	for _, r := range rolesOf[t] {
		if r != Bare {
			names = append(names, family+suffixes[r])
		}
	}
	return names
}
