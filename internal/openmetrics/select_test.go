package openmetrics

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
)

// selection is a page with a family that nobody wants, which is broken in every way and larger than the limits.
const selection = `# TYPE unwanted counter
unwanted_total{n="1"} 1
unwanted_total{n="1"} 2
unwanted_total{n="2",n="2"} 3
unwanted_created{n="1"} 4
unwanted_total{n="3"} 5
# TYPE wanted gauge
wanted{n="1"} 1
# TYPE unwanted counter
unwanted_total{n="long long long long long long long"} 6
# TYPE renamed counter
renamed_total 7
renamed_created 8
# TYPE taken gauge
taken 9
# TYPE refused gauge
refused 10
# EOF
`

func TestUnwantedFamiliesCountAsNothing(t *testing.T) {
	var asked []string
	page := Read([]byte(selection), "application/openmetrics-text", Options{
		Series:     4,
		LabelBytes: 20,
		Keep: func(family string, kind model.MetricType) bool {
			asked = append(asked, family+" "+string(kind))
			return family != "unwanted"
		},
		Rename: func(family string, kind model.MetricType) string {
			if family == "renamed" && kind == model.MetricTypeCounter {
				return "better"
			}
			return strings.Replace(family, "refused", "ours_refused", 1)
		},
		Name: func(family string) (string, bool) { return family, !strings.HasPrefix(family, "ours_") },
	})
	var got []string
	for _, f := range page.Families {
		got = append(got, f.TextName()+" "+string(f.Type))
	}
	if want := []string{"wanted gauge", "better_total counter", "taken gauge"}; !slices.Equal(got, want) {
		t.Errorf("families: got %q, want %q", got, want)
	}
	if want := []string{"wanted", "renamed", "taken"}; !slices.Equal(page.Names, want) {
		t.Errorf("the page's own names: got %q, want %q", page.Names, want)
	}
	if want := []string{"unwanted counter", "wanted gauge", "renamed counter", "taken gauge", "refused gauge"}; !slices.Equal(asked, want) {
		t.Errorf("asked about %q, want %q", asked, want)
	}
	if page.Series != 3 || page.Dropped[Clash] != 1 || page.Dropped[Limit] != 0 || page.Dropped[Malformed] != 0 {
		t.Errorf("kept %d series, dropped %v; want 3 and one clash: %v", page.Series, page.Dropped, page.Drops)
	}
}

func TestRenameOntoAnotherFamilyIsAClash(t *testing.T) {
	page := Read([]byte("# TYPE a gauge\na 1\n# TYPE b counter\nb_total 2\n# EOF\n"), "application/openmetrics-text", Options{
		Rename: func(string, model.MetricType) string { return "b" },
	})
	if page.Series != 1 || page.Families[0].Name != "b" || page.Families[0].Type != model.MetricTypeCounter || page.Dropped[Clash] != 1 {
		t.Errorf("got %+v, dropped %v; want the counter that is called b from home", page.Families, page.Dropped)
	}
}
