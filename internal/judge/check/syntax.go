package check

import (
	"slices"
	"strings"
)

// Whether a file parses is not tree-sitter's to say: it takes any indentation, refuses `return *[None] * 3`, and does
// not know next year's grammar. So a fault is what no Python from 2.7 on can read, whatever words it has: indentation,
// brackets and strings that don't end, a block or a colon that is missing, an operator or a comma with nothing beside
// it, two values in a row.

// fault is a place from which on a text is no Python.
type fault struct {
	at   int
	what string
}

// symbol is the kind of a word of Python.
type symbol int

const (
	start   symbol = iota // of a statement
	operand               // a name, a number, a string, a closing bracket
	keyword
	operator // between two values
	comma
	opening // a bracket
	other
)

// lexer reads a text word by word.
type lexer struct {
	text   string
	at     int
	left   int   // bytes that may still be read: a replacement field without an end is read twice
	open   []int // brackets, by their places
	levels []int // of indentation, in columns
	fresh  bool  // a line of a statement begins
	block  bool  // the last line ended with a colon
	// of the line
	needs, colon bool // it begins like a block, and has its colon
	prev         symbol
	prevText     string
	first        bool // prev is the first word of its statement
	found        *fault
}

// faultIn is the first fault of a text.
func faultIn(text string) *fault {
	l := &lexer{text: text, left: 50*len(text) + 1<<10, levels: []int{0}, fresh: true}
	l.text = strings.TrimPrefix(text, string(bom))
	skipped := len(text) - len(l.text)
	for l.at < len(l.text) && l.found == nil && l.left > 0 {
		if l.fresh {
			l.indentation()
		}
		l.word()
	}
	switch {
	case l.left <= 0:
		return nil
	case l.found != nil:
	case len(l.open) > 0:
		l.fail(l.open[len(l.open)-1], "the bracket is never closed")
	default:
		if l.endLine(); l.block && l.found == nil {
			l.fail(len(l.text), "a block is missing")
		}
	}
	if l.found != nil {
		l.found.at = min(l.found.at+skipped, len(text))
	}
	return l.found
}

func (l *lexer) fail(at int, what string) {
	if l.found == nil {
		l.found = &fault{at: at, what: what}
	}
}

// indentation reads what stands before a statement; blank lines and comments have none.
func (l *lexer) indentation() {
	col, at := 0, l.at
scan:
	for ; at < len(l.text); at++ {
		switch l.text[at] {
		case ' ':
			col++
		case '\t':
			col = col/8*8 + 8
		case '\f':
			col = 0
		default:
			break scan
		}
	}
	l.at = at
	if at == len(l.text) || strings.IndexByte("#\r\n", l.text[at]) >= 0 {
		return
	}
	l.fresh = false
	level := l.levels[len(l.levels)-1]
	what := ""
	switch {
	case l.block && col <= level:
		what = "a block is missing"
	case l.block:
		l.levels = append(l.levels, col)
	case col > level:
		what = "the line is indented, and no block begins here"
	case col < level:
		i := slices.Index(l.levels, col)
		if i < 0 {
			what = "the indentation fits no block around"
		} else {
			l.levels = l.levels[:i+1]
		}
	}
	if l.block = false; what != "" {
		l.fail(at, what)
	}
}

// endLine ends a logical line.
func (l *lexer) endLine() {
	l.closes(l.at, "the line's end")
	if l.needs && !l.colon {
		l.fail(l.at, "the colon is missing")
	}
	if l.prevText != "" {
		l.block = l.prevText == ":"
	}
	l.prev, l.prevText, l.needs, l.colon, l.fresh = start, "", false, false, true
}

// closes checks what ends an expression: no operator may stand before it.
func (l *lexer) closes(at int, what string) {
	if l.prev == operator && l.prevText != "/" && l.prevText != "*" && l.prevText != "**" {
		l.fail(at, "a value is missing between "+l.prevText+" and "+what)
	}
}

// take notes a word that has been read; prevText of the line's colon is ":".
func (l *lexer) take(s symbol, text string) {
	l.first = l.prev == start
	l.prev, l.prevText = s, text
}

