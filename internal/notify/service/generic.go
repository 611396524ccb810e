package service

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/http/httpguts"
)

// genericBody is the JSON of a webhook. Its keys are a promise to its readers:
//
//	{
//	  "title": "[CRITICAL] XMPP server is down",
//	  "message": "Users cannot log in.\nSince 12:00.",
//	  "level": "critical",       info, warning, critical or over
//	  "link": "https://status.example.org/incidents#7",
//	  "thread": "c0ffee",        the same for all messages about one cause; empty if there is none
//	  "id": "5eed"               the same for every attempt; the header Idempotency-Key too
//	}
//
// The keys titlekey and messagekey of the URL rename the first two. Each $KEY=VALUE of the URL adds a text.
func genericBody(d *delivery, titleKey, messageKey string, extra map[string]string) map[string]string {
	body := map[string]string{}
	maps.Copy(body, extra)
	body["level"], body["link"], body["thread"], body["id"] = d.Level.String(), d.Link, d.Thread, d.ID
	body[titleKey], body[messageKey] = d.Title, cut(d.Text, maxGeneric, inBytes)
	return body
}

// maxGeneric is how many bytes the message of a webhook has at most.
const maxGeneric = 64 << 10

// methods are those with a body.
var methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch}

func openGeneric(a *address, _ Options) *plan {
	webhook := *a.URL
	webhook.User = nil
	_, custom, given := strings.Cut(a.Scheme, "+")
	if given && custom != "https" && custom != "http" {
		a.fault("the scheme is not generic, generic+https or generic+http")
	}
	if custom == "http" {
		a.query["disabletls"] = "yes"
	}
	server := a.server()
	webhook.Scheme, _, _ = strings.Cut(server, "://")
	header, extra, rest := a.customQuery()
	webhook.RawQuery = rest.Encode()
	if a.user != "" || a.password != "" {
		header["Authorization"] = a.basic()
	}
	a.part(a.parts()...)
	a.part(webhook.EscapedPath(), webhook.RawQuery)
	titleKey, messageKey := cmp.Or(a.text("titlekey"), "title"), cmp.Or(a.text("messagekey"), "message")
	if template := a.text("template"); template != "" && !strings.EqualFold(template, "json") {
		a.fault("template is %q, must be json or missing", template)
	}
	method := strings.ToUpper(cmp.Or(a.text("method"), http.MethodPost))
	if !slices.Contains(methods, method) {
		a.fault("method is %q, must be one of %s", method, strings.Join(methods, ", "))
	}
	return &plan{
		host:   a.Hostname(),
		places: []string{""},
		deliver: func(ctx context.Context, c *client, d *delivery) (*receipt, error) {
			q := request{method: method, url: webhook.String(), header: map[string]string{"Idempotency-Key": d.ID}}
			maps.Copy(q.header, header)
			q.body = genericBody(d, titleKey, messageKey, extra)
			return c.send(ctx, q)
		},
	}
}

// customQuery returns the headers, the additions to the body, and what belongs to the webhook's own address. What is for this package
// stays in the query.
func (a *address) customQuery() (header, extra map[string]string, rest url.Values) {
	header, extra, rest = map[string]string{}, map[string]string{}, url.Values{}
	ours := map[string]bool{"titlekey": true, "messagekey": true, "template": true, "method": true}
	values, _ := url.ParseQuery(strings.ReplaceAll(a.RawQuery, ";", "%3b")) // newAddress has checked it
	for key, list := range values {
		small := strings.ToLower(key)
		switch {
		case ours[small] || small == "disabletls":
			continue
		case strings.HasPrefix(key, "@") && len(key) > 1:
			header[headerName(key[1:])] = list[0]
			a.secret(list[0])
		case strings.HasPrefix(key, "$") && len(key) > 1:
			extra[key[1:]] = list[0]
		default:
			rest[key] = list
		}
		delete(a.query, small)
		a.part(list...)
	}
	for name, value := range header {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			a.fault("the header of a key that begins with @ is malformed")
		}
	}
	return header, extra, rest
}

// headerName reads the library's spelling of a header's name: fooBar is Foo-Bar.
func headerName(key string) string {
	var b strings.Builder
	for i, r := range key {
		if unicode.IsUpper(r) && i > 0 && key[i-1] != '-' {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return http.CanonicalHeaderKey(b.String())
}
