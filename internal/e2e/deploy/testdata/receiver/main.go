// Receiver is whom the stack's Alertmanager tells in the test of the walk-through: it prints what is posted to it.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(take)}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

func take(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, 1<<20))
	fmt.Printf("%s %s %s %v\n", r.Method, r.URL.Path, body, err)
}
