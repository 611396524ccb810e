package web

import (
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// availability has the history of all services and containers.
type availability interface {
	Availability() *history.Report
}

// availabilityAge is how long a response is reused, so that frequent requests cost little.
const availabilityAge = 5 * time.Second

// availabilityAPI responds with the history of all services and containers as JSON.
type availabilityAPI struct {
	source availability
	log    *slog.Logger
	cache  site.Cache[struct{}, *site.Document]
}

func newAvailabilityAPI(source availability, log *slog.Logger) *availabilityAPI {
	return &availabilityAPI{source: source, log: log, cache: site.Cache[struct{}, *site.Document]{Age: availabilityAge}}
}

// availabilityAnswer is the body of a response.
type availabilityAnswer struct {
	Schema status.Schema `json:"schema"`
	*history.Report
	Subjects []history.Subject `json:"subjects"`
}

// newAvailabilityAnswer calls a target what the rest of the API calls it. The word of the journal stays, as older ones must be readable.
func newAvailabilityAnswer(r *history.Report) availabilityAnswer {
	a := availabilityAnswer{Report: r, Subjects: slices.Clone(r.Subjects)}
	for i := range a.Subjects {
		if s := &a.Subjects[i]; s.Kind == "service" {
			s.Kind = health.KindTarget
		}
	}
	return a
}

// ServeHTTP implements http.Handler.
func (a *availabilityAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, err := a.cache.Get(time.Now(), struct{}{}, func() (*site.Document, error) {
		return newJSON(newAvailabilityAnswer(a.source.Availability()))
	})
	if err != nil {
		a.log.Error("history cannot be encoded as JSON", "err", err)
		http.Error(w, "the history cannot be encoded as JSON: see the exporter's log", http.StatusInternalServerError)
		return
	}
	d.Serve(w, r, "private, no-cache")
}
