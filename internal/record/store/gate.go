package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/formats/allowed"
)

// The gate decides by the parsed statement whether a text may run. DuckDB's own parser makes a tree of it
// (json_serialize_sql, which knows SELECT and what is made of it: WITH, FROM, VALUES, TABLE, SHOW, DESCRIBE, SUMMARIZE,
// PIVOT). No other statement reaches the binder, because binding alone can read files (COPY … FROM) or make directories
// (EXPORT). The gate removes a leading EXPLAIN, checks the statement behind it like any other, and puts EXPLAIN back:
// the text that runs is the text that was checked. Every function in the tree, operators included, must be allowed by
// name (package allowed). What a name may hide in a database from elsewhere is catalog.go's.

// fileName matches table names that DuckDB would take for files (replacement scans) if external access were on.
var fileName = pattern.Of(`[/\\.*?\[\]:]`)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

const filesHint = "a query reads the session's tables only, no files and no network"

// gates caches decisions, since tools run the same queries again and again. A decision depends on the text alone.
type gates struct {
	sync.Mutex
	known map[string]string // statement → what may run
}

const (
	maxGates    = 128     // more than all tools ask together
	maxGateText = 8 << 10 // bytes of a statement that is remembered
)

func (g *gates) get(sql string) (string, bool) {
	g.Lock()
	defer g.Unlock()
	text, ok := g.known[sql]
	return text, ok
}

func (g *gates) put(sql, text string) {
	if len(sql) > maxGateText {
		return
	}
	g.Lock()
	defer g.Unlock()
	if g.known == nil || len(g.known) >= maxGates {
		g.known = map[string]string{}
	}
	g.known[sql] = text
}

// pass returns the text to run for a query, or the reason why it is refused.
func (g *gates) pass(c *conn, sql string) (string, error) {
	if text, ok := g.get(sql); ok {
		return text, nil
	}
	text, err := gate(c, sql)
	if err == nil {
		g.put(sql, text)
	}
	return text, err
}

// gate parses on the connection and binds nothing of the statement.
func gate(c *conn, sql string) (string, error) {
	if strings.ContainsRune(sql, 0) { // a C string would end there, and the rest would not be checked
		return "", &Error{Msg: "the statement contains a NUL character"}
	}
	explain, rest := splitExplain(sql)
	if explain == "" {
		return sql, gateSelect(c, sql)
	}
	err := gateSelect(c, rest)
	if err == nil {
		return explain + " " + rest, nil
	}
	if options, inner, ok := splitOptions(rest); ok {
		return explain + " " + options + " " + inner, gateSelect(c, inner)
	}
	return "", err
}

// gateSelect demands exactly one SELECT that stays in the database.
func gateSelect(c *conn, sql string) error {
	v, err := c.one("SELECT json_serialize_sql(" + quote(sql) +
		", skip_null := true, skip_default := true, skip_empty := true)")
	if err != nil {
		return err
	}
	tree, ok := v[0].(string)
	if !ok {
		return &Error{Msg: "there is no statement"}
	}
	statements, err := walk(tree)
	var failed parseFailure
	switch {
	case errors.As(err, &failed) && failed.kind == "parser":
		return syntaxError(c, sql, failed)
	case errors.As(err, &failed):
		return refusal(sql)
	case err != nil:
		return err
	case statements == 0:
		return &Error{Msg: "there is no statement"}
	case statements > 1:
		return several()
	}
	return nil
}

// syntaxError prepares the statement once more for a message with line and column: DuckDB stops at the syntax error,
// before it does anything else.
func syntaxError(c *conn, sql string, failed parseFailure) error {
	var list duck.ExtractedStatements
	n := duck.ExtractStatements(c.c, sql, &list)
	defer duck.DestroyExtracted(&list)
	if msg := duck.ExtractStatementsError(list); n == 0 && msg != "" {
		return nativeError(duck.ErrorTypeParser, msg, sql)
	}
	return &Error{Msg: failed.message}
}

func several() error {
	return remedy.Add(&Error{Msg: "several statements in one question", Kind: ErrRefused}, "ask them one by one")
}

// refusal names the kind of a statement that is no SELECT. It uses the statement's words for the message only; the
// decision was made from the tree.
func refusal(sql string) error {
	words := bareWords(sql)
	first := ""
	for i, w := range words {
		if w == ";" && i < len(words)-1 {
			return several()
		}
		if first == "" && writing[w] && w != "ANALYZE" {
			first = w
		}
	}
	if len(words) > 0 && words[0] == "PIVOT" { // DuckDB makes two statements of it, and the first one writes
		return remedy.Add(&Error{Msg: "PIVOT without its values is not run", Kind: ErrRefused},
			"name them: PIVOT … ON column IN (…)")
	}
	if first == "" && len(words) > 0 {
		first = words[0]
	}
	return refused(first)
}

// parseFailure is the error that json_serialize_sql returns for a text that it can't parse.
type parseFailure struct{ kind, message string }

func (f parseFailure) Error() string { return f.message }

// walk reads the tree as a stream and counts its statements. It never holds the whole tree: for a long list of
// constants that takes a hundred times the statement's size.
func walk(tree string) (statements int, err error) {
	w := walker{dec: json.NewDecoder(strings.NewReader(tree))}
	if err := w.value("", ""); err != nil {
		return 0, err
	}
	if w.failed {
		return 0, parseFailure{w.kind, w.message}
	}
	return w.statements, nil
}

// maxDepth and maxTwice bound how deep expressions stand in each other. DuckDB binds them in a time that grows with the
// third power of their depth, without looking for an interrupt: 200 take 2 s, 400 take 8 s. What is in a subquery, a
// lambda or -> (JSON's operator, or a lambda) it binds twice for each of them: 12 are 4,096 times, 25 hours.
const (
	maxDepth = 200
	maxTwice = 12
)

