//go:build realservers

package drill

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// row is one line of the drill's table: a fault, and an alert that reports it.
type row struct {
	fault, alert, severity, about string
	// metric, notified and resolved are the times from the fault to the metrics page and to the notification, and from
	// the repair to the notification of that; below 0 where there was none.
	metric, notified, resolved time.Duration
	note                       string
}

// report collects rows. Its methods may be called at once.
type report struct {
	mu   sync.Mutex
	rows []row
}

func (r *report) add(rows ...row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, rows...)
}

// has reports whether a row is about an alert of a severity.
func (r *report) has(alert, severity string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.rows, func(row row) bool { return row.alert == alert && row.severity == severity })
}

// String is the table, in the order of the alerts.
func (r *report) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := slices.Clone(r.rows)
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.alert, b.alert), -cmp.Compare(a.severity, b.severity), cmp.Compare(a.fault, b.fault))
	})
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(columns ...string) { fmt.Fprintln(w, strings.Join(columns, "\t")) } //nolint:errcheck // a builder takes all
	line("ALERT", "SEVERITY", "ABOUT", "FAULT", "ON THE PAGE AFTER", "NOTIFIED AFTER", "RESOLVED AFTER")
	for _, row := range rows {
		line(row.alert, row.severity, row.about, row.fault, seconds(row.metric), seconds(row.notified),
			strings.TrimSpace(seconds(row.resolved)+" "+row.note))
	}
	if err := w.Flush(); err != nil {
		panic(err) // a builder takes all
	}
	return b.String()
}

func seconds(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}
