package notify

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/notify/service"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// titles are those of the messages that it got, without the problem that makes the others fail.
func (p *telephone) titles() (list []string) {
	for _, got := range p.list() {
		if _, title, _ := strings.Cut(got, " "); !strings.Contains(title, "eb is down") {
			list = append(list, title)
		}
	}
	return list
}

func (p *telephone) failWith(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = nil
	if err != nil {
		p.fail = func(*service.Message) error { return err }
	}
}

func wantTitles(t *testing.T, phone *telephone, want ...string) {
	t.Helper()
	if got := phone.titles(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

const phoneFails = "The exporter cannot deliver its messages to phone"

// TestOthersAreToldOfAReceiverThatFails after a quarter of an hour, also while nothing waits. The receiver itself is not.
func TestOthersAreToldOfAReceiverThatFails(t *testing.T) {
	for name, refusal := range map[string]error{"for a while": errors.New("status 500"), "for good": permanentError{}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				phone, mail := &telephone{}, &telephone{}
				p := start(t, &file{}, map[string]*telephone{"phone": phone, "mail": mail})
				defer p.end()
				phone.failWith(refusal)
				p.see(web)
				time.Sleep(15 * time.Minute)
				wantTitles(t, mail)
				time.Sleep(2 * time.Minute)
				wantTitles(t, mail, "[WARNING] "+phoneFails)
				time.Sleep(2 * time.Hour)
				phone.failWith(nil)
				p.see()
				time.Sleep(20 * time.Minute)
				wantTitles(t, mail, "[WARNING] "+phoneFails, "[RESOLVED] It was: "+phoneFails)
				wantTitles(t, phone)
			})
		})
	}
}

type permanentError struct{}

func (permanentError) Error() string { return "status 400" }
func (permanentError) Permanent()    {}

// TestReloadForgetsARefusal while nothing waits: no attempt could show that the receiver is mended.
func TestReloadForgetsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		phone, mail := &telephone{}, &telephone{}
		p := start(t, &file{}, map[string]*telephone{"phone": phone, "mail": mail})
		defer p.end()
		phone.failWith(permanentError{})
		p.see(web)
		time.Sleep(20 * time.Minute)
		p.notifier.mu.Lock()
		receivers := slices.Clone(p.notifier.receivers)
		p.notifier.mu.Unlock()
		p.notifier.Configure(receivers, Site{}, quarterHour, time.Now())
		time.Sleep(10 * time.Minute)
		wantTitles(t, mail, "[WARNING] "+phoneFails, "[RESOLVED] It was: "+phoneFails)
	})
}

// TestEachReceiverThatFailsIsTold for itself, and so is its end.
func TestEachReceiverThatFailsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		phone, fax, mail := &telephone{}, &telephone{}, &telephone{}
		p := start(t, &file{}, map[string]*telephone{"phone": phone, "fax": fax, "mail": mail})
		defer p.end()
		phone.failWith(errors.New("status 401"))
		fax.failWith(errors.New("status 401"))
		p.see(web)
		time.Sleep(20 * time.Minute)
		const faxFails = "The exporter cannot deliver its messages to fax"
		wantTitles(t, mail, "[WARNING] "+faxFails, "[WARNING] "+phoneFails)
		fax.failWith(nil)
		time.Sleep(20 * time.Minute)
		wantTitles(t, mail, "[WARNING] "+faxFails, "[WARNING] "+phoneFails, "[RESOLVED] It was: "+faxFails)
		wantTitles(t, fax, "[WARNING] "+phoneFails)
	})
}

// TestRestartEndsNoFailure of a receiver: without a message that arrives, it goes on.
func TestRestartEndsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		phone, mail, f := &telephone{}, &telephone{}, &file{}
		phones := map[string]*telephone{"phone": phone, "mail": mail}
		phone.failWith(errors.New("status 500"))
		p := start(t, f, phones)
		p.see(web)
		time.Sleep(20 * time.Minute)
		p.end()
		p = start(t, f, phones)
		defer p.end()
		p.see(web)
		if s := p.notifier.States()[1]; s.Name != "phone" || s.Failing == "" || time.Since(s.Since) < 15*time.Minute {
			t.Errorf("after the restart: %+v", s)
		}
		time.Sleep(time.Hour)
		wantTitles(t, mail, "[WARNING] "+phoneFails)
		phone.failWith(nil)
		time.Sleep(20 * time.Minute)
		wantTitles(t, mail, "[WARNING] "+phoneFails, "[RESOLVED] It was: "+phoneFails)
	})
}

// TestLostNetworkIsNoFailureOfReceivers neither while none works nor while most targets do not answer.
func TestLostNetworkIsNoFailureOfReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		phone, mail := &telephone{}, &telephone{}
		p := start(t, &file{}, map[string]*telephone{"phone": phone, "mail": mail})
		defer p.end()
		phone.failWith(errors.New("timeout"))
		mail.failWith(errors.New("timeout"))
		p.see(web)
		time.Sleep(2 * time.Hour)
		mail.failWith(nil)
		phone.failWith(nil)
		time.Sleep(20 * time.Minute)
		p.see(web, most)
		phone.failWith(errors.New("timeout"))
		time.Sleep(2 * time.Hour)
		for _, title := range append(mail.titles(), phone.titles()...) {
			if strings.Contains(title, "deliver") {
				t.Errorf("told %q", title)
			}
		}
	})
}

// TestTroublesOfTheExporterAreTold once they have lasted as long as their rules wait.
func TestTroublesOfTheExporterAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		phone := &telephone{}
		p := start(t, &file{}, map[string]*telephone{"phone": phone})
		defer p.end()
		set := func(n status.Notices) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.notices = n
		}
		set(status.Notices{ConfigError: "exporter.yaml:3", Unsaved: &status.Unsaved{Since: time.Now(), Error: "disk full"}})
		time.Sleep(15 * time.Minute)
		wantTitles(t, phone)
		time.Sleep(2 * time.Minute)
		began := []string{"[WARNING] The exporter could not reload its configuration", "[WARNING] The exporter cannot save its state"}
		wantTitles(t, phone, began...)
		set(status.Notices{})
		time.Sleep(5 * time.Minute)
		wantTitles(t, phone, append(began, "[RESOLVED] It was: The exporter could not reload its configuration",
			"[RESOLVED] It was: The exporter cannot save its state")...)
	})
}
