package simstack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// plant is a record of the plant store.
type plant struct {
	Name string  `json:"name"`
	Tag  *string `json:"tag,omitempty"`
}

// plantStore is the sample plant store.
type plantStore struct {
	service *service
	token   string

	mu     sync.Mutex
	plants map[int64]plant
}

func newPlantStore(p *plantStore) *service {
	p.service = &service{name: "plant_store", handle: p.handle}
	return p.service
}

func (p *plantStore) handle(x *exchange) *answer {
	if !x.bearer(p.token) {
		return jsonError(http.StatusUnauthorized, "a valid bearer token is needed").set("WWW-Authenticate", "Bearer")
	}
	id, one := strings.CutPrefix(x.req.URL.Path, "/plants/")
	switch {
	case x.req.Method == http.MethodPost && x.req.URL.Path == "/plants":
		return p.create(x)
	case x.req.Method == http.MethodDelete && one:
		return p.remove(id)
	default:
		return jsonError(http.StatusNotFound, "unknown operation")
	}
}

func (p *plantStore) create(x *exchange) *answer {
	body, whole := x.body()
	id, created, err := readPlant(body)
	if !whole {
		return &answer{end: endCut}
	}
	switch on := p.service.on; {
	case err != nil && on("accepts_invalid"):
		return jsonReply(http.StatusOK, plant{Name: "accepted"})
	case err != nil:
		return jsonError(http.StatusBadRequest, err.Error())
	case on("reject_all"):
		return jsonError(http.StatusBadRequest, "no plant is welcome")
	}
	p.mu.Lock()
	_, exists := p.plants[id]
	if !exists {
		p.plants[id] = created
	}
	p.mu.Unlock()
	switch on := p.service.on; {
	case exists:
		return jsonError(http.StatusBadRequest, fmt.Sprintf("plant %d exists already", id))
	case on("create_500"):
		return jsonError(http.StatusInternalServerError, "something broke after the plant was stored")
	case on("lost_create"):
		return &answer{end: endCut}
	case on("wrong_plant"):
		return jsonReply(http.StatusOK, plant{Name: "another " + created.Name})
	}
	return jsonReply(http.StatusOK, created)
}

// readPlant reads a NewPlant: an id that is an integer, a name, an optional tag.
func readPlant(body []byte) (int64, plant, error) {
	var p struct {
		ID   *int64  `json:"id"`
		Name *string `json:"name"`
		Tag  *string `json:"tag"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return 0, plant{}, fmt.Errorf("not a NewPlant: %w", err)
	}
	if p.ID == nil || p.Name == nil {
		return 0, plant{}, fmt.Errorf("not a NewPlant: id and name are required")
	}
	return *p.ID, plant{*p.Name, p.Tag}, nil
}

func (p *plantStore) remove(segment string) *answer {
	id, err := strconv.ParseInt(segment, 10, 64)
	if err != nil {
		return jsonError(http.StatusBadRequest, "the id is not an integer")
	}
	if p.service.on("refuse_delete") {
		return jsonError(http.StatusInternalServerError, "nothing can be deleted now")
	}
	p.mu.Lock()
	_, exists := p.plants[id]
	delete(p.plants, id)
	p.mu.Unlock()
	switch {
	case p.service.on("lost_delete"):
		return &answer{end: endCut}
	case !exists:
		return jsonError(http.StatusNotFound, fmt.Sprintf("plant %d does not exist", id))
	}
	return &answer{status: http.StatusNoContent, header: []string{"Date"}}
}

// jsonError returns an Error as in the plant store's API description. The identity API uses the same form here.
func jsonError(status int, message string) *answer {
	return jsonReply(status, map[string]any{"error": status, "message": message})
}

func jsonReply(status int, v any) *answer {
	return reply(status, "application/json", string(mustJSON(v)))
}

// identity is the identity API's record of its only user.
type identity struct {
	UserID    string `json:"user_id"`
	DiscordID string `json:"discord_id"`
	IRCNick   string `json:"irc_nick"`
	XMPPJID   string `json:"xmpp_jid"`
}

var knownIdentity = identity{
	"user-1",
	"100000000000000001",
	"alice",
	"alice@" + XMPPDomain,
}

func newIdentity(token string) *service {
	return &service{
		name: "identity",
		handle: func(x *exchange) *answer {
			if x.req.URL.Path != "/api/bridge/identity" || x.req.Method != http.MethodGet {
				return jsonError(http.StatusNotFound, "unknown operation")
			}
			if !x.bearer(token) {
				return jsonError(http.StatusUnauthorized, "a valid bearer token is needed").set("WWW-Authenticate", "Bearer")
			}
			query := x.req.URL.Query()
			known := map[string]string{
				"discordId": knownIdentity.DiscordID,
				"ircNick":   knownIdentity.IRCNick,
				"xmppJid":   knownIdentity.XMPPJID,
			}
			for key, value := range known {
				switch query.Get(key) {
				case "":
				case value:
					return jsonReply(http.StatusOK, map[string]any{"ok": true, "identity": knownIdentity})
				default:
					return jsonError(http.StatusNotFound, "no matching identity")
				}
			}
			return jsonError(http.StatusBadRequest, "one of discordId, ircNick, xmppJid is required")
		},
	}
}

// handleDocsSearch answers as the documentation site's search does.
func handleDocsSearch(x *exchange) *answer {
	type hit struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Content string `json:"content"`
		URL     string `json:"url"`
	}
	if x.req.URL.Path != "/api/search" || x.req.Method != http.MethodGet {
		return plainStatus(http.StatusNotFound)
	}
	hits := []hit{}
	if term := x.req.URL.Query().Get("query"); term != "" {
		hits = append(hits, hit{
			"/docs",
			"page",
			"All about " + term,
			"/docs",
		})
	}
	return jsonReply(http.StatusOK, hits)
}

// newFrontEnd simulates a web front end that has only its first page.
func newFrontEnd(name, title string) *service {
	return &service{name: name, handle: func(x *exchange) *answer {
		if x.req.URL.Path != "/" {
			return plainStatus(http.StatusNotFound)
		}
		return reply(http.StatusOK, "text/html; charset=utf-8",
			fmt.Sprintf("<!DOCTYPE html>\n<title>%s</title>\n<h1>%s</h1>\n", title, title))
	}}
}
