package web

import (
	"html"
	"html/template"
	"regexp"
	"strings"
	"unicode"
)

// markdown renders the Markdown that runbooks use: headings, paragraphs, lists, tables, code blocks, code, bold and links. Anything
// else stays text.
type markdown struct {
	strings.Builder
	// link resolves a link's target; "" shows the words without a link.
	link func(target string) string
}

// renderMarkdown returns a text as HTML. It escapes everything but Markdown's own marks.
func renderMarkdown(text string, link func(target string) string) template.HTML {
	m := markdown{link: link}
	m.blocks(strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), false)
	return template.HTML(m.String()) //nolint:gosec // everything that is not a mark is escaped
}

var (
	fenceLine   = regexp.MustCompile("^```\\w*$")
	headingLine = regexp.MustCompile(`^(#{1,4}) (.+)$`)
	// itemLine begins a list item. Its further lines are indented as far as its text.
	itemLine   = regexp.MustCompile(`^(- |\d{1,2}\. )(.*)$`)
	tableRule  = regexp.MustCompile(`^\|(?:-+\|)+$`)
	inlineMark = regexp.MustCompile("`([^`]+)`|\\*\\*([^*]+)\\*\\*|\\[([^\\]\\[<]+)\\]\\(([^)\\s]+)\\)|<(https?://[^<>\\s]+)>")
)

// blocks writes lines as headings, paragraphs and so on. In a tight list item, a paragraph gets no <p>.
func (m *markdown) blocks(lines []string, tight bool) {
	for len(lines) > 0 {
		n := 1
		switch line := lines[0]; {
		case strings.TrimSpace(line) == "":
		case fenceLine.MatchString(line):
			n = m.code(lines)
		case headingLine.MatchString(line):
			m.heading(headingLine.FindStringSubmatch(line))
		case itemLine.MatchString(line):
			n = m.list(lines)
		case len(lines) > 1 && strings.HasPrefix(line, "|") && tableRule.MatchString(lines[1]):
			n = m.table(lines)
		default:
			n = m.paragraph(lines, tight)
		}
		lines = lines[n:]
	}
}

func (m *markdown) element(name, text string) {
	m.WriteString("<" + name + ">")
	m.inline(text)
	m.WriteString("</" + name + ">")
}

func (m *markdown) heading(match []string) {
	name := "h" + string(rune('0'+len(match[1])))
	m.WriteString("<" + name + ` id="` + html.EscapeString(anchor(match[2])) + `">`)
	m.inline(match[2])
	m.WriteString("</" + name + ">\n")
}

// anchor returns GitHub's anchor of a heading.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, title)
}

// code writes a code block and returns its number of lines.
func (m *markdown) code(lines []string) int {
	m.WriteString("<pre><code>")
	for i, line := range lines[1:] {
		if line == "```" {
			m.WriteString("</code></pre>\n")
			return i + 2
		}
		m.WriteString(html.EscapeString(line) + "\n")
	}
	m.WriteString("</code></pre>\n")
	return len(lines)
}

// list writes a list and returns its number of lines.
func (m *markdown) list(lines []string) int {
	kind := "ul"
	if lines[0][0] != '-' {
		kind = "ol"
	}
	m.WriteString("<" + kind + ">\n")
	n := 0
	for n < len(lines) {
		match := itemLine.FindStringSubmatch(lines[n])
		if match == nil || (match[1] == "- ") != (kind == "ul") {
			break
		}
		indent := strings.Repeat(" ", len(match[1]))
		item := []string{match[2]}
		for n++; n < len(lines) && (strings.HasPrefix(lines[n], indent) || isBlankBefore(lines[n:], indent)); n++ {
			item = append(item, strings.TrimPrefix(lines[n], indent))
		}
		m.WriteString("<li>")
		m.blocks(item, true)
		m.WriteString("</li>\n")
	}
	m.WriteString("</" + kind + ">\n")
	return n
}

// isBlankBefore reports whether the first line is blank and the next line with text still belongs to the item.
func isBlankBefore(lines []string, indent string) bool {
	for i, line := range lines {
		if strings.TrimSpace(line) != "" {
			return i > 0 && strings.HasPrefix(line, indent)
		}
	}
	return false
}

// table writes a table and returns its number of lines.
func (m *markdown) table(lines []string) int {
	row := func(line, cell string) {
		m.WriteString("<tr>")
		for text := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			m.element(cell, strings.TrimSpace(text))
		}
		m.WriteString("</tr>\n")
	}
	m.WriteString("<table>\n<thead>")
	row(lines[0], "th")
	m.WriteString("</thead>\n<tbody>\n")
	n := 2
	for ; n < len(lines) && strings.HasPrefix(lines[n], "|"); n++ {
		row(lines[n], "td")
	}
	m.WriteString("</tbody>\n</table>\n")
	return n
}

// paragraph writes the lines up to the next block and returns their number.
func (m *markdown) paragraph(lines []string, tight bool) int {
	n := 1
	for ; n < len(lines); n++ {
		if line := lines[n]; strings.TrimSpace(line) == "" || fenceLine.MatchString(line) || headingLine.MatchString(line) ||
			itemLine.MatchString(line) {
			break
		}
	}
	if text := strings.Join(lines[:n], "\n"); tight {
		m.inline(text)
		m.WriteString("\n")
	} else {
		m.element("p", text)
		m.WriteString("\n")
	}
	return n
}

// inline writes a text with code, bold and links.
func (m *markdown) inline(text string) {
	for text != "" {
		at := inlineMark.FindStringSubmatchIndex(text)
		if at == nil {
			break
		}
		part := func(i int) string { return text[at[2*i]:at[2*i+1]] }
		m.WriteString(html.EscapeString(text[:at[0]]))
		switch {
		case at[2] >= 0:
			m.WriteString("<code>" + html.EscapeString(part(1)) + "</code>")
		case at[4] >= 0:
			m.element("b", part(2))
		case at[6] >= 0:
			m.linked(m.link(part(4)), part(3))
		default:
			address := html.EscapeString(part(5))
			m.WriteString(`<a href="` + address + `">` + address + "</a>")
		}
		text = text[at[1]:]
	}
	m.WriteString(html.EscapeString(text))
}

func (m *markdown) linked(target, text string) {
	if target != "" {
		m.WriteString(`<a href="` + html.EscapeString(target) + `">`)
		defer m.WriteString("</a>")
	}
	m.inline(text)
}
