package service

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// next returns the message after m in its thread.
func next(m *Message, id string) *Message {
	later := *m
	later.ID, later.Level, later.Title = id, LevelOver, "XMPP server is back"
	return &later
}

// TestThreadsAreKept requires of services with threads that a later message refers to the first one.
func TestThreadsAreKept(t *testing.T) {
	for _, tt := range []struct {
		url, key string
		want     any
	}{
		{
			services[1].url,
			"reply_parameters",
			object{"message_id": 42.0, "allow_sending_without_reply": true},
		},
		{services[5].url, "thread_ts", "1700000000.000100"},
		{
			// https://spec.matrix.org/latest/client-server-api/#threading
			services[6].url,
			"m.relates_to",
			object{"rel_type": "m.thread", "event_id": "$event", "is_falling_back": true, "m.in_reply_to": object{"event_id": "$event"}},
		},
	} {
		s := newStandIn(t)
		r := open(t, tt.url, s.options)
		if !r.Threads() {
			t.Errorf("%s has no threads", r.Service())
		}
		other := next(message(), "id3")
		other.Thread = "cause8"
		for i, m := range []*Message{message(), next(message(), "id2"), other} {
			if _, err := r.Send(soon(t), m); err != nil {
				t.Fatal(err)
			}
			requests := s.requests()
			got := requests[len(requests)-1].json(t)[tt.key]
			want := tt.want
			if i != 1 {
				want = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, message %d: %s (-want +got):\n%s", r.Service(), i, tt.key, diff)
			}
		}
	}
}

func TestOnlyTheLastMessagesAreRemembered(t *testing.T) {
	var m memory
	for i := range 3 * maxMemory {
		m.put(fmt.Sprint(i), "id")
		m.put(fmt.Sprint(i), "id") // counts once
	}
	if len(m.values) != maxMemory || len(m.order) != maxMemory || m.get(fmt.Sprint(2*maxMemory)) == "" {
		t.Errorf("%d values, %d keys", len(m.values), len(m.order))
	}
}

// TestAnotherAttemptGoesOnlyWhereItFailed sends to two chats. One of them fails.
func TestAnotherAttemptGoesOnlyWhereItFailed(t *testing.T) {
	s := newStandIn(t)
	r := open(t, "telegram://123456:AAF-s3sam_open@telegram?chats=@broken,@fine", s.options)
	s.respond(func(w http.ResponseWriter, req *http.Request) {
		requests := s.seen // respond's lock is not held: the handler runs alone
		if strings.Contains(requests[len(requests)-1].Body, "@broken") {
			status(http.StatusTooManyRequests, `{}`, "Retry-After", "5")(w, req)
			return
		}
		accept(w, req)
	})
	_, err := r.Send(soon(t), message())
	wantFailure(t, err, failure.Throttled, services[1].secrets)
	if want := "1 of 2 chats failed"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if got := len(s.requests()); got != 2 {
		t.Fatalf("%d requests, want 2", got)
	}
	s.respond(nil)
	again := *message()
	if again.Reached = Reached(err); len(again.Reached) != 1 {
		t.Errorf("it has reached %q", again.Reached)
	}
	restarted := open(t, "telegram://123456:AAF-s3sam_open@telegram?chats=@broken,@fine", s.options)
	if _, err := restarted.Send(soon(t), &again); err != nil {
		t.Error(err)
	}
	if got := s.requests(); len(got) != 1 || !strings.Contains(got[0].Body, "@broken") {
		t.Errorf("the second attempt after a restart sent %v", got)
	}
	if _, err := r.Send(soon(t), next(message(), "id2")); err != nil { // another message in between
		t.Error(err)
	}
	if got := len(s.requests()); got != 2 {
		t.Errorf("%d requests for another message, want 2", got)
	}
	answer, err := r.Send(soon(t), message())
	if err != nil || answer != "2 chats: status 200, message 42" {
		t.Errorf("got %q and %v", answer, err)
	}
	if got := s.requests(); len(got) != 1 || !strings.Contains(got[0].Body, "@broken") {
		t.Errorf("the second attempt sent %v", got)
	}
}

