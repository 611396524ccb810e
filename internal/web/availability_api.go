package web

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
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

	mu            sync.Mutex // held while a response is made
	made          time.Time
	plain, zipped []byte
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
		if s := &a.Subjects[i]; s.Kind != health.KindContainer {
			s.Kind = health.KindTarget
		}
	}
	return a
}

// ServeHTTP implements http.Handler.
func (a *availabilityAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	made, plain, zipped, err := a.response()
	if err != nil {
		a.log.Error("history cannot be encoded as JSON", "err", err)
		http.Error(w, "the history cannot be encoded as JSON: see the exporter's log", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "private, no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	writeCached(w, r, "availability-"+strconv.FormatInt(made.UnixNano(), 36), plain, func() []byte { return zipped })
}

func (a *availabilityAPI) response() (made time.Time, plain, zipped []byte, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); a.plain == nil || now.Sub(a.made) >= availabilityAge {
		body, err := json.Marshal(newAvailabilityAnswer(a.source.Availability()))
		if err != nil {
			return now, nil, nil, err
		}
		body = append(body, '\n')
		a.made, a.plain, a.zipped = now, body, compress(body)
	}
	return a.made, a.plain, a.zipped, nil
}
