package status

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// findingSize is how many letters of what was found are told before what it means.
const findingSize = 160

// explainFailure says in plain words why a target is down: what was found, where that tells more than what its reason means.
func explainFailure(t *observed) string {
	meaning := failure.Explain(t.Reason)
	found := finding(t.Reason, t.Error)
	if found == "" {
		return meaning
	}
	if number, rest, ok := strings.Cut(meaning, ", "); ok && strings.Contains(found, number) {
		meaning = rest // 401, 404: it has been said
	}
	if t.Reason == failure.TLS || t.Reason == failure.HTTPStatus { // the rest lists what else might have been, or is a hint
		meaning, _, _ = strings.Cut(meaning, ": ")
	}
	if t.Reason == failure.Forbidden { // it speaks of a socket, where there may be none
		meaning = "this address or user is not allowed"
	}
	return found + " (" + meaning + ")"
}

// asked is the part of an error that says where something was asked: an address or a URL ends it.
var asked = regexp.MustCompile(`(?i)(://\S*|\[?[0-9a-z.:-]+\]?:\d+"?)$`)

// finding is what an error found, without where; "" where the reason's meaning says it better.
func finding(r failure.Reason, text string) string {
	switch r {
	case failure.DNS, failure.Refused, failure.Closed, failure.Timeout, failure.Panic, failure.Internal:
		return ""
	case failure.TLS:
		for _, before := range []string{"x509: ", "tls: "} {
			if i := strings.LastIndex(text, before); i >= 0 {
				text = text[i+len(before):]
				break
			}
		}
		text, _, _ = strings.Cut(text, ": current time") // it would be news at each reading
	default:
	}
	parts := strings.Split(text, ": ")
	for i := len(parts) - 2; i >= 0; i-- {
		if asked.MatchString(parts[i]) {
			parts = parts[i+1:]
			break
		}
	}
	if text = strings.Join(parts, ": "); utf8.RuneCountInString(text) > findingSize {
		return ""
	}
	return text
}

// hint says what to do about a target that is down.
func hint(t *observed, all *fleet) string {
	meaning := failure.Explain(t.Reason)
	if head, _, _ := strings.Cut(meaning, ": "); t.Hint != "" && !strings.HasPrefix(t.Hint, head) {
		return t.Hint
	}
	container := t.Container
	if container == "" || t.Unseen {
		container = all.ofRole(servedBy[t.Kind])
	}
	if on, ok := strings.CutPrefix(failure.WhereToLook(t.Reason, t.Target, container), "; r"); ok {
		return "R" + on
	}
	return meaning
}

// servedBy are the roles of the containers that serve a kind of target.
var servedBy = map[string]string{
	"xmpp_status": "xmpp", "xmpp_metrics": "xmpp", "xmpp_rest": "xmpp", "xmpp_c2s": "xmpp", "xmpp_proxy": "xmpp_proxy",
	"irc_rpc": "irc", "irc_tls": "irc", "irc_services": "irc_services", "plant_store": "plant_store", "identity": "identity",
	"docs_search": "docs", "web_irc": "web_irc", "web_panel": "web_panel", "log_viewer": "log_viewer",
}
