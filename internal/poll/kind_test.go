package poll

import (
	"context"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

func TestFactsSayWhatTheRowOfTheKindSays(t *testing.T) {
	row := config.Row{
		Name:        "k",
		Role:        config.Role{Name: "xmpp"},
		Side:        "irc",
		Relay:       true,
		ShowsServer: true,
		Direct:      true,
		ValueAlerts: []string{"DataVolumeUsage"},
	}
	_, _, facts := Once(t.Context(), Target{
		Name:      "it",
		Kind:      row,
		Schedule:  every(t, "30s"),
		Timeout:   time.Second,
		Collector: fine{},
	}, slog.New(slog.DiscardHandler))
	got := facts.Targets[0]
	want := health.Target{
		Name:        "it",
		Kind:        "k",
		Role:        "xmpp",
		Side:        health.SideIRC,
		Relay:       true,
		ShowsServer: true,
		Direct:      true,
		ValueAlerts: []string{"DataVolumeUsage"},
		Read:        true,
		Up:          true,
		ReadAt:      got.ReadAt,
		Took:        got.Took,
		Every:       got.Every,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// fine is a collector whose target is up.
type fine struct{}

func (fine) Collect(context.Context, *collectors.Batch) error { return nil }
