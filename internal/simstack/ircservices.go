package simstack

import (
	"encoding/json"
	"net/http"
)

// handleIRCServices answers as the IRC services' HTTP daemon does: Atheme's.
func handleIRCServices(x *exchange) *answer {
	switch {
	case x.req.URL.Path != "/jsonrpc" && x.req.Method == http.MethodPost:
		// It announces a length, but sends no body.
		a := captured("services_404")
		a.missing, a.body, a.end = len(a.body), nil, endSilent
		return a
	case x.req.URL.Path != "/jsonrpc":
		return captured("services_404")
	}
	body, _ := x.body()
	var call struct {
		Method string   `json:"method"`
		ID     *string  `json:"id"`
		Params []string `json:"params"`
	}
	if err := json.Unmarshal(body, &call); err != nil || call.ID == nil || call.Method == "" {
		// It does not answer requests that it cannot parse, such as one with a number as id.
		return &answer{end: endSilent}
	}
	x.service.setRPC(x.record, call.Method)
	said := servicesAnswer{ID: *call.ID}
	if call.Method == "atheme.ison" {
		said.Result = map[string]any{"accountname": "*", "online": false}
	} else {
		said.Error = &servicesError{2, "Invalid command"}
	}
	a := captured("services_ison")
	a.body = mustJSON(said)
	return a
}

// servicesAnswer is an answer of the services. The fields are in the order of the real server.
type servicesAnswer struct {
	Error  *servicesError `json:"error"`
	ID     string         `json:"id"`
	Result any            `json:"result"`
}

type servicesError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}
