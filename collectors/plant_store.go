package collectors

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

var (
	plantSuccessDesc = readDesc("chatstack_plant_store_operation_success",
		"Whether the plant store answered the operation as documented: with the plant in mode canary, with a refusal in mode reject.",
		"operation")
	plantDurationDesc = readDesc("chatstack_plant_store_operation_duration_seconds",
		"Time that the plant store took for the operation, in seconds.", "operation")
	plantOrphansDesc = readDesc("chatstack_plant_store_orphans",
		"Canaries that may still be in the plant store and that the exporter still has to delete.")
)

// Modes of the plant store's probe.
const (
	// ModeReject sends a plant without a name and expects the documented refusal: nothing is written.
	ModeReject = "reject"
	// ModeCanary creates a plant and deletes it again.
	ModeCanary = "canary"
)

const (
	// maxPlantID is the largest id that every JSON parser keeps exactly.
	maxPlantID = 1<<53 - 1
	// minPlantRange is so large that two exporters hardly ever choose the same random id.
	minPlantRange = 1 << 20
	// maxOwed is the number of pending deletions that stops the creation of canaries: the exporter must not fill a store that
	// refuses deletions.
	maxOwed = 5
	// finishGrace is the default for plantStore.grace.
	finishGrace = 3 * time.Second
)

// PlantStore is the block of the plant store.
type PlantStore struct {
	config.Target `yaml:",inline"`
	config.HTTP   `yaml:",inline"` // the URL is the store's base address
	Token         config.Secret    `yaml:"token"`
	// Mode is ModeReject or ModeCanary.
	Mode string `yaml:"mode"`
	// IDMin and IDMax are the range of ids for canaries; nobody else may use it.
	IDMin int64 `yaml:"id_min"`
	IDMax int64 `yaml:"id_max"`
}

func newPlantStoreSettings() *PlantStore {
	return &PlantStore{Mode: ModeReject, IDMin: 9_007_190_000_000_000, IDMax: maxPlantID}
}

// Environ implements config.Settings.
func (s *PlantStore) Environ(e *config.Env) {
	e.String("url", "PLANT_STORE_URL", &s.URL)
	e.Secret("token", "PLANT_STORE_TOKEN", &s.Token)
	e.TLS("PLANT_STORE", &s.TLS)
}

// canaryDuty is that of a store in ModeCanary.
var canaryDuty = &config.Duty{
	Infinitive:     "run the canary",
	ThirdPerson:    "runs the canary",
	AdviceForOther: "set mode: reject here",
	AdviceForAll:   "set mode: reject in all but one",
	Has: func(s config.Settings) bool {
		store, ok := s.(*PlantStore)
		return ok && store.Mode == ModeCanary
	},
	Value:        "deleting", // missing in ModeReject, and while the store cannot be reached
	WithoutState: "a restart of the exporter leaves undeleted canaries in the store; set state_file",
}

// Check implements config.Settings.
func (s *PlantStore) Check(r *config.Report) {
	s.HTTP.Check(r)
	if s.Mode != ModeReject && s.Mode != ModeCanary {
		r.Faultf("mode", "is %q, must be %s or %s", s.Mode, ModeReject, ModeCanary)
	}
	if s.IDMin < 1 || s.IDMax > maxPlantID {
		r.Faultf("id_max", "the range %d to %d must lie within 1 and %d, the largest number that every JSON parser keeps exactly",
			s.IDMin, s.IDMax, int64(maxPlantID))
	} else if s.IDMax-s.IDMin < minPlantRange {
		r.Faultf("id_max", "the range %d to %d must hold more than %d ids, so that two exporters do not choose the same one",
			s.IDMin, s.IDMax, minPlantRange)
	}
}

