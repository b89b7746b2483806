package prompt

import "strings"

// goOn are words after which a statement goes on.
var goOn = " select from where and or not by on join left right inner outer full cross using as with union all " +
	"except intersect having limit offset in like between case when then else distinct group order pivot values "

// Whole says that a statement needs no further line: quotes, comments and brackets are closed, and it does not end in a
// word or a sign that something must follow. A semicolon ends it.
func Whole(sql string) bool {
	open, last := scan(sql)
	if open {
		return false
	}
	last = strings.TrimSpace(last)
	if strings.HasSuffix(last, ";") {
		return true
	}
	if last == "" {
		return false
	}
	if strings.ContainsRune(",(+-/=<>|.", rune(last[len(last)-1])) {
		return false
	}
	i := strings.LastIndexAny(last, " \t\n()") + 1
	return !strings.Contains(goOn, " "+strings.ToLower(last[i:])+" ")
}

// scan gives the statement without comments and what stands in quotes; open says that one of these, or a bracket, is
// not closed.
func scan(sql string) (open bool, bare string) {
	var b strings.Builder
	depth := 0
	for i := 0; i < len(sql); i++ {
		c := sql[i]
		switch {
		case c == '\'' || c == '"':
			end := strings.IndexByte(sql[i+1:], c)
			if end < 0 {
				return true, b.String()
			}
			i += end + 1
			b.WriteByte('x') // a value stands here
		case strings.HasPrefix(sql[i:], "--"):
			end := strings.IndexByte(sql[i:], '\n')
			if end < 0 {
				return depth > 0, b.String()
			}
			i += end
			b.WriteByte('\n')
		case strings.HasPrefix(sql[i:], "/*"):
			end := strings.Index(sql[i+2:], "*/")
			if end < 0 {
				return true, b.String()
			}
			i += end + 3
		default:
			switch c {
			case '(', '[':
				depth++
			case ')', ']':
				depth--
			}
			b.WriteByte(c)
		}
	}
	return depth > 0, b.String()
}
