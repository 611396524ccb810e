// Package notify tells people what is wrong, by itself: without Prometheus and Alertmanager.
//
// A thread is what one cause does: it begins when its first alert fires and ends with its last. Every look at the judgement brings the
// threads up to date, and compares them with what each receiver has been told: that it began, that it became critical, that it is over.
// What is new becomes a message in the queue of the receiver. Threads and queues are in the state file before anything is sent, so that
// SIGKILL may double a message and loses none.
package notify

import (
	"context"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/notify/service"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

const (
	// settleWarning and settleCritical are how long a message waits for other alerts of its cause. The shipped Alertmanager waits
	// longer, for 90 and 45 seconds.
	settleWarning, settleCritical = time.Minute, 30 * time.Second
	// settleEnd is how long an alert must be over before that is told.
	settleEnd = time.Minute
	// together is how much later something may go down and be part of it that most targets are down.
	together = 5 * time.Minute
	// noticedSoon is how soon after a receiver is configured that what was there before is noticed.
	noticedSoon = 2 * time.Minute
	// maxTold is how long a thread that is over is kept for a summary in the morning.
	maxTold = 36 * time.Hour
)

// Sender delivers messages; see service.Receiver.
type Sender interface {
	Send(ctx context.Context, m *service.Message) (answer string, err error)
}

// Receiver is one who gets messages.
type Receiver struct {
	Name   string
	Sender Sender
	// Place is the same as long as messages go to the same place. It is no secret.
	Place string
	// Least is the severity from which on the receiver is told.
	Least health.Severity
	// Hours are when the receiver is told what is not critical, in Zone; a nil Zone is UTC.
	Hours config.Hours
	Zone  *time.Location
	// Repeat is the time until a critical thread that nobody acknowledged is sent again; 0 is never.
	Repeat time.Duration
	// Targets are the names of targets and containers that the receiver is told about; empty for all.
	Targets []string
	// Notes says that the receiver is told what people write about an incident.
	Notes bool
}

// Send makes one attempt, of 15 s at most.
func (r *Receiver) Send(ctx context.Context, m *service.Message) (answer string, err error) {
	limited, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return r.Sender.Send(limited, m)
}

// zone is where the receiver's day is.
func (r *Receiver) zone() *time.Location {
	if r.Zone == nil {
		return time.UTC
	}
	return r.Zone
}

// Site is what messages say of the exporter.
type Site struct {
	// URL is the address of the status page without a slash at its end, "" if people cannot reach it.
	URL string
	// Environment and Cluster are named in every message; "" for none.
	Environment, Cluster string
	// Exporter is the exporter's name in its pair, "" without one.
	Exporter string
}

// View is what a look sees. What it points to is immutable.
type View struct {
	Now time.Time
	*status.Report
	// Incidents are all of them, the newest first.
	Incidents []*incident.Incident
	// Starting says that the exporter has just started and knows nothing of before: what it does not see may be there.
	Starting bool
}
