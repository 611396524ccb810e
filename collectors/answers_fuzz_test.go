package collectors

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// fuzzSecret is every secret of the collectors under fuzzing: what an answer does to it must not bring it out.
const fuzzSecret = "7h1s-n3v3r-l34v3s"

// fuzzLimit bounds answers, so that what comes of one can be bounded too.
const fuzzLimit = 64 << 10

// fuzzDeps are for a collector whose answers are made up.
func fuzzDeps() Deps {
	d := deps(&memory{})
	d.Limits = config.Limits{
		Body:        fuzzLimit,
		MetricsBody: fuzzLimit,
		Series:      1000,
		Families:    100,
		LabelBytes:  1024,
	}
	d.Once = true
	return d
}

// fuzzRead makes a reading that has all the time it needs.
func fuzzRead(t *testing.T, c Collector) (*Batch, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b := &Batch{Target: "fuzzed"}
	err := c.Collect(ctx, b)
	return b, err
}

// judge holds what is true of every reading, whatever the target has said: its metrics make a legal page of finite numbers
// that is not longer than the answer allows, a failure has a reason that is not our own fault, and no text has a
// secret or no end.
func judge(t *testing.T, b *Batch, err error, answered int) {
	t.Helper()
	var encoder exposition.Encoder
	families, encodeErr := encoder.Encode(b.Metrics(err == nil))
	if encodeErr != nil {
		t.Errorf("the page cannot be written: %v", encodeErr)
	}
	size := 0
	for _, f := range append(families, b.Foreign(err == nil)...) {
		size += len(f.Text)
	}
	// A line has some hundred bytes beside what the answer says, and an answer can name a series in four bytes.
	if most := 200*answered + 64<<10; size > most {
		t.Errorf("%d bytes of page are made of an answer of %d", size, answered)
	}
	for _, m := range b.Metrics(err == nil) {
		var d dto.Metric
		if writeErr := m.Write(&d); writeErr != nil {
			t.Errorf("write metric: %v", writeErr)
		}
		if v := d.GetGauge().GetValue() + d.GetCounter().GetValue(); math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("%s is %v", m.Desc(), v)
		}
		if d.Counter != nil && d.GetCounter().GetValue() < 0 {
			t.Errorf("the counter %s is %v", m.Desc(), d.GetCounter().GetValue())
		}
	}
	if err != nil {
		if reason := failure.ReasonOf(err); reason == failure.Internal || reason == failure.Panic {
			t.Errorf("reason %s, as if it were our fault: %v", reason, err)
		}
		judgeText(t, "error", err.Error())
		if len(b.Foreign(false)) > 0 || len(b.Dropped(false)) > 0 {
			t.Error("both an error and families")
		}
	}
	for _, note := range b.Notes {
		judgeText(t, "note", note)
	}
	for _, e := range b.Exchanges {
		judgeText(t, "request", e.Request)
		judgeText(t, "exchange", e.Err)
		judgeText(t, "header", fmt.Sprint(e.Header))
	}
}

// judgeText holds that a text can be shown. What cannot be printed is replaced in one place, by whoever keeps the reading.
func judgeText(t *testing.T, what, text string) {
	t.Helper()
	if strings.Contains(text, fuzzSecret) {
		t.Errorf("%s tells a secret: %.300q", what, text)
	}
	if len(text) > 5*failure.MaxLine {
		t.Errorf("%s of %d bytes: %.300q", what, len(text), text)
	}
}

// answerer is a server that answers what the fuzzer says.
type answerer struct {
	*httptest.Server
	answer atomic.Pointer[http.HandlerFunc]
}

func startAnswerer(f *testing.F) *answerer {
	f.Helper()
	a := &answerer{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*a.answer.Load())(w, r) }))
	f.Cleanup(a.Close)
	return a
}

func (a *answerer) answers(f http.HandlerFunc) { a.answer.Store(&f) }

// raw writes bytes in the place of an answer.
func raw(w http.ResponseWriter, content []byte) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	conn.Write(content) //nolint:errcheck,gosec // the client may have gone
	conn.Close()        //nolint:errcheck,gosec // as above
}

// plain answers with a status, a type and a body.
func plain(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // a status may have no body, and the client may have gone
}

// answeringCollectors are the collectors that read one answer over HTTP, or two of the same form.
func answeringCollectors(t *testing.T, url string) []Collector {
	t.Helper()
	secret, d := config.NewSecret(fuzzSecret), fuzzDeps()
	var all []Collector
	add := func(c Collector, err error) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	status, identity, services, plants, canary, rest := &XMPPStatus{}, newIdentitySettings(), &IRCServices{},
		newPlantStoreSettings(), newPlantStoreSettings(), newXMPPRestSettings()
	docs, web, metrics := newDocsSearchSettings(), newWebSettings(), newXMPPMetricsSettings()
	status.URL, identity.URL, services.URL, plants.URL, canary.URL, rest.URL, docs.URL, web.URL, metrics.URL = url, url, url, url, url, url,
		url, url, url
	identity.Token, plants.Token, canary.Token, rest.Token = secret, secret, secret, secret
	services.JSONRPCURL, canary.Mode = url+"/jsonrpc", ModeCanary
	add(newXMPPStatus(status, d))
	add(newIdentity(identity, d))
	add(newIRCServices(services, d))
	add(newPlantStore(plants, d))
	add(newPlantStore(canary, d))
	add(newXMPPRest(rest, d))
	add(newDocsSearch(docs, d))
	add(newWeb(web, d))
	add(newXMPPMetrics(metrics, d))
	return all
}