// TestRefusalsOfOneChatAreNotFinal has a message refused for good in one chat, and for now in another.
func TestRefusalsOfOneChatAreNotFinal(t *testing.T) {
	s := newStandIn(t)
	r := open(t, "telegram://123456:AAF-s3sam_open@telegram?chats=@one,@two", s.options)
	count := 0
	s.respond(func(w http.ResponseWriter, req *http.Request) {
		count++
		status(400+100*(count%2), `{}`)(w, req)
	})
	if _, err := r.Send(soon(t), message()); err == nil || Permanent(err) {
		t.Errorf("got %v, permanent %t", err, Permanent(err))
	}
	s.respond(status(400, `{}`))
	if _, err := r.Send(soon(t), message()); !Permanent(err) {
		t.Errorf("got %v, want a permanent error", err)
	}
}

// TestWordsTellWhatTheStatusDoesNot has services answer with the words of their documents.
func TestWordsTellWhatTheStatusDoesNot(t *testing.T) {
	const telegram, slackHook, slackAPI, matrix, pushover = 1, 4, 5, 7, 9
	for _, tt := range []struct {
		service   int
		status    int
		body      string
		want      failure.Reason
		permanent bool
		text      string
	}{
		{
			telegram,
			400,
			`{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}`,
			failure.NotFound,
			false,
			"chat not found",
		},
		{
			telegram,
			400,
			`{"description":"Bad Request: not enough rights to send text messages to the chat"}`,
			failure.Forbidden,
			false,
			"rights",
		},
		{
			telegram,
			403,
			`{"description":"Forbidden: bot was blocked by the user"}`,
			failure.Forbidden,
			false,
			"blocked",
		},
		{
			telegram,
			400,
			`{"description":"Bad Request: message is too long"}`,
			failure.HTTPStatus,
			true,
			"too long",
		},
		{
			telegram,
			401,
			`{"ok":false,"error_code":401,"description":"Unauthorized"}`,
			failure.Unauthorized,
			false,
			"Unauthorized",
		},
		{
			slackHook,
			403,
			"invalid_token",
			failure.Unauthorized,
			false,
			"invalid_token",
		},
		{
			slackHook,
			404,
			"channel_not_found",
			failure.NotFound,
			false,
			"channel_not_found",
		},
		{
			slackHook,
			410,
			"channel_is_archived",
			failure.NotFound,
			false,
			"archived",
		},
		{
			slackHook,
			400,
			"invalid_payload",
			failure.HTTPStatus,
			true,
			"invalid_payload",
		},
		{
			slackAPI,
			200,
			`{"ok":false,"error":"invalid_auth"}`,
			failure.Unauthorized,
			false,
			"invalid_auth",
		},
		{
			slackAPI,
			200,
			`{"ok":false,"error":"not_in_channel"}`,
			failure.Forbidden,
			false,
			"not_in_channel",
		},
		{
			slackAPI,
			200,
			`{"ok":false,"error":"ratelimited"}`,
			failure.Throttled,
			false,
			"ratelimited",
		},
		{
			slackAPI,
			200,
			`{"ok":false,"error":"internal_error"}`,
			failure.HTTPStatus,
			false,
			"internal_error",
		},
		{
			slackAPI,
			200,
			`{"ok":false,"error":"org_login_required"}`,
			failure.HTTPStatus,
			false,
			"org_login_required",
		},
		{
			3,
			410,
			`{"message":"Gone"}`,
			failure.NotFound,
			false,
			"status 410: Gone",
		},
		{
			2,
			409,
			"",
			failure.HTTPStatus,
			false,
			"status 409",
		},
		{
			slackAPI,
			200,
			`{"ok":false,"error":"msg_too_long"}`,
			failure.HTTPStatus,
			true,
			"msg_too_long",
		},
		{
			matrix,
			403,
			`{"errcode":"M_FORBIDDEN","error":"Invalid username or password"}`,
			failure.Unauthorized,
			false,
			"M_FORBIDDEN: Invalid",
		},
		{
			matrix,
			403,
			`{"errcode":"M_FORBIDDEN","error":"You are not invited to this room."}`,
			failure.Forbidden,
			false,
			"not invited",
		},
		{
			pushover,
			400,
			`{"token":"invalid","errors":["application token is invalid"],"status":0}`,
			failure.Unauthorized,
			false,
			"token is invalid",
		},
		{
			pushover,
			400,
			`{"user":"invalid","errors":["user identifier is not a valid user, group, or subscribed user key"],"status":0}`,
			failure.Unauthorized,
			false,
			"not a valid user",
		},
		{
			pushover,
			400,
			`{"errors":["message cannot be blank"],"status":0}`,
			failure.HTTPStatus,
			true,
			"blank",
		},
		{
			0,
			403,
			`{"code":40301,"http":403,"error":"forbidden","link":"https://ntfy.sh/docs"}`,
			failure.Forbidden,
			false,
			"forbidden",
		},
		{
			8,
			401,
			`{"error":"Unauthorized","errorCode":401,"errorDescription":"you need to provide a valid access token"}`,
			failure.Unauthorized,
			false,
			"Unauthorized: you need to provide",
		},
		{
			3,
			404,
			`{"message":"Unknown Webhook","code":10015}`,
			failure.NotFound,
			false,
			"Unknown Webhook",
		},
	} {
		s := newStandIn(t)
		s.respond(status(tt.status, tt.body))
		_, err := open(t, services[tt.service].url, s.options).Send(soon(t), message())
		wantFailure(t, err, tt.want, services[tt.service].secrets)
		if Permanent(err) != tt.permanent || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got %v, permanent %t", tt.body, err, Permanent(err))
		}
	}
}

