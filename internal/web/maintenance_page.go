package web

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/site"
)

//go:embed maintenance.html
var maintenanceHTML string

var maintenancePage = site.Parse("maintenance", formsHTML+maintenanceHTML, pageFuncs)

// maintenanceForms is the page that sets and ends maintenance.
type maintenanceForms struct {
	*forms

	source maintainer
	frames frames
}

// maintenanceView is the data of the page.
type maintenanceView struct {
	frame
	formState
	Current   []maintenance.Entry
	Announced []maintenance.Entry
	Targets   []string
	// Containers are kind/NAME of each container and shared workload.
	Containers []string
	// Subject, Duration and Reason are the form's values.
	Subject, Duration, Reason string
}

// FromAPI reports whether a form can end the entry.
func (maintenanceView) FromAPI(e maintenance.Entry) bool { return e.Source == maintenance.FromAPI }

// Named returns the name in kind/NAME.
func (maintenanceView) Named(subject string) string {
	_, name, _ := strings.Cut(subject, "/")
	return name
}

// write writes the page with the present maintenance.
func (f *maintenanceForms) write(w http.ResponseWriter, r *http.Request, code int, v maintenanceView) {
	v.formState = f.show(w, r, v.formState)
	title := "Maintenance"
	if v.Error != "" {
		title = "Error · " + title
	}
	v.frame, v.Duration = f.frames.frame("./", title, "icon-maintenance.svg"), cmp.Or(v.Duration, "1h")
	for _, e := range f.source.Maintenance() {
		if e.Active {
			v.Current = append(v.Current, e)
		} else {
			v.Announced = append(v.Announced, e)
		}
	}
	report := f.frames.reports.Report()
	for i := range report.Services {
		v.Targets = append(v.Targets, report.Services[i].Name)
	}
	for i := range report.Containers {
		of := report.Containers[i].Subject()
		v.Containers = append(v.Containers, of.Kind+"/"+of.Name)
	}
	slices.Sort(v.Targets)
	slices.Sort(v.Containers)
	v.Containers = slices.Compact(v.Containers) // engines may have containers of one name, and maintenance covers all of them
	renderWith(w, code, maintenancePage, v, f.options.Log)
}

// get shows the page, with the outcome of the form that led to it.
func (f *maintenanceForms) get(w http.ResponseWriter, r *http.Request) {
	f.write(w, r, http.StatusOK, maintenanceView{Subject: r.URL.Query().Get("subject")})
}

// post sets or ends maintenance, and leads to the page with the outcome.
func (f *maintenanceForms) post(w http.ResponseWriter, r *http.Request) {
	form, user, code, refusal := f.accept(w, r, maxMaintenanceBody)
	if refusal != "" {
		f.write(w, r, code, maintenanceView{formState: formState{Error: refusal}})
		return
	}
	change := f.set
	if form.Has("end") {
		change = f.end
	}
	done, err := change(form)
	if err != nil {
		f.write(w, r, statusOf(err), maintenanceView{
			formState: formState{Error: sentence(err, errors.Is(err, maintenance.ErrInvalid))},
			Subject:   form.Get("subject"),
			Duration:  form.Get("duration"),
			Reason:    form.Get("reason"),
		})
		return
	}
	f.options.Log.Info("maintenance was changed on the status page", "change", done.text, "user", user)
	f.finish(w, "maintenance", done)
}

func (f *maintenanceForms) set(form url.Values) (outcome, error) {
	kind, name, _ := strings.Cut(form.Get("subject"), "/")
	if name == "" {
		return outcome{}, fmt.Errorf("%w: no target or container is selected", maintenance.ErrInvalid)
	}
	request := maintenanceRequest{Duration: strings.TrimSpace(form.Get("duration"))}
	if request.Duration == "" {
		return outcome{}, fmt.Errorf("%w: the duration is empty, it must be one such as 30m, 2h or 1d12h", maintenance.ErrInvalid)
	}
	until, err := request.end(time.Now())
	if err != nil {
		return outcome{}, fmt.Errorf("%w: %w", maintenance.ErrInvalid, err)
	}
	entry, _, warnings, err := f.source.SetMaintenance(kind, name, strings.TrimSpace(form.Get("reason")), until)
	if err != nil {
		return outcome{}, err
	}
	return outcome{
		text:     fmt.Sprintf("The %s %s is under maintenance until %s.", kind, name, entry.Until.UTC().Format("2 Jan 15:04 UTC")),
		warnings: warnings,
	}, nil
}

func (f *maintenanceForms) end(form url.Values) (outcome, error) {
	kind, name, _ := strings.Cut(form.Get("end"), "/")
	if _, fault := config.CheckMaintenance(kind, name, ""); fault != "" {
		return outcome{}, fmt.Errorf("%w: it is unknown what to end", maintenance.ErrInvalid)
	}
	warnings, err := f.source.EndMaintenance(kind, name)
	if err != nil {
		return outcome{}, err
	}
	return outcome{text: fmt.Sprintf("Maintenance of the %s %s has ended.", kind, name), warnings: warnings}, nil
}
