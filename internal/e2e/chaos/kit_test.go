//go:build chaos

package chaos

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"
)

// hostile is a server that does harm. It may do so until it cannot write any more, which is when the exporter has closed the connection.
type hostile struct {
	name string
	// target is the target in exporter.yaml without its name; %s is the server's host and port.
	target string
	// encrypted servers speak TLS from the beginning.
	encrypted bool
	do        func(c net.Conn)
	// worst is among those that run all at once.
	worst bool
}

// amongWorst has the server run with the worst of all kinds, too.
func (h hostile) amongWorst() hostile {
	h.worst = true
	return h
}

// The targets that the kit is put before. The certificate is checked, so that an exporter reads on.
const (
	hostileHTTP     = `kind: http, url: "http://%s/"`
	hostileRedirect = `kind: web_panel, url: "http://%s/"`
	hostileMetrics  = `kind: openmetrics, url: "http://%s/metrics"`
	hostileProsody  = `kind: xmpp_metrics, url: "http://%s/metrics"`
	hostileDocs     = `kind: docs_search, url: "http://%s"`
	hostileRPC      = `kind: irc_rpc, url: "http://%s/api", user: hostile, password: hostile-password`
	hostileREST     = `kind: xmpp_status, url: "http://%s/status"`
	hostileStore    = `kind: plant_store, url: "http://%s", token: hostile-token`
	hostileDocker   = `kind: docker, host: "tcp://%s"`
	hostileTLS      = `kind: tls, address: "%s", ca_file: CA, server_name: irc.test`
	hostileIRC      = `kind: irc_tls, address: "%s", schedule: "@every 10s", ca_file: CA, server_name: irc.test`
	hostileIRCLogin = `kind: irc_login, address: "%s", schedule: "@every 10s", nick: hostile, password: hostile-password, ca_file: CA, ` +
		`server_name: irc.test`
	hostileXMPP  = `kind: xmpp_c2s, address: "%s", domain: chat.test, ca_file: CA`
	hostileLogin = `kind: xmpp_login, address: "%s", direct_tls: true, user: hostile@chat.test, password: hostile-password, ca_file: CA`
	hostileRelay = `kind: relay, timeout: 10s, schedule: "@every 10s", deadline: 5s, slow: 3s, irc: ` +
		`{address: "%s", channel: "#hostile", nick: hostile, user: hostile, password: hostile-password, ca_file: CA, server_name: ` +
		`irc.test}, xmpp: {address: "127.0.0.1:1", user: hostile@chat.test, password: hostile-password, room: hostile@rooms.chat.test}`
)

// until reads until the text comes. It returns what was read, or "" at the connection's end.
func until(c net.Conn, text string) string {
	var read []byte
	for b := make([]byte, 4096); !bytes.Contains(read, []byte(text)); {
		n, err := c.Read(b)
		if err != nil || len(read) > 64<<10 {
			return ""
		}
		read = append(read, b[:n]...)
	}
	return string(read)
}

// hold waits for the connection's end.
func hold(c net.Conn) { io.Copy(io.Discard, c) } //nolint:errcheck // its end is what counts

