package prompt

import (
	"slices"
	"strings"
)

// Words are what Tab can choose from. Each is asked when a line needs it, and may be nil.
type Words struct {
	Commands func() []string               // with use, help, exit
	Flags    func(command string) []string // --json …
	Tables   func() []Table
	Sessions func() []string              // names
	Python   func(dotted string) []string // what the trainer's names begin with: "model.la" gives model.layers …
}

// Table is a table with its columns.
type Table struct {
	Name    string // with its schema
	Columns []string
}

// sqlWords begin the statements that query takes.
var sqlWords = []string{"select", "with", "from", "show", "describe", "explain", "summarize", "table", "values",
	"pivot", "unpivot"}

// IsSQL says that a line is a statement, by its first word.
func IsSQL(line string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	first, _, _ = strings.Cut(first, "\n")
	return slices.Contains(sqlWords, strings.ToLower(strings.TrimSuffix(first, ";")))
}

// functions of SQL that are of use here, and the words of a statement.
var functions = []string{"SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "DESC", "JOIN", "ON", "AS", "AND",
	"OR", "NOT", "NULL", "INTERVAL", "DISTINCT", "HAVING", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END",
	"count(", "max(", "min(", "sum(", "avg(", "median(", "quantile_cont(", "arg_max(", "arg_min(", "regr_slope(",
	"epoch_us(", "epoch(", "date_trunc(", "time_bucket(", "coalesce(", "lag(", "row_number(", "round(",
	"format_bytes(", "regexp_extract(", "string_agg("}

// Complete finds what the end of a line can become: the words begin at start. They come in order, none twice.
func (w Words) Complete(line string) (start int, list []string) {
	trimmed := strings.TrimLeft(line, " ")
	if code, ok := strings.CutPrefix(trimmed, ">>>"); ok {
		start = len(line) - len(code) + lastWord(code, isName)
		if start < len(line) && w.Python != nil {
			return start, begin(w.Python(line[start:]), line[start:], false)
		}
		return start, nil
	}
	start = lastWord(line, func(r rune) bool { return !strings.ContainsRune(" (,=<>+*/\t\n", r) })
	word := line[start:]
	words := strings.Fields(line[:start])
	switch {
	case len(words) == 0 && strings.HasPrefix(word, `\`):
		return start, begin(shortcutNames(), word, false)
	case len(words) == 0:
		return start, begin(append(ask(w.Commands), "SELECT", "FROM", "WITH", "DESCRIBE", "SUMMARIZE"), word, true)
	case words[0] == "use" || words[0] == `\c`:
		return start, begin(ask(w.Sessions), word, false)
	case strings.HasPrefix(words[0], `\d`) || words[0] == "tables":
		return start, begin(w.tableNames(), word, false)
	case IsSQL(words[0]) || words[0] == "query" || words[0] == `\chart`:
		return start, w.sql(line, words, word)
	case strings.HasPrefix(word, "-") && w.Flags != nil:
		return start, begin(w.Flags(words[0]), word, false)
	}
	return start, nil
}

func ask(f func() []string) []string {
	if f == nil {
		return nil
	}
	return f()
}

func isName(r rune) bool {
	return r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r > 0x7f
}

// lastWord is where the runes at the end begin that belong to a word.
func lastWord(s string, in func(rune) bool) int {
	return strings.LastIndexFunc(s, func(r rune) bool { return !in(r) }) + 1
}

// begin keeps what begins with a text; without regard to case where that is asked.
func begin(list []string, word string, fold bool) (out []string) {
	for _, s := range list {
		if strings.HasPrefix(s, word) || fold && len(s) >= len(word) && strings.EqualFold(s[:len(word)], word) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (w Words) tables() []Table {
	if w.Tables == nil {
		return nil
	}
	return w.Tables()
}

func (w Words) tableNames() (list []string) {
	for _, t := range w.tables() {
		list = append(list, t.Name)
	}
	return list
}

// sql completes a statement: tables where one must stand, else the columns of those that the line names (of all before
// one is named), functions and words.
func (w Words) sql(line string, words []string, word string) []string {
	if len(words) > 0 {
		switch strings.ToLower(words[len(words)-1]) {
		case "from", "join", "describe", "summarize", "table":
			return begin(w.tableNames(), word, false)
		}
	}
	if word == "" {
		return begin(w.columns(line), word, false)
	}
	if i := strings.LastIndexByte(word, '.'); i >= 0 && !slices.ContainsFunc(w.tableNames(), func(t string) bool {
		return strings.HasPrefix(t, word)
	}) { // alias.column
		var list []string
		for _, c := range w.columns(line) {
			list = append(list, word[:i+1]+c)
		}
		return begin(list, word, false)
	}
	return begin(append(append(w.columns(line), w.tableNames()...), functions...), word, true)
}

func (w Words) columns(line string) (list []string) {
	named := false
	for _, pass := range []bool{true, false} {
		for _, t := range w.tables() {
			if pass && strings.Contains(line, t.Name) {
				named = true
				list = append(list, t.Columns...)
			} else if !pass && !named {
				list = append(list, t.Columns...)
			}
		}
	}
	return list
}

// Common is the longest beginning that all have.
func Common(list []string) string {
	if len(list) == 0 {
		return ""
	}
	common := list[0]
	for _, s := range list[1:] {
		for !strings.HasPrefix(s, common) {
			common = common[:len(common)-1]
		}
	}
	return strings.ToValidUTF8(common, "")
}

// shortcuts are psql's, as lines of this prompt; a word behind one goes with it.
var shortcuts = map[string]string{`\d`: "tables", `\dt`: "tables", `\d+`: "tables -a", `\l`: "list -a", `\c`: "use",
	`\q`: "exit", `\?`: "help", `\h`: "help", `\bt`: "backtrace", `\w`: "where"}

func shortcutNames() []string {
	list := []string{`\chart`}
	for s := range shortcuts {
		list = append(list, s)
	}
	return list
}

// Shortcut is the line that one beginning with a backslash stands for; ok is false where it is none of these.
func Shortcut(line string) (long string, ok bool) {
	first, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	long, ok = shortcuts[first]
	return strings.TrimSpace(long + " " + strings.TrimSpace(rest)), ok
}