// bodyOf is what follows the header of a recorded answer.
func bodyOf(content []byte) []byte {
	for _, end := range []string{"\r\n\r\n", "\n\n"} {
		if _, body, ok := strings.Cut(string(content), end); ok {
			return []byte(body)
		}
	}
	return content
}

// FuzzAnswers has the collectors that speak HTTP read made-up answers, status and header included.
func FuzzAnswers(f *testing.F) {
	files, err := filepath.Glob("testdata/captures/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for i, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), uint16(http.StatusOK), "application/json", bodyOf(content))
		f.Add(uint8(i), uint16(0), "", content)
	}
	for i, seed := range []struct {
		status uint16
		body   string
	}{
		{200, `{"chat.test":{"component":{"type":"info","message":"Connected"},"tls":{"type":"error"}},"*":{"component":{"type":"core"}}}`},
		{200, `{"ok":true,"identity":{"nick":"x"}}`},
		{404, `{"ok":false,"error":"no match"}`},
		{200, `{"jsonrpc":"2.0","id":"1","result":"x"}`},
		{200, `{"id":"1","error":{"code":-32600,"message":"\u0000\ud800"}}`},
		{200, `{"id":9007190000000001,"name":"chatstack_exporter canary","tag":"canary"}`},
		{400, `{"error":400,"message":"name is missing"}`},
		{401, `{"error":2147483648,"message":null}`},
		{200, `{"version":"0.12.3","site_name":"x"}`},
		{
			200,
			"# TYPE x counter\nx_total 1\nx_created NaN\n# TYPE prosody_mod_c2s__connections counter\n" +
				"prosody_mod_c2s__connections_total{host=\"a\",type=\"c2s\"} 1e400\n# EOF\n",
		},
		{0, "HTTP/1.1 302 Found\r\nLocation: /again\r\n\r\n"},
		{0, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"},
		{0, "HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer realm=\"\x00\"\r\nContent-Length: 0\r\n\r\n"},
	} {
		f.Add(uint8(i), seed.status, "application/json", []byte(seed.body))
	}
	server := startAnswerer(f)
	f.Fuzz(func(t *testing.T, which uint8, status uint16, kind string, body []byte) {
		server.answers(func(w http.ResponseWriter, _ *http.Request) {
			if status = status % 600; status < 200 {
				raw(w, body)
				return
			}
			plain(w, int(status), kind, body)
		})
		all := answeringCollectors(t, server.URL)
		b, err := fuzzRead(t, all[int(which)%len(all)])
		judge(t, b, err, len(body))
	})
}

// FuzzIRCRPC has the IRC server's JSON-RPC answer each call with made-up bytes, or with a proper answer that has them as
// its result.
func FuzzIRCRPC(f *testing.F) {
	const methods = `{"methods":{"stats.get":{},"server.list":{},"user.list":{},"channel.list":{}}}`
	for i, seed := range [][3]string{
		{`{"server":{"total":3,"ulined":1},"user":{"total":9,"ulined":4,"oper":1},"channel":{"total":2}}`, `{"list":[{"id":"001","server":{"num_users":5,"synced":true}},{"id":"00S","server":{"num_users":4,"ulined":true,"synced":true}}]}`, `{"list":[{"id":"001AAA"},{"id":"00SBBB"}]}`},
		{`{"user":{"total":-1}}`, `{"list":[]}`, `{"list":null}`},
		{
			`{"user":{"total":9223372036854775807,"ulined":-9223372036854775808}}`,
			`{"list":[{"server":{"num_users":9223372036854775807}},{"server":{"num_users":1}}]}`, `{"list":{}}`,
		},
		{`null`, `0`, `"x"`},
	} {
		f.Add(uint8(i), []byte(methods), []byte(seed[0]), []byte(seed[1]), []byte(seed[2]))
	}
	f.Add(uint8(1), []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}`), []byte(`{`),
		[]byte(`{"id":1}`), []byte(`[]`))
	f.Add(uint8(1), []byte(`{"jsonrpc":"2.0","id":1,"result":`+methods+`}`),
		[]byte(`{"id":2,"error":{"code":-32601,"message":"\u001b[31m"}}`), []byte(`{"id":3,"result":{"list":[{}]}}`), []byte(``))
	server := startAnswerer(f)
	f.Fuzz(func(t *testing.T, how uint8, info, stats, servers, others []byte) {
		answered := 0
		server.answers(func(w http.ResponseWriter, r *http.Request) {
			var call struct {
				Method string `json:"method"`
				ID     int64  `json:"id"`
			}
			if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
				t.Errorf("read call: %v", err)
			}
			content := map[string][]byte{"rpc.info": info, "stats.get": stats, "server.list": servers}[call.Method]
			if content == nil {
				content = others
			}
			answered += len(content)
			if how&1 == 0 {
				content = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":%s}`, call.ID, content)
			}
			plain(w, http.StatusOK, "application/json", content)
		})
		s := newIRCRPCSettings()
		s.URL, s.User, s.Password, s.Pause = server.URL, "exporter", config.NewSecret(fuzzSecret), 0
		c, err := newIRCRPC(s, fuzzDeps())
		if err != nil {
			t.Fatal(err)
		}
		b, err := fuzzRead(t, c)
		judge(t, b, err, answered)
	})
}
