package collectors

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// TestLogins log in at a simulated server, which is well, refuses the password, is stopped or says nothing.
func TestLogins(t *testing.T) {
	kinds := map[string]func(*simstack.Stack) (Collector, error){
		"irc_tls": func(stack *simstack.Stack) (Collector, error) {
			return newIRCLogin(&IRCLogin{IRCAccount: ircAccount(stack)}, Deps{})
		},
		"xmpp_c2s": func(stack *simstack.Stack) (Collector, error) {
			return newXMPPLogin(&XMPPLogin{XMPPAccount: xmppAccount(stack)}, Deps{})
		},
	}
	for service, build := range kinds {
		for fault, want := range map[string]failure.Reason{
			"": "", "wrong_password": failure.Unauthorized, "stopped": failure.Refused, "slow": failure.Timeout,
		} {
			t.Run(service+" "+fault, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					stack, ctx := startStackInMemory(t)
					if fault != "" {
						at := service
						if fault == "wrong_password" {
							at = "bridge" // the accounts of both servers are the bridge's
						}
						if err := stack.Switch(at, fault, true); err != nil {
							t.Fatal(err)
						}
					}
					c, err := build(stack)
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
					defer cancel()
					err = c.Collect(ctx, &Batch{})
					if got := reasonOf(err); got != want {
						t.Errorf("reason %q, want %q: %v", got, want, err)
					}
					if irc, xmpp := stack.RelayMessages(); irc+xmpp > 0 {
						t.Errorf("a login sent %d messages", irc+xmpp)
					}
				})
			})
		}
	}
}

func reasonOf(err error) failure.Reason {
	if err == nil {
		return ""
	}
	return failure.ReasonOf(err)
}

// TestIRCLoginWithoutAPassword: a server without accounts is enough.
func TestIRCLoginWithoutAPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stack, ctx := startStackInMemory(t)
		account := ircAccount(stack)
		account.Password = config.Secret{}
		if err := stack.Switch("bridge", "wrong_password", true); err != nil {
			t.Fatal(err)
		}
		c, err := newIRCLogin(&IRCLogin{IRCAccount: account}, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Collect(ctx, &Batch{}); err != nil {
			t.Error(err)
		}
	})
}

// TestLoginSaysWhyItsSessionEnded has the server end the session while the login waits for the answer to its ping.
func TestLoginSaysWhyItsSessionEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := exchange.WithDialer(t.Context(), func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				defer server.Close() //nolint:errcheck // a pipe
				for in := bufio.NewScanner(server); in.Scan(); {
					answer := ""
					switch line := in.Text(); {
					case strings.HasPrefix(line, "CAP LS"):
						answer = ":s CAP * LS :\r\n"
					case line == "CAP END":
						answer = ":s 001 n :welcome\r\n"
					case strings.HasPrefix(line, "PING"):
						//nolint:errcheck // the client may be gone
						io.WriteString(server, "ERROR :Closing Link: n[h] (G-Lined: no bots)\r\n")
						return
					}
					go io.WriteString(server, answer) //nolint:errcheck // the client may be gone
				}
			}()
			return client, nil
		})
		c, err := newIRCLogin(&IRCLogin{IRCAccount: IRCAccount{Endpoint: at("irc.test"), Plain: true, Nick: "n"}}, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := c.Collect(ctx, &Batch{}); err == nil || !strings.Contains(err.Error(), "G-Lined: no bots") ||
			reasonOf(err) != failure.Throttled {
			t.Errorf("reason %q, want %q: %v", reasonOf(err), failure.Throttled, err)
		}
	})
}
