// Package secret owns the question of what in a text is a secret, by the name beside it and by its shape. It hides the
// secrets of command lines, environments, source code, SQL and messages, and leaves the rest readable. It guarantees
// that hiding twice changes nothing, and that its work is linear in the text. The agent hides by the same rules
// (redact.py), before anything reaches a ring. The package does not know where the texts come from.
package secret

import (
	"io"
	"regexp"
	"strings"
	"sync"
)

// Hidden replaces a secret.
const Hidden = "<redacted>"

// maxText bounds how much of one text is checked and shown. An environment has at most some megabytes in all, a
// statement or an eval at most 1 MiB. The rest is left out, since it was not checked.
const maxText = 1 << 20

const leftOut = "…"

// rule is a Pattern, compiled.
type rule struct {
	Pattern
	re *regexp.Regexp
}

// rules are compiled when they are first needed: that takes a millisecond, and most commands have nothing to hide.
var rules = sync.OnceValue(compile)

func compile() []rule {
	out := make([]rule, len(Patterns))
	for i, p := range Patterns {
		out[i] = rule{p, regexp.MustCompile(p.Expr)}
	}
	return out
}

// Text hides the secrets in a text: a message, source code, SQL, a line of a log.
func Text(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + leftOut
	}
	if harmless(text) {
		return text
	}
	for _, r := range rules() {
		text = r.apply(text)
	}
	return text
}

// Env hides the value of an environment variable, or the secret part of it.
func Env(name, value string) string {
	if hides(name, value, strict) {
		return Hidden
	}
	return Text(value)
}

// Args hides the secrets of a command's arguments.
func Args(args []string) []string {
	if len(args) == 0 {
		return args
	}
	hide := strings.NewReplacer(" ", "\x1e", "\x1f", " ", "\x1e", " ")
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = hide.Replace(Text(a))
	}
	// All arguments at once, since a flag's value may be the next argument. Blanks within an argument do not separate
	// words.
	out = strings.Split(Text(strings.Join(out, "\x1f")), "\x1f")
	for i, a := range out {
		out[i] = strings.ReplaceAll(a, "\x1e", " ")
	}
	return out
}

// Writer hides the secrets in what is written to w. Each Write must be a whole line or message, as those of log/slog
// are.
type Writer struct{ W io.Writer }

// Write implements io.Writer. p must be a whole line or message.
func (w Writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.W, Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// harmless finds out quickly that no rule can match: most texts contain neither a marker nor a long word.
func harmless(text string) bool {
	low := strings.ToLower(text)
	for _, m := range Markers {
		if strings.Contains(low, m) {
			return false
		}
	}
	run := 0
	for i := 0; i < len(low); i++ {
		if isWord(low[i]) {
			if run++; run >= LongWord {
				return false
			}
		} else {
			run = 0
		}
	}
	return true
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '+'
}

// apply replaces the rule's secrets. A match that turns out to be harmless may contain one (a URL after "url="), so the
// search continues at its beginning.
func (r *rule) apply(text string) string {
	var out strings.Builder
	for rest := text; ; {
		m := r.re.FindStringSubmatchIndex(rest)
		if m == nil {
			if out.Len() == 0 {
				return text
			}
			out.WriteString(rest)
			return out.String()
		}
		begin, end := m[2*r.Secret], m[2*r.Secret+1]
		if r.isSecret(rest, m) {
			begin, end = unquoted(rest, begin, end)
			out.WriteString(rest[:begin])
			out.WriteString(Hidden)
			rest = rest[end:]
			continue
		}
		next := m[1]
		if begin > m[0] {
			next = begin
		}
		if next == 0 { // an empty match
			next = min(1, len(rest))
		}
		out.WriteString(rest[:next])
		if rest = rest[next:]; rest == "" {
			return out.String()
		}
	}
}

func (r *rule) isSecret(text string, m []int) bool {
	group := func(i int) string { return text[m[2*i]:m[2*i+1]] }
	begin, end := unquoted(text, m[2*r.Secret], m[2*r.Secret+1])
	value := text[begin:end]
	if value == "" || value == Hidden {
		return false
	}
	switch r.Check {
	case "value":
		return !isNothing(value) && !isReference("", value)
	case "opaque":
		return isOpaque(value)
	case "mixed":
		return isMixed(value)
	case "random":
		return isRandom(value, minRandom)
	case "pair":
		return !(isDigits(group(1)) && isDigits(value)) && !isNothing(value) && !isReference("", value)
	case "named":
		if end < len(text) && (text[end] == '(' || text[end] == '[') {
			return false // a call or an index: code
		}
		how := literal
		if isQuoted := begin > m[2*r.Secret]; r.Name == "pair" && !isQuoted &&
			strings.ContainsAny(group(r.Key+1), " :\t") {
			how = loose
		}
		return hides(group(r.Key), value, how)
	}
	return true
}

// unquoted excludes the quotes of a value, and the backslashes before them.
func unquoted(text string, begin, end int) (int, int) {
	for begin < end && (text[begin] == '\\' || text[begin] == '"' || text[begin] == '\'') {
		begin++
	}
	for begin < end && (text[end-1] == '"' || text[end-1] == '\'' || text[end-1] == '\\') {
		end--
	}
	return begin, end
}
