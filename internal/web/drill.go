package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// Drill is a test alert that the exporter raises.
type Drill struct {
	// ID distinguishes it from earlier drills. It is a label of the alert.
	ID string `json:"id"`
	// Severity is none, warning or critical.
	Severity string `json:"severity"`
	// Until is when it ends by itself.
	Until time.Time `json:"until"`
}

// Errors of requests for drills. Each error of StartDrill and EndDrill wraps one of these.
var (
	// ErrDrillInvalid means that the request itself is invalid.
	ErrDrillInvalid = errors.New("invalid drill")
	// ErrDrillRunning means that there is one already.
	ErrDrillRunning = errors.New("a drill is running")
	// ErrNoDrill means that no such drill is running.
	ErrNoDrill = errors.New("no such drill is running")
)

// driller raises test alerts.
type driller interface {
	// StartDrill raises the test alert until it has lasted for so long. The error wraps one of the above.
	StartDrill(severity string, lasts time.Duration) (Drill, error)
	// EndDrill ends a drill early. The error is ErrNoDrill.
	EndDrill(id string) error
	// DrillReceivers sends the exporter's own receivers with these names, without names all, a test message, and says what became of each,
	// to be encoded as JSON. It may take half a minute. The error wraps ErrDrillInvalid or ErrDrillRunning.
	DrillReceivers(ctx context.Context, severity string, names []string) (receivers any, err error)
}

// drillRequest is the body of POST /api/v1/drill.
type drillRequest struct {
	Severity string `json:"severity"`
	// Duration has the configuration's format, such as 90s; two minutes if it is empty.
	Duration string `json:"duration"`
}

// drillStarted is the body of the answer.
type drillStarted struct {
	Schema status.Schema `json:"schema"`
	Drill  Drill         `json:"drill"`
}

// usualDrill is how long a drill lasts unless the request says otherwise.
const usualDrill = 2 * time.Minute

var drillForm = bodyForm{
	what:    "a drill",
	limit:   maxMaintenanceBody,
	example: `{"severity": "none"}`,
	keys:    "severity and duration",
}

func serveStartDrill(w http.ResponseWriter, r *http.Request, src driller, log *slog.Logger) {
	var request drillRequest
	if code, err := drillForm.read(w, r, &request); err != nil {
		writeError(w, code, err, log)
		return
	}
	lasts := config.Duration(usualDrill)
	if request.Duration != "" {
		var err error
		if lasts, err = config.ParseDuration(request.Duration); err != nil {
			writeError(w, http.StatusBadRequest, fmt.Errorf("duration is %q, must be one such as 90s or 2m", request.Duration), log)
			return
		}
	}
	drill, err := src.StartDrill(request.Severity, lasts.Std())
	if err != nil {
		writeError(w, statusOf(err), err, log)
		return
	}
	writeJSON(w, http.StatusCreated, drillStarted{Drill: drill}, log)
}

func serveEndDrill(w http.ResponseWriter, r *http.Request, src driller, log *slog.Logger) {
	if err := src.EndDrill(r.PathValue("id")); err != nil {
		writeError(w, statusOf(err), err, log)
		return
	}
	writeJSON(w, http.StatusOK, changed{Warnings: []string{}}, log)
}

// receiversForm is the body of POST /api/v1/notifications.
var receiversForm = bodyForm{
	what:    "a drill of receivers",
	limit:   maxMaintenanceBody,
	example: `{"severity": "none"}`,
	keys:    "severity and receivers",
}

// receiversDrilled is the body of the answer.
type receiversDrilled struct {
	Schema    status.Schema `json:"schema"`
	Receivers any           `json:"receivers"`
}

func serveDrillReceivers(w http.ResponseWriter, r *http.Request, src driller, log *slog.Logger) {
	var request struct {
		Severity  string   `json:"severity"`
		Receivers []string `json:"receivers"`
	}
	if code, err := receiversForm.read(w, r, &request); err != nil {
		writeError(w, code, err, log)
		return
	}
	receivers, err := src.DrillReceivers(r.Context(), request.Severity, request.Receivers)
	if err != nil {
		writeError(w, statusOf(err), err, log)
		return
	}
	writeJSON(w, http.StatusOK, receiversDrilled{Receivers: receivers}, log)
}
