package health

import (
	"math"
	"slices"
	"testing"
	"time"
)

// lives returns a certificate that has lived until it has only so much left.
func (w *world) lives(life, left time.Duration) Validity {
	return Validity{Begins: w.now.Add(left - life), Ends: w.now.Add(left)}
}

// worstExpiry is the severity and the age of the problem of these certificates.
func (w *world) worstExpiry(own ExpiryLimits, certificates ...Validity) (string, time.Duration) {
	w.target("web").Conditions = []Condition{{Alert: AlertCertificateExpiry, Certificates: certificates, OwnLimits: own}}
	w.look()
	if p, ok := w.problem("web", AlertCertificateExpiry); ok {
		return p.Severity.String(), p.Lasted
	}
	return "none", 0
}

// TestCertificatesHaveTheOperatorsLimitsOrThoseOfTheirLives tries both sides of every limit.
func TestCertificatesHaveTheOperatorsLimitsOrThoseOfTheirLives(t *testing.T) {
	own := ExpiryLimits{Warning: 5 * day, Critical: 4 * day}
	for _, c := range []struct {
		life              time.Duration
		own               ExpiryLimits
		warning, critical time.Duration
	}{
		{
			90 * day,
			ExpiryLimits{},
			14 * day,
			3 * day,
		},
		{
			15 * day,
			ExpiryLimits{},
			14 * day,
			3 * day,
		},
		{
			14*day + time.Second,
			ExpiryLimits{},
			14 * day,
			3 * day,
		},
		{
			14 * day,
			ExpiryLimits{},
			112 * time.Hour,
			56 * time.Hour,
		},
		{
			6 * day,
			ExpiryLimits{},
			2 * day,
			day,
		},
		{
			160 * time.Hour,
			ExpiryLimits{},
			160 * time.Hour / 3,
			160 * time.Hour / 6,
		},
		{
			time.Hour,
			ExpiryLimits{},
			20 * time.Minute,
			10 * time.Minute,
		},
		{
			90 * day,
			own,
			5 * day,
			4 * day,
		},
		{
			6 * day,
			own,
			5 * day,
			4 * day,
		},
	} {
		for _, side := range []struct {
			left time.Duration
			want string
		}{
			{c.life, "none"},
			{c.warning, "none"},
			{c.warning - time.Second, "warning"},
			{c.critical, "warning"},
			{c.critical - time.Second, "critical"},
			{-time.Hour, "critical"},
		} {
			w := newWorld(t)
			if got, _ := w.worstExpiry(c.own, w.lives(c.life, side.left)); got != side.want {
				t.Errorf("life %s, %s left, own limits %v: %s, want %s", c.life, side.left, c.own, got, side.want)
			}
			near := func(got float64, want time.Duration) bool { return math.Abs(got-want.Seconds()) < 1e-6 }
			if v := w.last.Values[0]; v.Number != side.left.Seconds() || !near(v.Warning, c.warning) || !near(v.Critical, c.critical) {
				t.Errorf("life %s, %s left: %+v, want limits of %s and %s", c.life, side.left, v, c.warning, c.critical)
			}
		}
	}
}

func TestShortLifeNeverRaisesAnOperatorsLimit(t *testing.T) {
	w := newWorld(t)
	expiry := w.judge.rule(AlertCertificateExpiry)
	expiry.Warning.Under, expiry.Critical.Under = 60*day, 10*time.Minute
	if got, _ := w.worstExpiry(ExpiryLimits{}, w.lives(30*day, 11*time.Minute)); got != "warning" {
		t.Errorf("11 minutes left of 30 days: %s, want a warning", got)
	}
	if got, _ := w.worstExpiry(ExpiryLimits{}, w.lives(30*day, 9*time.Minute)); got != "critical" {
		t.Errorf("9 minutes left of 30 days: %s, want critical", got)
	}
}

// TestEachCertificateHasItsOwnLimit has certificates of several lives at one endpoint, whatever their order.
func TestEachCertificateHasItsOwnLimit(t *testing.T) {
	const brief, long = 6 * day, 90 * day
	for _, c := range []struct {
		briefLeft, longLeft time.Duration
		want                string
		lasted              time.Duration
	}{
		{
			5 * day,
			14 * day,
			"none",
			0,
		},
		{
			5 * day,
			14*day - time.Hour,
			"warning",
			time.Hour,
		},
		{
			5 * day,
			3 * day,
			"warning",
			11 * day,
		},
		{
			5 * day,
			3*day - time.Hour,
			"critical",
			time.Hour,
		},
		{
			2*day - time.Hour,
			20 * day,
			"warning",
			time.Hour,
		},
		{
			2*day - 2*time.Hour,
			14*day - time.Hour,
			"warning",
			2 * time.Hour,
		},
		{
			day - time.Hour,
			14*day - 50*time.Hour,
			"critical",
			time.Hour,
		},
	} {
		for _, reversed := range []bool{false, true} {
			w := newWorld(t)
			certificates := []Validity{w.lives(brief, c.briefLeft), w.lives(long, c.longLeft)}
			if reversed {
				slices.Reverse(certificates)
			}
			got, lasted := w.worstExpiry(ExpiryLimits{}, certificates...)
			if got != c.want || lasted != c.lasted {
				t.Errorf("%s and %s left: %s for %s, want %s for %s", c.briefLeft, c.longLeft, got, lasted, c.want, c.lasted)
			}
			v := w.last.Values[0]
			if v.Number != min(c.briefLeft, c.longLeft).Seconds() || (v.Number < v.Warning) != (c.want != "none") ||
				(v.Number < v.Critical) != (c.want == "critical") {
				t.Errorf("%s and %s left: the rules would compare %+v, want %s", c.briefLeft, c.longLeft, v, c.want)
			}
		}
	}
}

