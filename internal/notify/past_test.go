package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/notify/service"
)

// TestNothingOfThePastIsToldToANewReceiver: what the file has from a time with receivers is dropped when there are none.
func TestNothingOfThePastIsToldToANewReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &file{}
		dead := &telephone{fail: func(*service.Message) error { return fmt.Errorf("status 500") }}
		p := start(t, f, map[string]*telephone{"phone": dead})
		p.see(web)
		time.Sleep(time.Minute)
		p.end()
		p = start(t, f, nil) // notify is removed, and the exporter restarted
		time.Sleep(30 * 24 * time.Hour)
		p.end()
		phone := &telephone{}
		p = start(t, f, map[string]*telephone{"phone": phone})
		time.Sleep(time.Hour)
		p.end()
		if got := phone.list(); len(got) > 0 {
			t.Errorf("got %q", got)
		}
	})
}

// TestClockThatWasAheadDelaysNothing: what the former process noted is not in the future.
func TestClockThatWasAheadDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, phone := &file{}, &telephone{}
		p := start(t, f, map[string]*telephone{"phone": phone})
		p.see(web)
		time.Sleep(time.Minute)
		p.end()
		kept := f.Load()
		for name, raw := range kept {
			later := strings.ReplaceAll(string(raw), time.Now().Format("2006-"), time.Now().AddDate(9, 0, 0).Format("2006-"))
			kept[name] = json.RawMessage(later)
		}
		p = start(t, &file{kept: kept, now: kept}, map[string]*telephone{"phone": phone})
		p.see(web)
		time.Sleep(time.Minute)
		p.see(web, health.TargetSubject("api"))
		time.Sleep(3 * time.Minute)
		p.see()
		time.Sleep(3 * time.Minute)
		p.end()
		if got := phone.list(); len(got) != 4 {
			t.Errorf("got %q, want that both are down, and over", got)
		}
	})
}
