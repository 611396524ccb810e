package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// matrixAPI begins the paths of https://spec.matrix.org/latest/client-server-api/.
const matrixAPI = "/_matrix/client/v3/"

// maxMatrix is how many bytes the text of a message has at most. An event may have 65536 with everything, and the text is in it twice.
const maxMatrix = 16 << 10

// matrixVerdicts are refusals with status 403 that are about the login.
var matrixVerdicts = []verdict{
	{says(`invalid (username|password|login)|M_UNKNOWN_TOKEN|M_MISSING_TOKEN|M_USER_DEACTIVATED`), failure.Unauthorized},
}

// matrixAccount is the account that writes. It keeps what the server says: the access token of a login, and the ids of rooms.
type matrixAccount struct {
	server, user, password string
	token                  string
	rooms                  map[string]string
}

type matrixMessage struct {
	Type      string          `json:"msgtype"`
	Body      string          `json:"body"`
	Format    string          `json:"format"`
	Formatted string          `json:"formatted_body"`
	Relation  *matrixRelation `json:"m.relates_to,omitempty"`
}

// matrixRelation puts a message into a thread. Clients without threads show it as a reply.
type matrixRelation struct {
	Type     string            `json:"rel_type"`
	Event    string            `json:"event_id"`
	Fallback bool              `json:"is_falling_back"`
	Reply    map[string]string `json:"m.in_reply_to"`
}

func openMatrix(a *address, _ Options) *plan {
	account := &matrixAccount{
		server:   a.server(),
		user:     a.user,
		password: a.password,
		rooms:    map[string]string{},
	}
	if account.password == "" {
		a.fault("the password or access token is missing")
	}
	if account.user == "" {
		account.token = account.password
	}
	rooms := a.list("rooms", "room")
	if len(rooms) == 0 {
		a.fault("rooms= is missing")
	}
	for i, room := range rooms {
		if room[0] != '#' && room[0] != '!' {
			room = "#" + room
		}
		if room[0] == '#' && !strings.Contains(room, ":") {
			room += ":" + a.Hostname()
		}
		rooms[i] = room
	}
	return &plan{
		host:    a.Hostname(),
		threads: true,
		places:  rooms,
		noun:    "rooms",
		deliver: func(ctx context.Context, c *client, d *delivery) (*receipt, error) {
			got, err := account.send(ctx, c, d)
			err = account.hide(err)
			switch {
			case err == nil:
			case failure.RefusesCredential(err) && account.user != "":
				return account.sendAgain(ctx, c, d, err)
			case failure.ReasonOf(err) == failure.Forbidden:
				delete(account.rooms, d.place) // and joins again
			}
			return got, err
		},
	}
}

// sendAgain logs in again, since another process with this account, such as notify --test, has ended the login by its own. First is why
// sending failed.
func (m *matrixAccount) sendAgain(ctx context.Context, c *client, d *delivery, first error) (*receipt, error) {
	before := m.token
	m.token = ""
	if before == "" {
		return nil, first // the login itself is refused
	}
	got, err := m.send(ctx, c, d)
	if err == nil {
		return got, nil
	}
	if failure.RefusesCredential(err) {
		m.token = ""
	}
	return nil, first
}

// hide masks an access token that a login brought, which the URL does not contain.
func (m *matrixAccount) hide(err error) error {
	known, ok := errors.AsType[*failure.Error](err)
	if ok && m.token != "" && strings.Contains(known.Error(), m.token) {
		known.Err = errors.New(strings.ReplaceAll(known.Error(), m.token, "<secret>"))
	}
	return err
}

func (m *matrixAccount) send(ctx context.Context, c *client, d *delivery) (*receipt, error) {
	room, err := m.join(ctx, c, d.place)
	if err != nil {
		return nil, err
	}
	text := d.whole(maxMatrix, inBytes)
	title, rest, _ := strings.Cut(text, "\n")
	message := matrixMessage{
		Type:      "m.text", // a notice would wake nobody
		Body:      text,
		Format:    "org.matrix.custom.html",
		Formatted: "<strong>" + html.EscapeString(title) + "</strong>",
	}
	if rest != "" {
		message.Formatted += "<br>" + strings.ReplaceAll(html.EscapeString(rest), "\n", "<br>")
	}
	if d.root != "" {
		message.Relation = &matrixRelation{
			"m.thread",
			d.root,
			true,
			map[string]string{"event_id": d.root},
		}
	}
	// The server ignores another message with the same transaction of the same device.
	transaction := fmt.Sprintf("%s-%d", d.ID, d.number)
	var sent struct {
		ID string `json:"event_id"`
	}
	r, err := m.call(ctx, c, http.MethodPut, "rooms/"+url.PathEscape(room)+"/send/m.room.message/"+transaction, message)
	if err != nil {
		return nil, err
	}
	r.read(&sent)
	return &receipt{r.String(), sent.ID}, nil
}

// join returns a room's id. It joins the room once, as an invited account must.
func (m *matrixAccount) join(ctx context.Context, c *client, room string) (string, error) {
	if id := m.rooms[room]; id != "" {
		return id, nil
	}
	r, err := m.call(ctx, c, http.MethodPost, "join/"+url.PathEscape(room), struct{}{})
	if err != nil {
		return "", err
	}
	var joined struct {
		ID string `json:"room_id"`
	}
	if err := r.decode(&joined); err != nil {
		return "", fmt.Errorf("join the room: %w", err)
	}
	m.rooms[room] = cmp.Or(joined.ID, room)
	return m.rooms[room], nil
}

// call makes one call of the API with the access token, after a login if there is none.
func (m *matrixAccount) call(ctx context.Context, c *client, method, path string, body any) (*reply, error) {
	if m.token == "" {
		if err := m.login(ctx, c); err != nil {
			return nil, err
		}
	}
	return c.call(ctx, request{
		method: method,
		url:    m.server + matrixAPI + path,
		header: map[string]string{"Authorization": "Bearer " + m.token},
		body:   body,
	})
}

// login gets an access token. It is always the same device, so that devices do not pile up and transactions outlive a restart.
func (m *matrixAccount) login(ctx context.Context, c *client) error {
	r, err := c.call(ctx, request{url: m.server + matrixAPI + "login", body: map[string]any{
		"type":                        "m.login.password",
		"identifier":                  map[string]string{"type": "m.id.user", "user": m.user},
		"password":                    m.password,
		"device_id":                   "chatstack_exporter",
		"initial_device_display_name": "chatstack_exporter",
	}})
	if err != nil {
		return err
	}
	var got struct {
		Token string `json:"access_token"`
	}
	if err := r.decode(&got); err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	if got.Token == "" {
		return failure.Errorf(failure.Malformed, "log in: the answer has no access token")
	}
	m.token = got.Token
	return nil
}