// flood writes texts without end; each may have %d for a number.
func flood(c net.Conn, text string) {
	for i := 0; ; {
		var b []byte
		for len(b) < 32<<10 {
			b = append(b, strings.ReplaceAll(text, "%d", fmt.Sprint(i))...)
			i++
		}
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// after writes a beginning and then floods, once the client has sent this text ("" for at once).
func after(sent, beginning, text string) func(net.Conn) {
	return func(c net.Conn) {
		if until(c, sent); say(c, beginning) {
			flood(c, text)
		}
	}
}

// dripping writes a beginning and then a text every 100 ms.
func dripping(sent, beginning, text string) func(net.Conn) {
	return func(c net.Conn) {
		until(c, sent)
		for say(c, beginning) {
			beginning = text
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// once writes a text and waits for the connection's end.
func once(sent, text string) func(net.Conn) {
	return func(c net.Conn) {
		if until(c, sent); say(c, text) {
			hold(c)
		}
	}
}

func say(c net.Conn, text string) bool {
	_, err := io.WriteString(c, text)
	return err == nil
}

// blank ends the header of a request.
const blank = "\r\n\r\n"

// ok is the header of an answer of this type without a length.
func ok(contentType string) string {
	return "HTTP/1.1 200 OK\r\nApi-Version: 1.43\r\nContent-Type: " + contentType + blank
}

// bomb is an answer that is 1,000 times as large when it is unpacked: 2 GB of this text.
func bomb(contentType, text string) func(net.Conn) {
	return func(c net.Conn) {
		until(c, blank)
		say(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: "+contentType+blank)
		w, piece := gzip.NewWriter(c), []byte(strings.Repeat(text, 64<<10/len(text)))
		for range 2 << 30 / len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
		hold(c)
	}
}

// nested is a text of so many openings.
func nested(beginning, opening string, n int) string { return beginning + strings.Repeat(opening, n) }

// The content types of answers.
const (
	jsonType = "application/json"
	promType = "text/plain; version=0.0.4"
	omType   = "application/openmetrics-text; version=1.0.0"
)

func httpKit() []hostile {
	return []hostile{
		{name: "body without end", target: hostileHTTP, do: after(blank, ok("text/plain"), "endless")},
		{
			name:   "chunks without end",
			target: hostileHTTP,
			do:     after(blank, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked"+blank, "8\r\n12345678\r\n"),
		},
		{
			name:   "chunk that is huge",
			target: hostileHTTP,
			do:     after(blank, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n", "endless"),
		},
		{
			name:   "chunk extension without end",
			target: hostileHTTP,
			do:     after(blank, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "endless"),
		},
		{
			name:   "trailers without end",
			target: hostileHTTP,
			do:     after(blank, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n0\r\n", "A-%d: b\r\n"),
		},
		{name: "header without end", target: hostileHTTP, do: after(blank, "HTTP/1.1 200 OK\r\n", "A-%d: b\r\n")},
		{name: "field without end", target: hostileHTTP, do: after(blank, "HTTP/1.1 200 OK\r\nA: ", "endless")},
		{name: "status line without end", target: hostileHTTP, do: after(blank, "HTTP/1.1 200 ", "endless")},
		{name: "interim answers without end", target: hostileHTTP, do: after(blank, "", "HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n")},
		{
			name:   "length that is huge",
			target: hostileHTTP,
			do:     once(blank, "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nx"),
		},
		{name: "length that is negative", target: hostileHTTP, do: after(blank, "HTTP/1.1 200 OK\r\nContent-Length: -1"+blank, "endless")},
		{name: "gzip of 2 GB", target: hostileHTTP, do: bomb("text/plain", "a")},
		{name: "body that drips", target: hostileHTTP, do: dripping(blank, ok("text/plain"), "x")},
		{name: "header that drips", target: hostileHTTP, do: dripping(blank, "HTTP/1.1 200 OK\r\nA: ", "x")},
		{name: "no answer", target: hostileHTTP, do: hold},
		{
			name:   "redirect to itself",
			target: hostileRedirect,
			do:     once(blank, "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\nLocation: /again"+blank),
		},
		{
			name:   "redirect of 1 MB",
			target: hostileRedirect,
			do:     once(blank, "HTTP/1.1 302 Found\r\nLocation: /"+strings.Repeat("a", 1<<20)+blank),
		},
		{name: "error with a body without end", target: hostileREST, do: after(blank, "HTTP/1.1 500 No"+blank, "endless")},
		{name: "JSON of many arrays", target: hostileRPC, do: once(blank, ok(jsonType)+nested(`{"result":`, "[", 4<<20))},
		{name: "JSON of many objects", target: hostileREST, do: once(blank, ok(jsonType)+nested("", `{"a":`, 1<<20))},
		{name: "JSON string without end", target: hostileStore, do: after(blank, ok(jsonType)+`{"message":"`, "endless")},
		{name: "JSON list without end", target: hostileDocs, do: after(blank, ok(jsonType)+`{"results":[`, `{"id":%d},`)},
		{
			name:   "JSON keys without end",
			target: hostileRPC,
			do:     after(blank, ok(jsonType)+`{"result":{`, `"k%d":%d,`),
			worst:  true,
		},
		{name: "JSON number without end", target: hostileDocs, do: after(blank, ok(jsonType)+`{"results":1`, "0000000000")},
		{name: "JSON in gzip of 2 GB", target: hostileRPC, do: bomb(jsonType, "[[[[")},
	}
}

func metricsKit() []hostile {
	return []hostile{
		{
			name:   "series without end",
			target: hostileMetrics,
			do:     after(blank, ok(promType), "a{n=\"%d\"} 1\n"),
			worst:  true,
		},
		{name: "families without end", target: hostileMetrics, do: after(blank, ok(promType), "# TYPE f%d gauge\nf%d 1\n")},
		{name: "metadata without end", target: hostileProsody, do: after(blank, ok(promType), "# HELP f%d x\n# TYPE f%d counter\n")},
		{name: "comments without end", target: hostileMetrics, do: after(blank, ok(promType), "# no comment\n")},
		{name: "line without end", target: hostileMetrics, do: after(blank, ok(promType), "aaaaaaaa")},
		{name: "labels without end", target: hostileMetrics, do: after(blank, ok(promType)+"a{", `l%d="x",`)},
		{name: "label value without end", target: hostileProsody, do: after(blank, ok(promType)+`a{l="`, "xxxxxxxx")},
		{
			name:   "buckets without end",
			target: hostileMetrics,
			do:     after(blank, ok(omType)+"# TYPE h histogram\n", "h_bucket{le=\"%d\"} 1\n"),
		},
		{
			name:   "exemplars without end",
			target: hostileMetrics,
			do:     after(blank, ok(omType)+"# TYPE a counter\n", "a_total{n=\"%d\"} 1 # {trace=\"%d\"} 1\n"),
		},
		{
			name:   "page in gzip of 2 GB",
			target: hostileProsody,
			do:     bomb(promType, "a{n=\"1\"} 1\n"),
			worst:  true,
		},
		{
			name:   "400,000 series",
			target: hostileMetrics,
			do:     largePage(400_000, "s%d{n=\"%d\"} 1\n"),
			worst:  true,
		},
		{name: "800,000 empty lines", target: hostileMetrics, do: largePage(800_000, "\n")},
		{
			name:   "250,000 series of four labels",
			target: hostileMetrics,
			do:     largePage(250_000, "s%d{a=\"1\",b=\"2\",c=\"3\",d=\"%d\"} 1\n"),
		},
	}
}

// largePage is an answer that ends, and is within the shipped limit of a metrics page.
func largePage(lines int, line string) func(net.Conn) {
	var page strings.Builder
	for i := range lines {
		page.WriteString(strings.ReplaceAll(line, "%d", fmt.Sprint(i)))
	}
	text := page.String()
	return func(c net.Conn) {
		until(c, blank)
		say(c,
			fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\nContent-Type: %s\r\n\r\n", len(text), promType)+text)
	}
}

func dockerKit() []hostile {
	const container = `{"Id":"%d","Names":["/c%d"],"Image":"x","State":"running","Status":"Up 3 hours","Labels":{"a":"b"}},`
	return []hostile{
		{
			name:   "containers without end",
			target: hostileDocker,
			do:     after(blank, ok(jsonType)+"[", container),
			worst:  true,
		},
		{name: "names of a container without end", target: hostileDocker, do: after(blank, ok(jsonType)+`[{"Id":"1","Names":[`, `"/n%d",`)},
		{
			name:   "labels of a container without end",
			target: hostileDocker,
			do:     after(blank, ok(jsonType)+`[{"Id":"1","Names":["/a"],"Labels":{`, `"l%d":"%d",`),
		},
		{name: "list of many arrays", target: hostileDocker, do: once(blank, ok(jsonType)+nested("", "[", 4<<20))},
		{name: "ping that drips", target: hostileDocker, do: dripping(blank, ok("text/plain"), "O")},
		{
			name:   "events without end",
			target: hostileDocker,
			do: dockerSaying("/events", "",
				`{"Type":"container","Action":"start","Actor":{"ID":"%d","Attributes":{"name":"c%d"}},"time":1,"timeNano":%d}`+"\n"),
		},
		{name: "event without end", target: hostileDocker, do: dockerSaying("/events", "", "aaaaaaaa")},
		{name: "inspection without end", target: hostileDocker, do: dockerSaying("/c1/json", `{"Id":"c1","Name":"`, "endless")},
	}
}

// dockerSaying is an engine of one container that floods one path and is well otherwise.
func dockerSaying(path, beginning, text string) func(net.Conn) {
	return func(c net.Conn) {
		request := until(c, blank)
		line, _, _ := strings.Cut(request, "\r\n")
		answer := `[{"Id":"c1","Names":["/a"],"State":"running","Status":"Up 3 hours"}]`
		switch {
		case strings.Contains(line, path):
			say(c, ok(jsonType)+beginning)
			flood(c, text)
			return
		case strings.Contains(line, "/_ping"):
			answer = "OK"
		case strings.Contains(line, "/events"):
			once("", ok(jsonType))(c)
			return
		case !strings.Contains(line, "containers/json"):
			answer = `{"Id":"c1","Name":"/a","Image":"x","State":{"Status":"running","Running":true,"StartedAt":"2026-01-01T00:00:00Z"},` +
				`"Config":{"Image":"x","Labels":{}},"HostConfig":{"RestartPolicy":{"Name":"no"}}}`
		}
		say(c,
			fmt.Sprintf("HTTP/1.1 200 OK\r\nApi-Version: 1.43\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer))
	}
}

func tlsKit(certificate tls.Certificate) []hostile {
	return []hostile{
		{name: "TLS: no handshake", target: hostileTLS, do: hold},
		{name: "TLS: plain text without end", target: hostileTLS, do: after("", "", "endless")},
		{
			name:   "TLS: warnings without end",
			target: hostileTLS,
			do:     after("", "", "\x15\x03\x03\x00\x02\x01\x5a"),
			worst:  true,
		},
		{name: "TLS: empty records without end", target: hostileTLS, do: after("", "", "\x16\x03\x03\x00\x00")},
		{
			name:   "TLS: hello of 16 MB",
			target: hostileTLS,
			do:     after("", "\x16\x03\x03\x40\x00\x02\xff\xff\xff", strings.Repeat("a", 16<<10)),
		},
		{name: "TLS: hello that drips", target: hostileTLS, do: dripping("", "\x16\x03\x03\x00\x50\x02", "a")},
		{name: "TLS: chain of 5,000 certificates", target: hostileTLS, do: func(c net.Conn) {
			long := certificate
			long.Certificate = slices.Repeat(certificate.Certificate[:1], 5000)
			//nolint:errcheck,noctx // the client may refuse it
			tls.Server(c, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{long}}).Handshake()
			hold(c)
		}},
	}
}

// welcome answers an IRC client until it is logged in by SASL, and says the first lines.
func welcome(c net.Conn) bool {
	for {
		line := until(c, "\n")
		answer := ""
		switch {
		case line == "":
			return false
		case strings.Contains(line, "CAP LS"):
			answer = ":irc.test CAP * LS :sasl=PLAIN\r\n"
		case strings.Contains(line, "CAP REQ"):
			answer = ":irc.test CAP * ACK :sasl\r\n"
		case strings.Contains(line, "AUTHENTICATE PLAIN"):
			answer = "AUTHENTICATE +\r\n"
		case strings.Contains(line, "AUTHENTICATE "):
			answer = ":irc.test 903 hostile :ok\r\n"
		case strings.Contains(line, "CAP END"):
			return say(c, ":irc.test 001 hostile :welcome\r\n")
		}
		if !say(c, answer) {
			return false
		}
	}
}

// welcomed floods once the client is welcome, or has sent a text after that.
func welcomed(sent, text string) func(net.Conn) {
	return func(c net.Conn) {
		if !welcome(c) {
			return
		}
		say(c, ":irc.test 005 hostile NETWORK=x :are supported\r\n:irc.test 376 hostile :end\r\n")
		after(sent, "", text)(c)
	}
}

// floodCaps floods with lines of CAP LS that another follows. They are within the length that the exporter reads, and all names differ.
func floodCaps(c net.Conn) {
	until(c, "\n")
	var line strings.Builder
	for i := 0; ; line.Reset() {
		line.WriteString(":irc.test CAP * LS * :")
		for line.Len() < 200_000 {
			fmt.Fprintf(&line, "c%d ", i)
			i++
		}
		if !say(c, line.String()+"\r\n") {
			return
		}
	}
}

func ircKit() []hostile {
	plain := func(name, target string, do func(net.Conn)) hostile {
		return hostile{
			name:      "IRC: " + name,
			target:    target,
			encrypted: true,
			do:        do,
		}
	}
	return []hostile{
		plain("CAP LS without end", hostileIRC, floodCaps),
		plain("CAP LS without end at a login", hostileIRCLogin, floodCaps).amongWorst(),
		plain("CAP LS of one line without end", hostileIRCLogin, after("\n", ":irc.test CAP * LS :", "c%d ")),
		plain("CAP NEW without end", hostileIRCLogin, after("\n", "", ":irc.test CAP * NEW :c%d\r\n")),
		plain("line without end", hostileIRC, after("", "", "endless")),
		plain("empty lines without end", hostileIRCLogin, after("", "", "\r\n")),
		plain("NUL without end", hostileIRC, after("", "", "\x00")),
		plain("notices without end", hostileIRCLogin, after("", "", ":irc.test NOTICE * :*** %d\r\n")),
		plain("PING without end", hostileIRC, after("", "", "PING :%d\r\n")),
		plain("PING without end at a login", hostileIRCLogin, after("", "", "PING :%d\r\n")),
		plain("nick in use without end", hostileIRCLogin, after("\n", "", ":irc.test 433 * n%d :in use\r\n")),
		plain("AUTHENTICATE without end", hostileIRCLogin, after("\n", ":irc.test CAP * LS :sasl=PLAIN\r\n:irc.test CAP * ACK :sasl\r\n",
			"AUTHENTICATE "+strings.Repeat("A", 400)+"\r\n")),
		plain("ban that does not close", hostileIRC, once("\n", ":irc.test 465 * :banned\r\n")),
		plain("ERROR without end", hostileIRC, after("\n", "ERROR :", "endless")),
		plain("byte by byte", hostileIRCLogin, dripping("", ":", "x")),
		plain("005 without end", hostileIRCLogin, func(c net.Conn) {
			if welcome(c) {
				flood(c, ":irc.test 005 hostile A%d=x B%d=y C%d=z :are supported\r\n")
			}
		}).amongWorst(),
		plain("message of the day without end", hostileIRCLogin, func(c net.Conn) {
			if welcome(c) {
				flood(c, ":irc.test 372 hostile :- %d\r\n")
			}
		}),
		plain("no answer after the welcome", hostileIRCLogin, func(c net.Conn) {
			if welcome(c) {
				hold(c)
			}
		}),
		plain("names without end", hostileRelay, welcomed("JOIN", ":irc.test 353 hostile = #hostile :a%d b%d c%d d%d\r\n")).amongWorst(),
		plain("messages without end while joining", hostileRelay, welcomed("JOIN", ":a!b@c PRIVMSG #hostile :%d\r\n")),
		plain("joins without end", hostileRelay, welcomed("JOIN", ":a%d!b@c JOIN #hostile\r\n")),
	}
}

const (
	stream = `<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' id='1' ` +
		`from='chat.test' version='1.0'>`
	features = `<stream:features><mechanisms ` +
		`xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>%s</mechanism></mechanisms></stream:features>`
	success  = `<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>`
	bindable = `<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></stream:features>`
)

// loggedIn floods after a login by PLAIN.
func loggedIn(beginning, text string) func(net.Conn) {
	return func(c net.Conn) {
		until(c, "stream:stream")
		say(c, stream+fmt.Sprintf(features, "PLAIN"))
		until(c, "<auth")
		say(c, success)
		until(c, "stream:stream")
		say(c, stream+bindable)
		after("<iq", beginning, text)(c)
	}
}

// scramAsking demands so many iterations in SCRAM's first answer.
func scramAsking(iterations string) func(net.Conn) {
	return func(c net.Conn) {
		until(c, "stream:stream")
		say(c, stream+fmt.Sprintf(features, "SCRAM-SHA-256"))
		auth := until(c, "</auth>")
		_, encoded, _ := strings.Cut(strings.TrimSuffix(auth, "</auth>"), "'>")
		if !strings.Contains(auth, "'>") {
			_, encoded, _ = strings.Cut(strings.TrimSuffix(auth, "</auth>"), ">")
		}
		first, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded)) // else the nonce is wrong
		_, nonce, _ := strings.Cut(string(first), ",r=")
		answer := base64.StdEncoding.EncodeToString([]byte("r=" + nonce + "hostile,s=c2FsdHNhbHQ=,i=" + iterations))
		once("", "<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>"+answer+"</challenge>")(c)
	}
}

func xmppKit() []hostile {
	const opened = "stream:stream"
	return []hostile{
		{name: "XMPP: features without end", target: hostileXMPP, do: after(opened, stream+"<stream:features>", "<f%d xmlns='x'/>")},
		{
			name:   "XMPP: deep features",
			target: hostileXMPP,
			do:     after(opened, stream+"<stream:features>", "<a>"),
			worst:  true,
		},
		{name: "XMPP: attributes without end", target: hostileXMPP, do: after(opened, "<?xml version='1.0'?><stream:stream ", "a%d='x' ")},
		{name: "XMPP: attribute without end", target: hostileXMPP, do: after(opened, "<?xml version='1.0'?><stream:stream a='", "endless")},
		{name: "XMPP: name without end", target: hostileXMPP, do: after(opened, stream+"<", "aaaaaaaa")},
		{name: "XMPP: text without end", target: hostileXMPP, do: after(opened, stream, "endless")},
		{name: "XMPP: blanks without end", target: hostileXMPP, do: after(opened, stream, "        ")},
		{name: "XMPP: comment without end", target: hostileXMPP, do: after(opened, stream+"<!--", "endless ")},
		{name: "XMPP: instructions without end", target: hostileXMPP, do: after(opened, stream, "<?a b?>")},
		{
			name:   "XMPP: document type with entities",
			target: hostileXMPP,
			do:     after(opened, "<!DOCTYPE a [", `<!ENTITY a%d "&b;&b;&b;&b;&b;&b;">`),
		},
		{name: "XMPP: namespaces without end", target: hostileXMPP, do: after(opened, stream+"<stream:features>", "<a xmlns:n%d='u%d'>")},
		{name: "XMPP: no TLS after proceed", target: hostileXMPP, do: func(c net.Conn) {
			until(c, opened)
			say(c, stream+"<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:features>")
			once("<starttls", "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")(c)
		}},
		{
			name:      "XMPP: mechanisms without end",
			target:    hostileLogin,
			encrypted: true,
			do: after(opened, stream+"<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>",
				"<mechanism>M%d</mechanism>"),
		},
		{
			name:      "XMPP: challenges without end",
			target:    hostileLogin,
			encrypted: true,
			do: func(c net.Conn) {
				until(c, opened)
				say(c, stream+fmt.Sprintf(features, "PLAIN"))
				after("<auth", "", "<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>YQ==</challenge>")(c)
			},
		},
		{
			name:      "XMPP: SCRAM of 900,000,000 iterations",
			target:    hostileLogin,
			encrypted: true,
			do:        scramAsking("900000000"),
		},
		{
			name:      "XMPP: SCRAM of +900,000,000 iterations",
			target:    hostileLogin,
			encrypted: true,
			do:        scramAsking("+900000000"),
			worst:     true,
		},
		{
			name:      "XMPP: SCRAM of 1,000,000 iterations",
			target:    hostileLogin,
			encrypted: true,
			do:        scramAsking("1000000"),
		},
		{
			name:      "XMPP: giant stanza",
			target:    hostileLogin,
			encrypted: true,
			do:        loggedIn("<message><body>", "endless"),
			worst:     true,
		},
		{
			name:      "XMPP: deep stanza",
			target:    hostileLogin,
			encrypted: true,
			do:        loggedIn("<message>", "<a>"),
			worst:     true,
		},
		{
			name:      "XMPP: wide stanza",
			target:    hostileLogin,
			encrypted: true,
			do:        loggedIn("<message>", "<a b='%d'/>"),
		},
		{
			name:      "XMPP: stanzas without end",
			target:    hostileLogin,
			encrypted: true,
			do:        loggedIn("", "<message from='a@chat.test/%d'><body>%d</body></message>"),
		},
		{
			name:      "XMPP: blanks after the login",
			target:    hostileLogin,
			encrypted: true,
			do:        loggedIn("", " "),
		},
	}
}
