package config

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
)

// Image is a picture in a format that cannot carry a script.
type Image struct {
	// Type is its content type; "" without a picture.
	Type string
	Data []byte
}

// maxLogo is the size of the largest logo, in bytes.
const maxLogo = 256 << 10

// imageTypes are the formats of a logo. SVG is none of them: it may carry a script.
var imageTypes = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// readImage reads a picture of a bounded size.
func readImage(name string) (Image, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return Image{}, err
	case !info.Mode().IsRegular():
		return Image{}, fmt.Errorf("%s is not a regular file", name)
	case info.Size() > maxLogo:
		return Image{}, fmt.Errorf("%s has %d bytes, must be at most %d", name, info.Size(), maxLogo)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return Image{}, err
	}
	kind := http.DetectContentType(data)
	if !imageTypes[kind] {
		return Image{}, fmt.Errorf("%s is not a picture in the format PNG, JPEG, GIF or WebP", name)
	}
	return Image{kind, data}, nil
}

// Colour is a colour, such as #0b57b5.
type Colour string

// rgb returns the parts of a colour, from 0 to 255.
func (c Colour) rgb() (parts [3]uint8, ok bool) {
	if len(c) != len("#rrggbb") || c[0] != '#' {
		return parts, false
	}
	for i := range parts {
		v, err := strconv.ParseUint(string(c[1+2*i:3+2*i]), 16, 8)
		if err != nil {
			return parts, false
		}
		parts[i] = uint8(v)
	}
	return parts, true
}

// luminance is how bright a colour is, as WCAG 2 defines it.
func (c Colour) luminance() float64 {
	parts, _ := c.rgb()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v := float64(parts[i]) / math.MaxUint8
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}

// Contrast returns the contrast of two colours, from 1 to 21. Text needs 4.5.
func (c Colour) Contrast(o Colour) float64 {
	a, b := c.luminance(), o.luminance()
	return (max(a, b) + 0.05) / (min(a, b) + 0.05)
}

// Text returns the colour of text on it: black or white, of which one has a contrast of at least 4.58 with any colour.
func (c Colour) Text() Colour {
	const black, white Colour = "#000000", "#ffffff"
	if c.Contrast(black) > c.Contrast(white) {
		return black
	}
	return white
}

// checkBrand checks how the public page looks, and reads its logo.
func (p *Public) checkBrand(r *Report) {
	if _, ok := Colour(p.Colour).rgb(); !ok && p.Colour != "" {
		r.Faultf("public.colour", "is %q, must be a colour such as \"#0b57b5\"", p.Colour)
	}
	if p.HomeURL != "" {
		if u, err := url.Parse(p.HomeURL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
			r.Faultf("public.home_url", "must be a URL such as https://chat.example.org/, without credentials")
		}
	}
	if p.LogoFile == "" {
		return
	}
	logo, err := readImage(p.LogoFile)
	if err != nil {
		r.Faultf("public.logo_file", "cannot be used: %s", err)
	}
	p.Logo = logo
}