// word reads one word, or the end of a line.
func (l *lexer) word() {
	at := l.at
	if at >= len(l.text) {
		return
	}
	l.left--
	c := l.text[at]
	switch {
	case c == ' ' || c == '\t' || c == '\f':
		l.at++
	case c == '#':
		for l.at < len(l.text) && l.text[l.at] != '\n' && l.text[l.at] != '\r' {
			l.at++
		}
	case c == '\n' || c == '\r':
		if len(l.open) == 0 {
			l.endLine()
		}
		l.at++
	case c == '\\':
		l.at++
		if rest := l.text[l.at:]; strings.HasPrefix(rest, "\r\n") {
			l.at += 2
		} else if rest == "" || rest[0] == '\n' || rest[0] == '\r' {
			l.at = min(l.at+1, len(l.text))
		} else {
			l.fail(at, "a backslash stands within the line")
		}
	case c == '"' || c == '\'':
		l.literal(at, "")
	case c >= '0' && c <= '9' || c == '.' && at+1 < len(l.text) && l.text[at+1] >= '0' && l.text[at+1] <= '9':
		l.number()
	case letter(c):
		l.name()
	default:
		l.sign()
	}
}

func letter(c byte) bool {
	return c == '_' || c >= 0x80 || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
}

// value notes a word that is a value: two in a row are none, but for strings, and for a word that begins a statement,
// which may be of a grammar that we don't know.
func (l *lexer) value(at int, text string) {
	if l.prev == operand && !l.first && !(text == "string" && l.prevText == "string") {
		l.fail(at, "two values stand side by side")
	}
	l.take(operand, text)
}

// number reads digits, letters of a base or an exponent, and its sign. "1if x" ends before the word.
func (l *lexer) number() {
	at := l.at
	if digits := l.text[at:min(at+2, len(l.text))]; len(digits) == 2 && digits[0] == '0' &&
		strings.IndexByte("xXoObB", digits[1]) >= 0 {
		for l.at += 2; l.at < len(l.text) && strings.IndexByte("0123456789abcdefABCDEF_lL", l.text[l.at]) >= 0; {
			l.at++
		}
		l.value(at, "number")
		return
	}
	whole, digit := true, func(c byte) bool { return c >= '0' && c <= '9' }
	for ; l.at < len(l.text); l.at++ {
		next := l.text[min(l.at+1, len(l.text)-1)]
		switch c := l.text[l.at]; {
		case digit(c) || c == '_' && digit(next):
		case c == '.' && whole:
			whole = false
		case c|0x20 == 'e' && (digit(next) || next == '+' || next == '-'):
			whole = false
			l.at++
		default:
			for l.at < len(l.text) && strings.IndexByte("jJlL", l.text[l.at]) >= 0 {
				l.at++
			}
			l.value(at, "number")
			return
		}
	}
	l.value(at, "number")
}

var (
	keywords = set("and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else",
		"except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or",
		"pass", "raise", "return", "try", "while", "with", "yield")
	between2 = set("and", "or", "in", "is")
	blocks   = set("class", "def", "elif", "else", "except", "finally", "for", "if", "try", "while", "with")
)

// name reads a word of letters.
func (l *lexer) name() {
	at := l.at
	for l.at < len(l.text) && letter(l.text[l.at]) {
		l.at++
	}
	l.left -= l.at - at
	word := l.text[at:l.at]
	switch {
	case l.at < len(l.text) && (l.text[l.at] == '"' || l.text[l.at] == '\'') && len(word) <= 3 && !keywords[word]:
		l.literal(at, word)
	case !keywords[word] || l.prevText == "." && (word == "async" || word == "await"): // names until 3.6
		l.value(at, word)
	case between2[word]:
		l.take(operator, word)
	default:
		if l.prevText == word && word != "not" && word != "await" {
			l.fail(at, "a word stands there twice")
		}
		if l.prev == start && len(l.open) == 0 && !l.needs && !l.colon {
			l.needs = blocks[word]
		}
		l.take(keyword, word)
	}
}

// literal reads a string, whose prefix has been read.
func (l *lexer) literal(at int, prefix string) {
	end := -1
	if strings.ContainsAny(prefix, "fFtT") {
		end = l.formatted(l.at, !strings.ContainsAny(prefix, "rR"), 0)
	}
	if end < 0 { // before 3.12 any quote of the kind ended it
		end = l.plain(l.at)
	}
	if end < 0 {
		l.fail(at, "the string is never closed")
		end = len(l.text)
	}
	l.at = end
	l.value(at, "string")
}

func (l *lexer) quotes(at int) string {
	if three := l.text[at:min(at+3, len(l.text))]; three == `"""` || three == "'''" {
		return three
	}
	return l.text[at : at+1]
}

// plain is the end of a string that begins at a place; -1: none.
func (l *lexer) plain(at int) int {
	q := l.quotes(at)
	for at += len(q); at < len(l.text); at++ {
		l.left--
		switch c := l.text[at]; {
		case c == '\\':
			if at++; at+1 < len(l.text) && l.text[at] == '\r' && l.text[at+1] == '\n' {
				at++
			}
		case strings.HasPrefix(l.text[at:], q):
			return at + len(q)
		case len(q) == 1 && (c == '\n' || c == '\r'):
			return -1
		}
	}
	return -1
}