// plantStore creates a plant and deletes it, or sends one that the store must refuse. It records each plant as owed before
// sending it and until the store confirms that it is gone, so that none is forgotten even if the process dies. That includes
// plants to be refused, because a broken store may accept them.
type plantStore struct {
	http        exchange.HTTP
	base        *url.URL
	credentials exchange.Credentials
	mode        string
	// untested says that mode is ModeReject for want of the exporter's state file. A store that works as documented then stores nothing.
	untested bool
	min, max int64
	// late is how long a slow store may still carry out an unanswered creation: until then, a 404 proves nothing.
	late time.Duration
	// grace is how long a running transaction may continue after the exporter begins to stop.
	grace time.Duration
	state State
	log   *slog.Logger
	owed  []owedPlant
	// absent are the owed plants that the store did not find during this probe.
	absent []owedPlant
}

// owedPlant is a plant that may be in a store.
type owedPlant struct {
	ID    int64     `json:"id"`
	Since time.Time `json:"since"`
	// URL is the store's base address. The exporter must not delete the id from another store.
	URL string `json:"url"`
	// Created is set when the store has confirmed the creation.
	Created bool `json:"created,omitempty"`
}

// same reports whether both records are of one plant.
func (p owedPlant) same(q owedPlant) bool { return p.ID == q.ID && p.URL == q.URL }

