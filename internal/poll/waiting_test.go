package poll

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// TestTextsOfAlertsFindWhatTheyAskFor has series that no rule compares: the texts of alerts query them.
func TestTextsOfAlertsFindWhatTheyAskFor(t *testing.T) {
	statuses := []Status{
		{Target: "login", Kind: "irc_tls", Waiting: Waiting{RetryAt: time.Unix(1700000000, 5e8)}},
		{Target: "plants", Kind: "plant_store"},
		{Target: "search", Kind: "docs_search"},
		{Target: "strange", Kind: "none such"},
	}
	for desc, want := range map[*prometheus.Desc][]string{
		retryDesc: {"chatstack_target_retry_timestamp_seconds{target=\"login\"} 1.7000000005e+09\n"},
		targetWordsDesc: {
			`chatstack_target_words{loss="",target="search",title="Documentation search"} 1` + "\n" +
				`chatstack_target_words{loss="IRC clients cannot connect over TLS.",target="login",title="IRC server TLS port"} 1` + "\n" +
				`chatstack_target_words{loss="The plant store does not answer.",target="plants",title="Plant store"} 1` + "\n",
		},
	} {
		var got []string
		for i := range statusFamilies {
			if f := &statusFamilies[i]; f.desc == desc {
				families, err := new(exposition.Encoder).Encode(f.samples(statuses))
				must(t, err)
				for _, family := range families {
					got = append(got, string(family.Text))
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