// maxNested is how deep strings in strings are followed.
const maxNested = 20

// formatted is the end of a string with replacement fields, which since 3.12 may have the same quotes in them.
func (l *lexer) formatted(at int, escapes bool, depth int) int {
	q := l.quotes(at)
	for at += len(q); at < len(l.text) && depth < maxNested && l.left > 0; at++ {
		l.left--
		switch c := l.text[at]; {
		case c == '\\' && escapes && strings.HasPrefix(l.text[at:], "\\N{"):
			at += 2
		case c == '\\' && at+1 < len(l.text) && l.text[at+1] != '{':
			at++
		case strings.HasPrefix(l.text[at:], q):
			return at + len(q)
		case c == '{' && strings.HasPrefix(l.text[at:], "{{"):
			at++
		case c == '{':
			if at = l.field(at+1, q, escapes, depth); at < 0 {
				return -1
			}
		case len(q) == 1 && (c == '\n' || c == '\r'):
			return -1
		}
	}
	return -1
}

// field is the place of the bracket that ends a replacement field.
func (l *lexer) field(at int, q string, escapes bool, depth int) int {
	brackets, format := 0, false
	for ; at < len(l.text) && l.left > 0; at++ {
		l.left--
		switch c := l.text[at]; {
		case format && c == '{':
			if at = l.field(at+1, q, escapes, depth+1); at < 0 || depth > maxNested {
				return -1
			}
		case format && strings.HasPrefix(l.text[at:], q):
			return -1
		case c == '}' && brackets == 0:
			return at
		case format:
		case c == '(' || c == '[' || c == '{':
			brackets++
		case c == ')' || c == ']' || c == '}':
			brackets--
		case c == ':' && brackets == 0:
			format = true
		case c == '#':
			for at+1 < len(l.text) && l.text[at+1] != '\n' {
				at++
			}
		case c == '"' || c == '\'':
			end := -1
			if at > 0 && (l.text[at-1]|0x20 == 'f' || l.text[at-1]|0x20 == 't') {
				end = l.formatted(at, escapes, depth+1)
			} else {
				end = l.plain(at)
			}
			if end < 0 {
				return -1
			}
			at = end - 1
		}
	}
	return -1
}

// signs are Python's operators, the longer ones first.
var signs = strings.Fields("**= //= >>= <<= ... <> != == <= >= += -= *= /= %= @= &= |= ^= := -> ** // >> <<")

// unary may stand before a value, or alone.
var unary = set("+", "-", "~", "*", "**", "@", "`")

// sign reads a bracket or an operator.
func (l *lexer) sign() {
	at := l.at
	text := l.text[at : at+1]
	for _, s := range signs {
		if strings.HasPrefix(l.text[at:], s) {
			text = s
			break
		}
	}
	l.at += len(text)
	switch text {
	case "(", "[", "{":
		if text == "{" {
			l.value(at, text)
		}
		l.open = append(l.open, at)
		l.take(opening, text)
	case ")", "]", "}":
		l.closeBracket(at, text)
	case ",":
		l.closes(at, "a comma")
		if l.prev == comma || l.prev == opening || l.prev == start {
			l.fail(at, "a value is missing before the comma")
		}
		l.take(comma, text)
	case ";":
		l.closes(at, "a semicolon")
		l.take(start, text)
	case ":":
		if l.closes(at, "a colon"); len(l.open) == 0 {
			if l.prev == start {
				l.fail(at, "a value is missing before the colon")
			}
			l.colon = true
			l.take(start, text) // or an annotation: a value follows
			return
		}
		l.take(other, text)
	case "...":
		if l.prevText == "from" || l.prevText == text || l.prevText == "." { // from ...a import b
			l.take(other, text)
		} else {
			l.value(at, text)
		}
	case "$", "?", "!", "\x00":
		l.fail(at, "a character that Python does not have")
	case "+", "-", "*", "**", "/", ".":
		if l.prev == operator && !unary[text] && text != "." {
			l.fail(at, "a value is missing between "+l.prevText+" and "+text)
		}
		l.take(operator, text)
	default:
		if l.prev == operator && !unary[text] {
			l.fail(at, "a value is missing between "+l.prevText+" and "+text)
		}
		if unary[text] {
			l.take(other, text)
		} else {
			l.take(operator, text)
		}
	}
}

func (l *lexer) closeBracket(at int, text string) {
	l.closes(at, "the bracket")
	n := len(l.open)
	if n == 0 || strings.IndexByte("([{", l.text[l.open[n-1]]) != strings.IndexByte(")]}", text[0]) {
		l.fail(at, "the bracket was never opened")
		return
	}
	l.open = l.open[:n-1]
	l.take(operand, text)
}
