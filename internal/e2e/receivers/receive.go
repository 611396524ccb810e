package receivers

import (
	"strings"
	"testing"
	"time"
)

// Await waits for a message of each service about the case, and judges them. It returns them by service.
func (s *Services) Await(tb testing.TB, c *Case) map[string]Message {
	tb.Helper()
	got := map[string]Message{}
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	for len(got) < len(Names()) {
		select {
		case m := <-s.Messages:
			if _, again := got[m.Service]; again {
				tb.Errorf("%s: %s sends another message: %s\n%s", c.Name, m.Service, m.Title, m.Text)
			}
			got[m.Service] = m
			c.judge(tb, &m)
		case <-patience.C:
			tb.Fatalf("%s: got messages of %d services, want all of %v", c.Name, len(got), Names())
		}
	}
	return got
}

func (c *Case) judge(tb testing.TB, m *Message) {
	tb.Helper()
	if !strings.HasPrefix(m.Title, c.Title) {
		tb.Errorf("%s: %s has the title\n%s\nwant\n%s", c.Name, m.Service, m.Title, c.Title)
	}
	text := strings.ToLower(strings.Join(strings.Fields(strings.ReplaceAll(m.Title+"\n"+m.Text, `\`, "")), " "))
	for _, want := range c.Says {
		if !strings.Contains(text, strings.ToLower(want)) {
			tb.Errorf("%s: %s says\n%s\nwant\n%s", c.Name, m.Service, m.Text, want)
		}
	}
	for _, never := range c.Never {
		if strings.Contains(text, strings.ToLower(never)) {
			tb.Errorf("%s: %s says\n%s\nwithout\n%s", c.Name, m.Service, m.Text, never)
		}
	}
	if strings.Contains(m.Text, "<no value>") || strings.Contains(m.Title+m.Text, "%!") {
		tb.Errorf("%s: %s has holes:\n%s", c.Name, m.Service, m.Text)
	}
}