// twice are those expressions, as the tree names them.
var twice = map[string]bool{"LAMBDA": true, "SUBQUERY": true}

type walker struct {
	dec           *json.Decoder
	depth, twice  int // expressions around this place
	statements    int
	failed        bool
	kind, message string
}

// value reads one value. key is its key in the object around it, and owner is that object's own key. The elements of a
// list have the list's keys.
func (w *walker) value(key, owner string) error {
	t, err := w.dec.Token()
	if err != nil {
		return fmt.Errorf("look at the statement: %w", err)
	}
	switch t := t.(type) {
	case json.Delim:
		return w.inside(t, key)
	case string:
		return w.text(key, owner, t)
	case bool:
		w.failed = w.failed || owner == "" && key == "error" && t
	}
	return nil
}

// inside reads the members of an object or a list up to its end.
func (w *walker) inside(open json.Delim, key string) error {
	depth, twice := w.depth, w.twice
	defer func() { w.depth, w.twice = depth, twice }()
	for w.dec.More() {
		member := key
		if open == '{' {
			t, err := w.dec.Token()
			if err != nil {
				return fmt.Errorf("look at the statement: %w", err)
			}
			member, _ = t.(string)
		} else if key == "statements" {
			w.statements++
		}
		owner := key
		if open == '[' {
			owner = ""
		}
		if err := w.value(member, owner); err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// deeper counts an expression, whose class comes before its parts.
func (w *walker) deeper(class string) error {
	w.depth++
	if twice[class] {
		w.twice++
	}
	if w.depth <= maxDepth && w.twice <= maxTwice {
		return nil
	}
	return remedy.Add(&Error{Kind: ErrRefused, Msg: fmt.Sprintf("the statement is too deep: at most %d expressions "+
		"may stand in each other, and %d subqueries, lambdas and ->", maxDepth, maxTwice)},
		"take parts out into WITH; of JSON text, name a path: x->>'$.a.b.c'")
}

// text checks names of functions and tables.
func (w *walker) text(key, owner, text string) error {
	name := lowerASCII(text)
	switch key {
	case "class":
		return w.deeper(text)
	case "id": // of a type
		if text == "VARIANT" {
			return remedy.Add(&Error{Kind: ErrRefused, Msg: "the type VARIANT is not available: its functions call " +
				"themselves for each level of a value, and may end the process by that"}, "JSON is read without it")
		}
	case "error_type":
		w.kind = text
	case "error_message":
		w.message = text
	case "function_name":
		at := allowed.Expression
		if owner == "function" {
			at = allowed.From
		}
		return mayCall(at, text)
	case "table_name":
		if fileName().MatchString(name) {
			return remedy.Add(&Error{Msg: fmt.Sprintf("%q is not read: it looks like a file", text), Kind: ErrRefused},
				filesHint)
		}
		if view, ok := allowed.Names()[allowed.View][strings.Trim(name, `"`)]; ok && !view.Allowed {
			return remedy.Add(&Error{Msg: name + " is not available", Kind: ErrRefused},
				"`memgauge tables` lists the tables")
		}
	}
	return nil
}

var explainHead = pattern.Of(`(?i)^EXPLAIN\b`)
var explainWord = pattern.Of(`(?i)^(ANALYZE|ANALYSE|VERBOSE)\b`)
var explainOptions = pattern.Of(`^\(([A-Za-z_ ,\t\n]*)\)`)

// splitExplain splits off a leading EXPLAIN with its options. If it misses one, the parser refuses the whole as a
// statement that is no SELECT.
func splitExplain(sql string) (explain, rest string) {
	rest = leading().ReplaceAllString(sql, "")
	if !explainHead().MatchString(rest) {
		return "", sql
	}
	explain, rest = "EXPLAIN", leading().ReplaceAllString(rest[len("EXPLAIN"):], "")
	for {
		word := explainWord().FindString(rest)
		if word == "" {
			return explain, rest
		}
		explain, rest = explain+" "+strings.ToUpper(word), leading().ReplaceAllString(rest[len(word):], "")
	}
}

// splitOptions splits off leading options such as (ANALYZE, FORMAT json).
func splitOptions(rest string) (options, inner string, ok bool) {
	options = explainOptions().FindString(rest)
	return options, rest[len(options):], options != ""
}

var leading = pattern.Of(`^(?:\s+|--[^\n]*(?:\n|$)|/\*(?s:.*?)\*/)+`)

// token matches a comment, a quoted text or name, a word, or a semicolon.
var token = pattern.Of(`--[^\n]*|/\*(?s:.*?)\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|[A-Za-z_][A-Za-z_0-9]*|;`)

// bareWords returns the statement's words and semicolons in capitals, without comments and quoted texts.
func bareWords(sql string) (words []string) {
	for _, w := range token().FindAllString(sql, -1) {
		if c := w[0]; c == ';' || c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' {
			words = append(words, strings.ToUpper(w))
		}
	}
	for len(words) > 0 && words[len(words)-1] == ";" {
		words = words[:len(words)-1]
	}
	return words
}

// writing are the words that begin statements that would write.
var writing = set(`INSERT UPDATE DELETE CREATE DROP ALTER COPY EXPORT IMPORT ATTACH DETACH INSTALL LOAD SET RESET CALL PRAGMA
	VACUUM TRUNCATE MERGE CHECKPOINT FORCE USE PREPARE EXECUTE DEALLOCATE ANALYZE COMMENT GRANT BEGIN START COMMIT ROLLBACK ABORT`)
