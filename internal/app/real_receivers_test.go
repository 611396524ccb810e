//go:build realservers

package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/receivers"
)

// TestRealReceiversOfTheDocumentSendWhatServicesTake has a real Alertmanager with all receivers of the document send easy and hostile
// alerts. internal/e2e/story has the newest Alertmanager's notifiers do the same.
func TestRealReceiversOfTheDocumentSendWhatServicesTake(t *testing.T) {
	services := receivers.Start(t)
	config, files := services.Configuration(t, "../..", realstack.ReceiveMail(t, services.Mail))
	am := realstack.StartAlertmanager(t, config, files)
	for _, c := range receivers.Cases() {
		body, err := json.Marshal(c.Alerts)
		must(t, err)
		am.Ask(http.MethodPost, "/api/v2/alerts", string(body))
		for name, m := range services.Await(t, &c) {
			t.Logf("%s, %s:\n%s\n%s", c.Name, name, m.Title, m.Text)
		}
	}
	metrics, err := exportertest.Fetch(t.Context(), time.Minute, am.URL()+"/metrics")
	must(t, err)
	for line := range strings.Lines(string(metrics)) {
		if strings.HasPrefix(line, "alertmanager_notifications_failed_total") && !strings.HasSuffix(line, " 0\n") {
			t.Errorf("Alertmanager could not send a message: %s", line)
		}
	}
}
