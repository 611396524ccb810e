package web_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// agree checks that the numbers on a page are consistent.
func agree(t *testing.T, name, page string) {
	t.Helper()
	find := func(pattern string) string {
		if m := regexp.MustCompile(pattern).FindStringSubmatch(page); m != nil {
			return m[1]
		}
		return ""
	}
	cards := regexp.MustCompile(`(?m)^(Critical|Warning) · for (.+?), since (\d\d:\d\d)`).FindAllStringSubmatch(page, -1)
	if wrong, _ := strconv.Atoi(find(`Problems\s+(\d+)`)); wrong != len(cards) {
		t.Errorf("%s: %d things are wrong, and %d are shown", name, wrong, len(cards))
	}
	// While all is well, the table of thresholds is folded.
	headline, unhealthy := find(`For (.+?, since .+?)\.`), find(`Unhealthy containers\n(?:\S+\n)?(\d+ \w+)`)
	if headline == "" || unhealthy == "" && len(cards) > 0 || strings.Contains(page, "a rate needs two probes") {
		t.Errorf("%s: headline %q, unhealthy for %q, or a rate that is not known yet", name, headline, unhealthy)
	}
	if len(cards) > 0 && headline != cards[0][2]+", since "+cards[0][3] {
		t.Errorf("%s: the headline lasts for %q, what it speaks of since %q", name, headline, cards[0])
	}
	if last := len(cards) - 1; last >= 0 && unhealthy != cards[last][2] {
		t.Errorf("%s: the threshold counts %s, and the container is unhealthy for %s", name, unhealthy, cards[last][2])
	}
	if all := find(`All systems operational: (\d+) (?:services|targets)`); len(cards) == 0 &&
		(all == "" || all != find(`(?:Services|Targets)\s+(\d+)`)) {
		t.Errorf("%s: %q services are well of %s", name, all, find(`(?:Services|Targets)\s+(\d+)`))
	}
	for _, stamp := range regexp.MustCompile(`20\d\d-\d\d-\d\d`).FindAllString(page, -1) {
		if stamp != "2026-03-14" {
			t.Errorf("%s: the page of a night in March speaks of %s", name, stamp)
		}
	}
}

// TestPicturesOfTheREADMEAgree reads the pictures' texts, which make pictures writes with them.
func TestPicturesOfTheREADMEAgree(t *testing.T) {
	for _, name := range []string{"healthy", "faults", "phone"} {
		text, err := os.ReadFile("pictures_" + name + ".txt")
		if err != nil {
			t.Errorf("what the picture shows is not known, run make pictures: %v", err)
			continue
		}
		agree(t, name, string(text))
	}
}
