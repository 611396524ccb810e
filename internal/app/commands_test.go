package app

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestHelpShowsTheCommandsOwnFlagsFirstAndNoneThatItIgnores names each command's flags in the order of its help.
func TestHelpShowsTheCommandsOwnFlagsFirstAndNoneThatItIgnores(t *testing.T) {
	binary := buildBinary(t)
	const reads, polls, web, logs = " config.file", " poll.interval poll.timeout",
		" web.systemd-socket web.listen-address web.config.file web.enable-lifecycle", " log.level log.format"
	for command, want := range map[string]string{
		"":             reads + polls + web + logs,
		"serve":        reads + polls + web + logs,
		"demo":         polls + web + logs,
		"check":        "output write" + reads + polls,
		"check-config": "without-secrets" + reads + polls + " web.config.file",
		"init":         "project domain" + reads + polls,
		"rules":        "recording kubernetes tests vmalert" + reads,
		"drill": "prometheus alertmanager ruler exporter severity yes receiver dry-run every-alert output" + reads +
			" web.listen-address",
		"ack":         "as url user password-file web.listen-address",
		"forget":      "docker-host url user password-file web.listen-address",
		"healthcheck": "web.listen-address",
		"version":     "",
	} {
		args := append(strings.Fields(command), "--help")
		p := startProgram(t, binary, t.TempDir(), nil, args...)
		if code := p.ExitCode(t, patience); code != 0 {
			t.Errorf("%v: exit code %d: %s", args, code, &p.Stderr)
		}
		var got []string
		flags := regexp.MustCompile(`(?m)^ +(?:-[a-z], )?--(?:\[no-\])?([a-z.-]+)`)
		for _, flag := range flags.FindAllStringSubmatch(p.Stdout.String(), -1) {
			got = append(got, flag[1])
		}
		if want := append(strings.Fields(want), "help", "version"); !slices.Equal(got, want) {
			t.Errorf("%v: flags %v, want %v", args, got, want)
		}
		help := strings.Join(strings.Fields(p.Stdout.String()), " ")
		if strings.Contains(want, "enable-lifecycle") && !strings.Contains(help, "/api/v1/targets/{target}/probe") {
			t.Errorf("%v: the help does not say that --web.enable-lifecycle allows to probe a target", args)
		}
		if got := strings.Contains(help, "Configuration file to write"); got != (command == "init") {
			t.Errorf("%v: says that --config.file is written: %v", args, got)
		}
	}
}

// TestFlagsMayStandBeforeTheCommand has what scripts and units may have, which includes flags that the command ignores.
func TestFlagsMayStandBeforeTheCommand(t *testing.T) {
	binary := buildBinary(t)
	dir := directoryWith(t, "")
	rewrite(t, filepath.Join(dir, "mine.yaml"), "alerts: {job: mine}\n")
	for _, args := range [][]string{
		{"rules", "--config.file=mine.yaml"},
		{"--config.file=mine.yaml", "rules"},
		{"--config.file", "mine.yaml", "rules"},
		{"rules", "mine.yaml"},
		{"--log.level=debug", "rules", "--web.listen-address=:1", "mine.yaml"},
		{"--web.enable-lifecycle", "rules", "--", "mine.yaml"},
	} {
		p := startProgram(t, binary, dir, nil, args...)
		if code := p.ExitCode(t, patience); code != 0 || !strings.Contains(p.Stdout.String(), "mine") {
			t.Errorf("%v: exit code %d: %s", args, code, &p.Stderr)
		}
	}
}

// TestShellCompletesCommandsFlagsAndValues runs the script in a shell, as the shell runs it when somebody presses TAB.
func TestShellCompletesCommandsFlagsAndValues(t *testing.T) {
	binary := buildBinary(t)
	p := startProgram(t, binary, t.TempDir(), nil, "--completion-script-bash")
	if code := p.ExitCode(t, patience); code != 0 {
		t.Fatal(&p.Stderr)
	}
	script := filepath.Join(t.TempDir(), "completion.bash")
	rewrite(t, script, p.Stdout.String())
	for line, want := range map[string]struct{ has, lacks string }{
		"|": {
			"serve demo check check-config init rules drill ack forget healthcheck version help",
			"--config.file",
		},
		"ch|":                       {"check check-config", "rules"},
		"--config.file=x |":         {"check rules", ""},
		"check --|":                 {"--output --write --config.file --help", "--log.level --web.listen-address --recording"},
		"--config.file=x check --|": {"--output --write", "--log.level"},
		"check --output |":          {"table json", "check"},
		"check --output = j|":       {"json", "table"},
		"rules --k|":                {"--kubernetes", "--tests"},
		"drill --severity |":        {"none warning critical", ""},
		"help |":                    {"check rules", ""},
		"check |":                   {"", "check rules"}, // nothing, so that the shell offers files
	} {
		words := strings.Split(strings.TrimSuffix(line, "|"), " ")
		const complete = `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _chatstack_exporter_bash_autocomplete; ` +
			`echo "${COMPREPLY[@]}"`
		//nolint:gosec // a test's
		cmd := exec.CommandContext(t.Context(), "bash", append([]string{"-c", complete, "bash", script, binary}, words...)...)
		out, err := cmd.CombinedOutput()
		must(t, err)
		got := strings.Fields(string(out))
		for word := range strings.FieldsSeq(want.has) {
			if !slices.Contains(got, word) {
				t.Errorf("%q: %v lacks %s", line, got, word)
			}
		}
		for word := range strings.FieldsSeq(want.lacks) {
			if slices.Contains(got, word) {
				t.Errorf("%q: %v has %s", line, got, word)
			}
		}
	}
}

