package config_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

const (
	pngHeader = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
	branded   = "targets: [{kind: docs_search, url: \"http://127.0.0.1:1/\"}]\npublic:\n  listen_address: 127.0.0.1:9657\n" +
		"  services: [{name: Docs, targets: [docs_search]}]\n"
)

// TestTextIsReadableOnEveryColour: WCAG 2 asks for a contrast of 4.5.
func TestTextIsReadableOnEveryColour(t *testing.T) {
	for r := 0; r < 256; r += 5 {
		for g := 0; g < 256; g += 5 {
			for b := 0; b < 256; b += 5 {
				c := config.Colour(fmt.Sprintf("#%02x%02X%02x", r, g, b))
				if got := c.Contrast(c.Text()); got < 4.5 {
					t.Fatalf("%s on %s has a contrast of %.2f", c.Text(), c, got)
				}
			}
		}
	}
	for c, want := range map[config.Colour]config.Colour{
		"#000000": "#ffffff", "#ffffff": "#000000", "#0b57b5": "#ffffff", "#ffd700": "#000000",
	} {
		if got := c.Text(); got != want {
			t.Errorf("text on %s is %s, want %s", c, got, want)
		}
	}
	if got := config.Colour("#767676").Contrast("#ffffff"); got < 4.54 || got > 4.55 { // as WCAG's own example
		t.Errorf("got %f", got)
	}
}

func TestLookOfPublicPageIsChecked(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe.png")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	const noURL, noPicture = "public.home_url: must be a URL such as https://chat.example.org/", "is not a picture in the format PNG"
	for _, c := range []struct{ line, want string }{
		{"colour: blue", `public.colour: is "blue", must be a colour such as "#0b57b5"`},
		{`colour: "#0b57b"`, "public.colour: is"},
		{`colour: "#0b57bg"`, "public.colour: is"},
		{`colour: "#0b57b5;background:url(//evil.example)"`, "public.colour: is"},
		{"home_url: javascript:alert(1)", noURL},
		{"home_url: https://user:word@chat.example.org/", noURL},
		{"home_url: //chat.example.org/", noURL},
		{"logo_file: " + filepath.Join(dir, "missing.png"), "no such file"},
		{"logo_file: " + dir, "is not a regular file"},
		{"logo_file: " + pipe, "is not a regular file"},
		{"logo_file: " + write("big.png", pngHeader+strings.Repeat("x", 256<<10)), "must be at most 262144"},
		{"logo_file: " + write("logo.svg", `<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>`), noPicture},
		{"logo_file: " + write("svg.png", `<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg">`), noPicture},
		{"logo_file: " + write("page.png", "<!DOCTYPE html><script>alert(1)</script>"), noPicture},
		{"logo_file: " + write("empty.png", ""), noPicture},
	} {
		if _, err := load(t, branded+"  "+c.line+"\n", nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.line, err, c.want)
		}
	}
	for name, c := range map[string]struct{ content, kind string }{
		"logo.png":  {pngHeader, "image/png"},
		"logo.jpg":  {"\xff\xd8\xff\xe0", "image/jpeg"},
		"logo.gif":  {"GIF89a", "image/gif"},
		"logo.webp": {"RIFF\x10\x00\x00\x00WEBPVP8 ", "image/webp"},
	} {
		look := "  home_url: https://chat.example.org/\n  colour: \"#0B57b5\"\n  logo_file: " + write(name, c.content) + "\n"
		cfg, err := load(t, branded+look, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := cfg.Public.Logo; got.Type != c.kind || !bytes.Equal(got.Data, []byte(c.content)) {
			t.Errorf("%s: got %s", name, got.Type)
		}
	}
}