// plant is a NewPlant of the store's interface; a Plant is one without id.
type plant struct {
	ID   int64  `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
	Tag  string `json:"tag,omitempty"`
}

// plantError is an Error of the store's interface.
type plantError struct {
	Number  *int32  `json:"error"`
	Message *string `json:"message"`
}

func newPlantStore(s *PlantStore, d Deps) (Collector, error) {
	c := &plantStore{
		http:        d.http(s.HTTP),
		base:        parsed(s.URL),
		credentials: exchange.Credentials{Token: s.Token},
		mode:        s.Mode,
		min:         s.IDMin,
		max:         s.IDMax,
		late:        3 * s.Timeout.Std(),
		grace:       finishGrace,
		state:       d.State,
		log:         d.Log,
	}
	if err := d.State.Load(&c.owed); err != nil {
		d.Log.Error("the list of canaries to delete is lost: the state file's copy cannot be read", "err", err)
		c.owed = nil
	}
	if c.mode == ModeCanary && d.Once {
		c.mode, c.untested = ModeReject, true
	}
	return c, nil
}

// Collect implements Collector. If ctx is cancelled after a plant was sent, the transaction continues for up to c.grace.
func (c *plantStore) Collect(ctx context.Context, b *Batch) (err error) {
	defer func() {
		b.Kept.Gauge(plantOrphansDesc, float64(len(c.owed)))
		b.Kept.Figure(Figure{Name: "test records not deleted", Value: float64(len(c.owed))})
		b.Kept.Condition(health.AlertOrphans, "", len(c.owed) > 0)
		c.reportOwed(ctx, b)
		if c.untested && err == nil {
			b.Note("check writes nothing; it used mode reject, so creating and deleting a plant was not tested")
		}
	}()
	full := len(c.owed) >= maxOwed
	if answered, owedErr := c.deleteOwed(ctx, b); owedErr != nil && (!answered || full && len(c.absent) == 0) {
		// The store is unreachable, or must not be filled further.
		return fmt.Errorf("%s of canaries pending: %w", wording.Count(len(c.owed), "deletion"), owedErr)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p := plant{ID: c.min + rand.Int64N(c.max-c.min+1)}
	if full && len(c.absent) > 0 {
		p.ID = c.absent[0].ID // tests deletion without filling the store further
	}
	if c.mode == ModeCanary {
		p.Name, p.Tag = "chatstack_exporter canary", "canary"
	}
	return c.transaction(ctx, b, p)
}

// keepOperation adds how long an operation took, and whether it succeeded.
func keepOperation(b *Batch, operation, figure string, took time.Duration, err error) {
	b.Kept.Gauge(plantDurationDesc, took.Seconds(), operation)
	b.Kept.Gauge(plantSuccessDesc, boolValue(err == nil), operation)
	b.Kept.Figure(Figure{Name: figure, Value: took.Seconds(), Unit: "seconds"})
}

// reportOwed notes which plants are owed, and logs them if the exporter stops.
func (c *plantStore) reportOwed(ctx context.Context, b *Batch) {
	if len(c.owed) == 0 {
		return
	}
	ids := make([]string, len(c.owed))
	for i, p := range c.owed {
		ids[i] = strconv.FormatInt(p.ID, 10)
		if p.URL != c.base.String() {
			ids[i] += " in " + exchange.PrintableURL(p.URL)
		}
	}
	b.Note("canaries not deleted yet: " + strings.Join(ids, ", "))
	if errors.Is(ctx.Err(), context.Canceled) {
		c.log.Warn("the exporter stops before all canaries are deleted", "ids", ids)
	}
}

// finishing returns a context that ends with ctx's deadline, or grace after ctx was cancelled.
func finishing(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if deadline, ok := ctx.Deadline(); ok {
		out, cancel = context.WithDeadline(context.WithoutCancel(ctx), deadline)
	}
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return out, func() { stop(); cancel() }
}

// deleteOwed retries the owed deletions of this store for a third of the time, the oldest first. It reports whether the
// store answered, and the last error in an answer. It stops if the first gets no answer. Plants that the store does not
// find only go to c.absent, because a server that lost the whole path answers 404, too.
func (c *plantStore) deleteOwed(ctx context.Context, b *Batch) (answered bool, last error) {
	c.absent = nil
	if len(c.owed) == 0 {
		return true, nil
	}
	beginning, cancelBeginning := share(ctx, 1.0/3)
	defer cancelBeginning()
	// A running deletion gets a little longer, so that a slow store can answer at least one.
	ctx, cancel := share(ctx, 1.0/2)
	defer cancel()
	for _, p := range slices.Clone(c.owed) {
		if p.URL != c.base.String() {
			continue
		}
		if answered && beginning.Err() != nil {
			break
		}
		c.moveBack(p)
		b.HTTPStatus = 0
		gone, err := c.delete(ctx, b, p, true)
		if err != nil && b.HTTPStatus == 0 {
			if !answered {
				last = err
			}
			break
		}
		answered = true
		switch {
		case err != nil:
			last = err
		case gone && b.HTTPStatus == http.StatusNotFound:
			c.absent = append(c.absent, p)
		case gone:
			if err := c.settle(p); err != nil {
				return true, err
			}
			c.log.Info("leftover canary deleted", "id", p.ID, "since", p.Since)
		}
	}
	return answered, last
}

// moveBack moves p to the end, so that the next probe deletes others first.
func (c *plantStore) moveBack(p owedPlant) {
	c.owed = append(slices.DeleteFunc(slices.Clone(c.owed), p.same), p)
}

// transaction sends a plant, judges the answer by the mode, and deletes the plant unless it certainly was not stored.
func (c *plantStore) transaction(ctx context.Context, b *Batch, p plant) error {
	again := slices.ContainsFunc(c.absent, func(q owedPlant) bool { return q.ID == p.ID })
	owed, err := c.owe(p.ID)
	if err != nil {
		return failure.Errorf(failure.Internal, "no plant is sent, because it could not be recorded: %w", err).
			WithHint("without a record on disk, a plant could stay in the store forever; " +
				"probes continue once the state file can be written")
	}
	// When the exporter stops, the creation gets half of the grace and the deletion the rest.
	posting, cancelPosting := finishing(ctx, c.grace/2)
	defer cancelPosting()
	deleting, cancelDeleting := finishing(ctx, c.grace)
	defer cancelDeleting()
	posting, cancelShare := share(posting, 0.5)
	defer cancelShare()
	start := time.Now()
	created, createErr := c.create(posting, b, p)
	keepOperation(b, "create", "creating", time.Since(start), createErr)
	var absent []owedPlant
	if createErr == nil {
		absent = c.stillAbsent(deleting, b, p.ID)
	}
	if created == certainlyNot && !again {
		return errors.Join(createErr, c.settle(append(absent, owed)...))
	}
	owed.Created = owed.Created || created == certainly
	c.owed[slices.IndexFunc(c.owed, owed.same)] = owed
	status := b.HTTPStatus
	start = time.Now()
	gone, deleteErr := c.delete(deleting, b, owed, c.mode == ModeReject)
	if owed.Created && c.mode == ModeCanary {
		keepOperation(b, "delete", "deleting", time.Since(start), deleteErr)
	}
	if gone {
		deleteErr = c.settle(append(absent, owed)...)
	}
	if createErr != nil {
		b.HTTPStatus = status // of the operation that failed
		return createErr
	}
	return deleteErr
}

// stillAbsent deletes the absent plants again after the store has shown that it works, and returns those that are certainly
// gone, except the one just created. The caller settles them if the store still works afterwards.
func (c *plantStore) stillAbsent(ctx context.Context, b *Batch, created int64) []owedPlant {
	status := b.HTTPStatus
	defer func() { b.HTTPStatus = status }() // of the operation that the probe is about
	ctx, cancel := share(ctx, 0.5)
	defer cancel()
	var gone []owedPlant
	for _, p := range c.absent {
		if p.ID == created {
			continue
		}
		if ok, err := c.delete(ctx, b, p, true); ok && err == nil {
			gone = append(gone, p)
		}
	}
	return gone
}

// refusal returns nil if a is the documented answer to an invalid plant.
func (c *plantStore) refusal(b *Batch, a *exchange.Answer) error {
	switch {
	case a.Status/100 == 2:
		return failure.Errorf(failure.Mismatch, "%s for a plant without a name, which should be refused with 400", a)
	case a.Status != http.StatusBadRequest:
		return c.unexpected(a)
	}
	e := readPlantError(a.Body)
	if e.Number == nil || e.Message == nil {
		return failure.Errorf(failure.Malformed, "%s without the documented body of error and message", a)
	}
	b.Note(fmt.Sprintf("refused as documented: error %d: %s", *e.Number, failure.OneLine(*e.Message)))
	return nil
}

// existence says whether a plant is in the store after it was sent.
type existence int

const (
	certainlyNot existence = iota
	perhaps
	certainly
)

// create sends a plant and judges the answer. The plant is certainly not in the store if the request was not sent or the
// status was 3xx or 4xx. Any other failure leaves it open.
func (c *plantStore) create(ctx context.Context, b *Batch, p plant) (existence, error) {
	var sent atomic.Bool
	b.HTTPStatus = 0
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	a, err := c.post(ctx, b, p)
	switch {
	case err != nil && !sent.Load():
		return certainlyNot, err
	case err != nil && b.HTTPStatus/100 == 2:
		return certainly, err // only the body of the answer was lost
	case err != nil:
		return perhaps, err
	}
	existence := perhaps
	switch a.Status / 100 {
	case 2:
		existence = certainly
	case 3, 4:
		existence = certainlyNot
	}
	if c.mode == ModeReject {
		return existence, c.refusal(b, a)
	}
	return existence, c.acceptance(p, a)
}

// acceptance returns nil if a is the documented answer to the plant.
func (c *plantStore) acceptance(p plant, a *exchange.Answer) error {
	if a.Status/100 != 2 {
		return c.unexpected(a)
	}
	var got plant
	if err := json.Unmarshal(a.Body, &got); err != nil {
		return a.Errorf(failure.Malformed, "read plant: %w", err)
	}
	if got.Name != p.Name || got.Tag != p.Tag {
		return failure.Errorf(failure.Mismatch, "POST %s: the returned plant is not the one that was sent", exchange.PrintableURL(a.URL))
	}
	return nil
}

func (c *plantStore) post(ctx context.Context, b *Batch, p plant) (*exchange.Answer, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write plant: %w", err)
	}
	header := c.credentials.AuthHeader()
	header.Set("Content-Type", "application/json")
	return c.http.Do(ctx, &b.Record, http.MethodPost, c.base.JoinPath("plants").String(), header, bytes.NewReader(body))
}

// delete deletes a plant and reports whether it is certainly gone. Any 2xx is a success, because the API does not document
// one. A 404 is an error for a plant that was just created. It settles an owed plant unless the creation may still be running.
func (c *plantStore) delete(ctx context.Context, b *Batch, p owedPlant, owed bool) (gone bool, err error) {
	target := c.base.JoinPath("plants", strconv.FormatInt(p.ID, 10)).String()
	a, err := c.http.Do(ctx, &b.Record, http.MethodDelete, target, c.credentials.AuthHeader(), nil)
	switch {
	case err != nil:
		return false, err
	case a.Status/100 == 2:
		return true, nil
	case a.Status == http.StatusNotFound && p.Created && owed:
		return true, nil
	case a.Status == http.StatusNotFound && !p.Created:
		return time.Since(p.Since) >= c.late, nil
	}
	return false, c.unexpected(a)
}

// unexpected returns the failure of an unexpected status, with the message of the error body.
func (c *plantStore) unexpected(a *exchange.Answer) *failure.Error {
	if a.Status/100 == 3 {
		return a.Refusal().
			WithHint("the store redirects: set url to the address that it redirects to")
	}
	hint := ""
	refused := a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden
	switch {
	case refused && c.credentials.HasCredentials():
		hint = "the store rejects the token: set PLANT_STORE_TOKEN, or token in the configuration file, to a valid one"
	case refused:
		hint = "no token is set, and the store refuses the request without one: set PLANT_STORE_TOKEN, " +
			"or token in the configuration file"
	case a.Status == http.StatusNotFound && a.Method == http.MethodPost:
		hint = "the store answers, but has nothing at " + exchange.PathOf(a.URL) + ": set url to its base address, without /plants"
	}
	e := readPlantError(a.Body)
	if e.Message == nil {
		failed := a.Refusal()
		return failed.WithHint(cmp.Or(hint, failed.Hint))
	}
	return failure.OfStatus(a.Status, a.Header, "%s: error %d: %s", a, *cmp.Or(e.Number, new(int32)), failure.OneLine(*e.Message)).
		WithHint(hint)
}

// readPlantError returns the error in an answer, empty if it has none.
func readPlantError(body []byte) (e plantError) {
	if json.Unmarshal(body, &e) != nil {
		return plantError{}
	}
	return e
}

// owe records that a plant may be in the store from now on. For a plant that is already owed it updates only the time,
// because the creation may be running again.
func (c *plantStore) owe(id int64) (owedPlant, error) {
	p := owedPlant{ID: id, Since: time.Now().UTC(), URL: c.base.String()}
	if i := slices.IndexFunc(c.owed, p.same); i >= 0 {
		c.owed[i].Since = p.Since
		return c.owed[i], nil
	}
	owed := append(slices.Clone(c.owed), p)
	if err := c.state.Save(owed); err != nil {
		return p, err
	}
	c.owed = owed
	return p, nil
}

// settle records that plants are certainly gone. If that cannot be saved, the exporter deletes them again after a restart,
// which does no harm.
func (c *plantStore) settle(gone ...owedPlant) error {
	c.owed = slices.DeleteFunc(slices.Clone(c.owed), func(p owedPlant) bool { return slices.ContainsFunc(gone, p.same) })
	if err := c.state.Save(c.owed); err != nil {
		return failure.Errorf(failure.Internal, "record %s of canaries: %w", wording.Count(len(gone), "deletion"), err)
	}
	for _, p := range gone {
		if slices.Contains(c.absent, p) {
			c.log.Info("leftover canary is gone", "id", p.ID, "since", p.Since)
		}
	}
	return nil
}
