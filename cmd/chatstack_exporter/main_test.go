package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/alertpath"
	"github.com/chatstack-exporter/chatstack_exporter/internal/app"
)

// TestUnknownIsNoSuccess has the exit codes of a drill.
func TestUnknownIsNoSuccess(t *testing.T) {
	works := alertpath.Step{Name: "route", State: alertpath.Works}
	unknown := alertpath.Step{Name: "receiver", State: alertpath.Unknown, Error: "nothing shows that a message arrives"}
	wrong := alertpath.Step{Name: "silence", State: alertpath.Wrong}
	for _, tt := range []struct {
		steps []alertpath.Step
		code  int
	}{
		{[]alertpath.Step{works}, 0},
		{[]alertpath.Step{works, wrong, unknown}, 1},
		{[]alertpath.Step{works, unknown}, 3},
	} {
		err := drillError(alertpath.Verdict(tt.steps), tt.steps)
		if got := exitCode(err); got != tt.code {
			t.Errorf("%+v: exit code %d, want %d", tt.steps, got, tt.code)
		}
		if tt.code == 3 && !strings.HasSuffix(err.Error(), "receiver: nothing shows that a message arrives") {
			t.Errorf("no reason: %v", err)
		}
	}
	if got := exitCode(app.UsageError{}); got != 2 {
		t.Errorf("wrong use: %d", got)
	}
	if got := exitCode(errors.New("refused")); got != 1 {
		t.Errorf("an error: %d", got)
	}
}
