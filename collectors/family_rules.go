package collectors

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// FamilyRules decide which families of a target's own metrics are served, and under which names. The suffixes _total of
// counters and _info of infos are optional in the rules. The zero FamilyRules serve all families.
type FamilyRules struct {
	// Allow are patterns of the families that are served; all where empty. *, ? and [a-z] are as in a shell.
	Allow []string `yaml:"allow"`
	// Deny are patterns of allowed families that are not served. Such series do not count as dropped.
	Deny []string `yaml:"deny"`
	// Rename maps names of families to new names. It takes no patterns.
	Rename map[string]string `yaml:"rename"`
}

var (
	familyName    = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	familyPattern = regexp.MustCompile(`^[a-zA-Z0-9_:*?\[\]^\\-]+$`)
)

// check reports errors. served returns the final name of a family that Rename has renamed.
func (f *FamilyRules) check(r *config.Report, served func(name string) string) {
	for key, patterns := range map[string][]string{"allow": f.Allow, "deny": f.Deny} {
		for i, p := range patterns {
			if _, err := path.Match(p, ""); err != nil || !familyPattern.MatchString(p) {
				r.Faultf(fmt.Sprintf("%s[%d]", key, i), "is %q, must be a family name, or a pattern with *, ? and [a-z]", p)
			}
		}
	}
	from, to := map[string]string{}, map[string]string{}
	for _, old := range slices.Sorted(maps.Keys(f.Rename)) {
		key, name := "rename."+old, f.Rename[old]
		switch {
		case !familyName.MatchString(old):
			r.Faultf(key, "is not a family name: use letters, digits, underscores and colons, and do not begin with a digit")
			continue
		case !familyName.MatchString(name):
			r.Faultf(key, "is %q, must have only letters, digits, underscores and colons, and not begin with a digit", name)
			continue
		case strings.HasPrefix(served(name), ownPrefix):
			r.Faultf(key, "is %q, which begins with %s, the prefix of the exporter's own metrics", name, ownPrefix)
			continue
		}
		if first, taken := from[bareName(old)]; taken {
			r.Faultf(key, "names the same family as %s; keep one of them", first)
		}
		if first, taken := to[bareName(name)]; taken {
			r.Faultf(key, "is %q, which %s is renamed to as well; choose different names", name, first)
		}
		from[bareName(old)], to[bareName(name)] = old, old
	}
}

// bareName is a name without the suffix that a counter or an info has in the text format.
func bareName(name string) string {
	for _, suffix := range []string{exposition.Total.Suffix(), exposition.Info.Suffix()} {
		if base, ok := strings.CutSuffix(name, suffix); ok && base != "" {
			return base
		}
	}
	return name
}

// spellings returns the names by which rules can match a family. In text format, creation times are gauges beside their family.
func spellings(family string, kind model.MetricType) []string {
	total, info := exposition.Total.Suffix(), exposition.Info.Suffix()
	switch kind {
	case model.MetricTypeCounter:
		base := strings.TrimSuffix(family, total)
		return []string{base, base + total}
	case model.MetricTypeInfo:
		base := strings.TrimSuffix(family, info)
		return []string{base, base + info}
	default:
		if base, ok := strings.CutSuffix(family, exposition.Created.Suffix()); ok && base != "" {
			return []string{family, base, base + total}
		}
		return []string{family}
	}
}

// serves reports whether the rules let a family through. The rules must be valid.
func (f *FamilyRules) serves(family string, kind model.MetricType) bool {
	if len(f.Allow)+len(f.Deny) == 0 {
		return true
	}
	names := spellings(family, kind)
	return (len(f.Allow) == 0 || matches(f.Allow, names)) && !matches(f.Deny, names)
}

func matches(patterns, names []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			ok, err := path.Match(p, name)
			return ok && err == nil
		})
	})
}

// renamed returns the new name of a family in OpenMetrics' spelling, without the suffix of a counter or an info. A family that is not
// served keeps its name.
func (f *FamilyRules) renamed(family string, kind model.MetricType) string {
	if len(f.Rename) == 0 || !f.serves(family, kind) {
		return family
	}
	names := spellings(family, kind)
	if kind != model.MetricTypeCounter && kind != model.MetricTypeInfo {
		names = names[:1]
	}
	for _, name := range names {
		if to, ok := f.Rename[name]; ok {
			if len(names) > 1 {
				to = strings.TrimSuffix(to, names[1][len(names[0]):])
			}
			return to
		}
	}
	return family
}