func TestNoProblemBeginsBeforeItsCertificate(t *testing.T) {
	month := ExpiryLimits{Warning: 30 * day, Critical: 20 * day}
	for _, c := range []struct {
		life, left, want time.Duration
		own              ExpiryLimits
	}{
		{
			6 * day,
			5 * day,
			day,
			month,
		},
		{
			6 * day,
			5 * day,
			0,
			ExpiryLimits{},
		},
		{
			15 * day,
			13 * day,
			day,
			ExpiryLimits{},
		},
		{
			90 * day,
			18 * day,
			2 * day,
			month,
		},
		{
			2 * day,
			3 * day,
			minDuration,
			month,
		}, // it is valid from tomorrow
	} {
		w := newWorld(t)
		if _, lasted := w.worstExpiry(c.own, w.lives(c.life, c.left)); lasted != c.want {
			t.Errorf("%s left of %s: for %s, want %s", c.left, c.life, lasted, c.want)
		}
	}
}

// TestOddCertificatesAreDatedToo has certificates that never were valid, and two that reach their limit together.
func TestOddCertificatesAreDatedToo(t *testing.T) {
	own := ExpiryLimits{Warning: 30 * day, Critical: day}
	w := newWorld(t)
	for name, c := range map[string]struct {
		own          ExpiryLimits
		certificates []Validity
		lasted       time.Duration
		want         string
	}{
		"no life": {
			ExpiryLimits{},
			[]Validity{w.lives(0, -time.Hour)},
			time.Hour,
			"critical",
		},
		"no life left": {
			ExpiryLimits{},
			[]Validity{w.lives(0, time.Hour)},
			0,
			"none",
		},
		"both at one time": {
			own,
			[]Validity{w.lives(90*day, 20*day), w.lives(23*day, 20*day)},
			10 * day,
			"warning",
		},
		"an unknown begin": {
			ExpiryLimits{},
			[]Validity{{Ends: w.now.Add(13 * day)}},
			day,
			"warning",
		},
		"an unknown begin, 2": {
			ExpiryLimits{},
			[]Validity{{Ends: w.now.Add(14 * day)}},
			0,
			"none",
		},
	} {
		if got, lasted := newWorld(t).worstExpiry(c.own, c.certificates...); got != c.want || lasted != c.lasted {
			t.Errorf("%s: %s for %s, want %s for %s", name, got, lasted, c.want, c.lasted)
		}
	}
}

// TestProblemOfARenewedCertificateIsDatedAnew has a certificate replaced by others that are under their limits too.
func TestProblemOfARenewedCertificateIsDatedAnew(t *testing.T) {
	w := newWorld(t)
	own := ExpiryLimits{Warning: 30 * day, Critical: day}
	for _, c := range []struct{ life, left, lasted time.Duration }{
		{90 * day, 20 * day, 10 * day},
		{90 * day, 28 * day, 10 * day}, // it is older than the problem
		{6 * day, 6*day - time.Hour, time.Hour},
		{90 * day, 20 * day, time.Hour},
	} {
		if got, lasted := w.worstExpiry(own, w.lives(c.life, c.left)); got != "warning" || lasted != c.lasted {
			t.Errorf("%s left of %s: %s for %s, want a warning for %s", c.left, c.life, got, lasted, c.lasted)
		}
	}
	w.judge.Memory(w.now)
	if w.worstExpiry(own, w.lives(90*day, 20*day)); w.judge.Changed() {
		t.Error("the state is saved, although nothing has changed")
	}
	if w.worstExpiry(own, w.lives(6*day, 6*day-2*time.Minute)); !w.judge.Changed() {
		t.Error("the state is not saved, although the problem has another date")
	}
	w.restart(true)
	if got, lasted := w.worstExpiry(own, w.lives(6*day, 6*day-time.Minute)); got != "warning" || lasted != time.Minute {
		t.Errorf("after a restart: %s for %s, want a warning for a minute", got, lasted)
	}
}

// TestOldCertificateOfAShortLifeIsCriticalAtItsOwnLimit holds that of 6 days, the last 3 are not critical.
func TestOldCertificateOfAShortLifeIsCriticalAtItsOwnLimit(t *testing.T) {
	for _, c := range []struct {
		life, left time.Duration
		want       bool
	}{
		{6 * day, day, false}, {6 * day, day - time.Second, true}, {15 * day, 3 * day, false}, {15 * day, 3*day - time.Second, true},
	} {
		w := newWorld(t)
		w.target("x").Conditions = []Condition{
			{Alert: AlertServedNotRenewed, Holds: true, Certificates: []Validity{w.lives(c.life, c.left)}},
		}
		w.look()
		for _, v := range w.last.Conditions {
			if v.Severity == Critical && (v.Lasted > 0) != c.want {
				t.Errorf("%s left of %s: critical for %s, want it: %t", c.left, c.life, v.Lasted, c.want)
			}
		}
	}
}
