package app

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// TestDemoWatchesEverythingAndSaysWhereToLook: a newcomer sees three addresses last, nothing alarming before them, and a
// stack of which every part is watched and well.
func TestDemoWatchesEverythingAndSaysWhereToLook(t *testing.T) {
	log := &logBuffer{}
	o := options(nil, log)
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		defer w.Close() //nolint:errcheck // a pipe
		ended <- runDemo(ctx, o, w, 0)
	}()
	var urls []string
	for lines := bufio.NewScanner(r); lines.Scan() && len(urls) < 3; {
		urls = append(urls, regexp.MustCompile(`http://localhost:\S+`).FindAllString(lines.Text(), -1)...)
	}
	go io.Copy(io.Discard, r) //nolint:errcheck // ends with the demo
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	if len(urls) != 3 {
		t.Fatalf("got %v, want three addresses", urls)
	}
	if said := log.String(); said != "" {
		t.Errorf("said before the addresses: %s", said)
	}
	for _, url := range urls {
		if body := fetch(t, url); len(body) == 0 {
			t.Errorf("%s is empty", url)
		}
	}

	var report status.Report
	if !exportertest.Eventually(patience, 20*time.Millisecond, func() bool {
		must(t, json.Unmarshal(fetch(t, urls[0]+"api/v1/status"), &report))
		return report.Level == status.OK
	}) {
		t.Errorf("got %s: %s", report.Level, report.Summary)
	}
	var watched []string
	for i := range report.Services {
		s := &report.Services[i]
		watched = append(watched, s.Name)
		if s.Kind != "docker" && !slices.ContainsFunc(report.Containers, func(c status.Container) bool { return c.Name == s.Container }) {
			t.Errorf("%s has the container %q, want one of the simulated engine, so that a stopped one explains it", s.Name, s.Container)
		}
	}
	slices.Sort(watched)
	if want := strings.Fields("bridge docker docs_search identity irc_rpc irc_services irc_tls log_viewer plant_store " +
		"web_irc web_panel xmpp_c2s xmpp_metrics xmpp_proxy xmpp_rest xmpp_s2s xmpp_status"); !slices.Equal(watched, want) {
		t.Errorf("the demo watches %v, want %v", watched, want)
	}
}
