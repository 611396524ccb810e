package config_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// checkURL knows some services. Its errors repeat what they must not.
func checkURL(n *config.Notify) error {
	raw := n.URL.Reveal()
	u, err := url.Parse(raw)
	if err != nil {
		return err
	}
	service, _, _ := strings.Cut(u.Scheme, "+")
	if !slices.Contains([]string{"ntfy", "telegram", "discord", "smtp", "generic"}, service) {
		return fmt.Errorf("is not the URL of a known service: %s, %s with %q", raw, u.Path, u.User)
	}
	if u.Path == "" && service != "telegram" {
		return errors.New("has no path: " + u.Host)
	}
	return nil
}

// hostOf knows where the messages of telegram go.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return ""
	case u.Scheme == "telegram":
		return "api.telegram.org"
	}
	return u.Hostname()
}

func TestHoursContainWhatTheClockShowsBetweenThem(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		hours, clock string
		want         bool
	}{
		{"07:30-22:30", "07:29", false},
		{"07:30-22:30", "07:30", true},
		{"07:30-22:30", "22:29", true},
		{"07:30-22:30", "22:30", false},
		{"7:30 - 22:30", "00:00", false},
		{"22:00-06:00", "21:59", false},
		{"22:00-06:00", "22:00", true},
		{"22:00-06:00", "00:00", true},
		{"22:00-06:00", "05:59", true},
		{"22:00-06:00", "06:00", false},
		{"00:00-24:00", "23:59", true},
		{"12:00-24:00", "00:00", false},
		{"12:00-24:00", "23:59", true},
		{"", "03:00", true},
		{"", "00:00", true},
	} {
		var h config.Hours
		if err := h.Set(c.hours); err != nil {
			t.Errorf("%s: %v", c.hours, err)
			continue
		}
		clock, err := time.ParseInLocation("2006-01-02 15:04", "2026-07-01 "+c.clock, berlin)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Contains(clock); got != c.want {
			t.Errorf("%s at %s: got %t", c.hours, c.clock, got)
		}
		if got := h.Contains(clock.UTC()); c.hours == "07:30-22:30" && c.clock == "07:30" && got {
			t.Error("05:30 by the clocks of UTC is within the hours, want the clock of the zone to decide")
		}
	}
}

func TestHoursAreTheSameClockOnDaysOfAnotherLength(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	hours := config.Hours{From: 2*60 + 30, To: 4 * 60}
	for day, want := range map[time.Time]int{ // minutes
		time.Date(2026, 3, 28, 0, 0, 0, 0, berlin):  90,
		time.Date(2026, 3, 29, 0, 0, 0, 0, berlin):  60, // 02:00 to 03:00 does not exist
		time.Date(2026, 10, 25, 0, 0, 0, 0, berlin): 120,
	} {
		got := 0
		for at := day; at.In(berlin).Day() == day.Day(); at = at.Add(time.Minute) {
			if hours.Contains(at.In(berlin)) {
				got++
			}
		}
		if got != want {
			t.Errorf("%s: %d minutes, want %d", day.Format(time.DateOnly), got, want)
		}
	}
}