// TestMatrixLogsInAgainIfItsTokenIsRefused logs in with a password, once for all messages.
func TestMatrixLogsInAgainIfItsTokenIsRefused(t *testing.T) {
	s := newStandIn(t)
	r := open(t, "matrix://bot:s3sam-open@matrix.example.org/?rooms=ops,!id:example.org", s.options)
	paths := func() (list []string) {
		for _, request := range s.requests() {
			list = append(list, strings.TrimPrefix(request.Path, "/_matrix/client/v3/"))
		}
		return list
	}
	if _, err := r.Send(soon(t), message()); err != nil {
		t.Fatal(err)
	}
	const send = "rooms/%21room:example.org/send/m.room.message/"
	want := []string{"login", "join/%23ops:matrix.example.org", send + "id1-0", "join/%21id:example.org", send + "id1-1"}
	if diff := cmp.Diff(want, paths()); diff != "" {
		t.Errorf("the first message (-want +got):\n%s", diff)
	}
	s.respond(status(401, `{"errcode":"M_UNKNOWN_TOKEN","error":"Invalid access token passed: syt_of_the_login"}`))
	_, err := r.Send(soon(t), next(message(), "id2"))
	wantFailure(t, err, failure.Unauthorized, []string{"s3sam-open", "syt_of_the_login"})
	s.requests()
	s.respond(nil)
	if _, err := r.Send(soon(t), next(message(), "id2")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"login", send + "id2-0", send + "id2-1"}, paths()); diff != "" {
		t.Errorf("after the refusal (-want +got):\n%s", diff)
	}
	refused := false
	s.respond(func(w http.ResponseWriter, req *http.Request) {
		if !refused { // another process has logged in
			refused = true
			status(401, `{"errcode":"M_UNKNOWN_TOKEN","error":"Invalid access token"}`)(w, req)
			return
		}
		accept(w, req)
	})
	if _, err := r.Send(soon(t), next(message(), "id3")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{send + "id3-0", "login", send + "id3-0", send + "id3-1"}, paths()); diff != "" {
		t.Errorf("after a login elsewhere (-want +got):\n%s", diff)
	}
}

// TestHostileMessagesStayText sends line breaks, control characters and invalid UTF-8.
func TestHostileMessagesStayText(t *testing.T) {
	m := message()
	m.Title = "down\r\nBcc: evil@example.org\x00"
	m.Text = "one\x00two\x1b[31m\xff"
	m.ID = "id\r\nX: y"
	for _, tt := range services {
		s := newStandIn(t)
		if _, err := open(t, tt.url, s.options).Send(soon(t), m); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		for _, request := range s.requests() {
			if request.Header.Get("X") != "" || strings.ContainsAny(request.Body, "\x00\x1b") || !utf8.ValidString(request.Body) {
				t.Errorf("%s: got %q", tt.name, request.Body)
			}
		}
	}
}
