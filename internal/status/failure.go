package status

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// maxDetail limits the characters of an error that its text repeats.
const maxDetail = 160

// explainFailure says why a target is down: the error's detail, if it has one, and what its reason means.
func explainFailure(t *poll.Status) string {
	meaning, detail := failure.Explain(t.Reason), errorDetail(t.Reason, t.Error)
	number, rest, hasNumber := strings.Cut(meaning, ", ")
	switch {
	case t.Reason == failure.DNS && t.Hint != "": // the hint says how the lookup failed
		meaning, _, _ = strings.Cut(t.Hint, ": ")
		return meaning
	case detail == "":
		return meaning
	case t.Reason == failure.HTTPStatus: // the detail is the status
		return detail
	case t.Reason == failure.TLS: // the rest lists other possible causes
		meaning, _, _ = strings.Cut(meaning, ": ")
	case t.Reason == failure.Forbidden: // the explanation mentions a socket, and there may be none
		meaning = "this address or user is not allowed"
	case hasNumber && strings.Contains(detail, number): // 401 or 404
		meaning = rest
	}
	return detail + " (" + meaning + ")"
}

// requestPart matches the part of an error that names the request: it ends with an address or a URL.
var requestPart = regexp.MustCompile(`(?i)(://\S*|\[?[0-9a-z.:-]+\]?:\d+"?)$`)

// errorDetail returns an error's text without the request; "" if the reason's explanation says more.
func errorDetail(r failure.Reason, text string) string {
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
		text, _, _ = strings.Cut(text, ": current time") // it changes with each probe
	default:
	}
	parts := strings.Split(text, ": ")
	for i := len(parts) - 2; i >= 0; i-- {
		if requestPart.MatchString(parts[i]) {
			parts = parts[i+1:]
			break
		}
	}
	if text = strings.Join(parts, ": "); utf8.RuneCountInString(text) > maxDetail {
		return ""
	}
	return text
}

// targetHint says what to do about a target that is down.
func (j *judged) targetHint(t *poll.Status) string {
	meaning := failure.Explain(t.Reason)
	if head, _, _ := strings.Cut(meaning, ": "); t.Hint != "" && !strings.HasPrefix(t.Hint, head) {
		return t.Hint
	}
	container := t.Container
	if role := rowOf(t.Kind).Role.Name; container == "" || t.Unseen {
		container = ""
		if names := j.byRole[role]; role != "" && len(names) == 1 { // one of several may be another server's
			container = names[0]
		}
	}
	if advice, ok := strings.CutPrefix(failure.WhereToLook(t.Reason, t.Target, container), "; r"); ok { // read, run or resolve
		command := "docker logs --tail 50 " + container
		return "R" + strings.Replace(advice, command, "`"+command+"`", 1)
	}
	return meaning
}
