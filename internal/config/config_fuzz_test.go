package config_test

import (
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// The secrets of a fuzzed configuration: one of the environment, one that the file holds, wherever it has come to stand.
const (
	secretOfEnvironment = "5ecr3t-0f-th3-3nv"
	secretOfFile        = "5ecr3t-0f-th3-f1le"
)

// atLine is where a fault of the file is.
var atLine = regexp.MustCompile(`^exporter\.yaml:([0-9]+)$`)

// forgetful is a state file of which nothing is known.
type forgetful struct{}

func (forgetful) Load(any) error { return nil }
func (forgetful) Save(any) error { return nil }

// FuzzConfig reads made-up files. Each is refused with faults that name a line of it, a variable or a flag, and that do not
// tell a secret; or it is taken, the same way each time, with values within their bounds of which collectors can be made.
func FuzzConfig(f *testing.F) {
	shipped, err := os.ReadFile("../../exporter.yaml")
	if err != nil {
		f.Fatal(err)
	}
	// Key by key, since a mutation finds little in a long file.
	for block := range strings.SplitSeq(string(shipped), "\n\n") {
		f.Add([]byte(block))
		f.Add([]byte("targets:\n" + block))
	}
	for _, kind := range collectors.Kinds {
		f.Add(fmt.Appendf(nil, "targets:\n  - kind: %s\n    url: http://%s@127.0.0.1:1/\n    address: 127.0.0.1:1\n    host: unix:///s\n"+
			"    path: /\n    token: %s\n    domain: a\n",
			kind.Name, secretOfFile, secretOfFile))
		f.Add(fmt.Appendf(nil, "targets:\n  - {kind: %s, name: x, url: \"http://127.0.0.1:1/\", schedule: \"0 3 * * *\", timeout: 1s}\n"+
			"  - {kind: %s, name: x}\n",
			kind.Name, kind.Name))
	}
	for _, seed := range []string{
		"", "poll: {interval: 1s, timeout: 1s}\n", "poll: &a {interval: *a}\n", "a: &a [*a, *a]\n", "targets: &t\n  - *t\n",
		"targets:\n  - &t {kind: http, name: a, url: \"http://x/\", headers: {" + secretOfFile + ": x}}\n  - <<: *t\n",
		"limits: {body: 9223372036854775807, metrics_body: 16EiB, series: -1}\n", "alerts: {lookback: 1y, " + secretOfFile + ": 1}\n",
		"maintenance:\n  - {kind: target, name: x, from: 2026-05-01T22:00:00Z, until: 2026-05-02T00:00:00Z}\n" +
			"  - {kind: container, name: y, schedule: \"CRON_TZ=x 0 3 * * 0\", duration: 30m}\n",
		"peers:\n  - {targets: [a:1], labels: {" + secretOfFile + ": x}}\n", "state_file: " + secretOfFile + "\n",
		"token: *" + secretOfFile + "\n", "--- a\n--- b\n", "\t\n", "!!binary x", "? [a]\n: b\n", "\xff\xfe",
		secretOfFile + ": 1\n" + secretOfFile + ": 2\n",
	} {
		f.Add([]byte(seed))
	}
	environment := map[string]string{
		"XMPP_REST_TOKEN":   secretOfEnvironment,
		"XMPP_REST_URL":     "http://127.0.0.1:1",
		"IRC_RPC_PASSWORD":  secretOfEnvironment,
		"PLANT_STORE_TOKEN": secretOfEnvironment,
		"NOTIFY_URL":        "ntfy://ntfy.sh/" + secretOfEnvironment,
	}
	for _, seed := range []string{
		"notify: ntfy://ntfy.sh/" + secretOfFile, "notify:\n  - ntfy://ntfy.sh/" + secretOfFile + "\n",
		"notify:\n  - url: wrong://" + secretOfFile + "\n    targets: [x]\n    hours: 22:00-06:00\n",
		"heartbeat: https://x/" + secretOfFile,
		"heartbeat: {url: \"http://[" + secretOfFile + "\", every: 1s}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		source := config.Source{
			File:           "exporter.yaml",
			Content:        content,
			Kinds:          collectors.ConfigKinds(),
			Alerts:         alerts.Kinds(),
			WithoutSecrets: true,
			CheckURL:       checkURL,
			HostOf:         hostOf,
			Lookup:         func(name string) (string, bool) { v, ok := environment[name]; return v, ok },
		}
		cfg, err := config.Load(source)
		if err != nil {
			judgeFaults(t, err, content)
			return
		}
		if again, err := config.Load(source); err != nil || fmt.Sprintf("%+v", again.Poll) != fmt.Sprintf("%+v", cfg.Poll) ||
			!reflect.DeepEqual(again.Targets, cfg.Targets) {
			t.Errorf("read again, the file says something else: %v", err)
		}
		judgeConfig(t, cfg)
	})
}

