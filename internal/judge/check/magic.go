package check

import "strings"

// magics makes comments of what only IPython understands in a cell, line by line; columns stay. A line that goes on
// with what an earlier one began is none, though it begins with %.
type magics struct {
	open  int    // brackets
	quote string // of a text over several lines
	goes  bool   // the last line ended in a backslash
	whole bool   // %%bash: the rest of the cell is of another language
}

// otherLanguages are cell magics behind which no Python stands.
var otherLanguages = set("bash", "sh", "script", "html", "HTML", "javascript", "js", "latex", "markdown", "svg", "SVG",
	"perl", "ruby", "cmd", "sql", "R", "cython", "writefile", "file", "system", "cu")

func (m *magics) comment(line string) string {
	rest := strings.TrimLeft(line, " \t")
	begins := m.open == 0 && m.quote == "" && !m.goes
	if m.whole || begins && rest != "" && strings.ContainsRune("%!?", rune(rest[0])) {
		if word, cell := strings.CutPrefix(rest, "%%"); cell && begins {
			word, _, _ = strings.Cut(strings.TrimRight(word, "\r"), " ")
			m.whole = m.whole || otherLanguages[word]
		}
		if rest == "" || rest[0] == '#' {
			return line
		}
		return line[:len(line)-len(rest)] + "#" + rest[1:]
	}
	m.read(line)
	return line
}

// read notes what a line leaves open.
func (m *magics) read(line string) {
	m.goes = false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\':
			m.goes = i == len(line)-1
			i++
		case m.quote != "":
			if strings.HasPrefix(line[i:], m.quote) {
				i += len(m.quote) - 1
				m.quote = ""
			}
		case c == '#':
			return
		case c == '"' || c == '\'':
			m.quote = line[i : i+1]
			if triple := strings.Repeat(m.quote, 3); strings.HasPrefix(line[i:], triple) {
				m.quote = triple
			}
			i += len(m.quote) - 1
		case c == '(' || c == '[' || c == '{':
			m.open++
		case (c == ')' || c == ']' || c == '}') && m.open > 0:
			m.open--
		}
	}
	if len(m.quote) == 1 && !m.goes { // it ends with its line, closed or not
		m.quote = ""
	}
}
