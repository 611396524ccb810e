package routing

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// interval is a part of one of Alertmanager's time intervals. It contains what is in a range of every kind that it has.
type interval struct {
	Times []struct {
		Start string `yaml:"start_time"`
		End   string `yaml:"end_time"`
	} `yaml:"times"`
	Weekdays []string `yaml:"weekdays"`
	Days     []string `yaml:"days_of_month"`
	Months   []string `yaml:"months"`
	Years    []string `yaml:"years"`
	Location string   `yaml:"location"`

	minutes, weekdays, days, months, years []span
	zone                                   *time.Location
}

// span includes both its ends.
type span struct{ first, last int }

// prepare parses the ranges. The location Local is Alertmanager's.
func (i *interval) prepare(local *time.Location) (err error) {
	if i.zone = local; i.Location != "Local" {
		if i.zone, err = time.LoadLocation(i.Location); err != nil {
			return err
		}
	}
	for _, t := range i.Times {
		s, err := newSpan(t.Start, t.End)
		if err != nil {
			return err
		}
		i.minutes = append(i.minutes, span{s.first, s.last - 1})
	}
	for texts, spans := range map[*[]string]*[]span{
		&i.Weekdays: &i.weekdays, &i.Days: &i.days, &i.Months: &i.months, &i.Years: &i.years,
	} {
		for _, text := range *texts {
			first, last, isRange := strings.Cut(text, ":")
			if !isRange {
				last = first
			}
			s, err := newSpan(first, last)
			if err != nil {
				return err
			}
			*spans = append(*spans, s)
		}
	}
	return nil
}

func newSpan(first, last string) (s span, err error) {
	if s.first, err = number(first); err == nil {
		s.last, err = number(last)
	}
	return s, err
}

// number is that of a weekday, a month, the minute of a time, or a plain one.
func number(text string) (int, error) {
	text = strings.ToLower(text)
	for day := time.Sunday; day <= time.Saturday; day++ {
		if text == strings.ToLower(day.String()) {
			return int(day), nil
		}
	}
	for month := time.January; month <= time.December; month++ {
		if text == strings.ToLower(month.String()) {
			return int(month), nil
		}
	}
	hours, minutes, isTime := strings.Cut(text, ":")
	n, err := strconv.Atoi(hours)
	if !isTime || err != nil {
		return n, err
	}
	m, err := strconv.Atoi(minutes)
	return n*60 + m, err
}

// Boundaries are the times within a week at which a time interval may begin or end, in order.
func (r *Routing) Boundaries(from time.Time) (all []time.Time) {
	for _, intervals := range r.intervals {
		for i := range intervals {
			year, month, day := from.In(intervals[i].zone).Date()
			for _, s := range append([]span{{0, minutesOfDay - 1}}, intervals[i].minutes...) {
				for n := range 8 {
					all = append(all, time.Date(year, month, day+n, 0, s.first, 0, 0, intervals[i].zone).In(from.Location()),
						time.Date(year, month, day+n, 0, s.last+1, 0, 0, intervals[i].zone).In(from.Location()))
				}
			}
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return slices.DeleteFunc(slices.Compact(all), func(t time.Time) bool { return t.Before(from) || t.After(from.AddDate(0, 0, 7)) })
}

const minutesOfDay = 24 * 60

func (i *interval) contains(t time.Time) bool {
	t = t.In(i.zone)
	begin := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, i.zone)
	// As Alertmanager counts them: a day fewer if an hour is skipped.
	length := int(begin.AddDate(0, 1, 0).Sub(begin).Hours() / 24)
	day := func(n int) int {
		if n < 0 {
			n += length + 1
		}
		return n
	}
	in := func(given bool, spans []span, value int) bool {
		return !given || slices.ContainsFunc(spans, func(s span) bool { return s.first <= value && value <= s.last })
	}
	inDays := func(s span) bool { return day(s.first) <= t.Day() && t.Day() <= min(day(s.last), length) }
	return in(i.Times != nil, i.minutes, t.Hour()*60+t.Minute()) && in(i.Weekdays != nil, i.weekdays, int(t.Weekday())) &&
		(i.Days == nil || slices.ContainsFunc(i.days, inDays)) &&
		in(i.Months != nil, i.months, int(t.Month())) && in(i.Years != nil, i.years, t.Year())
}