// judgeFaults holds what is true of every refusal.
func judgeFaults(t *testing.T, err error, content []byte) {
	t.Helper()
	faults, ok := err.(config.Faults) //nolint:errorlint // it is never wrapped
	if !ok || len(faults) == 0 {
		t.Fatalf("no faults but %v", err)
	}
	if strings.Contains(err.Error(), secretOfEnvironment) {
		t.Errorf("a secret of the environment is told: %.500s", err)
	}
	if strings.Contains(faults.Places(), secretOfFile) {
		t.Errorf("the places tell what stands in the file: %.500s", faults.Places())
	}
	lines := 1 + strings.Count(strings.ReplaceAll(strings.ReplaceAll(string(content), "\r\n", "\n"), "\r", "\n"), "\n") +
		strings.Count(string(content), "\u0085") + strings.Count(string(content), "\u2028") + strings.Count(string(content), "\u2029")
	for _, fault := range faults {
		whole := fault.Where == "exporter.yaml" &&
			(strings.HasPrefix(fault.Message, "not valid YAML") || strings.HasPrefix(fault.Message, "contains more than one"))
		variable := strings.HasPrefix(fault.Where, "XMPP_") || strings.HasPrefix(fault.Where, "IRC_") ||
			strings.HasPrefix(fault.Where, "PLANT_STORE_") || strings.HasPrefix(fault.Where, "NOTIFY_")
		if m := atLine.FindStringSubmatch(fault.Where); m != nil {
			if n, err := strconv.Atoi(m[1]); err != nil || n < 1 || n > lines+1 {
				t.Errorf("line %s of %d: %s", m[1], lines, fault)
			}
		} else if !whole && !variable && fault.Where != "environment" && fault.Where != "default" {
			t.Errorf("no line, variable or flag in %q: %s", fault.Where, fault)
		}
		if fault.Message == "" {
			t.Errorf("nothing is said of %s %s", fault.Where, fault.Key)
		}
	}
}

// judgeConfig holds what is true of every configuration that is taken.
func judgeConfig(t *testing.T, cfg *config.Config) {
	t.Helper()
	if cfg.Poll.Interval.Std() < time.Second || cfg.Poll.Timeout.Std() < time.Second || cfg.Poll.Timeout > cfg.Poll.Interval ||
		cfg.Limits.Series <= 0 {
		t.Errorf("out of bounds: %+v, %+v", cfg.Poll, cfg.Limits)
	}
	receivers := map[string]bool{}
	for _, n := range cfg.Notify {
		if n.Name == "" || receivers[n.Name] || n.Location == nil || n.URL.IsZero() || n.Repeat != 0 && n.Repeat.Std() < 10*time.Minute {
			t.Errorf("a receiver is out of bounds: %+v", n)
		}
		receivers[n.Name] = true
	}
	if shown := fmt.Sprintf("%+v %v %v", cfg.Notify, cfg.Heartbeat, cfg.Warnings); strings.Contains(shown, secretOfEnvironment) {
		t.Error("a receiver prints its secret")
	}
	names := map[string]bool{}
	for _, settings := range cfg.Targets {
		common := settings.Common()
		if common.Name == "" || names[common.Name] {
			t.Errorf("two targets are called %q", common.Name)
		}
		names[common.Name] = true
		if shown := fmt.Sprintf("%+v %v", settings, settings); strings.Contains(shown, secretOfEnvironment) {
			t.Errorf("%s prints its secret", common.Name)
		}
		schedule, err := config.ParseSchedule(common.Schedule)
		if err != nil {
			t.Errorf("schedule of %s: %v", common.Name, err)
		} else if now := time.Unix(1_800_000_000, 0); common.Timeout.Std() <= 0 || !schedule.Next(now).After(now) {
			t.Errorf("%s is read at %q with a deadline of %s", common.Name, common.Schedule, common.Timeout.Std())
		}
		kind, ok := collectors.KindOf(common.Kind)
		if !ok {
			t.Errorf("there is no kind %q", common.Kind)
			continue
		}
		if _, err := kind.New(settings,
			collectors.Deps{Limits: cfg.Limits, Log: slog.New(slog.DiscardHandler), State: forgetful{}}); err != nil {
			t.Errorf("settings that were found valid make no collector of kind %s: %v", common.Kind, err)
		}
	}
}
