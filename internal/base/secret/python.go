package secret

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Python returns the rules as the module by which the agent hides secrets
// (python/memgauge/_agent/record/_secrets.py).
func Python() []byte {
	var b bytes.Buffer
	b.WriteString("# Generated from internal/base/secret/rules.go by `make generate`. Do not edit.\n\n")
	b.WriteString("# name, group of the secret, what it must be besides, group of its name, expression\nPATTERNS = (\n")
	for _, p := range Patterns {
		fmt.Fprintf(&b, "    (%s, %d, %s, %d,\n", pythonText(p.Name), p.Secret, pythonText(p.Check), p.Key)
		expr := []rune(p.Expr)
		for len(expr) > 0 {
			n := min(len(expr), 100)
			// not between a backslash and the character that it escapes
			for n < len(expr) && n > 1 && expr[n-1] == '\\' {
				n--
			}
			fmt.Fprintf(&b, "     %s\n", pythonText(string(expr[:n])))
			expr = expr[n:]
		}
		b.WriteString("     ),\n")
	}
	b.WriteString(")\n")
	for _, e := range []struct{ name, expr string }{{"NUMBER", NumberExpr}, {"PATH", PathExpr},
		{"REFERENCE", ReferenceExpr}} {
		// Python's $ also matches before a last newline
		fmt.Fprintf(&b, "%s = %s\n", e.name, pythonText(strings.TrimSuffix(e.expr, "$")+`\Z`))
	}
	writeTuple(&b, "MARKERS", Markers)
	for _, set := range []struct {
		name  string
		words map[string]bool
	}{
		{"PASSWORD_WORDS", PasswordWords}, {"SECRET_WORDS", SecretWords}, {"VAGUE_WORDS", VagueWords},
		{"KEY_QUALIFIERS", KeyQualifiers},
		{"TOKEN_QUALIFIERS", TokenQualifiers}, {"PASS_QUALIFIERS", PassQualifiers}, {"ABOUT_WORDS", AboutWords},
		{"TRAILERS", Trailers},
		{"NOTHINGS", Nothings},
	} {
		writeTuple(&b, set.name, slices.Sorted(maps.Keys(set.words)))
	}
	fmt.Fprintf(&b, "LONG_WORD, MIN_RANDOM, MIN_OPAQUE, MIN_NAMED, MAX_SAME = %d, %d, %d, %d, %d\n", LongWord,
		minRandom, minOpaque, minNamed, maxSame)
	fmt.Fprintf(&b, "MIN_CHANGE, MAX_TEXT, HIDDEN = %v, %d, %s\n", minChange, maxText, pythonText(Hidden))
	return b.Bytes()
}

func writeTuple(b *bytes.Buffer, name string, list []string) {
	fmt.Fprintf(b, "%s = (", name)
	column := 200
	for _, w := range list {
		text := pythonText(w) + ","
		if column+len(text) > 110 {
			b.WriteString("\n   ")
			column = 4
		}
		b.WriteString(" " + text)
		column += len(text) + 1
	}
	b.WriteString("\n)\n")
}

// pythonText quotes for Python, whose escapes of ASCII are those of Go.
func pythonText(s string) string { return strings.ReplaceAll(strconv.QuoteToASCII(s), `\a`, `\x07`) }