// TestManualPageHasAName holds what whatis reads: the name and, behind a hyphen, what it is.
func TestManualPageHasAName(t *testing.T) {
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "../../.ci/extras", buildBinary(t), out)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	page := string(contentOf(t, filepath.Join(out, "man", "chatstack_exporter.1")))
	if !regexp.MustCompile(`(?m)^\.SH "?NAME"?\nchatstack_exporter \\- [A-Za-z ,]+\n\.SH`).MatchString(page) {
		t.Errorf("the page has no name with a description:\n%.600s", page)
	}
	says(t, "the page", page, "check-config", "healthcheck")
}

// slowTargets are two targets of which the second never answers.
func slowTargets(t *testing.T) Options {
	t.Helper()
	quick := serve(t, func(http.ResponseWriter, *http.Request) {})
	o := options(nil, &logBuffer{}).
		with("targets:\n  - {kind: http, name: quick, url: " + quick + "/}\n  - {kind: http, name: slow, url: http://" + deaf(t) + "/}\n")
	o.Interval, o.Timeout = time.Minute, 30*time.Second-500*time.Millisecond
	return o
}

func TestInterruptedCheckShowsWhatHasFinished(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		o := slowTargets(t)
		ctx, interrupt := context.WithTimeout(contextOf(t), 5*time.Second)
		defer interrupt()
		begun := time.Now()
		results, err := Check(ctx, o)
		must(t, err)
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("the check ended after %s", took)
		}
		table := tableOf(t, results)
		says(t, "the table", table, "quick   up  ", "not finished: the check was interrupted", "1 up, 0 down, ", ", 1 not finished\n")
		var asJSON bytes.Buffer
		must(t, WriteJSON(&asJSON, results))
		says(t, "the JSON", strings.Join(strings.Fields(asJSON.String()), " "), `"name": "quick"`, `"not_finished": [ "slow" ]`)
		if AllUp(results) {
			t.Error("what has not finished counts as up")
		}
	})
}

func TestSlowCheckSaysWhatItWaitsFor(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		o := slowTargets(t)
		begun, shown := time.Now(), []time.Duration(nil)
		o.Waiting = func(names []string) {
			if !slices.Equal(names, []string{"slow"}) {
				t.Errorf("waits for %v, want slow", names)
			}
			shown = append(shown, time.Since(begun))
		}
		check(t, o)
		if len(shown) != 28 || shown[0] != 2*time.Second || shown[1] != 3*time.Second {
			t.Errorf("shown after %v, want 2 s and each second from then on", shown)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := newProbes()
		for range 20 {
			p.Go(t.Context(), "quick", func() { time.Sleep(100 * time.Millisecond) })
		}
		p.Wait(func(names []string) { t.Errorf("a quick check shows %v", names) })
	})
	if got, want := WaitingFor([]string{"a", "b", "c", "d", "e"}), "waiting for a, b, c and 2 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnconfiguredTargetsAreOneLine(t *testing.T) {
	table := tableOf(t, check(t, options(nil, &logBuffer{}).with("targets: []\n")))
	line := "not configured, so not checked: xmpp_status, "
	if strings.Count(table, "not configured") != 2 || !strings.Contains(table, line) || strings.Count(table, "\n") > 6 {
		t.Errorf("want one line that begins with %q, and the summary:\n%s", line, table)
	}
}

func TestInterruptEndsTheCommandWithItsTable(t *testing.T) {
	binary := buildBinary(t)
	hangs := make(chan struct{})
	asked := make(chan struct{}, 1)
	slow := serve(t, func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-hangs
	})
	defer close(hangs)
	dir := directoryWith(t, "poll: {interval: 5m, timeout: 5m}\ntargets:\n  - {kind: http, name: slow, url: "+slow+"/}\n")
	p := startProgram(t, binary, dir, nil, "check")
	<-asked
	must(t, p.Process.Signal(os.Interrupt))
	if code := p.ExitCode(t, patience); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	says(t, "the table", p.Stdout.String(), "slow ", "not finished: the check was interrupted", ", 1 not finished")
	if p.Stderr.String() != "" {
		t.Errorf("standard error has %q", &p.Stderr)
	}
}
