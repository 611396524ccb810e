package receivers

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
)

// plainPart returns the text of a mail for readers without HTML. The mail must have one with HTML as well.
func plainPart(m *mail.Message) (text string, err error) {
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		return "", err
	}
	html := false
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) && html && text != "" {
			return text, nil
		}
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(quotedprintable.NewReader(p))
		if err != nil {
			return "", err
		}
		switch media, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type")); media {
		case "text/plain":
			text = strings.ReplaceAll(string(body), "\r\n", "\n")
		case "text/html":
			html = strings.Contains(string(body), "</html>")
		}
	}
}
