package poll

import (
	"slices"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// TestOnlyWaitingTargetsHaveATimeOfTheNextTry, which the text of TargetDown asks for.
func TestOnlyWaitingTargetsHaveATimeOfTheNextTry(t *testing.T) {
	statuses := []Status{{Target: "login", Waiting: Waiting{RetryAt: time.Unix(1700000000, 5e8)}}, {Target: "web"}}
	var got []string
	for i := range statusFamilies {
		if f := &statusFamilies[i]; f.desc == retryDesc {
			families, err := new(exposition.Encoder).Encode(f.samples(statuses))
			must(t, err)
			for _, family := range families {
				got = append(got, string(family.Text))
			}
		}
	}
	if want := []string{"chatstack_target_retry_timestamp_seconds{target=\"login\"} 1.7000000005e+09\n"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