// TestReceiverOfAFileFollowsIt has a receiver and a heartbeat whose URLs are in files, which change.
func TestReceiverOfAFileFollowsIt(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	phone, beat := write(t, file("phone"), "ntfy://ntfy.sh/old-topic\n"), write(t, file("beat"), "https://hc.example/old\n")
	variable := write(t, file("variable"), "ntfy://ntfy.sh/variable\n")
	env := map[string]string{"NOTIFY_URL_FILE": variable, "TZ": "Europe/Berlin"}
	cfg, err := config.Load(config.Source{
		File:     write(t, file("exporter.yaml"), "notify:\n  - url_file: phone\nheartbeat: {url_file: beat}\n"),
		Kinds:    collectors.ConfigKinds(),
		Alerts:   alerts.Kinds(),
		Lookup:   func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		CheckURL: checkURL,
		HostOf:   hostOf,
	})
	if err != nil {
		t.Fatal(err)
	}
	urls := func(cfg *config.Config) (all []string) {
		for _, n := range cfg.Notify {
			all = append(all, n.Name+" "+n.URL.Reveal())
		}
		return append(all, cfg.Heartbeat.URL.Reveal())
	}
	want := []string{"ntfy ntfy://ntfy.sh/old-topic", "notify_url ntfy://ntfy.sh/variable", "https://hc.example/old"}
	if got := urls(cfg); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	write(t, phone, "ntfy://ntfy.sh/new-topic\n")
	write(t, beat, "https://hc.example/new\n")
	write(t, variable, "\n") // not finished
	changed, err := cfg.ChangedSecretFiles()
	if !slices.Equal(changed, []string{beat, phone}) || err == nil || !strings.Contains(err.Error(), variable+" is empty") {
		t.Errorf("changed: %q, %v", changed, err)
	}
	now, err := cfg.WithSecretsOfNow()
	if err != nil {
		t.Fatal(err)
	}
	want = []string{"ntfy ntfy://ntfy.sh/new-topic", "notify_url ntfy://ntfy.sh/variable", "https://hc.example/new"}
	if got := urls(now); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReceiversAreValidWithoutTheirFiles(t *testing.T) {
	cfg, err := config.Load(config.Source{
		File: write(t, filepath.Join(t.TempDir(), "exporter.yaml"),
			"notify:\n  - {url_file: /absent/a, proxy_url_file: /absent/b}\n  - {url_file: /absent/c}\nheartbeat: {url_file: /absent/d}\n"),
		Kinds:          collectors.ConfigKinds(),
		Lookup:         func(string) (string, bool) { return "", false },
		CheckURL:       checkURL,
		HostOf:         hostOf,
		WithoutSecrets: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Notify) != 2 || cfg.Notify[0].Name == cfg.Notify[1].Name {
		t.Errorf("got %+v, want two receivers with different names", cfg.Notify)
	}
	for _, w := range cfg.Warnings {
		if strings.Contains(w.Text, "too") {
			t.Errorf("two files that were not read count as the same: %s", w.Text)
		}
	}
}

func TestURLOfAReceiverIsMaskedInEveryPart(t *testing.T) {
	for raw, text := range map[string]string{
		"ntfy://user:hunter2@ntfy.sh/hunter2-topic?priority=hunter2": "post to ntfy.sh: hunter2, hunter2-topic",
		"telegram://1234:hunter2@telegram?chats=@hunter2":            "bot1234:hunter2 of telegram: @hunter2",
		"pushbullet://hunter2-token":                                 "token hunter2-token",
		"discord://hunter2@1234567890":                               "webhooks/1234567890/hunter2",
		"generic+https://a.example/hunter%322/x":                     "get https://a.example/hunter%322/x: hunter22",
		"https://discord.com/api/webhooks/1234567890/hunter2":        "write https://discord.com/api/webhooks/ID/TOKEN",
		"https://kuma/api/push/hunter2":                              "get at kuma: hunter2",
		"hunter2":                                                    "hunter2",
		"":                                                           "nothing",
	} {
		got := config.RedactorOf(config.NewSecret(raw))(text)
		if strings.Contains(got, "hunter2") || strings.Contains(got, "1234567890") {
			t.Errorf("%s is told: %s", raw, got)
		}
		for _, shown := range []string{"ntfy.sh", "of telegram", "kuma", "webhooks"} {
			if strings.Contains(text, shown) && !strings.Contains(got, shown) {
				t.Errorf("%s: %s is masked: %s", raw, shown, got)
			}
		}
	}
}

func TestNoURLOfAReceiverIsPrinted(t *testing.T) {
	cfg, err := load(t, "notify:\n  - url: ntfy://ntfy.sh/hunter2\n    proxy_url: http://a:hunter2@proxy:3128\n"+
		"heartbeat: {url: https://hc.example/hunter2}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if shown := fmt.Sprintf("%v %+v %#v %v", cfg.Notify, cfg.Notify, cfg.Notify, cfg.Heartbeat); strings.Contains(shown, "hunter2") {
		t.Errorf("the token is printed: %s", shown)
	}
}

// TestZonesOfReceiversNeedNoFilesOfTheMachine holds for the image, which has none.
func TestZonesOfReceiversNeedNoFilesOfTheMachine(t *testing.T) {
	main, err := os.ReadFile("../../cmd/chatstack_exporter/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(main), "\t_ \"time/tzdata\"") {
		t.Error("the program does not embed the zones")
	}
}

// TestPairWithoutPeersIsWarnedOf since it sends everything twice.
func TestPairWithoutPeersIsWarnedOf(t *testing.T) {
	for content, want := range map[string]bool{
		"pair: first\n": true,
		"pair: other\n": true,
		"":              false,
		"pair: other\npeers: [{targets: [\"a:9655\", \"b:9655\"]}]\n": false,
	} {
		cfg, err := config.Load(config.Source{
			File:    "exporter.yaml",
			Content: []byte(content + "notify: [{url: \"ntfy://ntfy.sh/x\", hours: \"\"}]\n"),
			Lookup:  func(string) (string, bool) { return "", false },
			Kinds:   collectors.ConfigKinds(),
			Alerts:  alerts.Kinds(),
		})
		if err != nil {
			t.Fatal(err)
		}
		warned := slices.ContainsFunc(cfg.Warnings, func(w config.Warning) bool { return strings.Contains(w.Text, "under peers") })
		if warned != want {
			t.Errorf("%q: warned %t, want %t: %v", content, warned, want, cfg.Warnings)
		}
	}
}
