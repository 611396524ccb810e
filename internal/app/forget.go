package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Forget makes a running exporter forget a container or service that is gone for good. An empty dockerHost is the default one.
func Forget(ctx context.Context, o Options, r Remote, dockerHost, name string, out io.Writer) error {
	dockerHost = cmp.Or(dockerHost, collectors.DefaultDockerHost)
	if name = strings.TrimSpace(name); strings.Trim(name, "./") == "" {
		return UsageError{errors.New("NAME is empty: name a container such as chat-web-1, or a service such as chat/web")}
	}
	c, err := newRemote(o, r)
	if err != nil {
		return err
	}
	to := "/api/v1/containers/" + url.PathEscape(dockerHost) + "/" + url.PathEscape(name)
	if err := c.send(ctx, http.MethodDelete, to, nil, &struct{}{}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s on %s is forgotten\n", failure.Printable(name, maxCell), failure.Printable(dockerHost, maxCell))
	return err
}
