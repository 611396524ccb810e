package simstack

import (
	"fmt"
	"net/http"
)

// newFrontEnd is a web front end, of which only the first page is simulated.
func newFrontEnd(name, title string) *service {
	return &service{name: name, handle: func(x *exchange) *answer {
		if x.req.URL.Path != "/" {
			return plainStatus(http.StatusNotFound)
		}
		return reply(http.StatusOK, "text/html; charset=utf-8", fmt.Sprintf("<!DOCTYPE html>\n<title>%s</title>\n<h1>%s</h1>\n", title, title))
	}}
}

// URL returns the address of a service that speaks HTTP without TLS, such as "http://127.0.0.1:9668/".
func (k *Stack) URL(service string) string { return "http://" + k.service(service).address() + "/" }
